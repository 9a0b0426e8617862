"""Suite `credit`: time of estimators, reweightings, filters, rewards and losses, and of an update.

A batch of 4,096 streams of up to 64 turns in 512 groups of 8, 262,144 turns with padding. In each
group turns were acted from 32 states, so that anchor groups have about ten members. The update is
`agentrl.learner.update` of a two-layer policy on Coin-v1's 42 numbers, in 8 minibatches. What only
language policies use is compared with one step of the transformer of `configs._shared.language`
as well, per turn, as if each turn were one token.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import advantages, losses, policies, rewards
from agentrl.advantages.grouping import segment_ids
from agentrl.learner.credit import Credit, Recipe, arrays_of, reads_positions
from agentrl.learner.function import Function
from agentrl.learner.learner import Learner
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import Optimizer, UpdateOptions
from agentrl.learner.update import Batch, update
from agentrl.policies.decoder import DecoderConfig
from agentrl.streams import PerTurn, Rows, Streams, fields_of
from launchers.benchmarks import llm
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, compiled, interleave

TRANSFORMER = DecoderConfig(vocab_size=256, width=64, layers=2, heads=2, kv_heads=2, hidden=128)
WORDS = "update in words"
GROUP_SIZE, ANCHORS, FEATURES, ACTIONS, MINIBATCHES = 8, 32, 42, 5, 8
OPTIONS: dict[str, dict[str, Any]] = {
    "rae_by_turn": {},
    "grpo": {},
    "rloo": {},
    "gigpo": {"gamma": 0.95},
    "hgpo": {},
    "gae": {"gamma": 0.99, "lam": 0.95},
    "spoken_gae": {},
    "vtrace": {"gamma": 0.99},
    "length_adaptive_gae": {},
    "hae_by_turn": {},
    "switched_hae_by_turn": {},
    "hae_by_span": {},
    "reinforce_pp": {},
    "reinforce_pp_baseline": {},
    "dr_mas": {},
    "m_grpo": {},
    "marft_by_position": {},
    "marft_by_turn": {},
    "mars": {},
    "mars_by_position": {},
    "matpo": {},
    "mapo": {},
    "dual_level": {},
    "hrpo": {},
    "user_rl": {},
    "pairwise_sign": {},
    "igpo": {},
    "twin_critics": {},
    "token_gae": {"gamma": 1.0, "lam": 0.95},
    "length_adaptive_token_gae": {},
    "bilevel_gae": {"gamma": 1.0, "turn_gamma": 0.95, "lam": 0.95},
    # Reweightings and filters.
    "as_often": {},
    "duration_aware": {},
    "live_group_scale": {},
    "per_rollout_mean": {},
    "shared_prefix": {},
    "standardized_by_decision": {},
    "stare": {},
    "uncertain_turns": {},
    "dynamic_sampling": {},
    "accepted": {},
    "arrived_turns": {"deadline": 32.0},
    "helps_all": {},
    "high_entropy_turns": {},
    "nonzero_turns": {},
    "not_truncated": {},
    "winner_turns": {},
    "only_roles": {"roles": (0,)},
    "over_turn_masking": {},
    "relevant": {},
    "resample_on_correct": {"keep": 4},
    "sampled_turns": {"episodes": 4},
    "top_variance": {"fraction": 0.25},
}
# Losses of all positions, with their gradient; pairs are of neighbouring rows.
LOSSES: dict[str, dict[str, Any]] = {
    "aepo": {},
    "behaviour_cloning": {},
    "behaviour_dpo": {},
    "boltzmann_imitation": {},
    "cispo": {},
    "clip_cov": {},
    "clipped_surrogate": {},
    "clipped_token_value_loss": {"clip": 0.2},
    "clipped_value_loss": {"clip": 0.2},
    "corrected_behaviour_cloning": {},
    "decision_value_loss": {},
    "decoupled_value_loss": {},
    "dpo": {},
    "dual_value_loss": {},
    "epo": {},
    "exact_kl": {},
    "expectile_value_loss": {},
    "gspo": {"ratio_of": "turn"},
    "kl": {"estimator": "k3"},
    "kl_cov": {},
    "kto": {},
    "listening_loss": {},
    "listening_loss_in_words": {},
    "mixed_imitation": {},
    "mixed_surrogate": {},
    "negative_entropy": {},
    "observation_loss": {},
    "refuel": {},
    "reinforce": {},
    "rpo": {},
    "self_imitation": {},
    "shaped_imitation": {},
    "simpo": {},
    "skill_distillation": {},
    "soft_policy_loss": {},
    "thought_cloning": {},
    "thought_scaled_surrogate": {},
    "token_value_loss": {},
    "value_loss": {},
    "weighted_dpo": {},
    "weighted_imitation": {},
}
REWARDS: dict[str, dict[str, Any]] = {
    "answer_gain": {},
    "at_end": {},
    "call_bonus": {},
    "consolation": {},
    "delegated_reward": {},
    "difference": {},
    "executor_gain": {},
    "format_penalty": {"coefficient": 0.1},
    "gated_accumulation": {"thresholds": (0.0, 0.5)},
    "gated_turn_rewards": {},
    "imitation_reward": {},
    "invalid_action_penalty": {"coefficient": 0.1},
    "keep_penalty": {"coefficient": 0.1},
    "length_penalty": {"limit": 64, "buffer": 32},
    "local_first": {"web": (1,)},
    "mars_reward": {},
    "mean_of_runs": {},
    "novelty_bonus": {},
    "order_reward": {},
    "persuasion_reward": {},
    "potential_shaping": {"gamma": 1.0},
    "progress_reward": {},
    "reference_penalty": {},
    "repetition_penalty": {},
    "scaled_reward": {},
    "short_reply_bonus": {},
    "steerable_reward": {},
    "step_penalty": {"amount": 0.01},
    "tool_use_reward": {},
    "turn_bonus": {},
    "verified_reward": {},
    "winner_reward": {},
}
# What a loss is differentiated by.
TRAINED = ("logp", "entropy", "value", "logits", "answer_logits", "reference_kl")


def batch(num_streams: int, turns: int) -> Streams:
    """Streams as in a task with sparse rewards: a reward at the end of some, lengths from T/4
    to T."""
    rng = np.random.default_rng(0)
    shape = (num_streams, turns)
    length = rng.integers(max(1, turns // 4), turns + 1, num_streams)
    mask = np.arange(turns) < length[:, None]
    last = np.arange(turns) == length[:, None] - 1
    solved = rng.random(num_streams) < 0.5
    marks = rng.integers(0, 2**32, (num_streams // GROUP_SIZE, ANCHORS, 2), np.uint32)
    group = np.repeat(np.arange(num_streams // GROUP_SIZE, dtype=np.int32), GROUP_SIZE)
    # Four episodes per group, each of a planner and a worker that it called.
    role = (np.arange(num_streams, dtype=np.int32) % GROUP_SIZE) // (GROUP_SIZE // 2)
    anchor = marks[group[:, None], rng.integers(0, ANCHORS, shape)]
    streams = Streams(
        reward=(last & solved[:, None]).astype(np.float32),
        mask=mask,
        group=group,
        episode=group * (GROUP_SIZE // 2) + np.arange(num_streams, dtype=np.int32) % 4,
        role=role,
        task=np.zeros(num_streams, np.int32),
        parent=np.where(role > 0, np.arange(num_streams) - GROUP_SIZE // 2, -1).astype(np.int32),
        anchor=anchor,
        value=rng.normal(size=shape).astype(np.float32),
        bootstrap=np.zeros(shape, np.float32),
        terminated=last & solved[:, None],
        truncated=last & ~solved[:, None],
        success=last & solved[:, None],
        valid=np.ones(shape, bool),
    )
    return jax.tree.map(jnp.asarray, streams)


def rows_of(streams: Streams) -> Rows:
    """One row per turn, in the order of a rollout."""
    rng = np.random.default_rng(1)
    num_streams, turns = streams.mask.shape
    count = num_streams * turns
    return Rows(
        tokens=jnp.asarray(rng.integers(0, ACTIONS, (count, 1)), jnp.int32),
        loss_mask=streams.mask.T.reshape(count, 1),
        stream=jnp.tile(jnp.arange(num_streams, dtype=jnp.int32), turns),
        turn=jnp.repeat(jnp.arange(turns, dtype=jnp.int32), num_streams)[:, None],
        behaviour_logp=jnp.full((count, 1), -np.log(ACTIONS), jnp.float32),
        observation=jnp.asarray(rng.random((count, 1, FEATURES)) < 0.1, jnp.float32),
    )


def annotations(streams: Streams, rows: Rows) -> dict[str, jax.Array]:
    """Numbers by name that components fill in a run, [N, T] and [R, L]."""
    rng = np.random.default_rng(2)
    turns, positions = streams.mask.shape, rows.loss_mask.shape

    def drawn(shape):
        return jnp.asarray(rng.random(shape), jnp.float32)

    names = ("advantage", "information_gain", "lots", "turn_entropy", "winner_turns", "cost")
    names += ("imitation", "judgement", "novelty", "persuasion", "potential", "progress")
    names += ("reward_scale", "turn_penalty", "turn_ratio", "turn_reward", "winner_reward")
    flags = ("keeps_order", "kept", "repeated", "verified", "well_formed")
    return {
        **{name: drawn(turns) for name in names},
        **{name: drawn(turns) < 0.5 for name in flags},
        "call_weight": jnp.float32(0.5),
        "copies": jnp.ones(turns),
        "final_potential": drawn(turns),
        "lookups": drawn((*turns, 4)),
        "reward_levels": drawn((*turns, 2)),
        "tools_listed": jnp.ones(turns, jnp.int32),
        "tools_used": drawn((*turns, 2)) < 0.5,
        "duration": 1.0 + drawn(turns),
        "spoken": drawn(turns) < 0.2,
        "runs": drawn((turns[0], 3, 2, 2)),
        "call_turn": jnp.where(streams.parent >= 0, 2, -1),
        "baseline": jnp.zeros((1, int(streams.role.max()) + 1)),
        "twin_q": drawn((*turns, 2)),
        "twin_v": drawn((*turns, 2)),
        "token_value": drawn(positions),
        "decision": jnp.full(positions, 2, jnp.int32),
        "surprising_gain": jnp.full(positions, 1.1),
        "surprising_loss": jnp.full(positions, 0.9),
    }


def given(
    function: Function, streams: Streams, rows: Rows, notes: dict[str, jax.Array]
) -> dict[str, Any]:
    """Arrays of a function of credit by name, [N, T] and [R, L]."""
    arrays = arrays_of(streams, rows) | notes
    if reads_positions(function):
        arrays["advantage"] = arrays["advantage"].T.reshape(rows.loss_mask.shape)
    return arrays


def positions(rows: Rows) -> dict[str, jax.Array]:
    """Arrays of losses by name, [R, L], and scalars."""
    rng = np.random.default_rng(3)
    shape = rows.loss_mask.shape
    old = -rng.random(shape)
    names = ("advantage", "entropy", "value", "old_value", "target", "critic_target")
    names += ("token_value", "turn_return", "pair_weight", "reference_kl", "q")
    names += ("imitation_weight",)
    drawn = {name: jnp.asarray(rng.random(shape), jnp.float32) for name in names}
    others = ("logp", "old_logp", "reference_logp", "teacher_logp")
    near = {n: jnp.asarray(old + 0.1 * rng.normal(size=shape), jnp.float32) for n in others}
    return {
        **fields_of(rows),
        **drawn,
        **near,
        "mask": rows.loss_mask,
        "recalibrated_advantage": drawn["advantage"],
        **{
            name: jnp.asarray(rng.normal(size=(*shape, ACTIONS)), jnp.float32)
            for name in ("logits", "action_values", "answer_logits")
        },
        "answer": jnp.asarray(rng.integers(0, ACTIONS, shape), jnp.int32),
        "desirable": jnp.asarray(rng.random(shape) < 0.5),
        "span": jnp.ones(shape, jnp.int32),
        "progress": jnp.float32(0.5),
        "replay_weight": jnp.float32(0.5),
        "entropy_history": jnp.array([10.0, 20.0]),  # total, count
    }


def _loss(name: str, rows: Rows, work: int) -> Ready:
    """A loss and its gradient over all positions at once."""
    term, arrays = Term(Function(getattr(losses, name), LOSSES[name])), positions(rows)
    loss = term.loss
    trained = {key: arrays[key] for key in TRAINED if key in loss.inputs}

    def timed(trained, arrays):
        return jax.value_and_grad(lambda x: jnp.sum(term.evaluate({**arrays, **x})[0]))(trained)

    needed = {*loss.inputs, *loss.optional}
    return _ready(timed, work, trained, {k: x for k, x in arrays.items() if k in needed})


def sorted_occurrence(keys: jax.Array, include: jax.Array) -> jax.Array:
    """`first_occurrence` by sorting: keys [M, K], include bool[M] -> i32[M].

    A stable sort by inclusion and key brings equal keys together in the order of their indices; the
    first of each run is its id, and a scatter returns the ids to the original order.
    """
    count = keys.shape[0]
    index = jnp.arange(count, dtype=jnp.int32)
    left_out = (~include).astype(jnp.uint32)
    columns = tuple(keys.astype(jnp.uint32).T)
    left_out, *columns, order = jax.lax.sort(
        (left_out, *columns, index), num_keys=1 + len(columns), is_stable=True
    )
    begins = functools.reduce(
        jnp.logical_or, (column[1:] != column[:-1] for column in (left_out, *columns))
    )
    begins = jnp.concatenate([jnp.ones(1, bool), begins])
    first = order[jax.lax.cummax(jnp.where(begins, index, 0))]
    owner = jnp.zeros(count, jnp.int32).at[order].set(first)
    return jnp.where(include, owner, count)


def _ready(function: Callable, work: int, *arguments: Any) -> Ready:
    executable, seconds = compiled(jax.jit(function), *arguments)
    return Ready(lambda: jax.block_until_ready(executable(*arguments)), float(work), seconds)


def _update(streams: Streams, rows: Rows, epochs: int, work: int) -> Ready:
    """One whole update; parameters and optimiser state are carried from call to call."""
    policy = policies.mlp((FEATURES,), None, ACTIONS, hidden=(64, 64), critic="none")
    learner = Learner(
        Recipe(Function(advantages.gigpo, OPTIONS["gigpo"])),
        {"policy": Term(Function(losses.clipped_surrogate, {}))},
        UpdateOptions(epochs=epochs, minibatches=MINIBATCHES),
        Optimizer(10_000, {}, as_vector=True),
    )
    params = policy.init(jax.random.key(0))
    opt_state, key = learner.optimizer.init(params), jax.random.key(1)
    advantage = jax.jit(lambda s: learner.recipe.estimator(arrays_of(s)))(streams)
    earned = Credit(PerTurn(advantage), jnp.any(streams.mask, axis=1), None, {})
    arguments = (streams, rows, earned)

    def step(params, opt_state, key, streams, rows, earned):
        key, update_key = jax.random.split(key)
        batches = {"rollout": Batch(streams, rows, earned, {})}
        params, opt_state, metrics, _ = update(
            policy,
            learner,
            params,
            opt_state,
            batches,
            update_key,
            progress=0.0,
        )
        return params, opt_state, key, metrics

    donated = jax.jit(step, donate_argnums=(0, 1, 2))
    executable, seconds = compiled(donated, params, opt_state, key, *arguments)

    def call():
        nonlocal params, opt_state, key
        params, opt_state, key, _ = jax.block_until_ready(
            executable(params, opt_state, key, *arguments)
        )

    return Ready(call, float(work), seconds)


def run(
    plan: Plan,
    *,
    num_streams: int,
    turns: int,
    estimators: Sequence[str] = tuple(OPTIONS),
    terms: Sequence[str] = tuple(LOSSES),
    reward_terms: Sequence[str] = tuple(REWARDS),
) -> dict[str, Any]:
    """Measures. {"rows", "num_streams", "turns"}; milliseconds are of one call."""
    streams = batch(num_streams, turns)
    rows, work = rows_of(streams), num_streams * turns
    contenders, notes = [], annotations(streams, rows)
    functions = {n: Function(getattr(advantages, n), OPTIONS[n]) for n in estimators}
    functions |= {f"rewards.{n}": Function(getattr(rewards, n), REWARDS[n]) for n in reward_terms}
    for name, function in functions.items():

        def timed(streams, rows, notes, function=function):
            return function(given(function, streams, rows, notes))

        contenders.append((name, _ready(timed, work, streams, rows, notes)))
    for name in terms:
        contenders.append((f"losses.{name}", _loss(name, rows, work)))
    keys = jnp.concatenate(
        [
            jnp.broadcast_to(streams.group[:, None, None], (*streams.mask.shape, 1)),
            streams.anchor.astype(jnp.int32),
        ],
        axis=-1,
    ).reshape(-1, 3)
    include = streams.mask.reshape(-1)
    contenders.append(
        ("anchors, hash table", _ready(segment_ids, work, keys, include)),
    )
    contenders.append(("anchors, sort", _ready(sorted_occurrence, work, keys, include)))
    for epochs in (1, 4):
        contenders.append((f"update, {epochs} epoch(s)", _update(streams, rows, epochs, work)))
    text = llm.Sizes(rows=64, prompt=0, written=0, learnt=128)
    contenders.append((WORDS, llm.supervised(TRANSFORMER, text, 0)))
    timings = {timing.name: timing for timing in interleave(contenders, plan)}
    out = []
    for name, timing in timings.items():
        row = {"program": name, "milliseconds": 1e3 * timing.median, **timing.record()}
        row["range"] = spread(1e3 * min(timing.seconds), 1e3 * max(timing.seconds), ",.1f")
        if name in OPTIONS or name.startswith(("losses.", "rewards.")):
            for epochs in (1, 4):
                update = timings[f"update, {epochs} epoch(s)"].median
                row[f"percent_of_{epochs}_epochs"] = 100 * timing.median / update
            row["percent_of_words"] = 100 * timings[WORDS].rate / timing.rate
        out.append(row)
    return {"rows": out, "num_streams": num_streams, "turns": turns}


COLUMNS = (
    ("program", ""),
    ("milliseconds", ",.2f"),
    ("range", ""),
    ("percent_of_1_epochs", ".2f"),
    ("percent_of_4_epochs", ".2f"),
    ("percent_of_words", ".2f"),
    ("rate", ",.0f"),
    ("compile_seconds", ".1f"),
)


def report(result: dict[str, Any]) -> str:
    """The measurements as a Markdown table, one per row, under a title with their sizes."""
    title = (
        f"Credit of {result['num_streams']:,} streams of {result['turns']} turns, and the update "
        f"on them (rate: turns/s)"
    )
    return table(title, COLUMNS, result["rows"])
