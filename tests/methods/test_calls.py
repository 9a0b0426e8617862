"""Planners and workers that they call: who learns, what is shown of the calls, words, resume."""

import functools
import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout
from agentrl.config.build import build
from agentrl.evaluation import call_tree, credit_cards, credit_view
from agentrl.methods.by_turn import stream_rows
from agentrl.methods.calls import Call, Session, rows_of_calls
from agentrl.policies.by_role import Network, by_role
from agentrl.rollout.metrics import Ended, metrics_of
from agentrl.rollout.starts import task_keys
from agentrl.run import loop
from configs.teams import research, research_words

KEY = jax.random.key(0)
PLANNER, WORKER = 0, 1
OPTIONS = {"calls": 3, "patience": 2}


def small(method, of=research):
    config = of.get_config(method)
    config.mesh.data = config.num_seeds = 1
    config.updates, config.log_every = 4, 2
    config.env.update(OPTIONS)
    config.rollout.update(num_groups=4, group_size=4)
    config.evaluation.update(every=0, episodes=8)
    config.warm_start.updates = 0
    if of is research_words:
        config.policy.update(width=16, layers=1, kv_heads=1, hidden=32, constrained=True)
        config.learner.microbatch = 20
    return config


def networks(env):
    """A network per role."""
    shapes = env.observation_shape, env.num_codes
    spans = {agent: env.role_actions[agent] for agent in (0, 1)}
    made = {
        name: policies.mlp(*shapes, spans[agent][1], hidden=(8,), critic="none")
        for name, agent in (("planner", 0), ("workers", 1))
    }
    agents = {"planner": (0,), "workers": tuple(range(1, env.num_agents))}
    parts = {name: Network(made[name], agents[name], *spans[min(agents[name])]) for name in made}
    return by_role(parts, train=("planner", "workers")), None


def adapters(env):
    """One transformer with an adapter per role."""
    sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    policy = policies.transformer(env.view, constrained=True, lora_rank=2, lora_roles=2, **sizes)
    return policy, rollout.contexts.window(history=0)


def of_role(gradient, make, role):
    """The gradient of what a role has of its own, as one vector."""
    if make is networks:
        own = gradient[("planner", "workers")[role]]
    else:
        own = jax.tree.map(lambda x: x[:, role], gradient["lora"])
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(own)])


@functools.cache
def acted(make):
    """(policy, weights, streams, rows): episodes of networks or adapters."""
    env, params = envs.make("Research-v1", **OPTIONS)
    policy, context = make(env)
    sizes = {"num_groups": 4, "group_size": 4, "mask_illegal": context is None}
    made = rollout.episodes(policy, env, params, context, **sizes)
    # Adapters begin as zeros, where half of the gradient is zero, too.
    rng = np.random.default_rng(0)
    weights = jax.tree.map(
        lambda x: np.asarray(x) + np.float32(0.1 * rng.normal(size=x.shape)),
        jax.jit(policy.init)(KEY),
    )
    _, streams, rows, _ = jax.jit(made.collect)(weights, made.init(KEY), KEY)
    return policy, weights, streams, rows


