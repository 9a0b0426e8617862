"""An episode in the terminal: people and players, each in a seat of an environment or of a game.

A person reads what a policy over words would read in that seat and writes what it could write.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.rollout.players import Player
from agentrl.rollout.seats import agents, look
from envs.game import Game
from envs.text import join, make_grammar, parse

# Commands that are shown at every turn; ? shows the others.
_SHOWN = 12


def play(
    env: Any,
    params: Any,
    seats: Sequence[tuple[str, Player | None]],
    key: jax.Array,
    *,
    ask: Callable[[str], str] = input,
    tell: Callable[[str], None] = print,
) -> np.ndarray:
    """Plays one episode and returns what each seat got, f64[A].

    seats: who has each, and what to call them; None is a person, who is asked: ? for all that is
      legal, EOFError to leave. What is not understood is an illegal action, as it is for a policy.
      The same player may have several.
    key: of the task and of all chance.

    What a seat reads is told where a person has it, or for all where nobody is a person. Moves of
    the others are told too, unless a person plays a game in which something is hidden: there it
    reads of them what the game says.

    Raises:
      ValueError: another number of seats, or actions that cannot be written.
    """
    count = agents(env)
    if len(seats) != count:
        named = ",".join(name for name, _ in seats)
        raise ValueError(
            f"{len(seats)} player(s) ({named}) in {env.name}, which has {count} seat(s): "
            "name one for each"
        )
    if getattr(env, "continuous", False):
        raise ValueError(f"{env.name} with these options has actions that nobody can write")
    game = isinstance(env, Game)
    titles = [f"seat {i} ({name})" for i, (name, _) in enumerate(seats)]
    people = [player is None for _, player in seats]
    watched = people if any(people) else [True] * count
    tells_moves = not any(people) or not game or env.perfect_information
    table = _Table(env, params, seats)
    reset_key, key = jax.random.split(key)
    observation, state = jax.jit(env.reset_env)(reset_key, params)
    step, truncated = jax.jit(env.step_env), jax.jit(env.is_truncated)
    legal_actions, acting = jax.jit(env.legal_actions), jax.jit(env.acting)
    side = (_Words if env.wordings else _Signs)(env, params)
    if env.wordings:
        tell(env.view.rules)
    total, turns, ended, info = np.zeros(count), 0, False, {}

    def reads(seat):
        title = f"{titles[seat]} reads:\n" if game else ""
        tell(f"\n{title}{side.read(state, observation, seat)}")

    def replied(seat, legal, commands):
        """The action that a person chooses."""
        while (reply := ask("> ")).strip() == "?":
            tell(", ".join(commands[action] for action in legal))
        return side.understand(state, seat, reply)

    while not ended:
        key, act_key, step_key = jax.random.split(key, 3)
        moves = np.flatnonzero(acting(state, params)) if game else [0]
        action = table.act(observation, state, act_key)
        legal_now = np.asarray(legal_actions(state, params))
        for seat in moves:
            legal, commands = np.flatnonzero(legal_now[seat]), side.write(state, seat)
            if watched[seat]:
                reads(seat)
                left_out = f", and {len(legal) - _SHOWN} more" if len(legal) > _SHOWN else ""
                tell(f"[{', '.join(commands[a] for a in legal[:_SHOWN])}{left_out}]")
            if people[seat]:
                try:
                    action[seat] = replied(seat, legal, commands)
                except EOFError:
                    tell(f"\nleft after {_steps(turns)}{_returns(total, titles, game)}")
                    return total
                continue
            chosen = action[seat]
            # Free text has an action's number and no entry among the commands.
            known = 0 <= chosen < len(commands)
            move = commands[chosen] if known else f"(action {chosen})"
            if game:
                tell(f"{titles[seat]}{f': {move}' if tells_moves else ' moves'}")
            else:
                tell(f"> {move}")
        observation, state, reward, terminated, info = step(
            step_key, state, jnp.asarray(action if game else action[0], jnp.int32), params
        )
        reward, valid = (np.asarray(x).reshape(count) for x in (reward, info["valid"]))
        total, turns = total + reward, turns + 1
        for seat in range(count):
            illegal = "" if valid[seat] else ", illegal"
            if not game or reward[seat] or illegal:
                who = f"{titles[seat]}: " if game else ""
                tell(f"{who}reward {reward[seat]:g}{illegal}")
        ended = bool(terminated) or bool(truncated(state, params))
    for seat in np.flatnonzero(watched):
        reads(seat)
    outcome = _outcome(env, info, bool(terminated), titles)
    tell(f"\n{outcome} after {_steps(turns)}{_returns(total, titles, game)}")
    return total


def _steps(turns: int) -> str:
    return "1 step" if turns == 1 else f"{turns} steps"


def _returns(total: np.ndarray, titles: Sequence[str], game: bool) -> str:
    if not game:
        return f", return {total[0]:g}"
    return "".join(f"\n{title}: return {x:g}" for title, x in zip(titles, total, strict=True))


def _outcome(env: Any, info: dict, terminated: bool, titles: Sequence[str]) -> str:
    """How an episode ended."""
    success = np.asarray(info["success"]).reshape(-1)
    if not isinstance(env, Game) or env.cooperative:
        if env.has_success and success.any():
            return "success"
        return "ended" if terminated else "time is up"
    if int(info.get("offender", -1)) >= 0:
        return f"{titles[int(info['offender'])]} loses by an illegal action"
    if success.any():
        return f"won by {' and '.join(titles[i] for i in np.flatnonzero(success))}"
    return "nobody wins" if terminated else "time is up"


class _Table:
    """The players at a table of one match, each with what it remembers."""

    def __init__(self, env, params, seats):
        self.names = [name for name, _ in seats]
        self.players = {name: player for name, player in seats if player is not None}
        self.all_look = any(player.remembers for player in self.players.values())
        self.programs = {name: jax.jit(p.act) for name, p in self.players.items()}
        looked = agents(env) if self.all_look else 1
        self.memory = {name: p.memory(looked) for name, p in self.players.items()}
        self.look = jax.jit(
            lambda state, observation: look(env, params, state, observation, all_look=self.all_look)
        )

    def act(self, observation, state, key) -> np.ndarray:
        """Actions i32[A]; 0 for seats that do not move, or are a person's."""
        one = jax.tree.map(lambda x: x[None], (state, observation))
        seen = self.look(*one)
        seat, acting = np.asarray(seen.seat[0]), np.asarray(seen.acting[0])
        action = np.zeros(len(self.names), np.int32)
        for i, (name, player) in enumerate(self.players.items()):
            mine = acting & np.array([self.names[s] == name for s in seat])
            if not mine.any() and not player.remembers:
                continue
            asked = seen._replace(acting=jnp.asarray(mine)[None])
            chosen, self.memory[name] = self.programs[name](
                player.params, self.memory[name], asked, one[0], jax.random.fold_in(key, i)
            )
            action[seat[mine]] = np.asarray(chosen)[0][mine]
        return action


