"""The keys that every config has, and the checks that need no environment."""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.checks import LARGEST, check_number, check_range
from agentrl.config.bind import check_keys, flat, section, term
from agentrl.learner.components.expert import expert
from agentrl.learner.components.opponent_pool import opponent_pool
from agentrl.learner.components.population import population
from agentrl.learner.components.reference import reference
from agentrl.learner.optimizer import UpdateOptions, optimizer
from agentrl.rollout import starts


def warm_start(*, updates: int = 0, learning_rate: float = 1e-3) -> None:
    """Options of the warm start: supervised updates before the others (SFT, then RL).

    In these updates the terms of the objective with during="warm_start" or "both" count, in all
    others those with "rl" or "both". The optimizer starts afresh in between.

    Args:
      updates: how many of the run's updates these are. To config.updates less these it is the ratio
        of SFT to RL.
      learning_rate: of these updates; everything else of the optimizer is `config.optimizer`'s.
    """


EVALUATION = {
    "every": 0,
    "at_start": False,
    "episodes": 256,
    "at_once": None,
    "greedy": False,
    "opponent": "random",
    "side": "none",
}
# By its path, so that only runs that write episodes import what writes them.
TRAJECTORIES = {"name": "agentrl.trajectories.everything", "every": 0, "most": 16}
# What metrics go to besides metrics.jsonl: `agentrl.run.writers`.
WRITERS = ("tensorboard", "wandb", "mlflow")


def base_config() -> ml_collections.ConfigDict:
    """The keys of every config, with sections that a config file replaces by its own.

    seed, num_seeds: the run trains seeds seed, seed + 1, ... side by side in one program.
    init_from: directory of a run whose parameters training starts from, each seed from its own; or
      of several, "planner=DIR,hit=DIR", for those entries of a policy that has such parts; or the
      weighted mean of several, "0.5*DIR,0.5*DIR".
    updates: in all. log_every: updates between two lines of metrics, compiled as one loop.
    env_steps: the run ends before its updates do once every seed has acted in so many turns, with
      the program that is running; 0: by updates alone. Schedules go by updates.
    mesh: devices along each axis of `agentrl.devices.placement`: data (0: all that the others
      leave) and fsdp split the batch, fsdp and tensor the parameters of a decoder.
    env: one environment (`env_section`) or several that one language policy learns together
      (`env_sections`): their episodes make one batch, each environment being a task with baselines
      of its own. lexicon: further environments whose words codec "word" has tokens for, of a policy
      that shall be evaluated there, or trained there from these parameters.
    policy, rollout: who acts, and how experience is collected. context: what a language policy
      reads before each reply (`agentrl.actors.contexts`); "none" for other policies. host: options
      of environments in Python (`agentrl.rollout.processes`). sampler: which tasks are played
      (`agentrl.rollout.starts`).
    annotations: by name, functions (policy, params, streams, rows, key) -> {name: [N, T] or [R, L]}
      that look at the model before credit is given.
    reward: terms by name, applied in alphabetical order, those that move rewards (`at_end`) last.
      Those that read `reward` give another reward, the others a penalty.
    filters: by name, functions to bool[N], the streams that are learnt from, or to bool[N, T], the
      turns. With when="before" what is rejected takes no part in the estimator's statistics, with
      when="after" it does, and the filter may read the `advantage`.
    advantage: the estimator. reweighting: by name, functions (advantage, ...) -> advantage.
    objective: the terms of the loss by name (`term`); one of weight 0 is left out.
    learner, optimizer: epochs, minibatches, AdamW. optimizers: optimizers of their own for entries
      of the parameters, by name; without one an entry has `optimizer`'s options.
    reference: of terms that read `reference_logp` or `reference_kl`. pool: of
      rollout.opponent="pool". expert: of terms with source="expert". population: selection among
      the seeds, with `tuned`, options that they tune. components: further ones by name, a user's
      own among them (`agentrl.learner.component`).
    per_seed: numbers that differ between seeds, for example {"optimizer": {"learning_rate": (1e-3,
      1e-2)}} for two: one value per seed, of what `population.tuned` may tune, in one program.
    staleness: updates that the sampler lags behind the learner. With 1 or more a rollout on the
      host collects the next batch while the learner works; see component "importance".
    warm_start: supervised updates before the others.
    max_rejected_updates: non-finite updates in a row that stop the run.
    evaluation.every, checkpoint.every: in updates, and after the last; 0 for no evaluation, and
      one checkpoint at the end. evaluation.at_start: also before the first update (zero-shot).
    evaluation.at_once: tasks that are played at the same time, a divisor of evaluation.episodes;
      None: all of them. Fewer need less memory; a language policy's cache is of all tasks at once.
    evaluation.episodes: tasks of each evaluation, the same ones every time. evaluation.greedy: the
      most likely actions instead of sampled ones.
    evaluation.opponent: who has the other seats in games of policies over arrays, one of
      `agentrl.players.scripted`. evaluation.side: the side that the policy has all seats of, in
      games with `sides`, instead of one seat after the other.
    checkpoint.keep: newest checkpoints that stay.
    trajectories: which episodes are written to files, by a function that scores them
      (`agentrl.trajectories.choice`). trajectories.every: in updates; 0: none are written.
      trajectories.most: episodes of each seed with the highest scores; 0: all with a positive one.
    writers: where metrics go besides metrics.jsonl, some of "tensorboard", "wandb" and "mlflow"
      (`agentrl.run.writers`).
    """
    config = ml_collections.ConfigDict()
    config.seed = 0
    config.num_seeds = 1
    config.init_from = ""
    config.updates = 100
    config.env_steps = 0
    config.log_every = 10
    config.mesh = ml_collections.ConfigDict({"data": 0, "fsdp": 1, "tensor": 1})
    config.env = ml_collections.ConfigDict({"name": ""})
    config.lexicon = ()
    config.policy = section(policies.mlp, critic="none")
    config.rollout = section(rollout.episodes)
    config.context = ml_collections.ConfigDict({"name": "none"})
    config.host = section(rollout.processes, named=False)
    config.sampler = section(starts.independent)
    _learning(config)
    config.reference = section(reference, named=False)
    config.pool = section(opponent_pool, named=False)
    config.expert = section(expert, named=False)
    config.population = section(population, named=False)
    config.population.tuned = ml_collections.ConfigDict()
    config.per_seed = ml_collections.ConfigDict()
    config.components = ml_collections.ConfigDict()
    config.staleness = 0
    config.warm_start = section(warm_start, named=False)
    config.max_rejected_updates = 5
    config.evaluation = ml_collections.ConfigDict(EVALUATION)
    config.checkpoint = ml_collections.ConfigDict({"every": 0, "keep": 3})
    config.trajectories = ml_collections.ConfigDict(TRAJECTORIES)
    config.writers = ("tensorboard",)
    return config