@pytest.mark.parametrize("make", [networks, adapters])
def test_a_frozen_role_has_no_gradient_and_the_other_that_of_both(make):
    policy, weights, streams, rows = acted(make)
    credit = jnp.where(streams.mask, jax.random.normal(KEY, streams.mask.shape), 0.0)

    def loss(weights, kept):
        told = policy.score(weights, rows)
        turn = jnp.maximum(rows.turn, 0)
        each = jnp.where(kept[:, None], credit, 0.0)[rows.stream[:, None], turn]
        return -jnp.sum(jnp.where(rows.loss_mask, each * told.logp, 0.0))

    gradient = jax.jit(jax.grad(loss))
    both = gradient(weights, jnp.any(streams.mask, axis=1))
    for role in (PLANNER, WORKER):
        kept = advantages.only_roles(streams.mask, streams.role, roles=(role,))
        assert 0 < kept.sum() < jnp.any(streams.mask, axis=1).sum()
        alone = gradient(weights, kept)
        own = of_role(both, make, role)
        assert np.abs(own).max() > 0
        np.testing.assert_allclose(of_role(alone, make, role), own, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(of_role(alone, make, 1 - role), 0.0)


@pytest.mark.parametrize(
    ("method", "of"),
    [("matpo", research_words), ("workers", research)],
    ids=["words", "arrays beside the expert"],
)
def test_a_run_resumes(method, of, tmp_path):
    config = small(method, of)
    if method == "workers":
        config.policy.roles.workers.agents = (1, 2, 3)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert loop.run(config, whole, command="test")
    config.updates = 2
    assert loop.run(config, halves, command="test")
    config.updates = 4
    assert loop.run(config, halves, command="test")
    told = [
        [json.loads(line) for line in (where / "metrics.jsonl").read_text().splitlines()]
        for where in (whole, halves)
    ]
    for one, other in zip(*told, strict=True):
        for name, value in one.items():
            if not name.startswith("time/") and "per_second" not in name and "wall" not in name:
                assert other.get(name) == value or name in ("compile_time", "peak_memory_gib"), name
        # The learner's log-probabilities are the sampler's.
        assert one["kl/rollout_train"] < 1e-6 and 0 <= one["success_rate"] <= 1


def test_the_report_shows_the_tree_of_calls():
    experiment = build(small("matpo"))
    params = jax.jit(experiment.init)(0).params

    @jax.jit
    def collected(params, key):
        begun = experiment.rollout.init(KEY)
        states = experiment.rollout.states(params, begun, key)
        _, streams, rows, _ = experiment.rollout.collect(params, begun, key)
        credit = advantages.matpo(streams.reward, streams.mask, streams.group, streams.parent)
        return states, streams, rows, {"MATPO": credit}

    states, streams, rows, credit = collected(params, jax.random.split(KEY)[1])
    streams = jax.tree.map(np.asarray, streams)
    agents = experiment.rollout.agents
    caller = call_tree.callers(streams)
    assert (caller[::agents] < 0).all() and (np.delete(caller, np.s_[::agents]) >= 0).all()
    root = next(r for r in range(0, len(caller), agents) if streams.mask[r + 1].any())
    course = call_tree.course(streams, root)
    assert [place.turn for place in course] == list(range(len(course)))
    assert {place.depth for place in course} == {0, 1}
    assert sum(place.stream == root for place in course) == streams.mask[root].sum()
    shown = credit_view.view(
        experiment.env, experiment.env_params, streams, rows, states, credit, episodes=2
    )
    assert shown.group_size == 4
    for episode in shown.episodes:
        assert [turn.number for turn in episode.turns] == list(range(len(episode.turns)))
        workers = [turn for turn in episode.turns if turn.depth]
        assert all(
            turn.agent > 0 and turn.action.split()[0] in ("open", "report") for turn in workers
        )
    html = credit_cards.section(shown)
    assert "agent 1, called" in html and "margin-left:1.5em" in html


def test_a_branch_is_no_call():
    session = Session([Call((1,), (2,), (0.0,))], 1.0, 0)
    streams, _ = rows_of_calls([session] * 2, calls=1, rows=2, row_tokens=2)
    branched = streams.replace(parent=np.array([-1, 0]), call_turn=np.array([-1, 0]))
    assert call_tree.callers(branched).tolist() == [-1, -1]
    called = branched.replace(episode=np.array([3, 3]))
    assert call_tree.callers(called).tolist() == [-1, 0]


def test_metrics_are_of_those_that_nobody_calls():
    """Two teams of a planner and a drone, and one in which the planner is not learnt from."""
    won = jnp.array([[True, True, False, False], [False, False, True, True], [True, True] * 2])
    plays = jnp.array([[True] * 4, [True, False, True, True], [False, True, False, True]])
    nothing = jnp.zeros(3, bool)
    ended = Ended(
        counts=~nothing, steps=jnp.ones(3, jnp.int32), cut=nothing, offended=nothing, won=won,
        plays=plays, episode_return=won * 2.0, success=won,
    )  # fmt: skip
    env = SimpleNamespace(
        callers=(-1, 0, -1, 2), roles_of_seats=(0, 1, 0, 1), num_roles=2, num_agents=4,
        has_success=True,
    )  # fmt: skip
    valid = jnp.ones((12, 1), bool)
    told = metrics_of(env, ended, SimpleNamespace(valid=valid, mask=valid))
    # Both planners of the first two episodes, and the first drone of the last.
    np.testing.assert_array_equal(told["success_rate"], [3, 5])
    np.testing.assert_array_equal(told["episode_return"], [6, 5])
    np.testing.assert_array_equal(told["win_rate/1/self"], [4, 5])


def test_a_role_is_measured_beside_the_player_that_it_learnt_with():
    """Untrained planners: beside the expert's workers their calls bring facts."""
    found = []
    for side, opponent in (("none", "random"), ("planner", "expert")):
        config = small("planner")
        config.evaluation.update(side=side, opponent=opponent)
        experiment = build(config)
        state = jax.jit(experiment.init)(0)
        keys = task_keys(0, 2048)
        (evaluate,) = [task.evaluate for task in experiment.tasks.values()]
        success = jax.jit(evaluate, static_argnums=3)(state.params, keys, KEY, False).success
        found.append(float(success.mean()))
    assert found[1] > found[0] + 0.05  # Four standard errors of the difference.


def test_rows_of_streams_keep_who_acted():
    """Networks are named by agents, though all workers have one role."""
    _, _, streams, rows = acted(networks)
    whole = stream_rows(rows, streams)
    played = np.asarray(streams.mask).any(axis=1)
    agents = np.arange(len(played)) % 4
    np.testing.assert_array_equal(np.asarray(whole.role)[played], agents[played])
    assert set(np.asarray(streams.role)) == {0, 1}


@pytest.mark.parametrize("method", research_words.VARIANTS)
def test_presets_in_words_build(method):
    config = research_words.get_config(method)
    config.init_from = "a run" if method in research_words.ADAPTED else ""
    assert build(config).rollout.roles == (1 if method == "solo" else 2)


def test_an_adapter_per_role_is_asked_for():
    config = small("planner", research_words)
    config.init_from = "nowhere"
    config.policy.lora_roles = 4
    with pytest.raises(ValueError, match="this rollout has 2 role"):
        build(config)
