"""TextArena, Gymnasium and OpenSpiel with the interface of `envs.hosted.worker`.

Runs under the Python of the worker, from 3.9 on; each class imports the package that it needs.
"""

import random
import sys


class TextArena:
    """A game of TextArena, constructed anew for each episode.

    Its observation wrappers would otherwise keep the messages of earlier games across a reset.
    """

    has_success = True

    def __init__(self, name, num_players=2, **options):
        import textarena

        self._arena = textarena
        self._name, self._options, self.seats = name, options, num_players
        self._env = self._make()

    def _make(self):
        return self._arena.make(self._name, **self._options)

    def reset(self, *, seed):
        self._env = self._make()
        self._env.reset(num_players=self.seats, seed=seed)
        seat, text = self._env.get_observation()
        return text, {"seat": seat}

    def step(self, action):
        """Plays the action of the current player."""
        seat = self._env.state.current_player_id
        done, _ = self._env.step(action=action)
        if not done:
            # An illegal action is forgiven at first: the same player is asked again.
            valid = not getattr(self._env.state, "error_count", 0)
            after, text = self._env.get_observation()
            return text, [0.0] * self.seats, False, False, {"seat": after, "valid": valid}
        rewards, about = self._env.close()
        reward = [float((rewards or {}).get(i, 0.0)) for i in range(self.seats)]
        offended = bool((about or {}).get(seat, {}).get("invalid_move", False))
        won = [r > 0 if self.seats > 1 else r >= 1 for r in reward]
        info = {"valid": not offended, "success": won, "offender": seat if offended else -1}
        return "", reward, True, False, info


def gymnasium_environment(name, arrays=False, **options):
    """An environment of Gymnasium in words, or with arrays."""
    return (GymnasiumArrays if arrays else Gymnasium)(name, **options)


class GymnasiumArrays:
    """An environment of Gymnasium with observations of numbers; Discrete ones are one-hot."""

    def __init__(self, name, **options):
        import gymnasium

        spaces = gymnasium.spaces
        self._env = gymnasium.make(name, **options)
        seen, space = self._env.observation_space, self._env.action_space
        if isinstance(seen, spaces.Discrete):
            self._first, self.observation_shape = int(seen.start), (int(seen.n),)
        elif getattr(seen, "shape", None) is not None:
            self._first, self.observation_shape = None, tuple(seen.shape)
        else:
            raise ValueError(
                f"gymnasium:{name} has the observation space {seen}; expected Box or Discrete"
            )
        self.continuous = isinstance(space, spaces.Box)
        if self.continuous and len(space.shape) == 1:
            self.num_actions, self._space = int(space.shape[0]), space
        elif isinstance(space, spaces.Discrete):
            self.num_actions, self._space = int(space.n), space
        else:
            raise ValueError(
                f"gymnasium:{name} has the action space {space}; expected Discrete or Box"
            )

    def _seen(self, observation):
        if self._first is None:
            return observation
        return [float(i == int(observation) - self._first) for i in range(*self.observation_shape)]

    def reset(self, *, seed):
        """Starts an episode of the seed: (numbers that are observed, {})."""
        observation, _ = self._env.reset(seed=seed)
        return self._seen(observation), {}

    def step(self, action):
        """Takes an action: a number, or components in [-1, 1] of the space's interval."""
        if self.continuous:
            low, high = self._space.low, self._space.high
            share = (sys.modules["numpy"].clip(action, -1.0, 1.0) + 1) / 2
            action = (low + share * (high - low)).astype(self._space.dtype)
        else:
            action = int(self._space.start) + action
        observation, reward, terminated, truncated, about = self._env.step(action)
        success = bool(about.get("success", about.get("is_success", False)))
        info = {"success": success}
        return self._seen(observation), float(reward), bool(terminated), bool(truncated), info

    def close(self):
        """Closes Gymnasium's environment; it is not used afterwards."""
        self._env.close()