def _learning(config: ml_collections.ConfigDict) -> None:
    config.learner = section(UpdateOptions, named=False)
    config.optimizer = section(optimizer, named=False)
    config.optimizers = ml_collections.ConfigDict()
    config.annotations = ml_collections.ConfigDict()
    config.reward = ml_collections.ConfigDict()
    config.filters = ml_collections.ConfigDict()
    config.advantage = section(advantages.gigpo)
    config.reweighting = ml_collections.ConfigDict()
    config.objective = ml_collections.ConfigDict()
    config.objective.policy = term(losses.clipped_surrogate)
    config.objective.value = term(losses.value_loss, weight=0.0)
    config.objective.entropy = term(losses.negative_entropy, weight=0.0)
    config.objective.kl = term(losses.kl, weight=0.0, estimator="k3")
    config.objective.imitation = term(
        losses.behaviour_cloning, source="expert", during="warm_start"
    )


def check(config: ml_collections.ConfigDict) -> None:
    """ValueError, with the remedy, for keys that no config has and numbers that contradict."""
    expected = base_config()
    check_keys("config", config, expected)
    for name in ("mesh", "evaluation", "checkpoint"):
        check_keys(f"config.{name}", config[name], expected[name])
    for path, value in flat(config.to_dict()):
        if path != "env_steps":  # which is counted in 64 bits
            check_number(f"config.{path}", value)
    for name in ("num_seeds", "updates", "log_every", "max_rejected_updates"):
        check_range(f"config.{name}", config[name], 1)
    check_range("config.seed", config.seed, 0, LARGEST - config.num_seeds + 1)
    check_range("config.env_steps", config.env_steps, 0)
    check_range("config.evaluation.episodes", config.evaluation.episodes, 1)
    check_range("config.checkpoint.keep", config.checkpoint.keep, 1)
    warm, given = config.warm_start.get("updates", 0), config.writers
    for name, every in (
        ("updates", config.updates),
        ("warm_start.updates", warm),
        ("checkpoint.every", config.checkpoint.every),
        ("evaluation.every", config.evaluation.every),
        ("trajectories.every", config.trajectories.get("every", 0)),
    ):
        if every < 0 or every % config.log_every:
            raise ValueError(
                f"config.{name}={every} is not a multiple of config.log_every={config.log_every}: "
                f"updates are compiled in loops of log_every; change one of the two"
            )
    at_once, episodes = config.evaluation.at_once, config.evaluation.episodes
    if at_once is not None and (at_once < 1 or episodes % at_once):
        raise ValueError(
            f"config.evaluation.at_once={at_once}: expected a divisor of "
            f"config.evaluation.episodes={episodes}, or None for all of them"
        )
    if not 0 <= config.staleness < config.max_rejected_updates:
        raise ValueError(
            f"config.staleness={config.staleness}: expected at least 0, and less than "
            f"config.max_rejected_updates={config.max_rejected_updates}, after which sampler and "
            "learner are the same"
        )
    if warm > config.updates:
        raise ValueError(
            f"config.warm_start.updates={warm}: expected at most config.updates={config.updates}"
        )
    if isinstance(given, str) or set(given) - set(WRITERS) or len(set(given)) < len(given):
        raise ValueError(
            f"config.writers={given!r}: expected different ones of {', '.join(WRITERS)}, such as "
            "\"('tensorboard', 'wandb')\" on the command line"
        )
    for name in ("env", "policy", "rollout", "advantage"):
        if "name" not in config[name]:
            raise ValueError(f"config.{name}.name is missing")
