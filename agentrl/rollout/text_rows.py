"""Rows and metrics of trajectories in words.

Letters: T turns, B episodes, A agents, S agents shown in a turn, N = B * A streams, G tokens of a
reply, R rows of L positions.
"""

import jax
import jax.numpy as jnp

from agentrl.actors.records import Memory, PromptAndReply, TextRecord
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.transcript import REPLIED, SPAN_OF_KIND, rows_of
from agentrl.rollout.pack import Packing
from agentrl.rollout.types import Turn
from agentrl.streams import ACTION, MESSAGE, Rows
from envs.agents import Agents

# Entropy is shown for these turns, where they exist: it often falls turn by turn.
_SHOWN_TURNS = (1, 2, 4, 8, 16)


def text_packing(agent: TextAgent, env: Agents) -> Packing:
    """The packing of a language policy."""
    provides = {"cost", "well_formed"}
    if agent.policy.has_critic:
        provides |= {"value", "bootstrap"}
    tagged = agent.policy.grammar.name != "bare"
    if tagged:
        provides |= {"spoken"}
    return Packing(
        rows=lambda trajectory, learns: text_rows(
            agent, trajectory.turns, trajectory.final.memory[0]
        ),
        num_rows=lambda batch, turns: num_text_rows(agent, env.num_acting, batch, turns),
        fields=lambda turns: text_fields(turns) | (_spoken(turns) if tagged else {}),
        metrics=text_metrics,
        provides=frozenset(provides),
        properties=frozenset({"tokens_as_cost"} | ({"one_row"} if agent.one_row else set())),
    )


def text_rows(agent: TextAgent, turns: Turn, memory: Memory) -> Rows:
    """Rows that train every token that was written once.

    One row per episode and agent, [N, L], where the context is the whole episode; where its window
    moves in strides, one per stride, [N * K, L]; else one per turn and shown agent, [T * B * S, L],
    and as many again for summaries in contexts that have them. memory: after the last turn.
    """
    record: TextRecord = turns.decision.record
    trained = record.replied & turns.learns
    clock = _Clock(trained, turns.agent, agent.agents)
    if agent.one_row:
        return _episode_rows(agent, record, clock, memory)
    # A row of one turn is read and written by the role whose turn it is.
    role = agent.role_of(turns.agent) if record.speaker is None else record.speaker
    rows = _turn_rows(record.reply, trained, role, clock, agent.row_tokens)
    if agent.strided:
        return _stride_rows(agent, rows, record, trained, clock)
    if record.summary is not None:
        summaries = _turn_rows(record.summary, trained, role, clock, agent.row_tokens)
        rows = jax.tree.map(lambda *x: jnp.concatenate(x), rows, summaries)
    return rows


def num_text_rows(agent: TextAgent, shown: int, batch: int, turns: int) -> int:
    """R, number of rows that `text_rows` returns for B episodes of T turns. shown: S, agents with a
    view in each turn."""
    if agent.one_row:
        return batch * agent.agents
    if agent.strided:
        return batch * agent.agents * (int(rows_of(agent.context, agent.layout.turns)[-1]) + 1)
    return batch * shown * turns * (1 if agent.context.limit is None else 2)


def text_fields(turns: Turn) -> dict[str, jax.Array]:
    """Fields of `Streams` that replies fill, [T, B, S] each."""
    record: TextRecord = turns.decision.record
    cost = record.reply.count
    if record.summary is not None:
        cost = cost + record.summary.count
    return {
        "valid": record.format_ok & record.known,
        "well_formed": record.format_ok,
        "cost": cost.astype(jnp.float32),
    }


def _spoken(turns: Turn) -> dict[str, jax.Array]:
    """`Streams.spoken` by the tags of replies, [T, B, S]."""
    reply = turns.decision.record.reply
    there = jnp.arange(reply.spans.shape[-1]) < reply.count[..., None]
    return {"spoken": jnp.any(there & (reply.spans == MESSAGE), axis=-1)}


