"""A game in turns whose seats are one team, as one agent who plays them all.

`transcript:SOURCE` of `envs.hosted.worker`, whose Python it runs under (from 3.9 on).
"""


class OneTranscript:
    """The seats of a team that speaks in turn write one transcript: see `worker`'s `speakers`.

    Rewards have to be the same for all seats, as everybody's is that of the one agent. Success is
    that of the seat that acted.
    """

    seats = 1

    def __init__(self, game, source):
        seats = int(getattr(game, "seats", 1))
        together = bool(getattr(game, "simultaneous", False))
        arrays = getattr(game, "observation_shape", None) is not None
        if seats < 2 or together or arrays or getattr(game, "calls_model", False):
            raise ValueError(
                f"one transcript of {source}: expected a game in words whose seats, two or more, "
                "act one after another"
            )
        roles = getattr(game, "roles", None)
        self._roles = [int(x) for x in (range(seats) if roles is None else roles)]
        if len(self._roles) != seats or min(self._roles) < 0:
            raise ValueError(f"roles={self._roles}: expected one number per seat, from 0")
        self.speakers = 1 + max(self._roles)
        self.has_success = bool(getattr(game, "has_success", False))
        self.metrics = tuple(getattr(game, "metrics", ()))
        self._game, self._seat = game, 0

    def _told(self, info):
        """info, in which the seat that acts next is a speaker; remembers the seat."""
        self._seat = int(info.get("seat", 0))
        if not 0 <= self._seat < len(self._roles):
            raise ValueError(f"info['seat']={self._seat}: expected 0 to {len(self._roles) - 1}")
        kept = {k: v for k, v in info.items() if k not in ("seat", "acting", "speaker")}
        return {**kept, "speaker": self._roles[self._seat]}

    def reset(self, *, seed):
        observation, info = self._game.reset(seed=seed)
        return observation, self._told(info)

    def step(self, action):
        """The game's step by the seat whose turn it is."""
        acted = self._seat
        observation, reward, terminated, truncated, info = self._game.step(action)
        rewards = [float(x) for x in reward]
        if len(set(rewards)) != 1:
            raise ValueError(
                f"one transcript: rewards {rewards} of the seats differ; expected those of a team"
            )
        told = self._told(info)
        if hasattr(told.get("success", False), "__len__"):
            told["success"] = told["success"][acted]
        told["offender"] = 0 if info.get("offender", -1) >= 0 else -1
        return observation, rewards[0], terminated, truncated, told

    def close(self):
        """Closes the game; it is not used afterwards."""
        close = getattr(self._game, "close", None)
        if close is not None:
            close()
