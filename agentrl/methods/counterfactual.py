"""Counterfactual runs: the same tasks and the same randomness with one player replaced.

Letters: B episodes, E partners, K replacements; N streams.
"""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor
from agentrl.checks import check_range
from agentrl.methods.replayable import check_replayable
from agentrl.players.scripted import scripted
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.episodes import episodes, packed
from agentrl.rollout.metrics import mean, metrics_of, whole_episodes
from agentrl.rollout.seating import check_side, seat_side
from agentrl.rollout.starts import Sampler, independent, start_groups
from agentrl.rollout.types import Rollout, Seating, Start, Trajectory, Turn
from agentrl.rollout.unroll import keep_states, keep_turn, states_of, unroll
from agentrl.streams import Rows, Streams
from envs.environment import Environment, EnvParams
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context
    from agentrl.policies.actor_critic import Policy
    from agentrl.policies.language import LanguagePolicy

SELF = "self"
# Folded into the key of a run's repetition: no step has this number.
_DRAW = 1 << 29
# Folded into that of a partner's turn: no agent has this number.
_AGAIN = 1 << 28


class Plan(NamedTuple):
    """Constants of a rollout with counterfactual runs, see `counterfactual`."""

    world: World
    bound: BoundPolicy
    sampler: Sampler
    groups: int
    size: int
    turns: int
    side: str
    partners: tuple[Actor | None, ...]
    replacements: tuple[Actor | None, ...]
    names: tuple[str, ...]
    draws: int


class Totals(NamedTuple):
    """Of an episode so far, f32[B]: return of the first agent of the side, success of it."""

    gained: jax.Array
    solved: jax.Array


def counterfactual(
    policy: "Policy | LanguagePolicy",
    env: Environment,
    env_params: EnvParams,
    context: "Context | None" = None,
    sampler: Sampler = independent,
    *,
    side: str,
    replacements: tuple[str, ...],
    partners: tuple[str, ...] = ("self",),
    draws: int = 1,
    num_groups: int = 16,
    group_size: int = 8,
    anchor: str = "observation",
    mask_illegal: bool = False,
) -> Rollout:
    """Rollout of episodes that are also played with one thing replaced, in the same program.

    The policy has the seats of one `side` of the environment and learns from them; a frozen partner
    has the others. Each task is then played again, from the same start and with the same keys of
    every step: with each of E partners, and with each of K replacements in the policy's seats. What
    is replaced may be a plan (by a player that plans nothing), a planner (by one that asks at
    once), a teammate (by a random or a noisy one). `Streams.runs` f32[N, 3, E, 1 + K] holds return,
    number of steps and success: [..., e, 0] with partner e as the policy plays, [..., e, k] with
    replacement k. The streams and rows are those of the first partner; with several, the side acts
    before its partners do (as in GuidedResearch-v1) so that all have the same plan. A replacement
    by "self" gives runs that are equal to the last bit.

    Reward terms over it: `rewards.executor_gain` (EAGLET), `rewards.answer_gain`
    (AI-SearchPlanner), `rewards.difference`; filter `advantages.helps_all`.

    Metrics (Episodes):
      runs/{partner}/{replacement}: Return with partner {partner}, less {replacement};
        counterfactual runs: the policy's return less that of the player in its place.
      success/{partner}: Success with partner {partner} [share]; counterfactual runs: of the
        policy's episodes with that partner.
      success/{partner}/{replacement}: Success with partner {partner}, of {replacement} [share];
        counterfactual runs: with another player in the policy's place.

    Args:
      num_groups, group_size, anchor, mask_illegal, sampler: as for `agentrl.rollout.episodes`.
      side: one of the environment's `sides`.
      partners: who has the other seats: "self" is the policy itself, whose turns there are not
        learnt from (networks by role may be frozen), or players of `agentrl.players.scripted`, such
        as "expert" and "expert:0.5". One that is named again draws again: by other keys, while the
        policy and the environment draw by the same.
      replacements: "self", or players of `agentrl.players.scripted`, for example "random",
        "expert:0.5" or a function by its dotted path, "envs.guided_research.env.silent".
      draws: repetitions of each replacement's run, whose mean counts: the first with the keys of
        the policy's run, the others with their own. More take the partners' luck out of a baseline.

    Raises:
      ValueError: an environment in Python or without sides, or options that do not fit it.
    """
    check_range("rollout draws", draws, 1)
    check_replayable(
        "counterfactual", env, bool(env.sides),
        "an environment in the graph that has sides, such as GuidedResearch-v1",
    )  # fmt: skip
    check_side(env, side, "partner")
    if not partners or not replacements or side == "none":
        raise ValueError(
            f"rollout side={side!r}, partners={partners}, replacements={replacements}: expected "
            f"one of the sides {', '.join(env.sides)}, and one or more of each"
        )
    whole = episodes(
        policy, env, env_params, context, sampler=sampler, num_groups=num_groups,
        group_size=group_size, anchor=anchor, mask_illegal=mask_illegal,
    )  # fmt: skip
    bound = bind(
        policy, env, env_params, context, whole.turns, anchor=anchor, mask_illegal=mask_illegal
    )
    named = {
        name: None if name == SELF else scripted(name, env, env_params)
        for name in (*partners, *replacements)
    }
    plan = Plan(
        world=World(env, env_params),
        bound=bound._replace(skip_others=bound.skip_others and SELF not in partners),
        sampler=sampler,
        groups=num_groups,
        size=group_size,
        turns=whole.turns,
        side=side,
        partners=tuple(
            _again(named[name], partners[:number].count(name))
            for number, name in enumerate(partners)
        ),
        replacements=tuple(named[name] for name in replacements),
        names=tuple(x if ":" in x else x.rpartition(".")[2] for x in replacements),
        draws=draws,
    )
    return whole._replace(
        collect=functools.partial(collect, plan),
        provides=whole.provides | {"runs"},
        states=functools.partial(states, plan),
    )