class _Clock:
    """The turns of a trajectory in which each stream acted.

    taken: i32[N], how many. rank: i32[T, N], how many before each. step: (stream, number) -> the
    turn, -1 where there is none.
    """

    def __init__(self, acted: jax.Array, agent: jax.Array, agents: int):
        length, batch, shown = acted.shape
        own = acted[..., None] & (agent[..., None] == jnp.arange(agents))
        own = jnp.any(own, axis=2).reshape(length, batch * agents)
        self.rank = jnp.cumsum(own, axis=0, dtype=jnp.int32) - own
        self.taken = jnp.sum(own, axis=0, dtype=jnp.int32)
        self.stream = jnp.arange(batch, dtype=jnp.int32)[:, None] * agents + agent
        step = jnp.broadcast_to(jnp.arange(length, dtype=jnp.int32)[:, None], own.shape)
        at = jnp.where(own, self.rank, length)
        stream = jnp.broadcast_to(jnp.arange(batch * agents), own.shape)
        empty = jnp.full((batch * agents, length), -1, jnp.int32)
        self._steps = empty.at[stream, at].set(step, mode="drop")

    def step(self, stream: jax.Array, number: jax.Array) -> jax.Array:
        """Turns i32[..., L] of numbers [..., L] of streams [...]."""
        there = (number >= 0) & (number < self._steps.shape[1])
        found = self._steps[stream[..., None], jnp.where(there, number, 0)]
        return jnp.where(there, found, -1)


def _turn_rows(
    written: PromptAndReply, trained: jax.Array, role: jax.Array, clock: _Clock, size: int
) -> Rows:
    """One row per turn and agent with a view: the recorded prompt, and the tokens written
    after it."""
    assert written.age is not None  # rows of turns have their prompts
    length = trained.shape[0]
    rank = jnp.take_along_axis(clock.rank[:, None], clock.stream.reshape(length, 1, -1), axis=2)
    turn = clock.step(clock.stream, rank.reshape(trained.shape)[..., None] - written.age)
    turn = jnp.where(written.age >= 0, turn, -1)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), (written, trained, turn, role))
    said, trained, turn, role = flat
    there = trained & (said.count > 0)
    extra = size - said.prompt.shape[1]

    def wide(x, fill):
        x = jnp.pad(x, ((0, 0), (0, extra)), constant_values=fill)
        return jnp.where(there[:, None], x, jnp.asarray(fill, x.dtype))

    position = jnp.arange(size, dtype=jnp.int32)
    offset = position - said.length[:, None]
    mask = there[:, None] & (offset >= 0) & (offset < said.count[:, None])
    offset = jnp.where(mask, offset, 0)

    def of_reply(x):
        index = offset.reshape(*offset.shape, *[1] * (x.ndim - 2))
        return jnp.take_along_axis(x, index, axis=1)

    own = jnp.arange(length, dtype=jnp.int32)
    own = jnp.repeat(own, mask.shape[0] // length)[:, None]
    span = jnp.where(mask, of_reply(said.spans), wide(said.span, -1))
    return Rows(
        tokens=jnp.where(mask, of_reply(said.tokens), wide(said.prompt, 0)),
        loss_mask=mask,
        stream=clock.stream.reshape(-1),
        turn=jnp.where(mask, own, wide(turn, -1)),
        behaviour_logp=jnp.where(mask, of_reply(said.logp), 0.0),
        span=span.astype(jnp.int32),
        # Nothing is cut where nothing was sampled, so that logits stay finite.
        legal=None if said.kept is None else of_reply(said.kept) | ~mask[..., None],
        role=role,
    )


def _episode_rows(agent: TextAgent, record: TextRecord, clock: _Clock, memory: Memory) -> Rows:
    """One row per stream: the whole episode."""
    memory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memory.replace(cache=None))
    first = memory.turn - clock.taken
    taken = jnp.where(clock.taken > 0, memory.turn, 0)
    composed = agent.layout.rows(memory.transcript, taken, agent.row_tokens)
    stream = jnp.arange(taken.shape[0], dtype=jnp.int32)
    number = jnp.where(composed.turn >= 0, composed.turn - first[:, None], -1)
    turn = clock.step(stream, number)
    mask = (composed.kind == REPLIED) & (turn >= 0)
    step, offset = jnp.where(mask, turn, 0), jnp.where(mask, composed.offset, 0)
    lane = _lane(agent, stream, record.replied.shape[2])

    def of_reply(x):
        # The first two axes in one index less: a gather by three.
        return x.reshape(x.shape[0], -1, *x.shape[3:])[step, lane, offset]

    reply = record.reply
    kinds = jnp.asarray(SPAN_OF_KIND)[jnp.maximum(composed.kind, 0)]
    span = jnp.where(composed.kind >= 0, kinds, -1)
    return Rows(
        tokens=composed.tokens,
        loss_mask=mask,
        stream=stream,
        turn=turn,
        behaviour_logp=jnp.where(mask, of_reply(reply.logp), 0.0),
        span=jnp.where(mask, of_reply(reply.spans), span).astype(jnp.int32),
        legal=None if reply.kept is None else of_reply(reply.kept) | ~mask[..., None],
        role=agent.role_of(stream),
        speaker=None if record.speaker is None else _speakers(record.speaker, turn, lane),
    )


