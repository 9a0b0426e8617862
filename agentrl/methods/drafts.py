"""DRAFT-RL: several drafts of each agent, grades by peers, a reward model, the winner's turns."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.by_turn import rows_of_turns
from agentrl.methods.networks import descended
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn, Rows, Shared, Streams

if TYPE_CHECKING:
    from envs.drafts.env import Drafts

Peers = Literal["own", "random"]
# Below it a deviation is no scale: advantages stay as they are.
_EVEN = 1e-6
# Features of a draft beside its counts of numbers.
_TOLD = 6


class DraftScore(nn.Module):
    """The reward model: hidden layers of 64 and 32 with tanh, and the logit of "right"."""

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        """Logits f32[...] of features [..., F]."""
        for width in (64, 32):
            features = jnp.tanh(nn.Dense(width)(features))
        return nn.Dense(1)(features)[..., 0]


class DraftJudge(struct.PyTreeNode):
    """Parameters of the reward model, its optimizer's state, and the key of the next batch."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    key: jax.Array


class Batch(NamedTuple):
    """The drafts of B episodes, of A agents with K drafts each.

    stream: i32[B, A], the stream of each agent. draft: i32[B, A, T], the draft of each turn, -1 for
    none. notes, answer, grade: as in `envs.drafts.env.Written`, with B in front; grade f32 in
    [0, 1], 0 where there is none. right, valid: bool[B, A, K]. score: f32[B, A, K], the logit.
    best: i32[B], number among A K; own: i32[B, A].
    """

    stream: jax.Array
    draft: jax.Array
    notes: jax.Array
    answer: jax.Array
    grade: jax.Array
    right: jax.Array
    valid: jax.Array
    score: jax.Array
    best: jax.Array
    own: jax.Array


def best_eligible(score: jax.Array, eligible: jax.Array) -> jax.Array:
    """The number of the highest score among the eligible, i32[...]; among all where none is.

    score: f32[..., M]. eligible: bool[..., M].
    """
    some = jnp.any(eligible, axis=-1, keepdims=True)
    return jnp.argmax(jnp.where(eligible | ~some, score, -jnp.inf), axis=-1)


