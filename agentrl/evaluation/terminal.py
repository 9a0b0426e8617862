"""An episode in the terminal, with people and players in the seats of an environment.

A person reads the observation of a policy over words in that seat, and writes what such a policy
could write.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor
from agentrl.players.scripted import view_of
from envs.environment import Environment, EnvParams
from envs.text import join, make_grammar, parse
from envs.vector import World

# Number of commands shown at every turn; ? shows the others.
_SHOWN = 12


def play(
    env: Environment,
    params: EnvParams,
    seats: Sequence[tuple[str, Actor | None]],
    key: jax.Array,
    *,
    ask: Callable[[str], str] = input,
    tell: Callable[[str], None] = print,
) -> np.ndarray:
    """Plays one episode and returns the return of each seat, f64[A].

    seats: player of each seat and its name; None is a person, who types commands: ? lists the legal
    ones, EOFError leaves. Input that is not understood is an illegal action, as for a policy. The
    same player may have several seats.
    key: for the task and all randomness.

    Observations are printed for seats of people, or for all seats if there are none. Moves of the
    others are printed too, unless a person plays a game with hidden information, in which the
    observation contains what may be known of them.

    Raises:
      ValueError: wrong number of seats, or actions that have no text.
    """
    count = env.num_agents
    if len(seats) != count:
        named = ",".join(name for name, _ in seats)
        raise ValueError(
            f"{len(seats)} player(s) ({named}) in {env.name}, which has {count} seat(s): "
            "name one for each"
        )
    if getattr(env, "continuous", False):
        raise ValueError(f"{env.name} with these options has actions without text")
    console = _Console(env, params, seats, ask, tell)
    table = _Table(env, params, seats)
    reset_key, key = jax.random.split(key)
    observation, state = jax.jit(env.reset_agents)(reset_key, params)
    step = jax.jit(env.step_agents)
    legal_actions, acting = jax.jit(env.legal_actions), jax.jit(env.acting)
    total, turns, outcome = np.zeros(count), 0, None
    while outcome is None or not (outcome.terminated or outcome.truncated):
        key, act_key, step_key = jax.random.split(key, 3)
        action = table.act(observation, state, act_key)
        legal = np.asarray(legal_actions(state, params))
        for seat in np.flatnonzero(acting(state, params)):
            try:
                action[seat] = console.turn(state, observation, seat, legal[seat], action[seat])
            except EOFError:
                tell(f"\nleft after {steps_text(turns)}{returns_text(total, console.titles)}")
                return total
        observation, state, outcome = step(step_key, state, jnp.asarray(action, jnp.int32), params)
        outcome = jax.device_get(outcome)
        total, turns = total + outcome.reward, turns + 1
        for line in reward_lines(outcome.reward, outcome.valid, console.titles):
            tell(line)
    for seat in np.flatnonzero(console.watched):
        console.read(state, observation, seat)
    how = outcome_text(
        env, outcome.success, bool(outcome.terminated), int(outcome.offender), console.titles
    )
    tell(f"\n{how} after {steps_text(turns)}{returns_text(total, console.titles)}")
    return total


class _Console:
    """What is printed and asked for in the course of an episode."""

    def __init__(self, env, params, seats, ask, tell):
        self.ask, self.tell, self.game = ask, tell, env.num_agents > 1
        self.titles = [f"seat {i} ({name})" for i, (name, _) in enumerate(seats)]
        self.people = [player is None for _, player in seats]
        self.watched = self.people if any(self.people) else [True] * len(seats)
        self.tells_moves = not any(self.people) or not self.game or env.perfect_information
        self.side = (Words if env.wordings else _Signs)(env, params)
        if env.wordings:
            tell(env.view.rules)

    def read(self, state, observation, seat: int) -> None:
        title = f"{self.titles[seat]} reads:\n" if self.game else ""
        self.tell(f"\n{title}{self.side.read(state, observation, seat)}")

    def turn(self, state, observation, seat: int, legal: np.ndarray, chosen: int) -> int:
        """The action of a seat: what a person types, or what its actor has chosen, printed."""
        legal, commands = np.flatnonzero(legal), self.side.write(state, seat)
        if self.watched[seat]:
            self.read(state, observation, seat)
            left_out = f", and {len(legal) - _SHOWN} more" if len(legal) > _SHOWN else ""
            self.tell(f"[{', '.join(commands[a] for a in legal[:_SHOWN])}{left_out}]")
        if self.people[seat]:
            while (reply := self.ask("> ")).strip() == "?":
                self.tell(", ".join(commands[action] for action in legal))
            return self.side.understand(state, seat, reply)
        # Free text has an action index but no entry among the commands.
        known = 0 <= chosen < len(commands)
        move = commands[chosen] if known else f"(action {chosen})"
        if self.game:
            self.tell(f"{self.titles[seat]}{f': {move}' if self.tells_moves else ' moves'}")
        else:
            self.tell(f"> {move}")
        return chosen


def reward_lines(reward: np.ndarray, valid: np.ndarray, titles: Sequence[str]) -> list[str]:
    """Rewards of a step, f64[A]; in games those that are not 0, or of illegal actions."""
    lines = []
    for seat, title in enumerate(titles):
        illegal = "" if valid[seat] else ", illegal"
        if len(titles) == 1 or reward[seat] or illegal:
            who = f"{title}: " if len(titles) > 1 else ""
            lines.append(f"{who}reward {reward[seat]:g}{illegal}")
    return lines


def returns_text(total: np.ndarray, titles: Sequence[str]) -> str:
    """Returns f64[A], behind the text of how the episode ended."""
    if len(titles) == 1:
        return f", return {total[0]:g}"
    pairs = zip(titles, total, strict=True)
    return "".join(f"\n{title}: return {x:g}" for title, x in pairs)


def steps_text(turns: int) -> str:
    """Text of a number of turns for the terminal, such as "7 steps"."""
    return "1 step" if turns == 1 else f"{turns} steps"


def outcome_text(
    env: Environment, success: np.ndarray, terminated: bool, offender: int, titles: Sequence[str]
) -> str:
    """How an episode ended, in a few words: success, who won or broke the rules, or that time is
    up.

    success, terminated, offender: of the last step's `Outcome`, success bool[A]. titles: name of
    each seat.
    """
    if env.num_agents == 1 or env.cooperative:
        if env.has_success and success.any():
            return "success"
        return "ended" if terminated else "time is up"
    if offender >= 0:
        return f"{titles[offender]} loses by an illegal action"
    if success.any():
        return f"won by {' and '.join(titles[i] for i in np.flatnonzero(success))}"
    return "nobody wins" if terminated else "time is up"


class _Table:
    """The actors of one episode, each with its memory."""

    def __init__(self, env, params, seats):
        self.names = [name for name, _ in seats]
        self.actors = {name: actor for name, actor in seats if actor is not None}
        self.follows = any(actor.follows for actor in self.actors.values())
        self.programs = {name: jax.jit(a.act) for name, a in self.actors.items()}
        self.memory = {name: a.init(1, env.num_agents) for name, a in self.actors.items()}
        world = World(env, params)
        self.view = jax.jit(lambda *at: view_of(world, *at, follows=self.follows))

    def act(self, observation, state, key) -> np.ndarray:
        """Actions i32[A]; 0 for agents that do not act, or are a person's."""
        state, observation = jax.tree.map(lambda x: x[None], (state, observation))
        view = self.view(state, observation)
        agent, acting = np.asarray(view.agent[0]), np.asarray(view.acting[0])
        action = np.zeros(len(self.names), np.int32)
        for i, (name, actor) in enumerate(self.actors.items()):
            mine = acting & np.array([self.names[a] == name for a in agent])
            if not mine.any() and not actor.follows:
                continue
            asked = view._replace(acting=jnp.asarray(mine)[None])
            decision, self.memory[name] = self.programs[name](
                actor.params, self.memory[name], asked, jax.random.fold_in(key, i)
            )
            action[agent[mine]] = np.asarray(decision.action)[0][mine]
        return action


class Words:
    """Reading a state, listing its commands and parsing a reply, by the text view."""

    def __init__(self, env, params):
        view, grammar = env.view, make_grammar("bare")
        # Long enough for free text; longer input is not a command.
        self.size = max(64, 2 * view.max_command_bytes)
        self.lexicon = view.lexicon

        def commands(state, seat):
            return env.commands_as(state, seat, params)

        def understood(state, seat, reply, length):
            slots = env.slots_as(state, seat, params)
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
    """The same for an environment without text: its drawing, or else numbers; names of actions."""

    def __init__(self, env, params):
        self.env, self.params = env, params

    def read(self, state, observation, seat):
        if self.env.num_agents == 1 or self.env.perfect_information:
            try:
                return self.env.render(state, self.params)
            except NotImplementedError:
                pass
        return str(np.asarray(observation[seat]))

    def write(self, state, seat):
        return list(self.env.action_names)

    def understand(self, state, seat, reply):
        names = [name.lower() for name in self.env.action_names]
        reply = reply.strip().lower()
        return names.index(reply) if reply in names else -1
