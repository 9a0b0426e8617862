"""Agent-RLVR: failed tasks are tried again with guidance, and success is learnt without it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.contexts import whole
from agentrl.actors.injection import Injection, injection
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.required import required
from agentrl.methods.by_turn import alternating, bare, solved, stream_rows
from agentrl.methods.pairs import check_one_row
from agentrl.methods.prompted import without_inserted
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.episodes import packed
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import unroll
from agentrl.streams import PerPosition, Rows, Streams
from envs.vector import World


class _Plan(NamedTuple):
    """A guided rollout of G episodes of T turns. text: the guidance, which stands at position `at`
    of a row; strip: and is taken out of it."""

    world: World
    bound: BoundPolicy
    text: Injection
    at: int
    groups: int
    turns: int
    strip: bool


def _again(
    plan: _Plan, params: chex.ArrayTree, states: chex.ArrayTree, key: jax.Array
) -> tuple[Streams, Rows]:
    """(streams [G], rows [G, ...]) of a guided episode from each state."""
    world, bound = plan.world, plan.bound
    actors = [bound.actor(world, params)]
    start = Start(states, None, (actors[0].init(plan.groups, 1),))
    seating = seat_all(world.env, plan.groups)
    played = unroll(world, actors, seating, start, key, length=plan.turns, early_exit=True)
    number = jnp.arange(plan.groups, dtype=jnp.int32)
    streams, rows = packed(bound, world, played, seating, params, number)
    return bare(streams), stream_rows(rows, streams)


def _pairs(
    plan: _Plan, params: chex.ArrayTree, rollout: tuple[Streams, Rows], key: jax.Array
) -> tuple[Streams, Rows]:
    """The source: guided and unguided episodes in turn."""
    streams, rows = rollout
    size = streams.mask.shape[0] // plan.groups
    failed = ~jnp.any(solved(streams).reshape(plan.groups, size), axis=1)
    first = (streams.first_state, bare(streams), stream_rows(rows, streams))
    states, unguided, unguided_rows = jax.tree.map(lambda x: x[::size], first)
    helped, helped_rows = _again(plan, params, states, key)
    zero = jnp.int32(0)
    _, count = jax.vmap(lambda s: plan.text.tokens(s, zero, plan.world.params, zero))(states)
    length = unguided_rows.tokens.shape[1]
    if plan.strip:
        helped_rows = without_inserted(helped_rows, count, plan.at, length)
    else:
        length = helped_rows.tokens.shape[1]
    unguided_rows = without_inserted(unguided_rows, jnp.zeros_like(count), plan.at, length)
    learnt = jnp.repeat(failed & solved(helped), 2)[:, None]
    streams, rows = alternating((helped, helped_rows), (unguided, unguided_rows))
    number = jnp.arange(2 * plan.groups, dtype=jnp.int32)
    rows = rows.replace(stream=number, loss_mask=rows.loss_mask & learnt)
    return streams.replace(mask=streams.mask & learnt), rows


def guided(setup: Setup, *, guidance: str | Callable[..., Any], strip: bool = True) -> Component:
    """Source of its own name: a guided success and an unguided failure of each task that failed.

    A group fails if none of its episodes succeeds. Its task is played once more with the guidance
    in front of the first observation. Rows and streams 2 g and 2 g + 1 are of group g: the guided
    episode, then the group's first one; they are learnt from if the group failed and the guided
    episode succeeded. Tasks that fail again are not used, nor are those that were solved.

    For `losses.dpo` with source="guided", which compares the two, and supplies `correct` bool[R, L]
    (the guided rows) for `losses.corrected_behaviour_cloning`, which imitates the first. Guided
    episodes of all groups are played, whether or not they are needed.

    Args:
      guidance: text, or a function (state, agent, params) -> fragments i32[K] of the environment's
        lexicon, of the state that the episode starts from, such as
        `agentrl.methods.prompted.expert_plan`.
      strip: the guidance is taken out of the rows, so that the policy learns to do without; False:
        it stays, read and not trained.

    Raises:
      ValueError: a policy that does not read text, several environments or agents, a rollout
        without groups, or a context with several rows per episode.

    References:
      Agent-RLVR (2025), https://arxiv.org/abs/2506.11425, from notes; no code was read. There
      plans, hints and feedback on the failed attempt are a teacher's, and DPO is offline; the notes
      do not say whether the guidance stays in the prompt.
    """
    env, env_params = required(
        setup,
        "guided",
        "language",
        one_agent=True,
        one_environment=True,
        in_graph=True,
        whole_episodes=True,
    )
    rollout, policy = setup.rollout, setup.policy
    check_one_row(setup, "guided")
    context = whole(inject=guidance)
    bound = bind(
        policy, env, env_params, context, rollout.turns, anchor="observation", mask_illegal=False
    )
    text, at = injection(policy.codec, context, env), len(policy.codec.before)
    plan = _Plan(World(env, env_params), bound, text, at, rollout.units[0], rollout.turns, strip)

    def make(context, sources):
        return _pairs(plan, context.params, sources["rollout"], context.key)

    def annotate(context, streams, rows):
        guided_row = jnp.arange(rows.tokens.shape[0]) % 2 == 0
        return {"correct": PerPosition(rows.loss_mask & guided_row[:, None])}

    source = Source(make, unit=2, reads=("rollout",))
    return Component(source=source, annotate=annotate, fills=("correct",))
