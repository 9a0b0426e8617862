"""Chain-of-Agents: tags of turns, whether calls repeat, whether the order of tags is kept."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.behaviour import Behaviour
from agentrl.learner.component import Component, Context, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns, turn_means
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn, Rows, Streams
from envs.environment import Environment, EnvParams


def repeated_calls(
    call: jax.Array, mask: jax.Array, part: jax.Array, adjacent: jax.Array
) -> jax.Array:
    """Turns that say again what was said before, bool[N, T].

    A call repeats an equal one of an earlier turn of the same part; a turn whose tag is `adjacent`
    repeats the turn right before it if both have the same tag.

    Args:
      call: i32[N, T], number of tag and argument of turns that are calls; -1: the turn is none.
      mask: bool[N, T], the agent acted.
      part: i32[N, T], of the stream that the turn belongs to.
      adjacent: i32[N, T], number of the tag of turns that must not follow their like; -1: none.
    """
    turn = jnp.arange(call.shape[1])
    earlier = (turn[:, None] > turn) & mask[:, None, :]
    same = (call[:, :, None] == call[:, None, :]) & (part[:, :, None] == part[:, None, :])
    again = jnp.any(earlier & same & (call >= 0)[:, :, None], axis=2)
    before = jnp.pad(adjacent, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    return mask & (again | ((adjacent >= 0) & (adjacent == before)))


def among(tag: jax.Array, numbers: tuple[int, ...]) -> jax.Array:
    """Whether each tag i32[...] is one of these, bool[...]."""
    return jnp.any(tag[..., None] == np.array(numbers, int), -1)


class Hooks(NamedTuple):
    """The hooks of `segments`, with what they are made of.

    actions: see `turn_actions`. kept: see `_order`. calls, alone, anew: numbers of tags.
    """

    env: Environment
    actions: Callable[[Streams, Rows], jax.Array]
    kept: Callable[[jax.Array], jax.Array]
    calls: tuple[int, ...]
    alone: tuple[int, ...]
    anew: tuple[int, ...]

    def annotate(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[dict[str, PerTurn], dict[str, jax.Array]]:
        """Each turn's tag, whether it repeats, and whether the order is kept up to it."""
        del context
        action = self.actions(streams, rows)[..., 0]
        tag = self.env.tag_of(action)
        call = jnp.where(among(tag, self.calls), action, -1)
        part = jnp.cumsum(among(tag, self.anew), axis=1)
        adjacent = jnp.where(among(tag, self.alone), tag, -1)
        repeated = repeated_calls(call, streams.mask, part, adjacent)
        keeps = self.kept(action)
        some = jnp.sum(jnp.any(streams.mask, axis=1), dtype=jnp.float32)
        shares = {
            "repetitions": jnp.any(repeated, axis=1),
            "order_kept": jnp.any(streams.mask, axis=1) & jnp.all(keeps | ~streams.mask, axis=1),
        }
        metrics = {
            name: jnp.stack([jnp.sum(flag, dtype=jnp.float32), some])
            for name, flag in shares.items()
        }
        notes = {"tag": tag, "repeated": repeated, "keeps_order": keeps}
        return {name: PerTurn(x) for name, x in notes.items()}, metrics

    def after(self, value: tuple, outcome: UpdateResult) -> tuple[tuple, dict[str, jax.Array]]:
        """Measures the turns of each tag."""
        streams, rows = outcome.streams, outcome.rows
        tag = outcome.notes["tag"].values
        turns = jnp.ones_like(tag, jnp.float32)
        length = to_turns(jnp.ones_like(rows.behaviour_logp), rows, tag.shape)
        surprise = -to_turns(rows.behaviour_logp, rows, tag.shape)
        learnt = (outcome.credit.keep[:, None] & streams.mask) * 1.0
        credit = jnp.where(learnt > 0, turn_means(outcome.credit.advantage, rows, tag.shape), 0.0)
        measured = {
            "share": (turns, None),
            "length": (length, turns),
            "entropy": (surprise, length),
            "advantage": (credit, learnt),
        }
        metrics = {}
        for number, name in enumerate(self.env.tags):
            own = streams.mask & (tag == number)
            for what, (total, weight) in measured.items():
                over = streams.mask * 1.0 if weight is None else jnp.where(own, weight, 0.0)
                pair = [jnp.sum(jnp.where(own, total, 0.0)), jnp.sum(over)]
                metrics[f"tag/{name}/{what}"] = jnp.stack(pair)
        return value, metrics


