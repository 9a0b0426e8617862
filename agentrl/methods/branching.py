"""Entropy-branching rollouts (ARPO): episodes continue twice where the policy is uncertain.

Letters: G groups of M episodes, of which N are initial and the others C = M / N - 1 copies per
initial episode; B = G * N initial lanes; T turns.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import select
from agentrl.checks import check_range
from agentrl.methods.branch_points import (
    branch_probability,
    first_entropy,
    initial_budget,
    within_budget,
)
from agentrl.methods.forks import behind
from agentrl.methods.replayable import check_replayable
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.episodes import episodes, packed
from agentrl.rollout.metrics import mean, metrics_of, whole_episodes
from agentrl.rollout.seating import seat_all
from agentrl.rollout.starts import Sampler, independent, start_groups
from agentrl.rollout.types import Rollout, Start, Trajectory, Turn
from agentrl.rollout.unroll import keep_turn, unroll
from agentrl.streams import Rows, Streams
from envs.environment import Environment, EnvParams
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context
    from agentrl.policies.actor_critic import Policy
    from agentrl.policies.language import LanguagePolicy

Tree = TypeVar("Tree", bound=chex.ArrayTree)


class Plan(NamedTuple):
    """Constants of a branching rollout, G, M, N, T among them; scale: log of the vocabulary.

    sharpness: of the budget of each group; None: all others may branch.
    """

    world: World
    bound: BoundPolicy
    sampler: Sampler
    groups: int
    size: int
    initial: int
    turns: int
    alpha: float
    beta: float
    penalty: float
    first_tokens: int
    scale: float
    sharpness: float | None

    @property
    def copies(self) -> int:
        """C = size / initial - 1, the branches that are grown from each initial episode."""
        return self.size // self.initial - 1


class Watch(NamedTuple):
    """Branch points of B episodes, as carried from turn to turn by `unroll`.

    step: i32[], turns taken. entropy: f32[B], of the first turn. later: f32[2, B], sum of the
    entropies of the others, and their number. found: i32[B], branch points so
    far; run: i32[B], of the turns just before. turn: i32[C, B], the turn of each, T for none.
    before: C states in front of these turns.
    """

    step: jax.Array
    entropy: jax.Array
    later: jax.Array
    found: jax.Array
    run: jax.Array
    turn: jax.Array
    before: tuple[Start, ...]


def branching(
    policy: "Policy | LanguagePolicy",
    env: Environment,
    env_params: EnvParams,
    context: "Context | None" = None,
    sampler: Sampler = independent,
    *,
    num_groups: int = 16,
    group_size: int = 16,
    initial: int = 8,
    alpha: float = 0.5,
    beta: float = 0.2,
    penalty: float = 0.0,
    sharpness: float | None = None,
    first_tokens: int = 20,
    anchor: str = "observation",
) -> Rollout:
    """Rollout of groups of episodes of one task, some of which share their first turns.

    `initial` episodes per group are played from the start. At each turn t > 0 such an episode
    becomes a branch point with probability

      P = clip((alpha + beta (H_t - H_0)) (1 - penalty l), 0, 1),

    where l is the number of branch points just before (AEPO's; 0.05 there), and H_t is the mean
    entropy of the first tokens of the reply of turn t, that is after the result of turn t - 1 was
    read, divided by the logarithm of the vocabulary. A branch starts from the state, the transcript
    and the KV cache in front of turn t and samples that reply and all
    later turns anew. The initial episodes have equal budgets: each branches at most group_size /
    initial - 1 times, at its first branch points. A budget that is not used is filled with fresh
    episodes of the same task, so a group always has group_size whole episodes.

    With `sharpness` the initial episodes are AEPO's sample before the others, too, and each group
    has a budget of its own: `branch_points.initial_budget` of its episodes begin at the start,
    though not fewer than `initial`, and the rest are branches, as far as there are branch points;
    the first one of each initial episode comes before any second one.

    A branch's stream and rows hold the turns that it shares, so each descendant trains them (soft
    advantages); `advantages.shared_prefix` gives shared turns the mean advantage of those that
    share them (hard). `Streams.parent` is the stream that a branch left, `call_turn` the first turn
    of its own; -1 for episodes from the start. Metrics of text, such as `tokens`, count turns that
    were copied once, `env_steps` counts them in each episode.

    Metrics (Opponents, buffers, tasks):
      branch_rate: Branches [share]; of the episodes.
      branch_budget: Budget of branches [episodes]; of a group, by entropies (AEPO).
      branch_turn: Turn of a branch [turns]; mean of their first own turns.
      shared_turn_rate: Copied turns [share]; that a branch shares with its parent.

    Args:
      num_groups, group_size, anchor, sampler: as for `agentrl.rollout.episodes`.
      initial: N, a divisor of group_size below it.
      alpha, beta, penalty: see above; alpha=0, beta=0 gives group_size fresh episodes.
      sharpness: by how much the budget follows the difference of entropies, at least 0 (0.5 in
        AEPO, at which half of the group begins at the start unless entropies differ by tenths of
        log V); None: every group may use all of its budget for branches.
      first_tokens: tokens of a reply that its entropy is of.

    Raises:
      ValueError: not a language policy, several agents, an environment in Python, sizes that do not
        divide, or options outside their ranges.

    Deviations: in ARPO all episodes of a group compete for the budget, and branches branch again.
    The paper's entropy is of the reply after a tool result, as here; the released code takes the
    reply that ended in the call, sums the ten likeliest tokens only, and repeats the last episode
    if the budget is not used up.

    References:
      Dong et al. (2025), Agentic reinforced policy optimization, https://arxiv.org/abs/2507.19849.
      Read: dongguanting/ARPO e257337. AEPO (2025), https://arxiv.org/abs/2510.14545, from a fork
      of its files, whose counter never falls, whose sample before the others is one episode, and
      whose released scripts leave the budget fixed.
    """
    check_range("rollout alpha", alpha, 0.0, 1.0)
    check_range("rollout beta", beta, 0.0)
    check_range("rollout penalty", penalty, 0.0)
    check_range("rollout sharpness", sharpness, 0.0)
    check_range("rollout first_tokens", first_tokens, 1)
    check_replayable(
        "branching", env, policy.kind == "language" and env.num_agents == 1,
        "a language policy, and an environment in the graph with one agent",
    )  # fmt: skip
    if initial < 1 or group_size % initial or group_size <= initial:
        raise ValueError(
            f"rollout group_size={group_size}, initial={initial}: expected a multiple of initial, "
            "twice or more, so that each initial episode can branch equally often"
        )
    whole = episodes(
        policy, env, env_params, context, sampler=sampler,
        num_groups=num_groups, group_size=group_size, anchor=anchor,
    )  # fmt: skip
    bound = bind(policy, env, env_params, context, whole.turns, anchor=anchor, mask_illegal=False)
    scale = float(np.log(policy.config.vocab_size))
    sizes = (num_groups, group_size, initial, whole.turns)
    numbers = (alpha, beta, penalty, first_tokens, scale, sharpness)
    plan = Plan(World(env, env_params), bound, sampler, *sizes, *numbers)
    return whole._replace(
        collect=functools.partial(collect, plan),
        provides=whole.provides | {"parent", "call_turn"},
        states=None,
    )


def collect(
    plan: Plan,
    params: chex.ArrayTree,
    state: chex.ArrayTree,
    key: jax.Array,
    **given: chex.ArrayTree,
) -> tuple[chex.ArrayTree, Streams, Rows, dict[str, jax.Array]]:
    """One collection, the function `Rollout.collect` once the plan is bound: initial episodes, then
    branches from their turns. Returns (state unchanged, streams and rows of all episodes,
    metrics)."""
    task_key, act_key, branch_key, chance_key = jax.random.split(key, 4)
    world, start = start_groups(
        plan.sampler, plan.world, task_key, plan.groups, plan.size, given.get("tasks")
    )
    first, rest = (_part(plan, world, start.state, s) for s in _split(plan))
    initial = _initial_episodes(plan, params, first, act_key, chance_key)
    most = _budget(plan, initial.notes)
    own, begin = _branches(plan, params, rest, initial.notes, most)
    later = _unroll(plan, params, rest[0], begin, branch_key)
    turns = _join(plan, initial.turns, _behind(plan, initial.turns, later.turns, own), axis=1)
    final = _join(plan, initial.final, later.final, axis=0)
    trajectory = Trajectory(turns, start, final)
    seating = seat_all(world.env, plan.groups * plan.size)
    group = jnp.repeat(jnp.arange(plan.groups, dtype=jnp.int32), plan.size)
    streams, rows = packed(plan.bound, world, trajectory, seating, params, group)
    parent, call_turn = _origins(plan, own)
    streams = streams.replace(first_state=start.state, parent=parent, call_turn=call_turn)
    metrics = _metrics(plan, turns, streams)
    if most is not None:
        metrics["branch_budget"] = mean(most, jnp.ones(most.shape, bool))
    return state, streams, rows, metrics


def _split(plan: Plan) -> tuple[slice, slice]:
    """The initial episodes of a group, and the others."""
    return slice(0, plan.initial), slice(plan.initial, plan.size)


def _part(
    plan: Plan, world: World, state: chex.ArrayTree, part: slice
) -> tuple[World, chex.ArrayTree]:
    """World and states of these episodes of each group."""

    def of(x):
        x = x.reshape(plan.groups, plan.size, *x.shape[1:])[:, part]
        return x.reshape(-1, *x.shape[2:])

    if world.batched:
        world = world._replace(params=jax.tree.map(of, world.params))
    return world, jax.tree.map(of, state)


def _unroll(
    plan: Plan, params: chex.ArrayTree, world: World, start: Start, key: jax.Array, **watching: Any
) -> Trajectory:
    actors = [plan.bound.actor(world, params)]
    seating = seat_all(world.env, start.memory[0].turn.shape[0])
    return unroll(
        world, actors, seating, start, key, length=plan.turns, early_exit=True, **watching
    )


def _initial_episodes(
    plan: Plan,
    params: chex.ArrayTree,
    part: tuple[World, chex.ArrayTree],
    key: jax.Array,
    chance_key: jax.Array,
) -> Trajectory:
    """The initial episodes; notes: their `Watch`."""
    world, state = part
    count = plan.groups * plan.initial
    memory = (plan.bound.actor(world, params).init(count, 1),)
    yes = jnp.ones(count, bool)
    watch = Watch(
        step=jnp.zeros((), jnp.int32),
        entropy=jnp.zeros(count),
        later=jnp.zeros((2, count)),
        found=jnp.zeros(count, jnp.int32),
        run=jnp.zeros(count, jnp.int32),
        turn=jnp.full((plan.copies, count), plan.turns, jnp.int32),
        before=(Start(state, None, memory, yes, yes),) * plan.copies,
    )
    keep = functools.partial(_watched, plan, chance_key)
    return _unroll(plan, params, world, Start(state, None, memory), key, keep=keep, notes=watch)


def _watched(plan: Plan, key: jax.Array, watch: Watch, turn: Turn) -> tuple[Watch, Turn]:
    """`keep` of `unroll`: remembers the states in front of branch points."""
    record = turn.decision.record
    entropy = first_entropy(
        record.reply.entropy[:, 0], record.reply.count[:, 0], first_tokens=plan.first_tokens
    )
    entropy = entropy / plan.scale
    first = jnp.where(watch.step == 0, entropy, watch.entropy)
    how = {"alpha": plan.alpha, "beta": plan.beta, "penalty": plan.penalty}
    chance = branch_probability(entropy - first, watch.run, **how)
    draw = jax.random.uniform(jax.random.fold_in(key, watch.step), chance.shape)
    counts = (watch.step > 0) & turn.running
    branches = counts & (draw < chance)
    # Of the k-th copy where so many have been found before.
    here = branches & (watch.found == jnp.arange(plan.copies)[:, None])
    watch = Watch(
        step=watch.step + 1,
        entropy=first,
        later=watch.later + jnp.where(counts, jnp.stack([entropy, jnp.ones_like(entropy)]), 0.0),
        found=watch.found + branches,
        run=jnp.where(branches, watch.run + 1, 0),
        turn=jnp.where(here, watch.step, watch.turn),
        before=tuple(
            select(now, turn.before, then) for now, then in zip(here, watch.before, strict=True)
        ),
    )
    return keep_turn(watch, turn)


def _budget(plan: Plan, watch: Watch) -> jax.Array | None:
    """The branches that each group may have, i32[G]; None: as many as it can."""
    if plan.sharpness is None:
        return None
    root = jnp.mean(watch.entropy.reshape(plan.groups, -1), axis=1)
    total, count = jnp.sum(watch.later.reshape(2, plan.groups, -1), axis=2)
    tool = jnp.where(count > 0, total / jnp.maximum(count, 1), root)
    begin = initial_budget(root, tool, plan.size, sharpness=plan.sharpness)
    return plan.size - jnp.maximum(begin, plan.initial)


def _branches(
    plan: Plan,
    params: chex.ArrayTree,
    part: tuple[World, chex.ArrayTree],
    watch: Watch,
    most: jax.Array | None,
) -> tuple[jax.Array, Start]:
    """(first own turn of each other episode i32[G * C * N], 0 if fresh; their start).

    most: see `_budget`.
    """
    world, fresh = part
    turn = _by_group(plan, watch.turn)
    branched = turn < plan.turns
    if most is not None:
        branched = within_budget(branched.reshape(plan.groups, -1), most).reshape(-1)
    before = jax.tree.map(lambda *x: _by_group(plan, x), *watch.before)
    memory = plan.bound.actor(world, params).init(turn.shape[0], 1)
    start = Start(
        state=select(branched, before.state, fresh),
        observation=None,
        memory=(select(branched, before.memory[0], memory),),
    )
    return jnp.where(branched, turn, 0), start


def _by_group(plan: Plan, copies: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """C arrays [G * N, ...] as [G * C * N, ...], groups together."""
    by_copy = [x.reshape(plan.groups, 1, plan.initial, *x.shape[1:]) for x in copies]
    together = jnp.concatenate(by_copy, axis=1)
    return together.reshape(-1, *together.shape[3:])


def _behind(plan: Plan, old: Turn, new: Turn, own: jax.Array) -> Turn:
    """Turns [T, G * C * N, ...]: those of the initial episode before turn `own`, then the new."""
    source = np.arange(plan.groups * plan.initial).reshape(plan.groups, 1, plan.initial)
    source = np.tile(source, (1, plan.copies, 1)).reshape(-1)
    return behind(jax.tree.map(lambda x: x[:, source], old), new, own)


def _join(plan: Plan, first: Tree, rest: Tree, *, axis: int) -> Tree:
    """The initial episodes [.., G * N, ..] and the others, each group together."""

    def by_group(x):
        return x.reshape(*x.shape[:axis], plan.groups, -1, *x.shape[axis + 1 :])

    def of(first, rest):
        x = jnp.concatenate([by_group(first), by_group(rest)], axis=axis + 1)
        return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])

    return jax.tree.map(of, first, rest)


def _origins(plan: Plan, own: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`Streams.parent` and `Streams.call_turn`, i32[G * M]."""
    number = jnp.arange(plan.groups * plan.size, dtype=jnp.int32).reshape(plan.groups, plan.size)
    source = jnp.tile(number[:, : plan.initial], (1, plan.copies))
    none = jnp.full((plan.groups, plan.initial), -1, jnp.int32)
    own = own.reshape(plan.groups, -1)
    parent = jnp.where(own > 0, source, -1)
    call_turn = jnp.where(own > 0, own, -1)
    return tuple(jnp.concatenate([none, x], axis=1).reshape(-1) for x in (parent, call_turn))


def _metrics(plan: Plan, turns: Turn, streams: Streams) -> dict[str, jax.Array]:
    ended = whole_episodes(turns, streams)
    copied = jnp.arange(plan.turns) < streams.call_turn[:, None]
    sampled = turns._replace(learns=turns.learns & ~copied.T[..., None])
    branch = streams.call_turn >= 0
    return (
        metrics_of(plan.world.env, ended, streams)
        | plan.bound.packing.metrics(sampled)
        | {
            "branch_rate": mean(branch, jnp.ones(branch.shape, bool)),
            "branch_turn": mean(streams.call_turn, branch),
            "shared_turn_rate": mean(copied, streams.mask),
        }
    )