def draft_select(score: jax.Array, eligible: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(best of all i32[G], among I K; best of each agent i32[G, I]) by `best_eligible`.

    score: f32[G, I, K]. eligible: bool[G, I, K].
    """
    groups = score.shape[0]
    best = best_eligible(score.reshape(groups, -1), eligible.reshape(groups, -1))
    return best, best_eligible(score, eligible)


def draft_reward(
    right: jax.Array,
    overall: jax.Array,
    valid: jax.Array,
    *,
    task: float = 1.0,
    peers: float = 0.2,
    form: float = 0.1,
) -> jax.Array:
    """task (+-1 for right) + peers 2 (mean grade - 1/2) + form (+-1 for well formed), f32[...].

    overall: f32[..., P], the grades by peers in [0, 1]. right, valid: bool[...].
    """
    graded = 2.0 * jnp.mean(overall, axis=-1) - 1.0
    return task * (2.0 * right - 1.0) + peers * graded + form * (2.0 * valid - 1.0)


def draft_features(
    notes: jax.Array, answer: jax.Array, grade: jax.Array, numbers: int
) -> jax.Array:
    """What the reward model sees of drafts, f32[A, K, F].

    Mean and population deviation of the grades, whether it is well formed, its number among the
    agent's (in the place of a temperature), its length, the Jaccard distance of the agent's two
    drafts (0 unless there are two), and how often it notes and answers each number, divided by the
    norm. notes: i32[A, K, S]; answer: i32[A, K], -1 for none; grade: f32[A, K, P].
    """
    noted = jnp.sum(jax.nn.one_hot(notes, numbers), axis=2)
    bag = jnp.concatenate([noted, jax.nn.one_hot(answer, numbers)], axis=-1)
    agents, drafts, _ = bag.shape
    valid = (notes[..., 0] >= 0) & (answer >= 0)
    length = jnp.sum(bag, axis=-1) / (notes.shape[-1] + 1)
    distance = jnp.zeros((agents, drafts))
    if drafts == 2:
        one, other = bag[:, 0] > 0, bag[:, 1] > 0
        union = jnp.sum(one | other, axis=-1)
        apart = 1.0 - jnp.sum(one & other, axis=-1) / jnp.maximum(union, 1)
        distance = distance + jnp.where(union > 0, apart, 0.0)[:, None]
    number = jnp.broadcast_to(jnp.arange(drafts) * 1.0, valid.shape)
    mean, deviation = jnp.mean(grade, axis=-1), jnp.std(grade, axis=-1)
    told = jnp.stack([mean, deviation, valid * 1.0, number, length, distance], axis=-1)
    norm = jnp.sqrt(jnp.maximum(jnp.sum(bag**2, axis=-1, keepdims=True), 1.0))
    return jnp.concatenate([told, bag / norm], axis=-1)


def pairs_in_order(score: jax.Array, right: jax.Array) -> jax.Array:
    """(pairs of a right and a wrong draft in which the right one has the higher score, pairs), f32
    [2]: their ratio is the area under the ROC curve. Ties are halves. score, right: [M]."""
    pairs = right[:, None] & ~right[None]
    higher = (score[:, None] > score[None]) + 0.5 * (score[:, None] == score[None])
    return jnp.stack([jnp.sum(jnp.where(pairs, higher, 0.0)), jnp.sum(pairs) * 1.0])


def role_sums(x: jax.Array | float, counted: jax.Array, role: jax.Array) -> jax.Array:
    """The sum of x over the counted turns bool[N, T] of each role, f32[N]; role: i32[N] below N."""
    of_stream = jnp.sum(jnp.where(counted, x, 0.0), axis=1)
    return jax.ops.segment_sum(of_stream, role, num_segments=role.shape[0])


def by_agent(advantage: jax.Array, winner_turns: jax.Array, role: jax.Array) -> jax.Array:
    """Reweighting: the advantages of each agent's winners to mean 0 and variance 1, f32[N, T].

    The variance is the population's (ddof=0); where the deviation is below 1e-6 they stay as they
    are. winner_turns: f32[N, T]. role: i32[N], below N.
    """
    counted = winner_turns > 0
    count = jnp.maximum(role_sums(1.0, counted, role), 1.0)
    away = advantage - (role_sums(advantage, counted, role) / count)[role][:, None]
    deviation = jnp.sqrt(role_sums(away**2, counted, role) / count)[role][:, None]
    even = deviation < _EVEN
    scaled = jnp.where(even, advantage, away / jnp.where(even, 1.0, deviation))
    return jnp.where(counted, scaled, 0.0)


def twins(key: jax.Array, answer: jax.Array, right: jax.Array, solution: jax.Array, numbers: int):
    """The answers with the opposite label: a wrong one for right ones, the solution for others."""
    wrong = (solution + jax.random.randint(key, answer.shape, 1, numbers)) % numbers
    return jnp.where(right, wrong, solution)


def draft_loss(
    network: DraftScore, params: chex.ArrayTree, shown: jax.Array, right: jax.Array
) -> jax.Array:
    """Mean cross-entropy of the reward model on drafts, f32[]. shown: their features f32[..., F];
    right: bool[...]."""
    logit = network.apply(params, shown)
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logit, right * 1.0))


class Hooks(NamedTuple):
    """The hooks of `drafts`, with what they are made of.

    actions: see `turn_actions`. weights: of `draft_reward`, by name.
    """

    env: "Drafts"
    network: DraftScore
    adamw: optax.GradientTransformation
    actions: Callable[[Streams, Rows], jax.Array]
    peers: Peers
    weights: Mapping[str, float]
    steps: int
    flipped: bool

    def look(self, judge: DraftJudge, streams: Streams, rows: Rows) -> Batch:
        """The drafts of a batch, as the reward model sees them."""
        env = self.env
        # Episodes in the order of their numbers, so that draws do not depend on that of streams.
        stream = jnp.lexsort((streams.role, streams.episode)).reshape(-1, env.agents)
        action = jnp.maximum(self.actions(streams, rows)[..., 0], 0)
        action = jnp.where(streams.valid & streams.mask, action, 0)
        written = jax.vmap(env.written)(action[stream], streams.mask[stream])
        grade = jnp.maximum(written.grade, 0)
        if self.peers == "random":
            grade = jax.random.randint(judge.key, grade.shape, 0, env.highest_grade + 1)
        grade = grade / env.highest_grade * env.reviews
        right = written.answer == solutions(env, streams, stream)
        valid = (written.notes[..., 0] >= 0) & (written.answer >= 0)
        shown = jax.vmap(draft_features, (0, 0, 0, None))(
            written.notes, written.answer, grade, env.numbers
        )
        score = self.network.apply(judge.params, shown)
        best, own = draft_select(score, valid)
        return Batch(
            stream, written.draft, written.notes, written.answer, grade, right, valid, score, best,
            own,
        )  # fmt: skip

    def init(self, start: InitInputs) -> DraftJudge:
        """A reward model of drafts with random weights, and its optimizer's state."""
        key, following = jax.random.split(start.key)
        params = self.network.init(key, jnp.zeros((1, _TOLD + 2 * self.env.numbers)))
        return DraftJudge(params, self.adamw.init(params), following)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of each episode's teacher, the best draft that is right, once for each agent."""
        streams, rows = sources["rollout"]
        return None, teacher_rows(self.look(context.value, streams, rows), streams, rows)

    def annotate(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[dict[str, Any], dict[str, jax.Array]]:
        """The agents' best drafts and their rewards, and what the reward model learns from."""
        env, batch = self.env, self.look(context.value, streams, rows)
        key = jax.random.fold_in(context.value.key, 1)
        solution = solutions(env, streams, batch.stream)
        answer = twins(key, batch.answer, batch.right, solution, env.numbers)
        of = jax.vmap(draft_features, (0, 0, 0, None))
        shown = [of(batch.notes, x, batch.grade, env.numbers) for x in (batch.answer, answer)]
        examples = jnp.stack(shown), jnp.stack([batch.right, ~batch.right])
        gained = draft_reward(batch.right, batch.grade, batch.valid, **self.weights)
        notes = winner_notes(batch, gained, streams.mask.shape)
        told = {"draft_examples": Shared(examples), "draft_scores": Shared(batch.score)}
        return notes | told, draft_metrics(batch)

    def after(
        self, judge: DraftJudge, outcome: UpdateResult
    ) -> tuple[DraftJudge, dict[str, jax.Array]]:
        """The reward model after its steps."""
        shown, right = outcome.notes["draft_examples"].values
        count = 2 if self.flipped else 1
        loss_of = functools.partial(
            draft_loss, self.network, shown=shown[:count], right=right[:count]
        )
        params, opt_state, losses = descended(
            loss_of, self.adamw, judge.params, judge.opt_state, self.steps
        )
        judge = DraftJudge(params, opt_state, jax.random.split(judge.key)[0])
        return judge, {"drafts/reward_loss": jnp.stack([losses[0], jnp.ones(())])}


def drafts(
    setup: Setup,
    *,
    learning_rate: float = 3e-3,
    steps: int = 4,
    flipped: bool = True,
    peers: Peers = "own",
    task_weight: float = 1.0,
    peer_weight: float = 0.2,
    form_weight: float = 0.1,
) -> Component:
    """The reward model of DRAFT-RL, each agent's best draft, and the teacher of all agents.

    For `Drafts-v1`. A draft is eligible if it is well formed. The answer that is shown is that of
    the eligible draft with the highest score; each agent's own best draft is what it learns from:
    fills `winner_turns` f32[N, T] (1 in its turns), for filter `advantages.winner_turns` and
    reweighting `by_agent`, `winner_reward` f32[N, T] at its last turn (`draft_reward`), for
    `rewards.winner_reward`, and `draft_scores` f32[B, A, K], for the report. Turns of other drafts,
    and reviews, are not learnt from; the reward model learns from all drafts. Terminal GAE is
    `advantages.gae` with gamma=lam=1: with a reward in one turn alone an advantage there is that
    reward minus the value.

    Source of its own name: the turns of the teacher, the right and well-formed draft with the
    highest score, for every agent; nothing where no draft is. For `losses.behaviour_cloning`, 0.5.

    The reward model (`DraftScore`) takes `steps` of AdamW on cross-entropy after each update, on
    every draft of the batch and on its twin, which has another answer and so the other label; what
    is selected in an update was not trained on. Metrics drafts/selected: the shown answer is right;
    by_peers: that of the highest mean grade; mean, oracle (any of the team's), first, last (of
    each agent), worst_agent, best_agent, valid; reward_auc, peer_auc: area under the ROC curve;
    reward_loss.

    From the released small profile (code read): the layers, cross-entropy and AdamW, twins that
    keep the grades of their draft, mean and population deviation of grades, eligibility, selection,
    the reward, the teacher, the weights. Reconstructed or different here: the paper has a reward
    model of 100 million parameters; the release hashes 256 tokens of question, draft and feedback,
    and here a draft's own notes and answers are counted without collisions, the question is not
    seen; there are five criteria and here one grade; two temperatures and here one; the release
    retries malformed drafts, and here they are not eligible; its wrong twin's answer is the right
    one plus 1, and its twins keep the distance of the two drafts; it trains the model once, for
    more steps; its teacher is imitated behind each agent's own prompt, here behind what the teacher
    saw; where no draft is right, it imitates the gold answer, and here nothing: no answer that
    nobody gave is a target of the policy. The twin of a wrong draft does have the gold answer, for
    the reward model alone.

    Metrics (Opponents, buffers, tasks):
      drafts/reward_auc: Reward model's AUC [share]; right drafts above wrong ones.
      drafts/peer_auc: Peers' AUC [share]; right drafts above wrong ones, by mean grade.
      drafts/reward_loss: Reward model's loss [nats]; cross-entropy, before its steps.
      drafts/{which}: Right drafts: {which} [share]; valid: well-formed ones.

    Args:
      learning_rate: above 0. steps: at least 1.
      flipped: with twins.
      peers: "own", the agents' grades; "random", any, in features, rewards and selection.
      task_weight, peer_weight, form_weight: of `draft_reward`, at least 0.

    Raises:
      ValueError: another environment, a rollout without whole episodes, or an option outside its
        range.

    References:
      Li et al. (2025), DRAFT-RL, https://arxiv.org/abs/2511.20468 (abstract); code ArthasTY 06b2bd3
      (read), a "method smoke" that checks the path and not the results.
    """
    path = "config.components.drafts"
    check_range(f"{path}.learning_rate", learning_rate, 0.0, above=True)
    check_range(f"{path}.steps", steps, 1)
    check_choice(f"{path}.peers", peers, get_args(Peers))
    weights = {"task": task_weight, "peers": peer_weight, "form": form_weight}
    for name, value in zip(("task", "peer", "form"), weights.values(), strict=True):
        check_range(f"{path}.{name}_weight", value, 0.0)
    env, _ = required(
        setup, "drafts", None, "written", example="Drafts-v1", one_environment=True,
        in_graph=True, whole_episodes=True,
    )  # fmt: skip
    network, adamw = DraftScore(), optax.adamw(learning_rate)
    hooks = Hooks(
        env, network, adamw, turn_actions(setup, "drafts"), peers, weights, steps, flipped
    )
    return Component(
        init=hooks.init,
        source=Source(hooks.make, reads=("rollout",)),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("winner_turns", "winner_reward", "draft_examples", "draft_scores"),
    )


def solutions(env: "Drafts", streams: Streams, stream: jax.Array) -> jax.Array:
    """The right answer of each episode, i32[B, 1, 1]. stream: i32[B, A], its streams."""
    first = jax.tree.map(lambda x: x[stream[:, 0]], streams.first_state)
    return jax.vmap(env.solution)(first)[:, None, None]


def teacher_rows(batch: Batch, streams: Streams, rows: Rows) -> Rows:
    """The turns of the teacher of each episode, once for each agent: a row each.

    The teacher is the right and well-formed draft with the highest score; where there is none,
    nothing in the rows is learnt from.
    """
    episodes, agents, turns = batch.draft.shape
    good = (batch.right & batch.valid).reshape(episodes, -1)
    best = jnp.argmax(jnp.where(good, batch.score.reshape(good.shape), -jnp.inf), axis=1)
    who, which = best // batch.answer.shape[2], best % batch.answer.shape[2]
    number = jnp.arange(episodes)
    there = (batch.draft[number, who] == which[:, None]) & jnp.any(good, axis=1)[:, None]
    # Its turns come first; behind them are turns that are left out.
    most = min(batch.notes.shape[-1] + 1, turns)
    turn = jnp.argsort(~there, axis=1, stable=True)[:, :most]
    learnt = jnp.take_along_axis(there, turn, axis=1)
    stream = jnp.broadcast_to(batch.stream[number, who][:, None], turn.shape)
    one = rows_of_turns(rows, streams.mask.shape, stream.reshape(-1), turn.reshape(-1))
    one = one.replace(loss_mask=one.loss_mask & learnt.reshape(-1)[:, None])
    every = jax.tree.map(lambda x: jnp.concatenate([x] * agents), one)
    count = one.stream.shape[0]
    every = every.replace(stream=jnp.arange(agents * count, dtype=jnp.int32))
    if rows.role is None:
        return every
    return every.replace(role=jnp.repeat(jnp.arange(agents, dtype=rows.role.dtype), count))


def winner_notes(batch: Batch, gained: jax.Array, shape: tuple[int, ...]) -> dict[str, PerTurn]:
    """The turns of each agent's best draft, and its reward at the last of them, [N, T] each.

    gained: f32[B, A, K], the reward of each draft. shape: (N, T).
    """
    turns = batch.draft == batch.own[..., None]
    gained = jnp.take_along_axis(gained, batch.own[..., None], axis=2)
    last = turns & (jnp.cumsum(turns[..., ::-1], axis=2)[..., ::-1] == 1)
    at, empty = batch.stream.reshape(-1), jnp.zeros(shape)
    found = {"winner_turns": turns * 1.0, "winner_reward": jnp.where(last, gained, 0.0)}
    return {name: PerTurn(empty.at[at].set(x.reshape(shape))) for name, x in found.items()}


def draft_metrics(batch: Batch) -> dict[str, jax.Array]:
    """Shares of right answers by way of choosing, and what scores and grades are worth; totals and
    weights f32[2]."""
    right, valid = batch.right, batch.valid
    grade = jnp.mean(batch.grade, axis=-1)
    choices = (batch.best, draft_select(grade, valid)[0])
    every = right.reshape(right.shape[0], -1)
    selected, by_peers = (jnp.take_along_axis(every, x[:, None], axis=1) for x in choices)
    by_agent = jnp.sum(right, axis=(0, 2), dtype=jnp.float32)
    size = jnp.asarray(right.shape[0] * right.shape[2], jnp.float32)
    shares = {
        "selected": selected,
        "by_peers": by_peers,
        "mean": right,
        "oracle": jnp.any(right & valid, axis=(1, 2)),
        "first": right[..., 0],
        "last": right[..., -1],
        "valid": valid,
    }
    found = {
        name: jnp.stack([jnp.sum(x), x.size]).astype(jnp.float32) for name, x in shares.items()
    }
    found |= {
        "worst_agent": jnp.stack([jnp.min(by_agent), size]),
        "best_agent": jnp.stack([jnp.max(by_agent), size]),
        "reward_auc": pairs_in_order(batch.score.reshape(-1), right.reshape(-1)),
        "peer_auc": pairs_in_order(grade.reshape(-1), right.reshape(-1)),
    }
    return {f"drafts/{name}": value for name, value in found.items()}
