"""Every way of acting is a run: an update, an evaluation, and a demonstration by an expert.

24 cells: over arrays or text; one agent, in turns or all at once; stepped in the graph or in
Python; whole episodes or segments. Evaluations and demonstrations, which are always of whole
episodes, are in those cells alone.
"""

import itertools
import pathlib

import jax
import numpy as np
import pytest

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.rollout import contexts
from agentrl.run.programs import compile_programs

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "hosted_toys.py")
IN_GRAPH = {
    "one": env_section("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=5),
    "turns": env_section("Nim-v1", max_steps_in_episode=6),
    "once": env_section("Foraging-v1", size=5, foods=1, max_steps_in_episode=5),
}
DECODER = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32, "critic": "shared"}
EPISODES = 8

CELLS = list(
    itertools.product(
        ("array", "text"), ("one", "turns", "once"), ("graph", "python"), ("episodes", "segments")
    )
)


def config_of(view, acting, where, collected):
    config = base_config()
    config.updates, config.log_every = 1, 1
    config.mesh.data = 1
    config.evaluation.episodes = EPISODES
    python = where == "python"
    if python:
        config.env = env_section(f"{TOYS}:Digits", kind=acting, arrays=view == "array")
        config.host.update(workers=2, max_turns=4)
    else:
        config.env = IN_GRAPH[acting]
    if view == "array":
        config.policy = section(policies.mlp, hidden=(8,))
    else:
        codec = "byte" if python else "word"
        config.policy = section(policies.transformer, codec=codec, **DECODER)
        config.context = section(contexts.window, max_new_tokens=3 if python else 8)
        if python:
            config.host.observation_tokens = 4
    if collected == "episodes":
        config.rollout = section(rollout.episodes, num_groups=2, group_size=2)
    else:
        config.rollout = section(rollout.segments, num_envs=2, length=6)
    config.advantage = section(advantages.gae, gamma=0.9, lam=0.9)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=1, minibatches=1)
    if not python and collected == "episodes":
        # The expert's rows in one supervised update, before the others.
        config.updates = 2
        config.expert.update(episodes=4, held_out=False)
        config.warm_start.updates = 1
    return config


def means(totals):
    return {name: float(np.sum(x[..., 0]) / np.sum(x[..., 1])) for name, x in totals.items()}


# The segments of these are tested each time.
LONG = {("text", "once", "graph", "episodes"), ("text", "turns", "graph", "episodes")}


@pytest.mark.parametrize(
    ("view", "acting", "where", "collected"),
    [pytest.param(*cell, marks=pytest.mark.long) if cell in LONG else cell for cell in CELLS],
)
def test_cell(view, acting, where, collected):
    config = config_of(view, acting, where, collected)
    experiment = build(config)
    try:
        programs = compile_programs(experiment, config, None)
        state = programs.init(programs.seeds)
        if "warm_start" in programs.train:
            before = jax.device_get(state.params)
            state, totals = programs.train["warm_start"](state)
            assert np.isfinite(means(totals)["loss/imitation"])
            assert moved(before, state.params)
            state = programs.restart(state)
        if where == "python":
            _ratio_is_one(experiment, jax.tree.map(lambda x: x[0], state))
        before = jax.device_get(state.params)
        state, totals = programs.train["rl"](state)
        got = means(jax.device_get(totals))
        assert moved(before, state.params) and got["rejected_updates"] == 0
        assert abs(got["approx_kl"]) < 1e-6 and got["clip_fraction"] == 0
        if collected == "segments":
            return
        (outcomes,) = jax.device_get(programs.evaluate(state.params)).values()
        assert outcomes.episode_return.shape == (1, EPISODES)
        assert np.isfinite(outcomes.episode_return).all() and (outcomes.length > 0).any()
    finally:
        experiment.rollout.close()


def moved(before, params):
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(params), strict=True)
    return any(np.any(np.asarray(a) != np.asarray(b)) for a, b in pairs)


def _ratio_is_one(experiment, state):
    """What the learner scores is what was acted with, at every position that is learnt from.

    Of all cells `approx_kl` says so; position by position, and that every turn is there, in the
    graph in tests/actors/test_text.py, tests/rollout/test_word_segments.py and test_unroll.py.
    """
    batch = experiment.maybe_jit(experiment.batches)(state)["rollout"]
    rows, streams = jax.device_get((batch.rows, batch.streams))
    scored = jax.device_get(jax.jit(experiment.policy.score)(state.params, batch.rows))
    mask = rows.loss_mask
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)
    # Every turn that was acted is in the row of its stream.
    turns = {
        (int(s), int(t))
        for s, turn, m in zip(rows.stream, rows.turn, mask, strict=True)
        for t in turn[m]
    }
    assert turns == {(int(n), int(t)) for n, t in np.argwhere(streams.mask)}
