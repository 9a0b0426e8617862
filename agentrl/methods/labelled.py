"""The policy's own rows as good or bad by themselves, for `losses.kto`: episodes by their success,
turns by their judge."""

import jax
import jax.numpy as jnp

from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import alternating, spliced, stream_rows
from agentrl.methods.pairs import check_judged, check_one_row
from agentrl.streams import PerTurn, Rows

LABELS = ("success", "judgement")


def partners(present: jax.Array, key: jax.Array) -> jax.Array:
    """Another row for each of the rows that are present, i32[R], all different, at random.

    present: bool[R]. Rows that are not present get any; a single one that is gets itself.
    """
    drawn = jax.random.permutation(key, present.shape[0])
    order = drawn[jnp.argsort(~present[drawn], stable=True)]
    count = jnp.maximum(jnp.sum(present), 1)
    following = order[(jnp.arange(order.shape[0]) + 1) % count]
    return jnp.zeros_like(order).at[order].set(following).astype(jnp.int32)


def mismatched(rows: Rows, partner: jax.Array) -> Rows:
    """Rows of the same prompts with the replies of other rows, partner i32[R].

    Of text a row is its own tokens in front of the first reply, then the partner's from its first
    reply on. Over arrays it is the row's own observations with the partner's actions, where both
    acted. They are to be scored: their `behaviour_logp` is 0.
    """
    other = jax.tree.map(lambda x: x[partner], rows)
    if rows.observation is not None:
        legal = None if rows.legal is None else rows.legal | other.legal
        return rows.replace(
            tokens=other.tokens,
            action=other.action,
            legal=legal,
            loss_mask=rows.loss_mask & other.loss_mask,
            behaviour_logp=jnp.zeros_like(rows.behaviour_logp),
        )
    begins = jnp.argmax(rows.loss_mask, axis=1)
    found = spliced(rows, other, begins, begins[partner])
    return found.replace(behaviour_logp=jnp.zeros_like(rows.behaviour_logp))


def labelled(setup: Setup, *, by: str = "success", source: str = "rollout") -> Component:
    """Source of its own name: in turn a row that was sampled, and its mismatched row, for
    `losses.kto`. Supplies `desirable` [N, T].

    Rows 2 i and 2 i + 1 have the same prompt; the reply of the second is that of another row of the
    batch, drawn anew in each update. Rows without a label are not learnt from.

    Metric desirable_rate, the share of what has a label that is desirable.

    Metrics (Opponents, buffers, tasks):
      desirable_rate: Desirable [share]; of the rows with a label.

    Args:
      by: "success", whole episodes, desirable if they succeeded (one row holds a stream); or
        "judgement", single turns, desirable if their `Streams.judgement` is above 0 and without a
        label if it is 0 (one row holds a turn). The latter with a checker is STEVE.
      source: of the rows; of another one than "rollout", such as a component
        `agentrl.trajectories.file`, only success is a label. Where no term reads the rollout,
        nothing is played.

    Raises:
      ValueError: an unknown label, rows of text that hold more or less than it is of, or nothing
        that judges turns.

    References:
      Ethayarajh et al. (2024), KTO, https://arxiv.org/abs/2402.01306. Success as the label of
      episodes: Xiong et al. (2024), https://arxiv.org/abs/2409.02392. Steps: STEVE (2025),
      https://arxiv.org/abs/2503.12532, from its abstract; its data pipeline is not published.
    """
    if by not in LABELS:
        raise ValueError(
            f"config.components.labelled.by={by!r}: expected one of {', '.join(LABELS)}"
        )
    if source != "rollout" and by != "success":
        raise ValueError(
            f"config.components.labelled.source={source!r} with by={by!r}: only turns of the "
            "rollout are judged; use by='success'"
        )
    if by == "success" and source == "rollout":
        check_one_row(setup, "labelled")
    elif by == "judgement":
        check_judged(setup, "component 'labelled' with by='judgement'")
        check_turn_rows(setup)

    def make(context, sources):
        streams, rows = sources[source]
        if source != "rollout" and rows.tokens.shape[0] != streams.mask.shape[0]:
            raise ValueError(
                f"component 'labelled': source {source!r} has {rows.tokens.shape[0]} rows of "
                f"{streams.mask.shape[0]} streams; expected one each, in which all its turns are"
            )
        if by == "success":
            rows = stream_rows(rows, streams)
        else:
            judged = streams.judgement[rows.stream[:, None], jnp.maximum(rows.turn, 0)] != 0
            rows = rows.replace(loss_mask=rows.loss_mask & judged)
        partner = partners(jnp.any(rows.loss_mask, axis=1), context.key)
        return streams, alternating(rows, mismatched(rows, partner))

    def annotate(context, streams, rows):
        if by == "success":
            good = jnp.any(streams.success & streams.mask, axis=1)
            given = jnp.any(streams.mask, axis=1)
            desirable = jnp.broadcast_to(good[:, None], streams.mask.shape)
        else:
            desirable = good = streams.judgement > 0
            given = streams.mask & (streams.judgement != 0)
        rate = jnp.stack([jnp.sum(good & given), jnp.sum(given)]).astype(jnp.float32)
        return {"desirable": PerTurn(desirable)}, {"desirable_rate": rate}

    made = Source(make, unit=2, reads=(source,))
    return Component(source=made, annotate=annotate, fills=("desirable",))


def check_turn_rows(setup: Setup) -> None:
    """ValueError unless each turn is one row of its own."""
    rows, turns = setup.rollout.num_rows, setup.rollout.num_streams * setup.rollout.turns
    if rows != turns:
        raise ValueError(
            f"component 'labelled' with by='judgement' and {rows} rows for {turns} turns: use a "
            "context with one row per turn ('window'), or a policy over arrays without memory"
        )
