"""Suite `learning`: PPO on CartPole-v1 against a PureJaxRL-style program, training steps per
second.

Both with the settings of configs/start/cartpole_ppo.py: the same network, optimiser, batch, epochs
and minibatches, one seed, the same number of updates per call. Ours is the program of
`launchers.train`, with all its metrics and the guard against non-finite updates. Neither evaluates,
writes or saves within the time.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from agentrl.config import build as experiment
from agentrl.run.programs import compile_programs
from configs.start import cartpole_ppo
from launchers.benchmarks import purejaxrl_style
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, compiled, interleave

# Long enough that the learning rate does not reach 0 within the measurement.
_TOTAL_UPDATES = 1_000_000


def _config(num_envs: int, updates: int) -> ml_collections.ConfigDict:
    config = cartpole_ppo.get_config()
    config.rollout.num_envs = num_envs
    config.log_every = updates
    config.updates = _TOTAL_UPDATES - _TOTAL_UPDATES % updates
    config.mesh.data = 1
    return config


def ours(num_envs: int, updates: int) -> Ready:
    """The training program of `launchers.train`; work is environment steps."""
    config = _config(num_envs, updates)
    programs = compile_programs(experiment.build(config), config, None)
    state = programs.init(jnp.zeros(1, jnp.int32))
    train, seconds = compiled(programs.train["rl"], state)
    returned = 0.0

    def call():
        nonlocal state, returned
        state, totals = jax.block_until_ready(train(state))
        total, count = totals["episode_return"][0]
        returned = float(total) / max(float(count), 1)

    return Ready(
        call,
        float(updates * num_envs * config.rollout.length),
        seconds,
        lambda: {"episode_return": returned},
    )


def theirs(num_envs: int, updates: int) -> Ready:
    """The PureJaxRL-style program with the same settings; work is environment steps."""
    config = _config(num_envs, updates)
    settings = purejaxrl_style.Settings(
        env=config.env.name,
        num_envs=num_envs,
        length=config.rollout.length,
        epochs=config.learner.epochs,
        minibatches=config.learner.minibatches,
        gamma=config.advantage.gamma,
        lam=config.advantage.lam,
        clip=config.objective.value.clip,
        entropy_coefficient=config.objective.entropy.weight,
        value_coefficient=config.objective.value.weight,
        max_grad_norm=config.optimizer.max_grad_norm,
        learning_rate=config.optimizer.learning_rate,
        total_updates=config.updates,
    )
    init, train = purejaxrl_style.make(settings, updates)
    state = jax.jit(init)(jax.random.key(0))
    executable, seconds = compiled(jax.jit(train, donate_argnums=0), state)
    returned = 0.0

    def call():
        nonlocal state, returned
        state, infos = jax.block_until_ready(executable(state))
        ended = infos["returned_episode"]
        total = jnp.sum(jnp.where(ended, infos["returned_episode_returns"], 0))
        returned = float(total) / max(float(jnp.sum(ended)), 1)

    return Ready(
        call,
        float(updates * num_envs * settings.length),
        seconds,
        lambda: {"episode_return": returned},
    )


def run(plan: Plan, *, variants: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Measures; variants: (environments, updates per call). {"rows"}."""
    rows = []
    for num_envs, updates in variants:
        contenders = [
            ("agentrl", ours(num_envs, updates)),
            ("PureJaxRL style", theirs(num_envs, updates)),
        ]
        timings = interleave(contenders, plan)
        for timing in timings:
            row = {"program": timing.name, "environments": num_envs, **timing.record()}
            row["updates_a_call"] = updates
            row["range"] = spread(row["rate_low"], row["rate_high"])
            row["ratio_to_peer"] = None if timing is timings[1] else timing.rate / timings[1].rate
            rows.append(row)
    return {"rows": rows}


COLUMNS = (
    ("program", ""),
    ("environments", ","),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_peer", ".2f"),
    ("updates_a_call", ","),
    ("compile_seconds", ".1f"),
    ("episode_return", ".0f"),
)


def report(result: dict[str, Any]) -> str:
    """The measurements as a Markdown table, one per row, under a title with their sizes."""
    title = "PPO on CartPole-v1, training steps/s (rate), median and range"
    return table(title, COLUMNS, result["rows"])
