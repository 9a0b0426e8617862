"""The keys that every config has, and what can be told of them without an environment."""

import ml_collections

from agentrl import advantages, losses, policies
from agentrl.rollout import ROLLOUTS, processes
from agentrl.training import config as configs
from agentrl.training.optimizer import optimizer
from agentrl.training.pool import pool
from agentrl.training.population import population
from agentrl.training.update import make_update
from agentrl.training.warm_start import warm_start


def base_config() -> ml_collections.ConfigDict:
    """The keys of every config, with sections that a config file replaces by its own.

    seed, num_seeds: the run trains seeds seed, seed + 1, ... side by side in one program.
    init_from: directory of a run whose parameters training starts from, each seed from its own; or
      of several, "planner=DIR,hit=DIR", for those entries of a policy that has such parts.
    updates: in all. log_every: updates between two lines of metrics, compiled as one loop.
    mesh: devices along each axis of `agentrl.policies.placement`: data (0: all that the others
      leave) and fsdp split the batch, fsdp and tensor the parameters of a decoder.
    context: what a language policy reads before each reply (`agentrl.actors.contexts`); "none" for
      other policies. host: options of environments in Python (`agentrl.rollout.processes`).
    filter: which groups are learnt from: "none" for all, or one of `credit.FILTERS`.
    mask_truncated: do not learn from episodes that a limit cut.
    reference_every: updates after which the parameters become the reference that
      learner.kl_coefficient pulls towards; 0: those at the end of the warm start, for good.
    env: one environment (`config.env_section`) or several that one language policy learns together
      (`config.env_sections`): their episodes make one batch, each environment being a task with
      baselines of its own.
    lexicon: further environments whose words codec "word" has tokens for: of a policy that shall be
      evaluated there, or trained there from these parameters.
    staleness: updates that the sampler lags behind the learner. With 1 or more a host rollout
      collects the next batch while the learner works; see learner.importance_cap.
    warm_start: supervised updates on the expert's episodes before the others, see
      `agentrl.training.warm_start`; how many of the updates they are is the ratio of SFT to RL.
    pool: frozen opponents for rollout.opponent="pool", see `agentrl.training.pool`.
    population: selection among the seeds, and options that they tune, see
      `agentrl.training.population`.
    max_rejected_updates: non-finite updates in a row that stop the run.
    evaluation.every, checkpoint.every: in updates; 0 for only at the end.
    evaluation.opponent: who has the other seats in games of policies over arrays, one of
      `agentrl.actors.scripted`; evaluation.side: the side that the policy has all seats
      of, in games with `sides`, instead of one seat after the other.
    """
    config = ml_collections.ConfigDict()
    config.seed = 0
    config.num_seeds = 1
    config.init_from = ""
    config.updates = 100
    config.log_every = 10
    config.mesh = ml_collections.ConfigDict({"data": 0, "fsdp": 1, "tensor": 1})
    config.filter = ml_collections.ConfigDict({"name": "none"})
    config.mask_truncated = False
    config.reference_every = 0
    config.staleness = 0
    config.warm_start = configs.section(warm_start, named=False)
    config.pool = configs.section(pool, named=False)
    config.population = configs.section(population, named=False)
    config.population.tuned = ml_collections.ConfigDict()
    config.max_rejected_updates = 5
    config.env = ml_collections.ConfigDict({"name": ""})
    config.lexicon = ()
    config.policy = configs.section(policies.mlp, critic="none")
    config.rollout = configs.section(ROLLOUTS["episodes"])
    config.context = ml_collections.ConfigDict({"name": "none"})
    config.host = configs.section(processes, named=False)
    config.reward = ml_collections.ConfigDict()
    config.advantage = configs.section(advantages.gigpo)
    config.loss = configs.section(losses.clipped_surrogate)
    config.learner = configs.section(make_update, named=False)
    config.optimizer = configs.section(optimizer, named=False)
    config.evaluation = ml_collections.ConfigDict(
        {"every": 0, "episodes": 256, "greedy": False, "opponent": "random", "side": "none"}
    )
    config.checkpoint = ml_collections.ConfigDict({"every": 0, "keep": 3})
    return config


def check(config: ml_collections.ConfigDict) -> None:
    """ValueError, with the remedy, for keys that no config has and numbers that contradict."""
    expected = base_config()
    configs.check_keys("config", config, expected)
    for name in ("mesh", "evaluation", "checkpoint"):
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
    if not 0 <= config.staleness < config.max_rejected_updates:
        raise ValueError(
            f"config.staleness={config.staleness}: expected at least 0, and less than "
            f"config.max_rejected_updates={config.max_rejected_updates}, after which sampler and "
            "learner are the same"
        )
    if config.warm_start.get("updates", 0) > config.updates:
        raise ValueError(
            f"config.warm_start.updates={config.warm_start.updates}: expected at most "
            f"config.updates={config.updates}"
        )
    for name in ("env", "policy", "rollout", "advantage", "loss", "filter"):
        if "name" not in config[name]:
            raise ValueError(f"config.{name}.name is missing")
