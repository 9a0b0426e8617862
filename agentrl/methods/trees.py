"""Trees of turns: a rollout in which episodes continue from turns of earlier ones.

Letters: G groups (trees) of E episodes, K of which are grown at the same time, in R = E / K rounds;
B = G * K lanes; T turns. Episode e of a tree is grown in round e // K, in lane g * K + e % K.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs
from agentrl.actors.types import Actor, beside, select
from agentrl.checks import check_range
from agentrl.methods import tree_rules
from agentrl.methods.replayable import check_replayable
from agentrl.methods.tree_values import prefixes, tree_values
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


class Plan(NamedTuple):
    """Constants of a rollout that grows trees, G, E, K, T among them; see `trees`."""

    world: World
    bound: BoundPolicy
    sampler: Sampler
    groups: int
    size: int
    together: int
    turns: int
    rule: str
    options: tree_rules.Options
    gamma: float

    @property
    def rounds(self) -> int:
        """R, in which the episodes of a tree are grown."""
        return self.size // self.together


class Played(NamedTuple):
    """What rules read of the episodes so far, [G * E, T]; `taker` is i32, by number in the tree,
    the episode in which a turn was sampled, and `own` i32[G * E] the first one of its own.

    code: u32[G * E, T, 2], what was done and what followed.
    """

    acted: jax.Array
    reward: jax.Array
    logp: jax.Array
    code: jax.Array
    taker: jax.Array
    own: jax.Array


class Grown(NamedTuple):
    """Trees, as carried from round to round.

    points: [R, T, B, ...], states and what turns change of the memory, in front of each turn of
    the lanes. past: [R, B, ...], the rest of the memory at their ends (`Actor.split`).
    """

    played: Played
    points: Start
    past: chex.ArrayTree


def trees(
    policy: "Policy | LanguagePolicy",
    env: Environment,
    env_params: EnvParams,
    context: "Context | None" = None,
    sampler: Sampler = independent,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    rule: str = "uct",
    width: int = 2,
    exploration: float = 1.0,
    power: float = 1.0,
    together: int = 1,
    gamma: float = 1.0,
    anchor: str = "observation",
    mask_illegal: bool = False,
) -> Rollout:
    """Rollout of num_groups trees of group_size whole episodes of one task each.

    The first `together` episodes of a tree start from its task. Each later one continues from a
    node of the tree, that is from the state and the memory in front of a turn of an earlier
    episode, and samples that turn and all later ones anew. Episodes with the same turns so far
    (the same reply or action, and the same state after it) are at one node. The node is chosen by

    * "root": the start always; with together=group_size these are `rollout.episodes`, bitwise.
    * "uniform": any node, each with the same probability. The trees of a collection share the draw:
      in each the node at the same place by depth, so that their episodes end at about one time.
    * "breadth": the shallowest node with fewer than `width` different continuations ("open").
    * "uct", "puct": from the root along the best child to an open node, see `methods.tree_rules`.
    * "best_first": the open node with the likeliest path; "best_value": the one with the best mean
      return. Of equals the shallowest; the root where no node is open.

    A stream and its rows hold the turns that it shares with its parent, as in `methods.branching`:
    each descendant trains them with its own advantage unless `advantages.shared_prefix` gives them
    their mean, or `own_turns` (below) leaves copies out. `Streams.parent` is the stream that was
    left, `call_turn` the first turn of its own; -1 for episodes from the start. `Streams.prefix`
    numbers the turns of the tree, see `methods.tree_values`. Pairs of turns that left the same node
    are the source `methods.siblings`.

    In front of each turn the environment's state is kept, and of a memory what cannot be
    restored from later: with the context `whole` a few numbers, since the KV cache and the
    transcript of an episode's end serve all of its turns; with other contexts the transcript, which
    is short for `window`; of a recurrent policy its memory.

    Reports the metrics of `branching`, too. A round takes as long as its longest episode.

    Metrics (Opponents, buffers, tasks):
      sampled_turns: Sampled turns [turns]; of trees, per collection; copies left out.
      new_turn_rate: New turns [share]; of sampled ones, that their tree did not have.
      lane_use: Lanes in use [share]; turns in the steps that were computed, of trees.

    Args:
      num_groups, anchor, mask_illegal, sampler: as for `agentrl.rollout.episodes`.
      group_size: E, episodes of a tree, a multiple of `together`.
      rule, width: see above. exploration: c of "uct" and "puct". power: of "best_first", by which
        the log-likelihood of a path of t turns is divided, t^power.
      together: K. Larger is faster where lanes are cheap, and chooses with less knowledge.
      gamma: discount of the returns that rules read.

    Raises:
      ValueError: several agents, an environment in Python, sizes that do not divide, or options
        outside their ranges.

    References:
      Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199; Yuan et al. (2025), Agent-R,
      https://arxiv.org/abs/2501.11425; Xin et al. (2025), BFS-Prover-V2,
      https://arxiv.org/abs/2509.06493. There a node's children are all sampled when it is expanded
      and scored before they are played; here each episode brings one child and its return.
    """
    options = tree_rules.Options(width, exploration, power)
    tree_rules.check_rule(rule, options)
    check_range("rollout gamma", gamma, 0.0, 1.0)
    check_range("rollout together", together, 1)
    check_replayable(
        "trees", env, env.num_agents == 1, "an environment in the graph with one agent"
    )
    if group_size % together:
        raise ValueError(
            f"rollout group_size={group_size}, together={together}: expected a multiple of "
            "together, so that all rounds are equal"
        )
    whole = episodes(
        policy, env, env_params, context, sampler=sampler,
        num_groups=num_groups, group_size=group_size, anchor=anchor, mask_illegal=mask_illegal,
    )  # fmt: skip
    bound = bind(
        policy, env, env_params, context, whole.turns, anchor=anchor, mask_illegal=mask_illegal
    )
    sizes = (num_groups, group_size, together, whole.turns)
    plan = Plan(World(env, env_params), bound, sampler, *sizes, rule, options, gamma)
    return whole._replace(
        collect=functools.partial(collect, plan),
        provides=whole.provides | {"parent", "call_turn", "prefix"},
        states=None,
    )


def collect(
    plan: Plan,
    params: chex.ArrayTree,
    state: chex.ArrayTree,
    key: jax.Array,
    **given: chex.ArrayTree,
) -> tuple[chex.ArrayTree, Streams, Rows, dict[str, jax.Array]]:
    """One collection, the function `Rollout.collect` once the plan is bound. Returns (state
    unchanged, streams and rows of all episodes, metrics)."""
    task_key, act_key = jax.random.split(key)
    world, start = start_groups(
        plan.sampler, plan.world, task_key, plan.groups, plan.size, given.get("tasks")
    )
    if not plan.bound.reads_arrays:
        start = start._replace(observation=None)
    grown, turns, final, taken = _grow(plan, params, world, start, act_key)
    seating = seat_all(world.env, plan.groups * plan.size)
    group = jnp.repeat(jnp.arange(plan.groups, dtype=jnp.int32), plan.size)
    trajectory = Trajectory(turns, start, final)
    streams, rows = packed(plan.bound, world, trajectory, seating, params, group)
    played = grown.played
    branch = played.own > 0
    source = jnp.take_along_axis(played.taker, jnp.maximum(played.own - 1, 0)[:, None], axis=1)[
        :, 0
    ]
    streams = streams.replace(
        first_state=start.state,
        parent=jnp.where(branch, group * plan.size + source, -1),
        call_turn=jnp.where(branch, played.own, -1),
        prefix=prefixes(played.code, played.acted, plan.size),
    )
    return state, streams, rows, _metrics(plan, turns, streams, taken)


def point_of(actor: Actor, now: Start) -> Start:
    """What has to be kept in front of a turn to return to it."""
    point, _ = actor.split(now.memory[0])
    return Start(now.state, now.observation, (point,))


def _grow(
    plan: Plan, params: chex.ArrayTree, world: World, start: Start, key: jax.Array
) -> tuple[Grown, Turn, Start, jax.Array]:
    """(trees, turns [T, G * E, ...], final [G * E, ...], steps that lanes were computed for)."""
    lanes = _of_round(plan, world.params) if world.batched else world.params
    world = world._replace(params=lanes)
    state, observation = _of_round(plan, (start.state, start.observation))
    actor = plan.bound.actor(world, params)
    first = Start(state, observation, (actor.init(plan.groups * plan.together, 1),))
    # The first round is that of `rollout.episodes`; the keys of steps are those up to T.
    number = plan.turns + 1 + jnp.arange(2 * plan.rounds)
    later = jax.vmap(functools.partial(jax.random.fold_in, key))(number)
    keys = jnp.concatenate([key[None], later[1:]]).reshape(2, plan.rounds)
    play = functools.partial(_play, plan, world, actor)
    grown = _nothing(plan, point_of(actor, first), actor.split(first.memory[0])[1])

    def grow(grown, inputs):
        number, (play_key, choice_key) = inputs
        at, turn = _chosen(plan, grown.played, choice_key)
        begin = _begin(plan, actor, grown, first, at, turn)
        turns, points, code, final = play(begin, play_key)
        played = _joined(plan, grown.played, number, at, turn, turns, code)
        point, past = actor.split(final.memory[0])
        grown = Grown(played, _put(grown.points, number, points), _put(grown.past, number, past))
        steps = jnp.sum(jnp.any(turns.running, axis=1))
        return grown, (turns, final._replace(memory=(point,)), steps)

    numbers = jnp.arange(plan.rounds, dtype=jnp.int32)
    grown, (turns, final, steps) = jax.lax.scan(grow, grown, (numbers, (keys[0], keys[1])))
    final, past = jax.tree.map(functools.partial(_by_episode, plan), (final, grown.past))
    final = final._replace(memory=(actor.join(final.memory[0], past),))
    taken = jnp.sum(steps) * plan.groups * plan.together
    return grown, _whole_turns(plan, grown.played, turns), final, taken


def _of_round(plan: Plan, tree: chex.ArrayTree) -> chex.ArrayTree:
    """[G * E, ...], equal within a group, as that of the lanes of a round [B, ...]."""

    def of(x):
        x = x.reshape(plan.groups, plan.size, *x.shape[1:])[:, : plan.together]
        return x.reshape(-1, *x.shape[2:])

    return jax.tree.map(of, tree)


def _by_episode(plan: Plan, x: jax.Array) -> jax.Array:
    """[R, B, ...] as [G * E, ...]."""
    x = x.reshape(plan.rounds, plan.groups, plan.together, *x.shape[2:])
    return jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[3:])


def _put(all_: chex.ArrayTree, number: jax.Array, one: chex.ArrayTree) -> chex.ArrayTree:
    put = jax.lax.dynamic_update_index_in_dim
    return jax.tree.map(lambda a, x: put(a, x, number, 0), all_, one)


def _nothing(plan: Plan, point: Start, past: chex.ArrayTree) -> Grown:
    """Trees without episodes."""
    count = (plan.groups * plan.size, plan.turns)
    rounds = plan.rounds
    none = jnp.zeros(count)
    number = jnp.tile(jnp.arange(plan.size, dtype=jnp.int32), plan.groups)
    return Grown(
        played=Played(
            acted=jnp.zeros(count, bool),
            reward=none,
            logp=none,
            code=jnp.zeros((*count, 2), jnp.uint32),
            taker=jnp.broadcast_to(number[:, None], count),
            own=jnp.zeros(count[0], jnp.int32),
        ),
        points=jax.tree.map(lambda x: jnp.zeros((rounds, plan.turns, *x.shape), x.dtype), point),
        past=jax.tree.map(lambda x: jnp.zeros((rounds, *x.shape), x.dtype), past),
    )


def _play(
    plan: Plan, world: World, actor: Actor, begin: Start, key: jax.Array
) -> tuple[Turn, Start, jax.Array, Start]:
    """A round: (turns [T, B, ...], points in front of them, codes u32[T, B, 2], final)."""

    def keep(notes, turn):
        code = _code(plan, world, turn)
        notes, kept = keep_turn(notes, turn)
        return notes, (kept, point_of(actor, turn.before), code)

    seating = seat_all(world.env, plan.groups * plan.together)
    trajectory = unroll(
        world, [actor], seating, begin, key, length=plan.turns, early_exit=True, keep=keep
    )
    turns, points, code = trajectory.turns
    return turns, points, code, trajectory.final


def _code(plan: Plan, world: World, turn: Turn) -> jax.Array:
    """What was done in a turn and the state that followed, u32[B, 2]: equal for equals."""
    done = turn.action[:, 0]
    if not plan.bound.reads_arrays:
        reply = turn.decision.record.reply
        there = jnp.arange(reply.tokens.shape[-1]) < reply.count[..., None]
        done = jnp.where(there, reply.tokens, -1)[:, 0]
    of_state = functools.partial(world.env.fingerprint, of="state")
    following = world.vmap(of_state)(turn.after.state)
    return jax.vmap(envs.fingerprint)((done, following))


def _chosen(plan: Plan, played: Played, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The nodes that the lanes of a round start from: (episode of the tree, turn), i32[B]."""
    group = jnp.repeat(jnp.arange(plan.groups, dtype=jnp.int32), plan.size)
    prefix = prefixes(played.code, played.acted, plan.size)
    found = tree_values(played.reward, played.acted, group, prefix, gamma=plan.gamma)
    own = jnp.where(played.acted, prefix - group[:, None] * plan.size, -1)
    by_tree = jax.tree.map(
        lambda x: x.reshape(plan.groups, plan.size, *x.shape[1:]),
        (found, played.acted, own, played.logp),
    )

    # One draw for all trees, whose episodes then have about the same depth left.
    draw = jax.random.uniform(key)

    def choose(*tree):
        grown = tree_rules.tree_of(*tree)
        return tree_rules.chosen(grown, plan.rule, plan.options, draw, plan.together)

    at, turn = jax.vmap(choose)(*by_tree)
    return at.reshape(-1), turn.reshape(-1)


