"""Suite `conversation`: turns/s of collecting conversations and learning from them, by part.

A decoder of width 128 and 4 layers (1.05 million parameters) plays the lake of 4x4 in words: 64
episodes in groups of 8, up to 10 turns of 20 tokens to read and at most 2 to write, the whole
conversation as context; one update of one step by GiGPO, 4 rows at a time. The policy keeps its
random initialisation (learning rate 0), so nearly all episodes take all their turns.

Shares: `environment` is the same turns with scripted replies (suite `text`): describe, render,
expand, parse, step. `generation` is the rest of collecting, prefill included; `credit` the
estimator; `update` the rest of the program.

With several devices (also simulated ones of a CPU) it is also run on all of them: each has its
share of the episodes, and microbatches of the same size.

Beside it, with --peers and torch installed: `launchers.benchmarks.torch_loop`.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.config.learning import recipe_of
from agentrl.learner.credit import credit_of
from agentrl.run import mesh
from agentrl.run.programs import compile_programs
from launchers.benchmarks import environments, text, torch_loop
from launchers.benchmarks.peers import MissingError
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, Timing, carried, compiled, interleave

OURS, PEER = "agentrl", "generate, Python, torch"
SIZES = {"width": 128, "layers": 4, "heads": 4, "kv_heads": 4, "hidden": 512}
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 2, "hidden": 32}


def config_of(groups: int, members: int, sizes: dict[str, int], devices: int = 1) -> Any:
    """The config that is timed."""
    config = base_config()
    config.updates = config.log_every = 1
    config.mesh.data = devices
    config.env = env_section("FrozenLake-v1")
    config.policy = section(policies.transformer, **sizes)
    config.rollout = section(rollout.episodes, num_groups=groups, group_size=members)
    config.context = section(rollout.contexts.whole)
    config.advantage = section(advantages.gigpo)
    # Microbatches whose activations fit the caches.
    config.learner.microbatch = min(4 * devices, groups * members)
    config.optimizer.learning_rate = 1e-12
    return config


def _on_all_devices(groups: int, members: int, sizes: dict[str, int], work: float) -> Ready:
    """Collecting, credit and update as in a run on the mesh of all devices."""
    config = config_of(groups, members, sizes, jax.device_count())
    experiment = build(config)
    device_mesh = mesh.make_mesh(config, experiment)
    with mesh.use(device_mesh):
        programs = compile_programs(experiment, config, device_mesh)
        state = programs.init(jnp.arange(1))
        executable, seconds = compiled(programs.train["rl"], state)

    def call():
        nonlocal state
        state, _ = jax.block_until_ready(executable(state))

    return Ready(call, work, seconds)


def run(
    plan: Plan,
    *,
    with_peers: bool,
    groups: int = 8,
    members: int = 8,
    sizes: dict[str, int] = SIZES,
) -> dict[str, Any]:
    """Measures: {"rows", "shares", "skipped"}."""
    config = config_of(groups, members, sizes)
    experiment = build(config)
    made, episodes = experiment.rollout, groups * members
    work = float(episodes * made.turns)
    state = jax.jit(experiment.init)(0)
    params, start = jax.tree.map(jnp.copy, (state.params, state.rollout))
    collect, _ = compiled(jax.jit(made.collect), params, start, jax.random.key(0))
    _, streams, _, _ = collect(params, start, jax.random.key(0))
    recipe = recipe_of(config)
    credit, _ = compiled(jax.jit(lambda s: credit_of(recipe, s, None, {})), streams)
    ((_, program),) = experiment.phases
    train, seconds = carried(lambda s: program(s)[0], state)
    turns = float(jnp.sum(streams.mask)) / episodes

    def ready(program, *args):
        return Ready(lambda: jax.block_until_ready(program(*args)), work)

    case = text.Case("FrozenLake-v1", "compact", "word", {})
    contenders = [
        (OURS, Ready(train, work, seconds, lambda: {"mean_turns": turns})),
        ("collect", ready(collect, params, start, jax.random.key(1))),
        ("credit", ready(credit, streams)),
        (
            "environment",
            environments.ready(text.simulator(case, episodes), episodes, made.turns),
        ),
    ]
    several = f"{OURS}, {jax.device_count()} devices"
    if jax.device_count() > 1:
        contenders.append((several, _on_all_devices(groups, members, sizes, work)))
    skipped = []
    if with_peers:
        policy = experiment.policy
        try:
            peer = torch_loop.make(
                policy.config,
                policy.codec,
                experiment.env.action_names,
                groups=groups,
                members=members,
                turns=made.turns,
                reply_tokens=2,
                size=experiment.env.size,
            )
            contenders.append((PEER, peer))
        except MissingError as error:
            skipped.append(str(error))
    timings = {timing.name: timing for timing in interleave(contenders, plan)}
    whole, environment = timings[OURS].median, timings["environment"].median
    collecting, crediting = timings["collect"].median, timings["credit"].median
    parts = {
        "generation": collecting - environment,
        "environment": environment,
        "credit": crediting,
        "update": whole - collecting - crediting,
    }
    shares = [
        {"part": name, "milliseconds": 1e3 * value, "percent": 100 * value / whole}
        for name, value in parts.items()
    ]
    return {"rows": _rows(timings, (OURS, several, PEER)), "shares": shares, "skipped": skipped}


def _rows(timings: dict[str, Timing], names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the table: those of these programs that were timed."""
    rows = []
    for name in names:
        if name in timings:
            row = {"program": name, **timings[name].record()}
            row["range"] = spread(*timings[name].rates)
            if name != PEER and PEER in timings:
                row["ratio_to_peer"] = timings[name].rate / timings[PEER].rate
            rows.append(row)
    return rows


COLUMNS = (
    ("program", ""),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_peer", ".2f"),
    ("mean_turns", ".1f"),
    ("compile_seconds", ".1f"),
)
SHARES = (("part", ""), ("milliseconds", ".2f"), ("percent", ".1f"))


def report(result: dict[str, Any]) -> str:
    """The measurements as two Markdown tables: turns per second, and where the time goes."""
    return "\n".join(
        (
            table(
                "Conversations collected and learnt from (rate: turns/s)", COLUMNS, result["rows"]
            ),
            table("Where agentrl's time goes", SHARES, result["shares"]),
        )
    )
