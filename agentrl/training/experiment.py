"""From a config to compiled functions: everything is checked here, before anything compiles."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections

import envs
from agentrl.actors.array import array_actor
from agentrl.actors.scripted import opponent_named
from agentrl.actors.types import Actor
from agentrl.evaluation import play
from agentrl.policies import LANGUAGE_POLICIES, POLICIES, LanguagePolicy, Policy
from agentrl.rollout import CONTEXTS, ROLLOUTS, Rollout, processes, several
from agentrl.rollout.seating import check_side
from agentrl.selfplay.neural import make_exploitability
from agentrl.training import config as configs
from agentrl.training.base_config import check
from agentrl.training.credit import ESTIMATORS, Credit, carries_baseline, make_credit
from agentrl.training.learning import make_batch, make_train
from agentrl.training.optimizer import optimizer
from agentrl.training.pool import make_rules
from agentrl.training.population import Population, make_population, with_options
from agentrl.training.state import TrainState, make_begin, make_init
from agentrl.training.update import make_update
from agentrl.training.warm_start import make_warm_start, warm_start
from envs.environment import Environment
from envs.hosted import Hosted


class Task(NamedTuple):
    """An environment, and a policy that plays it.

    evaluate: (params, task keys [E], key, greedy bool) -> Outcomes.
    """

    env: Any
    env_params: Any
    policy: Policy | LanguagePolicy
    rollout: Rollout
    evaluate: Callable[..., play.Outcomes]


class Experiment(NamedTuple):
    """A config, bound to functions.

    tasks: what is trained on, by name; env, env_params and policy are of the first one.
    rollout: of all of them.
    init: (seed i32[]) -> TrainState.
    train: (TrainState) -> (TrainState, metrics): `log_every` updates; metrics are totals and
      weights f32[2] by name.
    warm: as train, for supervised updates on the expert's episodes, of which there are
      `warm_updates` before the others; begin: (TrainState) -> TrainState between the two.
    batch: (params, rollout state, key, baseline, pool, member) -> (Streams, Rows, Credit) of one
      update.
    population: what happens among the seeds between two calls of train, None where nothing does.
    across_seeds: `jax.vmap`, or `sequentially` where the programs hold loops of varying length, of
      which all seeds together would take the longest and copy their caches at each step.
    jit: `jax.jit`, or `as_it_is` where collecting is Python that runs programs of its own.
    """

    tasks: dict[str, Task]
    rollout: Rollout
    init: Callable[[jax.Array], TrainState]
    train: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]]
    batch: Callable[..., tuple[Any, Any, Credit]]
    warm: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]] | None
    begin: Callable[[TrainState], TrainState]
    warm_updates: int
    population: Population | None
    across_seeds: Callable[[Callable], Callable]
    jit: Callable[..., Callable]

    @property
    def env(self) -> Any:
        """The first task's environment."""
        return self._first.env

    @property
    def env_params(self) -> Any:
        """The first task's."""
        return self._first.env_params

    @property
    def policy(self) -> Policy | LanguagePolicy:
        """The policy, as it meets the first task."""
        return self._first.policy

    @property
    def _first(self) -> Task:
        return next(iter(self.tasks.values()))


def as_it_is(function: Callable, **_: Any) -> Callable:
    """In the place of `jax.jit`, for functions that cannot be compiled as a whole."""
    return function