def _stride_rows(
    agent: TextAgent, rows: Rows, record: TextRecord, trained: jax.Array, clock: _Clock
) -> Rows:
    """Of the rows of turns that continue each other the last one, in which the replies of the
    others are trained, too. A stream that ends early leaves some of its K rows empty."""
    strides = rows_of(agent.context, agent.layout.turns)
    stride, each = jnp.asarray(strides)[record.turn], int(strides[-1]) + 1
    count = agent.agents * trained.shape[1] * each
    place = jnp.where(trained, clock.stream * each + stride, count).reshape(-1)
    last = jnp.full(count, -1, jnp.int32)
    last = last.at[place].max(jnp.arange(place.size, dtype=jnp.int32), mode="drop")
    stream = jnp.arange(count, dtype=jnp.int32) // each
    there = last >= 0
    rows = jax.tree.map(lambda x: x[last], rows)
    turn = jnp.where(there[:, None], rows.turn, -1)
    lane, step = _lane(agent, stream, trained.shape[2]), jnp.maximum(turn, 0)
    same = stride.reshape(trained.shape[0], -1)[step, lane] == stride.reshape(-1)[last][:, None]
    earlier = (turn >= 0) & same & (rows.span == ACTION) & ~rows.loss_mask
    # Replies begin where observations end.
    position = jnp.arange(earlier.shape[1], dtype=jnp.int32)
    begins = earlier & ~jnp.pad(earlier, ((0, 0), (1, 0)))[:, :-1]
    begun = jax.lax.cummax(jnp.where(begins, position, 0), axis=1)
    step, offset = jnp.where(earlier, turn, 0), jnp.where(earlier, position - begun, 0)

    def of_reply(x, other):
        x = x.reshape(x.shape[0], -1, *x.shape[3:])[step, lane, offset]
        return jnp.where(earlier.reshape(*earlier.shape, *[1] * (x.ndim - 2)), x, other)

    reply, mask = record.reply, (earlier | rows.loss_mask) & there[:, None]
    legal = None
    if rows.legal is not None:
        legal = of_reply(reply.kept, rows.legal) | ~mask[..., None]
    return rows.replace(
        tokens=jnp.where(there[:, None], rows.tokens, 0),
        loss_mask=mask,
        stream=stream,
        turn=turn,
        behaviour_logp=jnp.where(mask, of_reply(reply.logp, rows.behaviour_logp), 0.0),
        span=jnp.where(there[:, None], of_reply(reply.spans, rows.span), -1).astype(jnp.int32),
        legal=legal,
        role=agent.role_of(stream),
    )


