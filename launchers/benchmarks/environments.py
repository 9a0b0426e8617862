"""Suite `envs`: environment steps per second, ours and the peers', and the cost of drawing tasks.

One call is jit(scan(step)) of 128 steps of a batch: a uniformly random legal action for every
episode, the step, and the reset of those that ended. Observations and the state are carried through
the scan, rewards and ended episodes are summed in it, so that no part of a step can be eliminated.

Ours resets like `agentrl.rollout.segments`: if drawing a task is costly, as many tasks as there are
episodes are drawn once per segment and distributed by `envs.vector.window`; the drawing is part of
the time. Peers reset in their own step, as in normal use.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs
import envs.vector
from envs.environment import Environment
from launchers.benchmarks import peers
from launchers.benchmarks.simulator import Simulator, random_actions
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, Timing, carried, interleave

LENGTH = 128


class Case(NamedTuple):
    """One of our environments: its label in the table, its registered name and options.

    fresh_tasks: tasks drawn ahead per call; None for the default of `agentrl.rollout.segments`.
    """

    label: str
    name: str
    options: dict[str, Any]
    fresh_tasks: int | None = None


class Match(NamedTuple):
    """Our cases, and the peer that is timed in the same rounds."""

    cases: tuple[Case, ...]
    peer: str | None


MATCHES = (
    Match(
        (
            Case("Sokoban-v1 10x10, 3 boxes", "Sokoban-v1", {"size": 10, "boxes": 3}),
            # jumanji has two fixed levels: the same steps without the cost of drawing.
            Case("Sokoban-v1 10x10, 2 levels", "Sokoban-v1", {"size": 10, "boxes": 3}, 2),
        ),
        "jumanji Sokoban 10x10",
    ),
    Match(
        (Case("Sokoban-v1 6x6, 1 box", "Sokoban-v1", {"size": 6, "boxes": 1}),),
        "gym-sokoban 6x6, 1 box",
    ),
    Match((Case("FrozenLake-v1", "FrozenLake-v1", {}),), "gymnax FrozenLake-misc"),
    Match((Case("CartPole-v1", "CartPole-v1", {}),), "gymnax CartPole-v1"),
    Match(
        (Case("Maze-v1", "Maze-v1", {}), Case("Coin-v1", "Coin-v1", {})),
        "xminigrid Empty-8x8",
    ),
    Match(
        (
            Case("Blackjack-v1", "Blackjack-v1", {}),
            Case("EZPoints-v1", "EZPoints-v1", {}),
        ),
        None,
    ),
)


class Layout(NamedTuple):
    """`envs.vector` with the batch axis first or last."""

    axis: int
    draw: Callable[..., envs.vector.Starts]
    step: Callable[..., tuple]
    restart: Callable[..., tuple[chex.ArrayTree, chex.ArrayTree]]
    pool: Callable[[envs.vector.Starts, int], envs.vector.Starts]
    window: Callable[[envs.vector.Starts, jax.Array, int], envs.vector.Starts]


def _last_draw(env: Any, params: Any, keys: jax.Array) -> envs.vector.Starts:
    drawn = jax.vmap(env.reset_env, in_axes=(0, None), out_axes=-1)(keys, params)
    return envs.vector.Starts(*drawn)


def _last_step(env: Any, params: Any, key: jax.Array, state: Any, action: jax.Array) -> tuple:
    keys = jax.random.split(key, action.shape[0])
    observation, state, reward, terminated, info = jax.vmap(
        env.step_env, in_axes=(0, -1, 0, None), out_axes=-1
    )(keys, state, action, params)
    truncated = jax.vmap(env.is_truncated, in_axes=(-1, None))(state, params) & ~terminated
    return observation, state, reward, terminated, truncated, info


def _last_restart(done: jax.Array, observation: Any, state: Any, starts: envs.vector.Starts):
    return jax.tree.map(
        lambda new, old: jnp.where(done, new, old),
        (starts.observation, starts.state),
        (observation, state),
    )


def _last_pool(starts: envs.vector.Starts, batch: int) -> envs.vector.Starts:
    def repeat(x):
        copies = -(-(batch + x.shape[-1]) // x.shape[-1])
        return jnp.tile(x, (*[1] * (x.ndim - 1), copies))

    return jax.tree.map(repeat, starts)


def _last_window(pooled: envs.vector.Starts, offset: jax.Array, batch: int):
    return jax.tree.map(
        lambda x: jax.lax.dynamic_slice_in_dim(x, offset, batch, axis=x.ndim - 1), pooled
    )


FIRST = Layout(
    0,
    envs.vector.draw,
    envs.vector.step,
    envs.vector.restart,
    envs.vector.pool,
    envs.vector.window,
)
# Every field of the state is an array over the batch: the layout of hand-written CPU code.
LAST = Layout(-1, _last_draw, _last_step, _last_restart, _last_pool, _last_window)


def ours(
    env: Any,
    params: Any,
    batch: int,
    layout: Layout,
    fresh_tasks: int | None = None,
    *,
    observe: Callable[[Any], jax.Array] | None = None,
    relay: Callable[[Any, jax.Array], jax.Array] | None = None,
) -> Simulator:
    """One of our environments as a simulator.

    observe: (states) -> observations instead of the environment's arrays. relay: (states, actions)
    -> actions after transmission as text.
    """
    fresh = envs.vector.tasks_ahead(env, batch)
    if fresh_tasks is not None:
        fresh = fresh_tasks

    def draw(key, count):
        return layout.draw(env, params, jax.random.split(key, count))

    def init(key):
        starts = draw(key, batch)
        return starts.observation if observe is None else observe(starts.state), starts.state

    def prepare(key):
        return layout.pool(draw(key, fresh), batch) if fresh else None

    def advance(pooled, state, key):
        action_key, step_key, start_key = jax.random.split(key, 3)
        legal = None
        if type(env).legal is not Environment.legal:
            legal = jax.vmap(env.legal, in_axes=(layout.axis, None), out_axes=-1)(state, params)
        action = random_actions(action_key, batch, env.num_actions, legal)
        if relay is not None:
            action = relay(state, action)
        observation, state, reward, terminated, truncated, _ = layout.step(
            env, params, step_key, state, action
        )
        done = terminated | truncated
        if fresh:
            offset = jax.random.randint(start_key, (), 0, fresh)
            starts = layout.window(pooled, offset, batch)
        else:
            starts = draw(start_key, batch)
        observation, state = layout.restart(done, observation, state, starts)
        if observe is not None:
            observation = observe(state)
        return observation, state, reward, done

    return Simulator(init, prepare, advance, fresh)


class Played(NamedTuple):
    """Carry of a timed call. returned, ended: reward and episodes of the last call."""

    key: jax.Array
    observation: chex.ArrayTree
    state: chex.ArrayTree
    returned: jax.Array
    ended: jax.Array


def _on_each(function: Callable[[Any], Any], devices: int) -> Callable[[Any], Any]:
    """The program on each device separately; arrays have a leading axis of devices."""

    def own(tree):
        return jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: x[0], tree)))

    mesh = jax.make_mesh((devices,), ("device",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("device")
    return jax.shard_map(own, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


def ready(simulator: Simulator, batch: int, length: int = LENGTH, *, devices: int = 1) -> Ready:
    """Compiles `length` steps of a simulator; work is environment steps.

    devices: number of copies of the simulator, one per device, with `batch` episodes in total.
    """

    def segment(played: Played) -> Played:
        key, prepare_key, scan_key = jax.random.split(played.key, 3)
        ahead = simulator.prepare(prepare_key)

        def body(carry, key):
            _, state, returned, ended = carry
            observation, state, reward, done = simulator.advance(ahead, state, key)
            returned = returned + jnp.sum(reward, dtype=jnp.float32)
            return (observation, state, returned, ended + jnp.sum(done, dtype=jnp.int32)), None

        nothing = (jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))
        carry, _ = jax.lax.scan(
            body,
            (played.observation, played.state, *nothing),
            jax.random.split(scan_key, length),
        )
        return Played(key, *carry)

    def start(key):
        key, init_key = jax.random.split(key)
        nothing = (jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))
        return Played(key, *simulator.init(init_key), *nothing)

    key = jax.random.key(0)
    if devices > 1:
        segment, start = _on_each(segment, devices), _on_each(start, devices)
        key = jax.random.split(key, devices)
    call, seconds = carried(segment, jax.jit(start)(key))

    def facts():
        ended = int(jnp.sum(call().ended))
        found = {"episodes_ended": ended, "tasks_drawn": simulator.drawn}
        return found | {"mean_episode_steps": batch * length / ended if ended else None}

    return Ready(call, float(batch * length), seconds, facts)


def drawing(env: Any, params: Any, batch: int) -> Ready:
    """`envs.vector.draw` of a batch of tasks; work is tasks."""

    def draw(carry):
        key, _ = carry
        key, draw_key = jax.random.split(key)
        return key, envs.vector.draw(env, params, jax.random.split(draw_key, batch))

    key = jax.random.key(1)
    shapes = jax.eval_shape(lambda key: draw((key, None))[1], key)
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    call, seconds = carried(draw, (key, blank))
    return Ready(call, float(batch), seconds)


def _contenders(
    match: Match, batch: int, length: int, with_peers: bool, skipped: list[str]
) -> tuple[list[tuple[str, Ready]], list[tuple[str, Ready]]]:
    """(simulations, drawings of tasks) of a match."""
    simulations, drawings = [], []
    for case in match.cases:
        env, params = envs.make(case.name, **case.options)
        for name, layout in ((case.label, FIRST), (f"{case.label} (batch last)", LAST)):
            simulator = ours(env, params, batch, layout, case.fresh_tasks)
            simulations.append((name, ready(simulator, batch, length)))
        if simulator.drawn:
            drawings.append((case.label, drawing(env, params, simulator.drawn)))
    if match.peer and with_peers:
        try:
            simulations.append((match.peer, peers.ENVIRONMENTS[match.peer](batch, length, ready)))
        except peers.MissingError as error:
            skipped.append(str(error))
    return simulations, drawings


def run(
    plan: Plan,
    *,
    with_peers: bool,
    batches: Sequence[int],
    matches: Sequence[Match] = MATCHES,
    length: int = LENGTH,
) -> dict[str, Any]:
    """Measures, match by match: {"rows", "skipped", "length"}."""
    rows, skipped = [], []
    for batch in batches:
        for match in matches:
            simulations, drawings = _contenders(match, batch, length, with_peers, skipped)
            timings = interleave([*simulations, *drawings], plan)
            drawn = {timing.name: timing for timing in timings[len(simulations) :]}
            rows += _rows(timings[: len(simulations)], drawn, batch, match)
    return {"rows": rows, "skipped": list(dict.fromkeys(skipped)), "length": length}


def _rows(
    timings: Sequence[Timing], drawn: dict[str, Timing], batch: int, match: Match
) -> list[dict[str, Any]]:
    by_name = {timing.name: timing for timing in timings}
    peer = by_name.get(match.peer) if match.peer else None
    rows = []
    for timing in timings:
        row = {"environment": timing.name, "batch": batch, **timing.record()}
        row["range"] = spread(row["rate_low"], row["rate_high"])
        last = by_name.get(f"{timing.name} (batch last)")
        if last is not None:
            row["ratio_to_batch_last"] = timing.rate / last.rate
            row["peer"] = match.peer
            row["ratio_to_peer"] = None if peer is None else timing.rate / peer.rate
        if timing.name in drawn:
            row["tasks_per_second"] = drawn[timing.name].rate
            share = timing.facts["tasks_drawn"] / drawn[timing.name].rate / timing.median
            row["drawing_percent"] = 100 * share
        rows.append(row)
    return rows


COLUMNS = (
    ("environment", ""),
    ("batch", ","),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_peer", ".2f"),
    ("ratio_to_batch_last", ".2f"),
    ("mean_episode_steps", ".1f"),
    ("episodes_ended", ","),
    ("tasks_drawn", ","),
    ("tasks_per_second", ",.0f"),
    ("drawing_percent", ".0f"),
    ("compile_seconds", ".1f"),
)


def report(result: dict[str, Any]) -> str:
    """The measurements as a Markdown table, one per row, under a title with their sizes."""
    title = f"Environment steps/s (rate), {result['length']} steps a call, median and range"
    return table(title, COLUMNS, result["rows"])