class Gymnasium:
    """An environment of Gymnasium with actions and observations as text."""

    def __init__(self, name, actions=(), **options):
        import gymnasium

        self._env = gymnasium.make(name, **options)
        space = self._env.action_space
        self._free = isinstance(space, gymnasium.spaces.Text)
        if not self._free and not isinstance(space, gymnasium.spaces.Discrete):
            raise ValueError(
                f"gymnasium:{name} has the action space {space}; expected Text or Discrete"
            )
        first = 0 if self._free else int(space.start)
        number = 0 if self._free else int(space.n)
        if actions and len(actions) != number:
            raise ValueError(
                f"gymnasium:{name} actions={list(actions)!r}: expected {number} words, one each"
            )
        words = actions or [str(first + i) for i in range(number)]
        self._actions = {word.lower(): first + i for i, word in enumerate(words)}
        self._last = None  # the last observation, which an unknown action leaves as it is

    def _text(self, observation):
        if self._env.render_mode == "ansi":
            observation = self._env.render()
        return observation if isinstance(observation, str) else str(observation)

    def reset(self, *, seed):
        self._last, _ = self._env.reset(seed=seed)
        return self._text(self._last), {}

    def step(self, action):
        """Takes the action that the text names; any other text leaves the state unchanged."""
        if not self._free:
            named = self._actions.get(action.strip().lower())
            if named is None:
                return self._text(self._last), 0.0, False, False, {"valid": False}
            action = named
        self._last, reward, terminated, truncated, about = self._env.step(action)
        success = bool(about.get("success", about.get("is_success", False)))
        told = {"success": success}
        return self._text(self._last), float(reward), bool(terminated), bool(truncated), told

    def close(self):
        """Closes Gymnasium's environment; it is not used afterwards."""
        self._env.close()


class OpenSpiel:
    """A game of OpenSpiel in words; the players of simultaneous moves are asked in turn.

    reads: "observation" or "information", the game's string that a player reads: what it sees now,
    or all that it knows; "": the first of the two that the game has. commands: the text ends with
    the legal ones. An illegal action is forgiven once; with the second in a row the game ends, and
    its player has the game's lowest return, the others share what that leaves in zero-sum games.
    Other options are the game's parameters.
    """

    has_success = True

    def __init__(self, name, reads="", commands=True, **options):
        import pyspiel

        game = pyspiel.load_game(name, options)
        about = game.get_type()
        if about.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
            about = game.get_type()
        if about.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
            raise ValueError(f"openspiel:{name} has the dynamics {about.dynamics}")
        has = {
            "observation": about.provides_observation_string,
            "information": about.provides_information_state_string,
        }
        found = [kind for kind in has if has[kind] and reads in ("", kind)]
        if not found:
            raise ValueError(
                f"openspiel:{name} reads={reads!r}: expected one of "
                f"{[kind for kind in has if has[kind]]}, the strings that the game has"
            )
        self._game, self._reads, self._lists = game, found[0], commands
        self._identical = about.utility == pyspiel.GameType.Utility.IDENTICAL
        self._zero_sum = about.utility == pyspiel.GameType.Utility.ZERO_SUM
        self.seats = game.num_players()
        # Of an episode: its state and chance, the legal actions by name, illegal ones in a row, and
        # the returns before the turn.
        self._state, self._random = None, None
        self._legal, self._errors, self._before = {}, 0, []

    def _shown(self):
        """(text, info) for the player whose turn it is, after chance has moved."""
        while self._state.is_chance_node():
            outcomes = self._state.chance_outcomes()
            weights = [weight for _, weight in outcomes]
            (drawn,) = self._random.choices(outcomes, weights)
            self._state.apply_action(drawn[0])
        if self._state.is_terminal():
            return "", {}
        seat = self._state.current_player()
        read = {
            "observation": self._state.observation_string,
            "information": self._state.information_state_string,
        }[self._reads]
        text = read(seat)
        self._legal = {
            self._state.action_to_string(seat, action).strip().lower(): action
            for action in self._state.legal_actions()
        }
        if self._lists:
            text = f"{text}\nCommands: {', '.join(self._legal)}"
        return text, {"seat": seat}

    def reset(self, *, seed):
        self._random = random.Random(seed)
        self._state, self._errors = self._game.new_initial_state(), 0
        self._before = [0.0] * self.seats
        return self._shown()

    def step(self, action):
        """Plays the action of the current player, named as OpenSpiel names it."""
        seat = self._state.current_player()
        known = self._legal.get(action.strip().lower())
        if known is None:
            return self._refused(seat)
        self._errors = 0
        self._state.apply_action(known)
        text, info = self._shown()
        total = self._state.returns()
        reward = [total[i] - self._before[i] for i in range(self.seats)]
        self._before = total
        ended = self._state.is_terminal()
        return text, reward, ended, False, {**info, "success": [ended and x > 0 for x in total]}

    def _refused(self, seat):
        self._errors += 1
        if self._errors == 1:
            text, info = self._shown()
            return text, [0.0] * self.seats, False, False, {**info, "valid": False}
        lowest = self._game.min_utility()
        others = lowest if self._identical else 0.0
        if self._zero_sum:
            others = -lowest / max(self.seats - 1, 1)
        total = [lowest if i == seat else others for i in range(self.seats)]
        reward = [total[i] - self._before[i] for i in range(self.seats)]
        info = {"valid": False, "success": False, "offender": seat}
        return "", reward, True, False, info