def collect(
    plan: Plan,
    params: chex.ArrayTree,
    state: chex.ArrayTree,
    key: jax.Array,
    **given: chex.ArrayTree,
) -> tuple[chex.ArrayTree, Streams, Rows, dict[str, jax.Array]]:
    """One collection, the function `Rollout.collect` once the plan is bound: (state unchanged,
    streams and rows of the first partner's episodes, metrics)."""
    world, start, act_key = _begun(plan, key, given)
    play = functools.partial(_played, plan, world, start, params)

    def watched(notes, turn):
        totals, _ = _add(notes, turn)
        return totals, keep_turn(None, turn)[1]

    runs = []
    for number, partner in enumerate(plan.partners):
        played = play((partner, None), act_key, watched if number == 0 else _add)
        if number == 0:
            first = played
        each = [_results(played)]
        for own in plan.replacements:
            keys = [
                act_key,
                *(jax.random.fold_in(act_key, _DRAW + d) for d in range(1, plan.draws)),
            ]
            again = [_results(play((partner, own), one, _add)) for one in keys]
            each.append(sum(again[1:], again[0]) / plan.draws)
        runs.append(jnp.stack(each, axis=2))
    seating = _seating(plan, world, start.state, plan.partners[0])
    group = jnp.repeat(jnp.arange(plan.groups, dtype=jnp.int32), plan.size)
    streams, rows = packed(plan.bound, world, first, seating, params, group)
    found, agents = jnp.stack(runs, axis=2), world.env.num_agents
    streams = streams.replace(
        runs=jnp.repeat(found, agents, axis=0),
        first_state=jax.tree.map(lambda x: jnp.repeat(x, agents, axis=0), start.state),
    )
    ended = whole_episodes(first.turns, streams)
    metrics = metrics_of(world.env, ended, streams, "partner")
    metrics |= plan.bound.packing.metrics(first.turns)
    return state, streams, rows, metrics | _compared(plan, found)