class _Words:
    """How to read a state, list its commands and understand a reply, by the text view."""

    def __init__(self, env, params):
        view, grammar, game = env.view, make_grammar("bare"), isinstance(env, Game)
        # Long enough for free text; what is longer is no command.
        self.size = max(64, 2 * view.max_command_bytes)
        self.lexicon = view.lexicon

        def commands(state, seat):
            written = env.commands(state, params)
            return written[seat] if game else written

        def understood(state, seat, reply, length):
            slots = view.slots(state, params, seat) if game else view.slots(state, params)
            return parse(grammar, view, slots, reply, length).actions[0]

        self.describe = jax.jit(lambda state: env.describe(state, params).fragments)
        self.commands, self.understood = jax.jit(commands), jax.jit(understood)

    def read(self, state, observation, seat):
        return join(self.lexicon, self.describe(state)[seat])

    def write(self, state, seat):
        return [join(self.lexicon, row) for row in np.asarray(self.commands(state, seat))]

    def understand(self, state, seat, reply):
        data = reply.encode()
        if len(data) > self.size:
            return -1
        padded = np.frombuffer(data.ljust(self.size, b"\0"), np.uint8)
        return int(self.understood(state, seat, padded, jnp.int32(len(data))))


class _Signs:
    """The same of an environment without text: its picture, or else numbers; names of actions."""

    def __init__(self, env, params):
        self.env, self.params = env, params

    def read(self, state, observation, seat):
        game = isinstance(self.env, Game)
        if not game or self.env.perfect_information:
            try:
                return self.env.render(state, self.params)
            except NotImplementedError:
                pass
        return str(np.asarray(observation[seat] if game else observation))

    def write(self, state, seat):
        return list(self.env.action_names)

    def understand(self, state, seat, reply):
        names = [name.lower() for name in self.env.action_names]
        reply = reply.strip().lower()
        return names.index(reply) if reply in names else -1
