"""From a config to compiled functions: everything is checked here, before anything compiles."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from flax import struct

import envs
from agentrl import advantages, losses, policies
from agentrl.evaluation import play
from agentrl.policies import LANGUAGE_POLICIES, POLICIES, LanguagePolicy, Policy
from agentrl.rollout import ROLLOUTS, Rollout
from agentrl.selfplay.neural import make_exploitability
from agentrl.training import config as configs
from agentrl.training.credit import (
    ESTIMATORS,
    Credit,
    carries_baseline,
    group_metrics,
    make_credit,
)
from agentrl.training.update import make_update, optimizer
from agentrl.training.warm_start import make_warm_start, warm_start
from envs.game import Game


@struct.dataclass
class Guard:
    """The non-finite guard's memory.

    in_a_row, total: i32[], rejected updates. rollout, key: inputs of the last rejected one after
    the warm start, from which its batch can be collected again: the parameters have not changed
    since.
    """

    in_a_row: jax.Array
    total: jax.Array
    rollout: chex.ArrayTree
    key: jax.Array


@struct.dataclass
class TrainState:
    """Everything that a run needs to go on: saved, restored and sharded as one.

    key: the run's key, split at each update. update: i32[], updates done. env_steps: u32[2], turns
    acted so far, as high and low words. rollout: environments in mid-episode. reference: the
    parameters that the policy is pulled towards, None without.
    baseline: f32[tasks, roles], what the estimator of the advantages carries; None if nothing.
    """

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    rollout: chex.ArrayTree
    key: jax.Array
    update: jax.Array
    env_steps: jax.Array
    guard: Guard
    reference: chex.ArrayTree | None = None
    baseline: jax.Array | None = None


class Experiment(NamedTuple):
    """A config, bound to functions.

    init: (seed i32[]) -> TrainState.
    train: (TrainState) -> (TrainState, metrics): `log_every` updates; metrics are totals and
      weights f32[2] by name.
    warm: as train, for supervised updates on the expert's episodes, of which there are
      `warm_updates` before the others; begin: (TrainState) -> TrainState between the two.
    batch: (params, rollout state, key, baseline) -> (Streams, Rows, Credit) of one update.
    evaluate: (params, task keys [E], key, greedy bool) -> Outcomes.
    across_seeds: `jax.vmap`, or `sequentially` where the programs hold loops of varying length, of
      which all seeds together would take the longest and copy their caches at each step.
    """

    env: Any
    env_params: Any
    policy: Policy | LanguagePolicy
    rollout: Rollout
    init: Callable[[jax.Array], TrainState]
    train: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]]
    batch: Callable[..., tuple[Any, Any, Credit]]
    warm: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]] | None
    begin: Callable[[TrainState], TrainState]
    warm_updates: int
    evaluate: Callable[..., play.Outcomes]
    across_seeds: Callable[[Callable], Callable]


def sequentially(function: Callable) -> Callable:
    """As `jax.vmap`, one element at a time."""
    return lambda *args: jax.lax.map(lambda xs: function(*xs), args)


def base_config() -> ml_collections.ConfigDict:
    """The keys of every config, with sections that a config file replaces by its own.

    seed, num_seeds: the run trains seeds seed, seed + 1, ... side by side in one program.
    init_from: directory of a run whose parameters training starts from, each seed from its own.
    updates: in all. log_every: updates between two lines of metrics, compiled as one loop.
    data_devices: devices that the batch is split over; 0 for all.
    filter: which groups are learnt from: "none" for all, or one of `credit.FILTERS`.
    mask_truncated: do not learn from episodes that a limit cut.
    reference_every: updates after which the parameters become the reference that
      learner.kl_coefficient pulls towards; 0: those at the end of the warm start, for good.
    warm_start: supervised updates on the expert's episodes before the others, see
      `agentrl.training.warm_start`; how many of the updates they are is the ratio of SFT to RL.
    max_rejected_updates: non-finite updates in a row that stop the run.
    evaluation.every, checkpoint.every: in updates; 0 for only at the end.
    """
    config = ml_collections.ConfigDict()
    config.seed = 0
    config.num_seeds = 1
    config.init_from = ""
    config.updates = 100
    config.log_every = 10
    config.data_devices = 0
    config.filter = ml_collections.ConfigDict({"name": "none"})
    config.mask_truncated = False
    config.reference_every = 0
    config.warm_start = configs.section(warm_start, named=False)
    config.max_rejected_updates = 5
    config.env = ml_collections.ConfigDict({"name": ""})
    config.policy = configs.section(policies.mlp, critic="none")
    config.rollout = configs.section(ROLLOUTS["episodes"])
    config.reward = ml_collections.ConfigDict()
    config.advantage = configs.section(advantages.gigpo)
    config.loss = configs.section(losses.clipped_surrogate)
    config.learner = configs.section(make_update, named=False)
    config.optimizer = configs.section(optimizer, named=False)
    config.evaluation = ml_collections.ConfigDict({"every": 0, "episodes": 256, "greedy": False})
    config.checkpoint = ml_collections.ConfigDict({"every": 0, "keep": 3})
    return config


def _check(config: ml_collections.ConfigDict) -> None:
    expected = base_config()
    configs.check_keys("config", config, expected)
    for name in ("evaluation", "checkpoint"):
        configs.check_keys(f"config.{name}", config[name], expected[name])
    for name in ("num_seeds", "updates", "log_every", "max_rejected_updates"):
        if config[name] < 1:
            raise ValueError(f"config.{name}={config[name]}: expected at least 1")
    for name, every in (
        ("updates", config.updates),
        ("checkpoint.every", config.checkpoint.every),
        ("evaluation.every", config.evaluation.every),
    ):
        if every % config.log_every:
            raise ValueError(
                f"config.{name}={every} is no multiple of config.log_every={config.log_every}: "
                f"updates are compiled in loops of log_every; change one of the two"
            )
    if config.warm_start.get("updates", 0) > config.updates:
        raise ValueError(
            f"config.warm_start.updates={config.warm_start.updates}: expected at most "
            f"config.updates={config.updates}"
        )
    for name in ("env", "policy", "rollout", "advantage", "loss", "filter"):
        if "name" not in config[name]:
            raise ValueError(f"config.{name}.name is missing")


def build(config: ml_collections.ConfigDict) -> Experiment:
    """Binds a config. ValueError, with the remedy, for anything that cannot be run as it says."""
    _check(config)
    options = {key: value for key, value in config.env.items() if key != "name"}
    env, env_params = envs.make(config.env.name, **options)
    policy = _make_policy(config, env)
    speaks = isinstance(policy, LanguagePolicy)
    if speaks != (config.rollout.name == "conversation"):
        raise ValueError(
            f"config.rollout.name={config.rollout.name!r} with config.policy.name="
            f"{config.policy.name!r}: rollout 'conversation' is for language policies "
            f"({', '.join(LANGUAGE_POLICIES)}), the others for {', '.join(POLICIES)}"
        )
    if env.continuous:
        raise ValueError(
            f"{config.env.name} with these options has continuous actions, and policies choose "
            "among numbered ones: for (Planar)Volleyball use config.env.actions='skills'"
        )
    if isinstance(env, Game) and config.rollout.name not in ("matches", "conversation"):
        raise ValueError(
            f"config.rollout.name={config.rollout.name!r} with {config.env.name}, which has "
            f"{env.num_agents} agents: use 'matches', or 'conversation' with a language policy"
        )
    make_rollout = configs.lookup("rollout", config.rollout.name, ROLLOUTS)
    rollout = make_rollout(
        policy, env, env_params, **configs.bind("rollout", make_rollout, config.rollout)
    )
    credit = make_credit(
        config.reward,
        config.advantage,
        rollout.provides,
        filter_section=config.filter,
        mask_truncated=config.mask_truncated,
        rollout_name=config.rollout.name,
    )
    update_options = configs.bind("learner", make_update, config.learner)
    if rollout.num_rows % update_options["minibatches"]:
        raise ValueError(
            f"config.learner.minibatches={update_options['minibatches']} does not divide the "
            f"{rollout.num_rows} rows of a batch; choose a divisor"
        )
    minibatch = rollout.num_rows // update_options["minibatches"]
    microbatch = update_options["microbatch"]
    if microbatch is not None and (microbatch < 1 or minibatch % microbatch):
        raise ValueError(
            f"config.learner.microbatch={microbatch} does not divide the {minibatch} rows of a "
            "minibatch; choose a divisor, or None"
        )
    warm_options = configs.bind("warm_start", warm_start, config.warm_start)
    steps = update_options["epochs"] * update_options["minibatches"]
    shape = configs.bind("optimizer", optimizer, config.optimizer)
    transform = optimizer((config.updates - warm_options["updates"]) * steps, **shape)
    update = make_update(policy, transform, config.loss, **update_options)
    refers = update_options["kl_coefficient"] > 0
    if config.reference_every < 0 or (config.reference_every and not refers):
        raise ValueError(
            f"config.reference_every={config.reference_every} without a pull towards the "
            "reference: set config.learner.kl_coefficient above 0, or reference_every=0"
        )
    carries = carries_baseline(ESTIMATORS[config.advantage.name])
    return Experiment(
        env=env,
        env_params=env_params,
        policy=policy,
        rollout=rollout,
        init=_make_init(policy, rollout, transform, refers, carries),
        train=_make_train(
            rollout,
            credit,
            update,
            config.log_every,
            None if speaks else make_exploitability(policy, env, env_params),
            config.reference_every,
        ),
        batch=_make_batch(rollout, credit),
        warm=make_warm_start(
            policy,
            rollout,
            shape,
            config.log_every,
            microbatch=microbatch,
            lengths=update_options["lengths"],
            **warm_options,
        ),
        begin=_make_begin(transform, refers),
        warm_updates=warm_options["updates"],
        evaluate=_make_evaluate(policy, rollout, env, env_params, config),
        across_seeds=sequentially if speaks else jax.vmap,
    )


def _make_policy(config: ml_collections.ConfigDict, env: Any) -> Policy | LanguagePolicy:
    known = {**POLICIES, **LANGUAGE_POLICIES}
    make_policy = configs.lookup("policy", config.policy.name, known)
    options = configs.bind("policy", make_policy, config.policy)
    if config.policy.name in LANGUAGE_POLICIES:
        return make_policy(env.view, **options)
    return make_policy(env.observation_shape, env.num_codes, env.num_actions, **options)


def _make_init(policy, rollout, transform, refers, carries) -> Callable[[jax.Array], TrainState]:
    def init(seed: jax.Array) -> TrainState:
        param_key, rollout_key, guard_key, key = jax.random.split(jax.random.key(seed), 4)
        params = policy.init(param_key)
        rollout_state = rollout.init(rollout_key)
        zero = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            opt_state=transform.init(params),
            rollout=rollout_state,
            key=key,
            update=zero,
            env_steps=jnp.zeros(2, jnp.uint32),
            guard=Guard(zero, zero, rollout_state, guard_key),
            reference=jax.tree.map(jnp.copy, params) if refers else None,
            # All streams of a run are of one task.
            baseline=jnp.zeros((1, rollout.roles)) if carries else None,
        )

    return init


def _make_begin(transform, refers) -> Callable[[TrainState], TrainState]:
    def begin(state: TrainState) -> TrainState:
        """After the warm start: a fresh optimizer, and the reference."""
        return state.replace(
            opt_state=transform.init(state.params),
            guard=state.guard.replace(in_a_row=jnp.zeros_like(state.guard.in_a_row)),
            reference=jax.tree.map(jnp.copy, state.params) if refers else None,
        )

    return begin


def _make_evaluate(policy, rollout, env, env_params, config) -> Callable[..., play.Outcomes]:
    def evaluate(params, keys, key, greedy: bool) -> play.Outcomes:
        if rollout.play is not None:
            streams, _ = rollout.play(params, keys, key, greedy)
            return play.of_streams(streams, rollout.roles)
        mask = config.rollout.mask_illegal
        actor = play.policy_actor(policy, params, greedy=greedy, mask=mask)
        return play.play(actor, env, env_params, keys, key, play.opponent_of(env))

    return evaluate


def _make_batch(rollout, credit):
    def batch(params, rollout_state, key, baseline=None):
        _, streams, rows, _ = rollout.collect(params, rollout_state, key)
        return streams, rows, credit(streams, baseline)

    return batch


def _make_train(rollout, credit, update, log_every, exploitability, reference_every):
    def one_update(state: TrainState, _):
        key, collect_key, update_key = jax.random.split(state.key, 3)
        rollout_state, streams, rows, metrics = rollout.collect(
            state.params, state.rollout, collect_key
        )
        given = credit(streams, state.baseline)
        params, opt_state, learning, finite = update(
            state.params,
            state.opt_state,
            streams,
            rows,
            given,
            update_key,
            state.reference,
        )
        metrics = metrics | learning
        if streams.group is not None:
            metrics |= group_metrics(streams)
        rejected = ~finite
        baseline = state.baseline
        if baseline is not None:
            baseline = jnp.where(finite, given.baseline, baseline)
            for task, role in np.ndindex(baseline.shape):
                metrics[f"rae_baseline/{task}/{role}"] = jnp.stack(
                    [baseline[task, role], jnp.ones(())]
                )
        metrics["rejected_updates"] = jnp.stack([rejected * 1.0, jnp.ones(())])
        guard = Guard(
            in_a_row=jnp.where(rejected, state.guard.in_a_row + 1, 0),
            total=state.guard.total + rejected,
            rollout=jax.tree.map(
                lambda new, old: jnp.where(rejected, new, old), state.rollout, state.guard.rollout
            ),
            key=jnp.where(rejected, collect_key, state.guard.key),
        )
        acted = jnp.sum(streams.mask, dtype=jnp.uint32)
        low = state.env_steps[1] + acted
        high = state.env_steps[0] + (low < acted)
        reference = state.reference
        if reference_every:
            moves = (state.update + 1) % reference_every == 0
            reference = jax.tree.map(lambda new, old: jnp.where(moves, new, old), params, reference)
        state = state.replace(
            params=params,
            opt_state=opt_state,
            rollout=rollout_state,
            key=key,
            update=state.update + 1,
            reference=reference,
            env_steps=jnp.stack([high, low]),
            guard=guard,
            baseline=baseline,
        )
        return state, metrics

    def train(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        state, metrics = jax.lax.scan(one_update, state, length=log_every)
        metrics = jax.tree.map(lambda x: jnp.sum(x, axis=0), metrics)
        if exploitability is not None:
            metrics["exploitability"] = jnp.stack([exploitability(state.params), jnp.ones(())])
        return state, metrics

    return train
