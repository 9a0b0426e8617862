"""The two structures that cross module boundaries: streams are credited, rows are learnt from.

Letters used everywhere: N streams, T turns, R rows, L positions.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from flax import struct

# What a position of a language policy's row belongs to (`Rows.span`); -1 in padding.
OBSERVATION, ACTION, THOUGHT, SUBGOAL, SUMMARY, MESSAGE, SWITCH = range(7)
SPANS = ("observation", "action", "thought", "subgoal", "summary", "message", "switch")


class Streams(struct.PyTreeNode):
    """What each agent saw and did in one episode (or in one segment of several episodes).

    Fields that a run does not use are None. What an agent receives between one of its turns and
    the next belongs to the earlier one. Values where `mask` is False are never read.

    reward: f32[N, T], reward of the turn.
    mask: bool[N, T], the agent acted in this turn.
    group: i32[N], streams that started from the same task and are compared with each other.
    episode: i32[N], streams of one episode (the seats of a match, a planner and its workers).
    role: i32[N], role that was played.
    task: i32[N], game or kind of task, for baselines of each.
    anchor: u32[N, T, 2], fingerprint of what the agent acted from.
    value: f32[N, T], the critic's value of what the agent acted from.
    bootstrap: f32[N, T], the critic's value of what followed the turn; read only where a stream
      is cut without terminating (truncated, or the end of a segment).
    terminated: bool[N, T], the rules ended the episode at this turn.
    truncated: bool[N, T], a limit cut the episode at this turn; not a terminal state.
    valid: bool[N, T], the reply was well formed and legal.
    well_formed: bool[N, T], the reply kept the grammar, whatever it said.
    success: bool[N, T], the task was solved at this turn.
    duration: f32[N, T], time that the turn took, in environment steps or seconds.
    cost: f32[N, T], what the turn used up, kept apart from reward.
    persuasion: f32[N, T], what a message has done to the listeners' beliefs, to the good of the
      speaker's side; 0 for turns that were none.
    spoken: bool[N, T], the turn is a message to others: an action that the environment calls one
      (`Agents.speech`), or a reply with a message in its tags.
    judgement: f32[N, T], a judge's score of the turn: above 0 it is good, below 0 bad, 0 undecided.
    parent, call_turn: i32[N], the stream and its turn that called this one; -1 for none. Of an
      episode that branched off another: that one, and the first turn that they do not share.
    prefix: i32[N, T], of a tree of turns, the first stream with the same turns up to this one, this
      one included: a number of the turn in the tree; -1 where the agent did not act.
    runs: f32[N, 3, E, 1 + K], return, steps and success of the episode with each of E partners, as
      the policy played it (0) and with each of K replacements in its seats.
    first_state: [N, ...], the environment's state that the episode started from: its task.
    """

    reward: jax.Array
    mask: jax.Array
    group: jax.Array | None = None
    episode: jax.Array | None = None
    role: jax.Array | None = None
    task: jax.Array | None = None
    anchor: jax.Array | None = None
    value: jax.Array | None = None
    bootstrap: jax.Array | None = None
    terminated: jax.Array | None = None
    truncated: jax.Array | None = None
    valid: jax.Array | None = None
    well_formed: jax.Array | None = None
    success: jax.Array | None = None
    duration: jax.Array | None = None
    cost: jax.Array | None = None
    persuasion: jax.Array | None = None
    spoken: jax.Array | None = None
    judgement: jax.Array | None = None
    parent: jax.Array | None = None
    call_turn: jax.Array | None = None
    prefix: jax.Array | None = None
    runs: jax.Array | None = None
    first_state: chex.ArrayTree | None = None


def fields_of(structure: "Streams | Rows") -> dict[str, Any]:
    """The fields of streams or rows that are filled, by name."""
    fields = {name: getattr(structure, name) for name in structure.__dataclass_fields__}
    return {name: value for name, value in fields.items() if value is not None}


# Per field what fills it, for errors where it is needed and missing.
FILLED_BY: dict[str, str] = {
    "tasks": "a component that draws tasks, such as agentrl.methods.curriculum.curriculum",
    "limits": "component agentrl.methods.turn_limits.turn_limits",
    "group": "whole episodes in groups (config.rollout.name='episodes')",
    "episode": "whole episodes (config.rollout.name='episodes')",
    "role": "an environment of several agents",
    "task": "an environment of several agents, or several environments",
    "anchor": "whole episodes (config.rollout.name='episodes')",
    "value": "a policy with a critic (config.policy.critic) and an estimator that uses it",
    "target": "a policy with a critic (config.policy.critic) and an estimator that uses it, 'gae'",
    "old_value": "a policy with a critic (config.policy.critic) and an estimator that uses it",
    "bootstrap": "a policy with a critic (config.policy.critic)",
    "cost": "a language policy",
    "well_formed": "a language policy",
    "duration": "an environment whose turns take unequal time, such as Jobs-v1",
    "parent": "an environment with a planner and workers, such as PlannedHousehold-v1 or "
    "Research-v1",
    "call_turn": "an environment with a planner and workers, such as PlannedHousehold-v1 or "
    "Research-v1",
    "prefix": "a rollout that grows trees of turns (agentrl.methods.trees.trees)",
    "persuasion": "config.rollout.listeners, in matches of a game that asks about beliefs, such as "
    "SocialDeduction-v1",
    "answer_logits": "a policy that can be asked what it believes (config.policy.answers), as in "
    "SocialDeduction-v1",
    "observed": "component agentrl.methods.observed.observed, or (of its own source) "
    "agentrl.methods.early_experience.early_experience",
    "asked": "config.rollout.question, in matches of a game that asks about beliefs, such as "
    "SocialDeduction-v1",
    "lots": "component agentrl.methods.lots.lots",
    "spoken": "a game with actions that are messages, such as SocialDeduction-v1, or a language "
    "policy whose replies have tags (config.policy.grammar='action')",
    "desirable": "component agentrl.methods.labelled.labelled",
    "pair_weight": "component agentrl.methods.pairs.pairs",
    "judgement": "config.rollout.judge, such as 'progress'",
    "runs": "a rollout that plays its tasks again with a player replaced "
    "(agentrl.methods.counterfactual.counterfactual)",
    "tools_used": "component agentrl.methods.tools_used.tools_used",
    "lookups": "component agentrl.methods.lookups.lookups",
    "turn_penalty": "component agentrl.methods.reference_penalty.reference_penalty with per='turn'",
    "turn_ratio": "component agentrl.methods.turn_ratio.turn_ratio",
    "turn_reward": "component call_matching, looking, edit_rewards or edit_marginals of "
    "agentrl.methods, or one of your own",
    "turn_return": "component agentrl.methods.siblings.siblings",
    "winner_turns": "component agentrl.methods.drafts.drafts",
    "winner_reward": "component agentrl.methods.drafts.drafts",
    "progress": "component agentrl.methods.progress.progress",
    "imitation": "component agentrl.methods.discriminator.discriminator",
    "reward_levels": "component agentrl.methods.reward_levels.reward_levels, or one of your own",
    "potential": "component agentrl.methods.judged_potential.judged_potential, or one of your own",
    "final_potential": "component agentrl.methods.judged_potential.judged_potential, or one of "
    "your own",
    "imitation_weight": "component offline_values, token_ilql, rise or (of trees) "
    "siblings.positives of agentrl.methods",
    "logits": "a policy over arrays with discrete actions",
    "action_values": "component meee, pvp or q_shaping of agentrl.methods",
    "reference_kl": "a policy over arrays; for language policies use losses.kl",
}


class Rows(struct.PyTreeNode):
    """Sequences that go through the policy in the learner's forward pass.

    A language policy's row is text: what it read and what it wrote, of one turn or of many.
    A policy over arrays is the simplest case: `tokens` (or `action`) are its actions, `observation`
    and `legal` what it acted from; one row a turn if it has no memory, one row a stream if it has.

    tokens: i32[R, L], tokens, or actions of an array policy; zeros where these are continuous.
    action: f32[R, L, K], continuous actions of an array policy.
    loss_mask: bool[R, L], positions that the policy itself produced and is trained on.
    stream: i32[R], the stream that the row belongs to.
    turn: i32[R, L], the turn that the position belongs to; -1 for none.
    behaviour_logp: f32[R, L], log-probability under the distribution really sampled from.
    span: i32[R, L], which of `SPANS` the position belongs to, by the tags of the reply; -1 in
      padding.
    observation: [R, L, ...], what an array policy saw.
    legal: bool[R, L, A], actions (tokens) that could be drawn, where some were cut: by legality,
      by top-k and its like, or by a grammar.
    start: bool[R, L], a new episode begins here: memory is cleared before this position.
    memory: [R, ...], a recurrent policy's memory before the first position.
    asked: bool[R, L], the policy is asked here what it believes; answer: i32[R, L], the truth.
    role: i32[R], who acts, as the policy is told: the stream's role for what a language policy has
      of each; the agent's number for a policy over arrays, whose networks are named by agents.
    output_head: i32[R, L], which of a language policy's output heads the position is scored by; -1,
      or None everywhere: the mixture that it sampled from.
    speaker: i32[R, L], where several roles write one transcript, that of the position's turn.
    """

    tokens: jax.Array
    loss_mask: jax.Array
    stream: jax.Array
    turn: jax.Array
    behaviour_logp: jax.Array
    action: jax.Array | None = None
    span: jax.Array | None = None
    observation: chex.ArrayTree | None = None
    legal: jax.Array | None = None
    start: jax.Array | None = None
    memory: chex.ArrayTree | None = None
    asked: jax.Array | None = None
    answer: jax.Array | None = None
    role: jax.Array | None = None
    speaker: jax.Array | None = None
    output_head: jax.Array | None = None

    def head(self, length: int) -> "Rows":
        """The first `length` positions of each row."""
        whole = self.replace(stream=None, memory=None, role=None)
        cut = jax.tree.map(lambda x: x[:, :length], whole)
        return cut.replace(stream=self.stream, memory=self.memory, role=self.role)


def length_up_to(last: jax.Array) -> jax.Array:
    """Positions of each row up to the last True one of bool[R, L], i32[R]; 0 where none is."""
    number = jnp.arange(1, last.shape[1] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(last, number, 0), axis=1)


def at_positions(per_turn: jax.Array, rows: Rows) -> jax.Array:
    """Spreads a value of each turn [N, T, ...] over the positions of its rows: [R, L, ...], 0 where
    none."""
    values = per_turn[rows.stream[:, None], jnp.maximum(rows.turn, 0)]
    there = (rows.turn >= 0).reshape(*rows.turn.shape, *(1,) * (values.ndim - 2))
    return jnp.where(there, values, 0)


class PerTurn(struct.PyTreeNode):
    """Values of the turns of streams, [N, T, ...]; 0, or anything, where nobody acted."""

    values: jax.Array

    def at_positions(self, rows: Rows) -> jax.Array:
        """The values at the positions of the rows, [R, L, ...]; 0 at those of no turn."""
        return at_positions(self.values, rows)


class PerPosition(struct.PyTreeNode):
    """Values of the positions of rows, [R, L, ...]."""

    values: jax.Array

    def at_positions(self, rows: Rows) -> jax.Array:
        """The values themselves."""
        del rows
        return self.values


class Shared(struct.PyTreeNode):
    """A number, or any arrays, that all turns and positions share."""

    values: chex.ArrayTree


# What an annotation gives by name. Types tell the three apart: shapes [N, T] and [R, L] may be the
# same.
Note = PerTurn | PerPosition | Shared


def turn_starts(rows: Rows) -> jax.Array:
    """The first trained position of each turn, bool[R, L]: where a critic's value is read."""
    if rows.loss_mask.shape[1] == 1:
        return rows.loss_mask
    turn = jnp.where(rows.loss_mask, rows.turn, -1)
    before = jnp.pad(turn[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    return rows.loss_mask & (turn != before)


def main_streams(parent: jax.Array) -> jax.Array:
    """The stream at the head of each stream's chain of callers, i32[N]; of those that nobody called
    themselves. parent: i32[N], -1 for none."""
    count = parent.shape[0]
    # Each step doubles the length of the chains that are resolved.
    head = jnp.where(parent < 0, jnp.arange(count), parent)
    return jax.lax.fori_loop(0, count.bit_length(), lambda _, to: to[to], head)


def last_turns(mask: jax.Array) -> jax.Array:
    """The last turn that each stream acted in, bool[N, T]."""
    return mask & (jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)


def to_last_turn(happened: jax.Array, mask: jax.Array, ended: jax.Array | None = None) -> jax.Array:
    """Moves what happens between two turns of a stream to the earlier one, [N, T].

    Sums numbers (rewards), and for bool says whether it happened at all (an end). What happens
    before the first turn is lost. ended: bool[N, T], an episode ended in this turn: what happens
    later is of another one, before whose first turn it is lost.
    """

    def backward(waiting, turn):
        now, acted, last = turn
        nothing = jnp.zeros_like(waiting)
        if last is not None:
            waiting = jnp.where(last, nothing, waiting)
        waiting = waiting | now if happened.dtype == bool else waiting + now
        return jnp.where(acted, nothing, waiting), jnp.where(acted, waiting, nothing)

    nothing = jnp.zeros(happened.shape[0], happened.dtype)
    columns = (happened.T, mask.T, None if ended is None else ended.T)
    _, out = jax.lax.scan(backward, nothing, columns, reverse=True)
    return out.T