def segments(
    setup: Setup,
    *,
    calls: tuple[str, ...] = ("lookup",),
    alone: tuple[str, ...] = ("plan", "reflect", "suggest"),
    anew: tuple[str, ...] = ("plan",),
) -> Component:
    """Reports credit, entropy and length of the turns of each tag, and supplies what rewards read.

    A segment is a turn; its tag says which of the team spoke. For environments with `tags` and
    `tag_of`, such as LookupCheck-v1, and language policies. It supplies `repeated` bool[N, T] (see
    `repeated_calls`) for reward term `repetition_penalty`, and `keeps_order` bool[N, T] for reward
    term `order_reward`: the episode up to this turn can still become one that keeps the policy's
    specification (config.policy.behaviour); True without one.

    Metrics (Episodes):
      tag/{name}/share: Turns of tag {name} [share]; component segments.
      tag/{name}/length: Length of a turn of tag {name} [tokens]; component segments.
      tag/{name}/entropy: Entropy in turns of tag {name} [nats]; per token, estimated by the
        log-probabilities of what was drawn.
      tag/{name}/advantage: Credit of turns of tag {name}; mean advantage of those learnt from.
      repetitions: Repetitions [share]; episodes in which a turn says the same again.
      order_kept: Order kept [share]; episodes that keep the specified behaviour so far.

    Args:
      calls: tags whose turns must not be repeated with the same argument.
      alone: tags of which one turn must not follow another.
      anew: tags with which calls may be repeated, as a tool that lies has to be asked again; ():
        none, as in the reference.

    Raises:
      ValueError: unknown tags, or another environment, policy or rollout.

    References:
      Chain-of-Agents (2025), https://arxiv.org/abs/2508.13167; code 8f94516 (read): -0.5 for
      repeated queries, or repeated adjacent plans, reflections or suggestions, in one variant.
    """
    env, env_params = required(
        setup, "segments", "language", "tag_of", "tags", example="LookupCheck-v1",
        one_environment=True, whole_episodes=True,
    )  # fmt: skip
    unknown = sorted({*calls, *alone, *anew} - {*env.tags})
    if unknown:
        raise ValueError(
            f"config.components.segments names tags {', '.join(unknown)}: expected some of "
            f"{', '.join(env.tags)}"
        )
    actions, kept = turn_actions(setup, "segments"), _order(setup, env, env_params)
    numbers = [tuple(map(env.tags.index, names)) for names in (calls, alone, anew)]
    hooks = Hooks(env, actions, kept, *numbers)
    return Component(
        annotate=hooks.annotate, after=hooks.after, fills=("tag", "repeated", "keeps_order")
    )


def _order(
    setup: Setup, env: Environment, env_params: EnvParams
) -> Callable[[jax.Array], jax.Array]:
    """(actions i32[N, T]) -> whether the specification can still be kept after each, bool[N, T]."""
    if setup.policy.behaviour is None:
        return lambda action: jnp.ones(action.shape, bool)
    limit = int(env_params.max_steps_in_episode)
    behaviour = Behaviour(setup.policy.behaviour, env, setup.policy.grammar, limit)

    return functools.partial(order_kept, behaviour)


def order_kept(behaviour: Behaviour, action: jax.Array) -> jax.Array:
    """Whether the behaviour can still be kept after each of the actions i32[N, T], bool[N, T]."""

    def turn(state, action):
        after = behaviour.advance(state, action, jnp.zeros_like(action, bool))
        return after, after != behaviour.dead

    start = jnp.zeros(action.shape[0], jnp.int32)
    return jax.lax.scan(turn, start, action.T)[1].T
