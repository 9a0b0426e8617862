"""Suite `games`: steps per second of games as arrays and in words, beside peers; NashConv.

One call is jit(scan(step)) of 128 steps of a batch of games. One step: the legal actions of the
current player are computed, one of them is drawn uniformly, the game is stepped
(`envs.vector.step`), and finished games restart. In simultaneous games a step is one joint move.
Observations of all seats and the state are carried through the scan, rewards and ended games are
summed in it, so that no part of a step can be eliminated. Tasks are drawn as in suite `envs`: fresh
at each step if that is cheap (poker's cards), ahead for a whole call if it is not (Hanabi's deck,
Foraging's field). Peers reset in their own step, as in normal use; their moves are drawn in the
same way.

In words: the current player's text is described, packed and rendered to tokens; a uniformly random
legal command is written as tokens, expanded to bytes, parsed, and the game is stepped with the
parsed action. The peer is TextArena's own engine of the same game in Python: one game at a time on
one core, a fresh environment for each game (a reused one keeps all earlier messages), its
observation read, a random legal reply stepped. If this process has several devices, ours is also
timed with the batch spread over them (a CPU has as many as
XLA_FLAGS=--xla_force_host_platform_device_count sets).

NashConv: milliseconds for one policy in Leduc poker, compiled, float64, on the host's arrays;
beside it OpenSpiel's, in C++.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import envs
import envs.vector
from agentrl import selfplay
from agentrl.selfplay.games import sequence_form
from envs.hanabi.env import FULL
from launchers.benchmarks import game_peers, text
from launchers.benchmarks.environments import LENGTH, ready
from launchers.benchmarks.peers import MissingError
from launchers.benchmarks.simulator import Simulator, random_actions
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, interleave


class Match(NamedTuple):
    """One of our games, its options, and the peer in the same rounds.

    length: steps per call, fewer if the peer is slow.
    """

    name: str
    options: dict[str, Any]
    peer: str
    length: int = LENGTH


MATCHES = (
    Match("TicTacToe-v1", {}, "pgx tic_tac_toe"),
    Match("KuhnPoker-v1", {}, "pgx kuhn_poker"),
    Match("LeducPoker-v1", {}, "pgx leduc_holdem"),
    Match("ConnectFour-v1", {}, "pgx connect_four"),
    Match("Hanabi-v1", dict(FULL), "JaxMARL hanabi", 16),
    # jumanji's defaults: 8 x 8, 2 players, 2 foods of the highest level, 100 steps.
    Match(
        "Foraging-v1",
        {"force_coop": True, "max_steps_in_episode": 100},
        "jumanji LevelBasedForaging",
    ),
)


class Said(NamedTuple):
    """A game in words: (wording, codec) pairs, and TextArena's name of it."""

    name: str
    options: dict[str, Any]
    ways: tuple[tuple[str, str], ...]
    peer: str


BOTH = (("compact", "word"), ("faithful", "byte"))
TALKS = (
    Said("TicTacToe-v1", {}, BOTH, "TicTacToe-v0"),
    Said(
        "KuhnPoker-v1",
        {"rounds": 3, "opener": 1, "pot_grows": False, "reward": "most_chips"},
        # TextArena's words do not occur here: the board of its game is the whole
        # conversation.
        (("compact", "word"), ("compact", "byte")),
        "KuhnPoker-v0",
    ),
    Said("ConnectFour-v1", {}, BOTH, "ConnectFour-v0"),
    Said("Nim-v1", {}, BOTH, "Nim-v0"),
    Said("PigDice-v1", {}, BOTH, "PigDice-v0"),
)


def simulator(env: Any, params: Any, batch: int, through: text.Words | None = None) -> Simulator:
    """A game under uniformly random legal moves; through: the current player's text in this
    wording."""
    fresh = envs.vector.tasks_ahead(env, batch)

    def draw(key, count):
        starts = envs.vector.draw(env, params, jax.random.split(key, count))
        # Array observations are not used for games in words.
        return starts if through is None else starts.replace(observation=None)

    def init(key):
        starts = draw(key, batch)
        read = starts.observation if through is None else jax.vmap(through.read)(starts.state)
        return read, starts.state

    def prepare(key):
        return envs.vector.pool(draw(key, fresh), batch) if fresh else None

    def advance(pooled, before, key):
        action_key, step_key, start_key = jax.random.split(key, 3)
        at = envs.vector.views(envs.vector.World(env, params), before, None, everyone=False)
        legal = at.legal.reshape(-1, env.num_actions).T
        action = random_actions(action_key, legal.shape[1], env.num_actions, legal)
        if through is None:
            action = jnp.broadcast_to(action.reshape(batch, -1), (batch, env.num_agents))
        else:
            action = jax.vmap(through.relay)(before, action)
        observation, state, reward, terminated, truncated, _ = envs.vector.step(
            env, params, step_key, before, action
        )
        done = terminated | truncated
        if fresh:
            offset = jax.random.randint(start_key, (), 0, fresh)
            starts = envs.vector.window(pooled, offset, batch)
        else:
            starts = draw(start_key, batch)
        if through is not None:
            # Read before the reply, from the carried state, as in training.
            read, observation = jax.vmap(through.read)(before), None
        observation, state = envs.vector.restart(done, observation, state, starts)
        return observation if through is None else read, state, reward, done

    return Simulator(init, prepare, advance, fresh)