def _places(plan: Plan, episode: jax.Array, lane: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(round, lane) of episodes of the trees of these lanes, given by number in the tree."""
    tree = lane // plan.together
    return episode // plan.together, tree * plan.together + episode % plan.together


def _begin(
    plan: Plan, actor: Actor, grown: Grown, first: Start, at: jax.Array, turn: jax.Array
) -> Start:
    """The lanes' starts: in front of `turn` of episode `at`, or from the task."""
    lane = jnp.arange(at.shape[0])
    number, place = _places(plan, at, lane)
    row = lane // plan.together * plan.size + at
    # An episode that is the first at a node has taken the turn before itself.
    step = turn - grown.played.own[row]
    point = jax.tree.map(lambda x: x[number, step, place], grown.points)
    past = jax.tree.map(lambda x: x[number, place], grown.past)
    before = point._replace(memory=(actor.join(point.memory[0], past),))
    state, observation, memory = select(turn > 0, tuple(before[:3]), tuple(first[:3]))
    # Lanes end at different steps, and an environment goes on behind its limit.
    return Start(state, observation, memory, jnp.ones(at.shape, bool))


def _joined(
    plan: Plan,
    played: Played,
    number: jax.Array,
    at: jax.Array,
    turn: jax.Array,
    new: Turn,
    code: jax.Array,
) -> Played:
    """The episodes so far and those of round `number`, which continue from `turn` of `at`."""
    lane = jnp.arange(at.shape[0], dtype=jnp.int32)
    tree, place = lane // plan.together, lane % plan.together
    episode = number * plan.together + place
    source, row = tree * plan.size + at, tree * plan.size + episode
    logp = new.decision.logp
    assert logp is not None  # it is learnt from
    told = (new.acting[..., 0] & new.running, new.outcome.reward[..., 0], logp[..., 0], code)
    step = jnp.arange(plan.turns) - turn[:, None]
    taker = jnp.broadcast_to(episode[:, None], step.shape)

    def behind(old, new):
        return jnp.where(beside(step >= 0, new), new, old[source])

    own = [x[jnp.maximum(step, 0), lane[:, None]] for x in told]
    there = (*own, taker)
    old = (played.acted, played.reward, played.logp, played.code, played.taker)
    rows = [x.at[row].set(behind(x, y)) for x, y in zip(old, there, strict=True)]
    return Played(*rows, own=played.own.at[row].set(turn))


def _whole_turns(plan: Plan, played: Played, turns: Turn) -> Turn:
    """Turns [T, G * E, ...] of whole episodes, from those that each lane sampled [R, T, B, ...]."""
    tree = jnp.arange(plan.groups * plan.size) // plan.size
    lane = jnp.broadcast_to(tree[:, None] * plan.together, played.taker.shape)
    number, place = _places(plan, played.taker, lane)
    began = played.own[tree[:, None] * plan.size + played.taker]
    step = jnp.arange(plan.turns) - began
    return jax.tree.map(lambda x: x[number.T, step.T, place.T], turns)


def _metrics(plan: Plan, turns: Turn, streams: Streams, taken: jax.Array) -> dict[str, jax.Array]:
    copied = jnp.arange(plan.turns) < streams.call_turn[:, None]
    own = streams.mask & ~copied
    new = streams.prefix == jnp.arange(streams.mask.shape[0])[:, None]
    branch = streams.call_turn >= 0
    sampled = jnp.sum(own, dtype=jnp.float32)
    return (
        metrics_of(plan.world.env, whole_episodes(turns, streams), streams)
        | plan.bound.packing.metrics(turns._replace(learns=turns.learns & ~copied.T[..., None]))
        | {
            "branch_rate": mean(branch, jnp.ones(branch.shape, bool)),
            "branch_turn": mean(streams.call_turn, branch),
            "shared_turn_rate": mean(copied, streams.mask),
            "new_turn_rate": mean(new, own),
            "sampled_turns": jnp.stack([sampled, jnp.float32(1)]),
            "lane_use": jnp.stack([sampled, taken.astype(jnp.float32)]),
        }
    )
