"""Which tokens of a reply decide whether to switch, on a subgoal, and on the action (HiPER)."""

import jax
import jax.numpy as jnp

from agentrl import streams as spans
from agentrl.advantages.spans import ACTION, SUBGOAL, SWITCH, first_positions
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import replies, reply_size
from agentrl.policies import codec as codecs
from agentrl.streams import PerPosition, PerTurn, Rows
from envs.text import contains, lower

SWITCHES = "<switch>switch</switch>"


def decisions_of(rows: Rows, switches: jax.Array) -> jax.Array:
    """What each trained position decides, i32[R, L]: one of `advantages.spans.DECISIONS`, or -1.

    The tags of a reply say it (`Rows.span`). What stands in front of <switch> belongs to it, and
    what is in no tag of the two to the action. A subgoal in a turn that keeps is no subgoal: the
    reply names no command, and like all that is written in a command's place it is an action.
    HiPER's replies repeat the subgoal that they keep, and do not train it; here what is not trained
    would be a refuge from actions that are (configs/hierarchy/README.md, "key_door_spans.py").

    switches: bool[N, T], turns that switch.
    """
    place = jnp.broadcast_to(jnp.arange(rows.turn.shape[1], dtype=jnp.int32), rows.turn.shape)
    written = rows.loss_mask & (rows.turn >= 0)
    stream = jnp.where(written & (rows.span == spans.SWITCH), rows.stream[:, None], len(switches))
    last = jnp.full(switches.shape, -1, jnp.int32)
    last = last.at[stream, jnp.maximum(rows.turn, 0)].max(place, mode="drop")
    of_turn = rows.stream[:, None], jnp.maximum(rows.turn, 0)
    out = jnp.where(place <= last[of_turn], SWITCH, ACTION)
    out = jnp.where((rows.span == spans.SUBGOAL) & switches[of_turn], SUBGOAL, out)
    return jnp.where(written, out, -1).astype(jnp.int32)


def decisions(setup: Setup) -> Component:
    """Supplies what `hae_by_span` reads of replies that have a switch and a subgoal in tags.

    `decision` i32[R, L], see `decisions_of`; `decision_start` bool[R, L], the first position of
    each, where `losses.decision_value_loss` fits the critic; `kept` bool[N, T], turns that do not
    say `<switch>switch</switch>`, for reward term `keep_penalty`. For environments whose commands
    have these tags, such as those in `envs.wrappers.Subgoals`.

    Metric keep_rate: turns that keep.

    Metrics (Episodes):
      keep_rate: Kept subgoals [share]; turns that keep the subgoal.

    Raises:
      ValueError: a policy over arrays, commands without the tags, segments of episodes, or a
        context with summaries, which are written before the reply and decide none of the three.

    References:
      HiPER (2026), https://arxiv.org/abs/2602.16165; code JonP07/HiPER-agent 9d3c118 (read), where
      a missing or empty switch keeps, too.
    """
    required(setup, "decisions", "language", whole_episodes=True)
    codec = setup.policy.codec
    if not (codec.writes("<switch>") and codec.writes("<subgoal>")):
        raise ValueError(
            "component 'decisions' needs commands with a switch and a subgoal in tags: use "
            'config.env = env_section("envs.wrappers.Subgoals", base=env_section("KeyDoor-v1"))'
        )
    if setup.context.limit is not None:
        raise ValueError(
            f"component 'decisions' with context {setup.context.name!r}: expected one without "
            "summaries, such as 'window' or 'whole'"
        )
    size = reply_size(setup)

    def says(tokens, length):
        text, count = codecs.to_bytes(codec, tokens, length)
        return contains(lower(text), count, SWITCHES)

    def annotate(context, streams, rows):
        shape = streams.mask.shape
        switches = jax.vmap(jax.vmap(says))(*replies(rows, shape, size)) & streams.mask
        decision = decisions_of(rows, switches)
        first = first_positions(decision, rows.loss_mask, rows.stream, rows.turn, shape)
        start = jnp.zeros(decision.size, bool).at[first.reshape(-1)].set(True, mode="drop")
        kept = streams.mask & ~switches
        rate = jnp.stack([jnp.sum(kept), jnp.sum(streams.mask)]).astype(jnp.float32)
        notes = {
            "decision": PerPosition(decision),
            "decision_start": PerPosition(start.reshape(decision.shape)),
            "kept": PerTurn(kept),
        }
        return notes, {"keep_rate": rate}

    return Component(annotate=annotate, fills=("decision", "decision_start", "kept"))
