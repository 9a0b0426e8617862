"""Suite `matches`: replies/s of one decoder that speaks for both players of a game.

A decoder of width 128 and 4 layers with bytes as tokens plays itself at tic-tac-toe and Kuhn's
poker: 128 matches side by side, each turn a prompt of its own with the position in compact words.
It keeps its random initialisation, so that nearly all replies are illegal: they are forgiven, and
every match takes all its turns. `agentrl` collects the matches in one program, streams and rows of
the learner included.

The peers, with --peers, are the loop that a user of a library of games writes around the same
model: as many matches in Python in lockstep, whose positions become prompts of the same length; one
compiled call replies to all of them; each reply is read and played in the library's engine, an
illegal one as a random legal move. TextArena also writes its own observation every turn, as its
loop does, which the model here does not read. Nothing is recorded for a learner.

Ratios are of tokens/s, read and written. `calls` is what calling agents costs: `Research-v1`, where
every call is a stream of its own, beside `SoloResearch-v1`, one agent for the same questions, with
as many turns and prompts of nearly the same length.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.policies import codec as codecs
from agentrl.policies import decoder, generation
from agentrl.policies.language import LanguagePolicy
from launchers.benchmarks.conversation import SIZES
from launchers.benchmarks.peers import MissingError, need
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, compiled, interleave

OURS, CALLS, ALONE = "agentrl", "Research-v1, calls", "SoloResearch-v1, alone"
# Tokens of a reply; a random decoder seldom ends one earlier.
WRITTEN = 12
# Forgiven in all turns of a match.
FORGIVEN = {"illegal_allowance": 1_000_000}


class Engine(Protocol):
    """A match in Python, which begins anew when it ends."""

    def look(self) -> str:
        """The position as the player whose turn it is reads it."""

    def play(self, reply: str) -> None:
        """Plays a reply, or a random legal move if it is none."""


class TextArena:
    """A match of TextArena; a fresh environment each, since one keeps its earlier messages."""

    def __init__(self, name: str, seed: int):
        self._random, self._name = random.Random(seed), name
        self._env = self._begun()

    def _begun(self) -> Any:
        env = need(f"TextArena {self._name}", "textarena").make(self._name)
        env.reset(num_players=2)
        return env

    def look(self) -> str:
        """Its own observation is written, and the position read in short."""
        player, _ = self._env.get_observation()
        state = self._env.state.game_state
        if self._name == "KuhnPoker-v0":
            return "JQK"[state["player_cards"][player]]
        return "\n".join("".join(mark or "." for mark in row) for row in state["board"])

    def play(self, reply: str) -> None:
        """In brackets, as TextArena reads moves."""
        state = self._env.state.game_state
        if self._name == "KuhnPoker-v0":
            legal = list(state["current_legal_action_tree"])
        else:
            cells = [mark for row in state["board"] for mark in row]
            legal = [str(square) for square, mark in enumerate(cells) if mark == ""]
        move = reply if reply in legal else self._random.choice(legal)
        done, _ = self._env.step(action=f"[{move}]")
        if done:
            self._env.close()
            self._env = self._begun()


class OpenSpiel:
    """A match of OpenSpiel, whose chance moves are drawn in Python."""

    def __init__(self, name: str, seed: int):
        self._game = need(f"OpenSpiel {name}", "pyspiel").load_game(name)
        self._random = random.Random(seed)
        self._state = self._dealt(self._game.new_initial_state())

    def _dealt(self, state: Any) -> Any:
        """The state after the chance moves that come next."""
        while state.is_chance_node():
            state.apply_action(self._random.choice(state.legal_actions()))
        return state

    def look(self) -> str:
        """The information state, or the board."""
        if self._game.get_type().short_name == "kuhn_poker":
            return self._state.information_state_string()
        return str(self._state)

    def play(self, reply: str) -> None:
        """The number of a move."""
        legal = self._state.legal_actions()
        number = int(reply) if reply.isascii() and reply.isdecimal() else -1
        self._state.apply_action(number if number in legal else self._random.choice(legal))
        over = self._dealt(self._state).is_terminal()
        if over:
            self._state = self._dealt(self._game.new_initial_state())


class Match(NamedTuple):
    """A game here and in the libraries: its name, its turns, and engines by their names."""

    name: str
    options: dict[str, Any]
    engines: dict[str, Callable[[int], Engine]]


GAMES = (
    Match(
        "TicTacToe-v1",
        {"max_steps_in_episode": 9, **FORGIVEN},
        {
            "TextArena": lambda seed: TextArena("TicTacToe-v0", seed),
            "OpenSpiel": lambda seed: OpenSpiel("tic_tac_toe", seed),
        },
    ),
    Match(
        "KuhnPoker-v1",
        {"max_steps_in_episode": 3, **FORGIVEN},
        {
            "TextArena": lambda seed: TextArena("KuhnPoker-v0", seed),
            "OpenSpiel": lambda seed: OpenSpiel("kuhn_poker", seed),
        },
    ),
)


class Collecting(NamedTuple):
    """A collection that is ready to be timed. prompt: tokens of a prompt at most; turns: of an
    episode."""

    ready: Ready
    policy: LanguagePolicy
    params: Any
    prompt: int
    turns: int


def collecting(name: str, batch: int, sizes: dict[str, int], **options: Any) -> Collecting:
    """Collects `batch` episodes with one prompt per turn; work is replies."""
    config = base_config()
    config.updates = config.log_every = 1
    config.env = env_section(name, **options)
    config.policy = section(policies.transformer, codec="byte", constrained=False, **sizes)
    config.rollout = section(rollout.episodes, num_groups=batch, group_size=1)
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=WRITTEN)
    config.learner.normalize_advantage = "none"
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    params, start = jax.tree.map(jnp.copy, (state.params, state.rollout))
    collect, seconds = compiled(
        jax.jit(experiment.rollout.collect), params, start, jax.random.key(0)
    )
    _, streams, rows, _ = collect(params, start, jax.random.key(0))
    read = int(rows.tokens.shape[1]) - WRITTEN

    def call():
        jax.block_until_ready(collect(params, start, jax.random.key(1)))

    replies = float(jnp.sum(streams.mask))
    ready = Ready(call, replies, seconds, lambda: {"prompt_tokens": read})
    return Collecting(ready, experiment.policy, params, read, experiment.rollout.turns)


def lockstep(make: Callable[[int], Engine], ours: Collecting, batch: int) -> Ready:
    """The loop in Python around the same model, see the module; work is replies."""
    games, policy = [make(seed) for seed in range(batch)], ours.policy
    codec, config = policy.codec, policy.config

    @jax.jit
    def answer(params, tokens, length, key):
        cache = decoder.empty_cache(config, batch, ours.prompt + WRITTEN)
        hidden, cache = decoder.extend(params, config, cache, tokens, length)
        last = jnp.take_along_axis(hidden, (length - 1)[:, None, None], axis=1)[:, 0]
        said = generation.generate(
            params, config, cache, last, key, sampling=policy.sampling,
            max_new_tokens=WRITTEN, end_token=codec.end, active=length > 0,
        )  # fmt: skip
        return said.tokens

    def prompts():
        tokens = np.zeros((batch, ours.prompt), np.int32)
        length = np.zeros(batch, np.int32)
        for i, game in enumerate(games):
            read = codecs.tokens_of(codec, game.look())[: ours.prompt]
            tokens[i, : len(read)], length[i] = read, len(read)
        # The model reads as many tokens as ours does, whatever a library's position takes.
        return tokens, np.maximum(length, ours.prompt)

    executable, seconds = compiled(answer, ours.params, *prompts(), jax.random.key(0))

    def call():
        for turn in range(ours.turns):
            said = np.asarray(executable(ours.params, *prompts(), jax.random.key(turn)))
            for game, tokens in zip(games, said.tolist(), strict=True):
                kept = tokens[: tokens.index(codec.end)] if codec.end in tokens else tokens
                game.play(codecs.decode(codec, kept))

    return Ready(call, float(batch * ours.turns), seconds, lambda: {"prompt_tokens": ours.prompt})


def run(
    plan: Plan, *, with_peers: bool, batch: int = 128, sizes: dict[str, int] = SIZES
) -> dict[str, Any]:
    """Measures: {"rows", "calls", "skipped"}."""
    rows, skipped = [], []
    for match in GAMES:
        ours = collecting(match.name, batch, sizes, **match.options)
        contenders = [(OURS, ours.ready)]
        for peer, make in match.engines.items() if with_peers else ():
            try:
                contenders.append((f"{peer}, Python", lockstep(make, ours, batch)))
            except MissingError as error:
                skipped.append(str(error))
        rows += _rows(match.name, contenders, plan)
    names = {CALLS: "Research-v1", ALONE: "SoloResearch-v1"}
    contenders = [
        (title, collecting(name, batch, sizes, **OPTIONS[name]).ready)
        for title, name in names.items()
    ]
    return {"rows": rows, "calls": _rows("research", contenders, plan), "skipped": skipped}


# As many turns each.
OPTIONS: dict[str, dict[str, Any]] = {
    "Research-v1": {"calls": 3, "max_steps_in_episode": 12, "filler": 7},
    "SoloResearch-v1": {"max_steps_in_episode": 12},
}


def _rows(game: str, contenders: Sequence[tuple[str, Ready]], plan: Plan) -> list[dict[str, Any]]:
    """A row per contender, with the ratio of the first one's tokens/s to its own."""
    rows = []
    for timing in interleave(contenders, plan):
        row = {"game": game, "program": timing.name, **timing.record()}
        row |= {"range": spread(*timing.rates)}
        row |= {"tokens": timing.rate * (row["prompt_tokens"] + WRITTEN)}
        rows.append(row)
    return [row | {"ours_to_it": rows[0]["tokens"] / row["tokens"]} for row in rows]


COLUMNS = (
    ("game", ""),
    ("program", ""),
    ("rate", ",.0f"),
    ("range", ""),
    ("prompt_tokens", ",.0f"),
    ("tokens", ",.0f"),
    ("ours_to_it", ".2f"),
    ("compile_seconds", ".1f"),
)


def report(result: dict[str, Any]) -> str:
    """The measurements as two Markdown tables."""
    return "\n".join(
        (
            table("Matches in words (rate: replies/s)", COLUMNS, result["rows"]),
            table("Calls of workers (rate: replies/s)", COLUMNS, result["calls"]),
        )
    )