def states(
    plan: Plan,
    params: chex.ArrayTree,
    state: chex.ArrayTree,
    key: jax.Array,
    **given: chex.ArrayTree,
) -> chex.ArrayTree:
    """`Rollout.states` of the first partner's episodes."""
    world, start, act_key = _begun(plan, key, given)
    who = plan.partners[0], None
    played = _played(plan, world, start, params, who, act_key, keep_states)
    return states_of(played.turns, played.final.state)


def _begun(plan: Plan, key: jax.Array, given: Mapping[str, Any]) -> tuple[World, Start, jax.Array]:
    """The world, all episodes at their start, and the key of the players."""
    task_key, act_key = jax.random.split(key)
    world, start = start_groups(
        plan.sampler, plan.world, task_key, plan.groups, plan.size, given.get("tasks")
    )
    everyone = [*plan.partners, *plan.replacements]
    if not plan.bound.reads_arrays and not any(x and x.reads_arrays for x in everyone):
        start = start._replace(observation=None)
    return world, start, act_key


def _again(partner: Actor | None, number: int) -> Actor | None:
    """A partner that is asked for the `number`-th time, from 0, with keys of its own."""
    if partner is None or not number:
        return partner
    act = partner.act

    def again(params, memory, view, key):
        fold = jax.random.fold_in if key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
        return act(params, memory, view, fold(key, _AGAIN + number))

    return partner._replace(act=again)


def _seating(plan: Plan, world: World, state: chex.ArrayTree, partner: Actor | None) -> Seating:
    """The policy's seats: those of the side; of its own partner all, of which the side learns."""
    seating = seat_side(world, state, plan.side)
    return seating if partner else seating._replace(actor=jnp.zeros_like(seating.actor))


def _played(
    plan: Plan,
    world: World,
    start: Start,
    params: chex.ArrayTree,
    who: tuple[Actor | None, Actor | None],
    key: jax.Array,
    keep: Callable[[Totals, Turn], tuple[Totals, Any]],
) -> Trajectory:
    """All episodes with who[0] as partner, and who[1] in the place of the policy; None: the policy.

    A partner has the same number among the actors, and so the same keys, in every run.
    """
    partner, own = who
    seating = _seating(plan, world, start.state, partner)
    mine = plan.bound.actor(world, params)
    if partner is not None:
        actors = [mine if own is None else own, partner]
    elif own is None:
        actors = [mine]
    else:
        actors = [mine, own]
        seating = seat_side(world, start.state, plan.side)
        seating = seating._replace(actor=1 - seating.actor)
    count = plan.groups * plan.size
    return unroll(
        world, actors, seating, start, key,
        length=plan.turns,
        # Only the first run's turns are kept, T of them.
        early_exit=plan.bound.early_exit or keep is _add,
        skip_others=plan.bound.skip_others,
        keep=keep,
        notes=Totals(jnp.zeros(count), jnp.zeros(count, bool)),
    )  # fmt: skip


def _add(totals: Totals, turn: Turn) -> tuple[Totals, None]:
    gained = totals.gained + turn.outcome.reward[:, 0]
    return Totals(gained, totals.solved | turn.outcome.success[:, 0]), None


def _results(trajectory: Trajectory) -> jax.Array:
    """Return, steps and success of each episode, f32[B, 3]."""
    totals = trajectory.notes
    return jnp.stack(
        [totals.gained, trajectory.final.state.time * 1.0, totals.solved * 1.0], axis=1
    )


def _compared(plan: Plan, runs: jax.Array) -> dict[str, jax.Array]:
    everyone = jnp.ones(runs.shape[0], bool)
    out = {}
    for e in range(len(plan.partners)):
        out[f"success/{e}"] = mean(runs[:, 2, e, 0], everyone)
        for k, name in enumerate(plan.names, 1):
            out[f"runs/{e}/{name}"] = mean(runs[:, 0, e, 0] - runs[:, 0, e, k], everyone)
            out[f"success/{e}/{name}"] = mean(runs[:, 2, e, k], everyone)
    return out