def _array(match: Match, batch: int, length: int, with_peers: bool, skipped: list[str]):
    """Contenders of a match as arrays."""
    env, params = envs.make(match.name, **match.options)
    found = [(match.name, ready(simulator(env, params, batch), batch, length))]
    return found + _peer(
        match.peer, lambda: game_peers.GAMES[match.peer](batch, length, ready), with_peers, skipped
    )


def _words(said: Said, batch: int, length: int, with_peers: bool, skipped: list[str]):
    """Contenders of a game in words."""
    found = []
    for wording, codec in said.ways:
        env, params = envs.make(said.name, wording=wording, **said.options)
        through = text.words(env, params, codec)
        label = f"{said.name}, {wording}, {codec}s"
        found.append((label, ready(simulator(env, params, batch, through), batch, length)))
        devices = jax.device_count()
        if devices > 1 and batch % devices == 0:
            own = simulator(env, params, batch // devices, through)
            spread_out = ready(own, batch, length, devices=devices)
            found.append((f"{label}, {devices} devices", spread_out))
    return found + _peer(
        f"TextArena {said.peer}",
        lambda: game_peers.textarena(said.peer, length),
        with_peers,
        skipped,
    )


def _peer(name, make, with_peers: bool, skipped: list[str]) -> list[tuple[str, Ready]]:
    if not with_peers:
        return []
    try:
        return [(name, make())]
    except MissingError as error:
        skipped.append(str(error))
        return []


def _rows(contenders: Sequence[tuple[str, Ready]], plan: Plan, peer: str, batch: int):
    timings = interleave(contenders, plan)
    theirs = next((timing for timing in timings if timing.name == peer), None)
    rows = []
    for timing in timings:
        row = {"game": timing.name, "batch": batch, **timing.record()}
        row["range"] = spread(*timing.rates)
        if timing is not theirs:
            row["ratio_to_peer"] = None if theirs is None else timing.rate / theirs.rate
        elif peer.startswith("TextArena"):
            row["batch"] = 1
        rows.append(row)
    return rows


def _nash_conv(plan: Plan, with_peers: bool, skipped: list[str]) -> list[dict[str, Any]]:
    """Milliseconds and value for a random policy, so that no values are equal."""
    name = "LeducPoker-v1"
    rng = np.random.default_rng(0)
    form = sequence_form(name)
    policy = rng.random(form.legal.shape) * form.legal
    policy /= policy.sum(1, keepdims=True)
    values = {"agentrl": selfplay.nash_conv(name, policy)}
    contenders = [("agentrl", Ready(lambda: selfplay.nash_conv(name, policy), 1.0))]
    if with_peers:
        try:
            theirs, values["OpenSpiel"] = game_peers.open_spiel_nash_conv(policy, form.infostates)
            contenders.append(("OpenSpiel", theirs))
        except MissingError as error:
            skipped.append(str(error))
    rows = []
    for timing in interleave(contenders, plan):
        row = {"program": timing.name, **timing.record(), "nash_conv": values[timing.name]}
        row["milliseconds"] = 1e3 * timing.median
        row["range"] = spread(1e3 * min(timing.seconds), 1e3 * max(timing.seconds), ".2f")
        rows.append(row)
    return rows


def run(
    plan: Plan,
    *,
    with_peers: bool,
    batches: Sequence[int],
    matches: Sequence[Match] = MATCHES,
    talks: Sequence[Said] = TALKS,
    length: int = LENGTH,
) -> dict[str, Any]:
    """Measures, match by match: {"rows", "words", "nash_conv", "skipped", "length"}."""
    result: dict[str, Any] = {"rows": [], "words": [], "length": length}
    skipped: list[str] = []
    for batch in batches:
        for match in matches:
            steps = min(length, match.length)
            contenders = _array(match, batch, steps, with_peers, skipped)
            result["rows"] += _rows(contenders, plan, match.peer, batch)
        for said in talks:
            contenders = _words(said, batch, length, with_peers, skipped)
            result["words"] += _rows(contenders, plan, f"TextArena {said.peer}", batch)
    result["nash_conv"] = _nash_conv(plan, with_peers, skipped)
    return result | {"skipped": list(dict.fromkeys(skipped))}


COLUMNS = (
    ("game", ""),
    ("batch", ","),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_peer", ",.2f"),
    ("mean_episode_steps", ".1f"),
    ("compile_seconds", ".1f"),
)
SOLVED = (("program", ""), ("milliseconds", ".2f"), ("range", ""), ("nash_conv", ".6f"))


def report(result: dict[str, Any]) -> str:
    """The measurements as three Markdown tables: games as arrays, in words, and NashConv."""
    most = f"at most {result['length']} steps a call, median and range"
    return "\n".join(
        (
            table(f"Steps/s of games as arrays (rate), {most}", COLUMNS, result["rows"]),
            table(f"Steps/s of games in words (rate), {most}", COLUMNS, result["words"]),
            table("NashConv of a policy in Leduc poker", SOLVED, result["nash_conv"]),
        )
    )