def _lane(agent: TextAgent, stream: jax.Array, shown: int) -> jax.Array:
    """Where streams [R] are among the B * S of a turn, i32[R, 1]."""
    place = stream % agent.agents if shown == agent.agents else jnp.zeros_like(stream)
    return (stream // agent.agents * shown + place)[:, None]


def _speakers(speaker: jax.Array, turn: jax.Array, lane: jax.Array) -> jax.Array:
    """The role at each position of rows [N, L] from that of each turn [T, B, S]; 0, as which it is
    read, in front of the first turn."""
    found = speaker.reshape(speaker.shape[0], -1)[jnp.maximum(turn, 0), lane]
    return jnp.where(turn >= 0, found, 0)


def text_metrics(turns: Turn) -> dict[str, jax.Array]:
    """Totals and weights over turns and tokens, so that means of several collections combine.

    Metrics (Replies):
      response_length: Reply length [tokens]; EOS included.
      response_cut_rate: Replies without an end [share]; that reached the limit of tokens before
        EOS.
      invalid_format_rate: Replies outside the format [share]; that do not keep the grammar.
      unknown_command_rate: Unknown commands [share]; replies that name something that is not a
        command.
      empty_thought_rate: Empty thoughts [share]; replies with an empty thought, or without one.
      behaviour_violation_rate: Violations of the behaviour [share]; replies from which on the
        specified behaviour cannot be kept.
      observation_cut_rate: Texts that did not fit [share]; should be 0.
      full_row_rate: Ended by a full row [share]; episodes whose next turn had no room in
        config.context.context_tokens.
      summary_rate: Summaries [per turn]; that the policy wrote in place of earlier turns.
      tokens: Tokens written [per collection]; summaries included.

    Metrics (Policy):
      behaviour_entropy: Entropy when sampled [nats]; of the distribution that was sampled from, per
        token.
      entropy/turn_{k}: Entropy, turn {k} [nats]; of the distribution sampled from, at the k-th turn
        of an episode.
    """
    record: TextRecord = turns.decision.record
    reply, mask = record.reply, record.replied & turns.learns
    replies = jnp.sum(mask, dtype=jnp.float32)

    def per_turn(x):
        return jnp.stack([jnp.sum(jnp.where(mask, x, 0), dtype=jnp.float32), replies])

    sampled = mask[..., None] & (jnp.arange(reply.entropy.shape[-1]) < reply.count[..., None])
    entropy = jnp.sum(jnp.where(sampled, reply.entropy, 0), axis=(1, 2, 3))
    tokens = jnp.sum(sampled, axis=(1, 2, 3), dtype=jnp.float32)
    written = jnp.sum(tokens)
    out = {
        "invalid_format_rate": per_turn(~record.format_ok),
        "unknown_command_rate": per_turn(~record.known),
        "response_length": per_turn(reply.count),
        "response_cut_rate": per_turn(~record.ended),
        "observation_cut_rate": per_turn(record.cut),
        "behaviour_entropy": jnp.stack([jnp.sum(entropy), written]),
    }
    if turns.decision.full is not None:
        cut = jnp.any(turns.decision.full, axis=2)
        ended = turns.outcome.terminated | turns.outcome.truncated
        out["full_row_rate"] = jnp.stack(
            [jnp.sum(x, dtype=jnp.float32) for x in (cut & ended, ended)]
        )
    if record.summary is not None:
        count = record.summary.count
        written = written + jnp.sum(jnp.where(mask, count, 0), dtype=jnp.float32)
        out["summary_rate"] = per_turn(count > 0)
    if record.thinks is not None:
        out["empty_thought_rate"] = per_turn(~record.thinks)
    if record.violates is not None:
        out["behaviour_violation_rate"] = per_turn(record.violates)
    for turn in _SHOWN_TURNS:
        if turn <= mask.shape[0]:
            out[f"entropy/turn_{turn}"] = jnp.stack([entropy[turn - 1], tokens[turn - 1]])
    out["tokens"] = jnp.stack([written, jnp.float32(1)])
    return out