def one_by_one(function: Callable) -> Callable:
    """As `jax.vmap`, one element at a time, in Python."""

    def across(*args):
        count = len(jax.tree.leaves(args)[0])
        outs = [function(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(count)]
        return jax.tree.map(lambda *xs: jnp.stack(xs), *outs)

    return across


def sequentially(function: Callable) -> Callable:
    """As `jax.vmap`, one element at a time."""
    return lambda *args: jax.lax.map(lambda xs: function(*xs), args)


def build(config: ml_collections.ConfigDict) -> Experiment:
    """Binds a config. ValueError, with the remedy, for anything that cannot be run as it says."""
    check(config)
    made = configs.environments(config.env)
    policy = _make_policy(config, made)
    tasks = {
        name: make_task(config, policy, name, env, env_params)
        for name, (env, env_params) in made.items()
    }
    speaks = isinstance(policy, LanguagePolicy)
    env, env_params = next(iter(made.values()))
    rollout = next(iter(tasks.values())).rollout
    if not isinstance(config.env.name, str):
        rollout = several({name: task.rollout for name, task in tasks.items()})
    if speaks:
        _check_adapters(config, policy, rollout)
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
    total_steps = (config.updates - warm_options["updates"]) * steps

    def learner(options: Mapping[str, jax.Array]) -> tuple[Callable[..., Credit], Callable]:
        """Credit and update with these options, by path, in the place of the config's."""
        sections = with_options(config, options)
        credit = make_credit(
            sections["reward"],
            sections["advantage"],
            rollout.provides,
            filter_section=config.filter,
            mask_truncated=config.mask_truncated,
            rollout_name=config.rollout.name,
        )
        update = make_update(
            policy,
            optimizer(total_steps, **sections["optimizer"]),
            sections["loss"],
            rollout.roles,
            **configs.bind("learner", make_update, sections["learner"]),
        )
        return credit, update

    learner({})  # Before anything else is bound: it says what does not fit.
    transform = optimizer(total_steps, **shape)
    if isinstance(policy, Policy) and policy.num_answers:
        _check_answers(config, policy)
    refers = update_options["kl_coefficient"] > 0
    if config.reference_every < 0 or (config.reference_every and not refers):
        raise ValueError(
            f"config.reference_every={config.reference_every} without a pull towards the "
            "reference: set config.learner.kl_coefficient above 0, or reference_every=0"
        )
    carries = carries_baseline(ESTIMATORS[config.advantage.name])
    rules = make_rules(
        config.pool, rollout, cooperative=[_cooperative(task.env) for task in tasks.values()]
    )
    carried = {"refers": refers, "rules": rules, "staleness": config.staleness}
    init = make_init(policy, rollout, transform, carries=carries, **carried)
    train = make_train(
        rollout,
        learner,
        frozen=policy.frozen,
        rules=rules,
        log_every=config.log_every,
        between=(warm_options["updates"], config.updates),
        exploitability=None if speaks else make_exploitability(policy, env, env_params),
        reference_every=config.reference_every,
        staleness=config.staleness,
    )
    return Experiment(
        tasks=tasks,
        rollout=rollout,
        init=init,
        train=train,
        population=make_population(config, rollout, init, train),
        batch=make_batch(rollout, rules, learner),
        warm=make_warm_start(
            policy,
            rollout,
            shape,
            config.log_every,
            microbatch=microbatch,
            lengths=update_options["lengths"],
            **warm_options,
        ),
        begin=make_begin(policy, transform, **carried),
        warm_updates=warm_options["updates"],
        across_seeds=one_by_one if rollout.on_host else sequentially if speaks else jax.vmap,
        jit=as_it_is if rollout.on_host else jax.jit,
    )


def _check_answers(config: ml_collections.ConfigDict, policy: Policy) -> None:
    if config.rollout.name != "episodes":
        raise ValueError(
            f"config.policy.answers={policy.num_answers} with config.rollout.name="
            f"{config.rollout.name!r}, which asks nothing: use 'episodes', or answers=0"
        )
    if not config.learner.listening_coefficient:
        raise ValueError(
            f"config.policy.answers={policy.num_answers} is trained by nothing: set "
            "config.learner.listening_coefficient above 0, or answers=0"
        )


def _check_adapters(
    config: ml_collections.ConfigDict, policy: LanguagePolicy, rollout: Rollout
) -> None:
    roles = policy.config.lora_roles
    if roles > 1 and roles != rollout.roles:
        raise ValueError(
            f"config.policy.lora_roles={roles}, and this rollout has {rollout.roles} role(s): set "
            f"it to {rollout.roles}, or to 1 for one adapter whatever the role"
        )
    if policy.frozen and config.policy.name == "transformer" and not config.init_from:
        raise ValueError(
            f"config.policy.lora_rank={policy.config.lora_rank} without config.init_from: adapters "
            "on random weights that stay; name the run whose parameters they are for, or set 0"
        )


def make_task(
    config: ml_collections.ConfigDict,
    policy: Policy | LanguagePolicy,
    name: str,
    env: Any,
    env_params: Any,
) -> Task:
    """Binds the policy and the rollout of a config to an environment.

    Raises:
      ValueError: they do not fit; for a language policy, above all, that it lacks the words.
    """
    if isinstance(policy, LanguagePolicy):
        try:
            policy = policy.on(env.view)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    _check_fit(config, name, env)
    make_rollout = configs.lookup("rollout", config.rollout.name, ROLLOUTS)
    context, host = None, None
    if config.context.name != "none":
        make_context = configs.lookup("context", config.context.name, CONTEXTS)
        context = make_context(**configs.bind("context", make_context, config.context))
    if isinstance(env, Hosted):
        host = processes(**configs.bind("host", processes, config.host))
    elif config.host.to_dict() != configs.section(processes, named=False).to_dict():
        raise ValueError(
            f"config.host={config.host.to_dict()} with {name}: config.host.* is for environments "
            "in Python (textarena:ID, gymnasium:ID, module:factory); leave it as it is"
        )
    options = configs.bind("rollout", make_rollout, config.rollout)
    rollout = make_rollout(policy, env, env_params, context, host, **options)
    evaluate = _make_evaluate(policy, rollout, env, env_params, config)
    return Task(env, env_params, policy, rollout, evaluate)


def _check_fit(config: ml_collections.ConfigDict, name: str, env: Any) -> None:
    """ValueError unless policy and rollout of a config are for this kind of environment."""
    speaks = config.policy.name in LANGUAGE_POLICIES
    if speaks != (config.context.name != "none"):
        raise ValueError(
            f"config.context.name={config.context.name!r} with config.policy.name="
            f"{config.policy.name!r}: language policies ({', '.join(LANGUAGE_POLICIES)}) need one "
            f"of {', '.join(CONTEXTS)}, the others 'none'"
        )
    if speaks and isinstance(env, Environment) and env.continuous:
        raise ValueError(
            f"{name} with these options has continuous actions, which have no words: use one of "
            f"{', '.join(POLICIES)}"
        )


def _cooperative(env: Any) -> bool:
    return not isinstance(env, Hosted) and env.cooperative


def _make_policy(
    config: ml_collections.ConfigDict, made: Mapping[str, tuple[Any, Any]]
) -> Policy | LanguagePolicy:
    """The policy of the first environment, with the words of all."""
    known = {**POLICIES, **LANGUAGE_POLICIES}
    make_policy = configs.lookup("policy", config.policy.name, known)
    options = configs.bind("policy", make_policy, config.policy)
    (env, _), *others = made.values()
    if config.policy.name in LANGUAGE_POLICIES:
        if config.lexicon and options.get("codec") != "word":
            raise ValueError(
                f"config.lexicon={config.lexicon} is used by nothing: it is for codec 'word'; "
                "this policy reads any text, leave it empty"
            )
        further = [envs.make(name) for name in config.lexicon]
        return make_policy(env.view, *(other.view for other, _ in [*others, *further]), **options)
    if others or config.lexicon:
        raise ValueError(
            f"config.env.name={config.env.name}, config.lexicon={config.lexicon} with "
            f"config.policy.name={config.policy.name!r}: a policy over arrays plays one "
            f"environment; use a language policy ({', '.join(LANGUAGE_POLICIES)})"
        )
    # Before it is asked for what environments of another kind do not have.
    _check_fit(config, *made, env)
    return make_policy(
        env.observation_shape, env.num_codes, env.num_actions, env.continuous, **options
    )


def evaluation_of(
    config: ml_collections.ConfigDict, env: Any, env_params: Any, rollout: Rollout
) -> tuple[Actor | None, str | None]:
    """Whom the policy meets when it is measured, and the side that it has then.

    Raises:
      ValueError: where it meets nobody, or its conversations' own opponent, and config.evaluation
        says otherwise.
    """
    name, side = config.evaluation.opponent, config.evaluation.side
    opponent = play.opponent_of(env)
    if rollout.play is not None or opponent is None:
        for key, value, default in (("opponent", name, "random"), ("side", side, "none")):
            if value != default:
                raise ValueError(
                    f"config.evaluation.{key}={value!r} is used by nothing: it is for policies "
                    "over arrays in games against each other; leave it out"
                )
        return opponent, None
    check_side(env, side, name)
    return opponent_named(name, env, env_params), None if side == "none" else side


def _make_evaluate(policy, rollout, env, env_params, config) -> Callable[..., play.Outcomes]:
    opponent, side = evaluation_of(config, env, env_params, rollout)

    def evaluate(params, keys, key, greedy: bool) -> play.Outcomes:
        if rollout.play is not None:
            streams, _ = rollout.play(params, keys, key, greedy)
            return play.of_streams(streams, rollout.roles)
        mask = config.rollout.mask_illegal
        player = array_actor(policy, params, greedy=greedy, mask_illegal=mask)
        return play.play(player, env, env_params, keys, key, opponent, side)

    return evaluate
