"""Value learners over a data set: the set, draws from it, what is learnt from it, and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import distance, lake, train_and_resume

import envs
from agentrl import losses
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.networks import Embedding
from agentrl.methods.offline_values import Losses, Networks, offline_values
from agentrl.methods.transitions import drawn, mean_return, played, recorded, shares
from agentrl.trajectories import files, schema

SMALL = {"expert": 4, "random": 4, "mixed": 8, "hidden": 8, "steps": 2, "batch": 16, "rows": 32}


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.components.offline_values = section(offline_values, **SMALL | options)
    config.objective.policy.weight = 0.0
    config.objective.offline = term(losses.weighted_imitation, source="offline_values")
    return config


def data_of(noise, best=1.0):
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=6)
    noise = jnp.float32(noise)
    play = jax.jit(lambda key: played(env, params, noise, key, gamma=0.9, best=best))
    return jax.device_get(play(jax.random.key(0)))


def test_the_data_are_whole_episodes():
    noise = [0.0] * 4 + [1.0] * 12
    data = data_of(noise, best=0.25)
    by_episode = jax.tree.map(lambda x: x.reshape(16, 6, *x.shape[1:]), data)
    mask, length = by_episode.acted, by_episode.acted.sum(axis=1)
    assert (np.diff(mask.astype(int), axis=1) <= 0).all() and (length >= 1).all()
    for n in range(16):
        last = length[n] - 1
        np.testing.assert_array_equal(
            by_episode.following[n, :last], by_episode.observation[n, 1 : last + 1]
        )
        reward = by_episode.reward[n, : length[n]]
        np.testing.assert_allclose(
            by_episode.to_go[n, : length[n]],
            [sum(0.9**k * r for k, r in enumerate(reward[t:])) for t in range(length[n])],
            rtol=1e-6,
        )
        # An episode that is shorter than the limit was ended by the rules.
        assert by_episode.over[n, last] or length[n] == 6
        assert not by_episode.over[n, :last].any()
    # Nothing is learnt from after the end.
    assert not data.over[~data.acted].any() and not data.to_go[~data.acted].any()
    # The expert always arrives; the best quarter are all those that do.
    returns = np.where(mask, by_episode.reward, 0).sum(axis=1)
    assert (returns[:4] == 1).all() and by_episode.of_expert[:4][mask[:4]].all()
    assert not by_episode.of_expert[4:].any()
    # What the expert does is its way, and some of what random play does.
    assert by_episode.of_way[:4][mask[:4]].all() and 0 < by_episode.of_way[4:].mean() < 0.6
    np.testing.assert_array_equal(by_episode.best, mask & (returns == 1)[:, None])
    np.testing.assert_allclose(mean_return(data, 16), returns.mean(), rtol=1e-6)


def test_draws_have_their_shares():
    data = data_of([0.0, 1.0, 1.0, 1.0])
    for share in (None, 0.0, 0.25, 1.0):
        each = np.asarray(shares(data, share))
        np.testing.assert_allclose(each.sum(), 1, rtol=1e-5)
        assert not each[~data.acted].any()
        expected = data.of_expert.sum() / data.acted.sum() if share is None else share
        np.testing.assert_allclose(each[data.of_expert].sum(), expected, atol=1e-6)
    got = drawn(data, shares(data, 0.25), 4096, jax.random.key(1))
    assert got.acted.all()
    np.testing.assert_allclose(got.of_expert.mean(), 0.25, atol=0.03)


@pytest.mark.parametrize("target", ["bootstrap", "returns", "recoil"])
def test_only_the_bootstrap_reads_rewards_and_ends_bootstrap_nothing(target):
    """NaN in all that a target must not read leaves the losses as they are."""
    data = data_of([0.0, 1.0, 1.0, 1.0])
    data = jax.tree.map(lambda x: x[data.acted], data)
    networks = Networks(Embedding(8, 8, 6), Embedding(8, 1, 6), 4)
    params = {
        "q": networks.twins.init(jax.random.key(1), data.observation),
        "v": networks.state.init(jax.random.key(2), data.observation),
    }
    fit = Losses(target, "expectile", 0.5, 0.0, 0.9)
    probability = jnp.full((len(data.acted), 4), 0.25)
    plain = fit.of_transitions(networks, params, params, data, probability)
    assert np.isfinite(plain).all()
    other = data.replace(
        reward=data.reward if target == "bootstrap" else data.reward * np.nan,
        to_go=data.to_go if target == "returns" else data.to_go * np.nan,
    )
    again = fit.of_transitions(networks, params, params, other, probability)
    np.testing.assert_array_equal(plain, again)
    if target == "returns":
        # By hand: half the squared error of both twins.
        q = np.asarray(networks.q(params, data.observation))
        q = np.take_along_axis(q, data.action[:, None, None], axis=2)[..., 0]
        error = 0.5 * np.square(q - data.to_go[:, None]).sum(axis=1).mean()
        np.testing.assert_allclose(plain[0], error, rtol=1e-5)


def test_a_step_to_the_goal_weighs_more_than_one_into_a_hole():
    config = config_of(hidden=32, steps=400, batch=64, random=64, temperature=0.9, rate=0.05)
    experiment = build(config)
    component = experiment.components["offline_values"]
    state = jax.jit(experiment.init)(0)
    value, after = state.carry["offline_values"], jax.jit(component.after)
    for _ in range(3):
        value, metrics = after(value, UpdateResult(None, state.params))
    assert float(metrics["q_error"][1]) == 400
    source, rows = component.source.make(context(value, key=jax.random.key(0)), {})
    assert source is None
    notes = jax.jit(component.annotate)(context(value), None, rows)
    weight = np.asarray(notes["imitation_weight"].values)
    data = jax.device_get(value.data)
    action = np.asarray(rows.tokens)[:, 0]
    good, bad = [], []
    known = {
        (o.tobytes(), a): r
        for o, a, r, over in zip(
            data.observation[data.acted], data.action[data.acted], data.reward[data.acted],
            data.over[data.acted], strict=True,
        ) if over
    }  # fmt: skip
    for n, seen in enumerate(np.asarray(rows.observation)[:, 0]):
        reward = known.get((seen.tobytes(), action[n]))
        if reward is not None:
            (good if reward == 1 else bad).append(weight[n, 0])
    assert len(good) > 1
    assert np.mean(good) > 0.8 and (not bad or max(bad) < min(good))


def test_vem_by_hand():
    """Labels 2, 1, 2, 1 of actions that the policy drew, halved, and less 0.75."""
    label, logp = np.float32([2, 1, 2, 1]), np.log(np.float32([0.6, 0.3, 0.5, 0.2]))
    released = losses.weighted_imitation(logp, label / 2)
    np.testing.assert_allclose(np.mean(released), 0.652670, atol=1e-6)
    less = losses.weighted_imitation(logp, label / 2 - 0.75)
    np.testing.assert_allclose(np.mean(less), -0.100590, atol=1e-6)


VEM = {"target": "labels", "actions": "policy", "weights": "value", "beta": 0.5, "critic_first": 2}


@pytest.mark.parametrize("options", [{"target": "recoil", "expert_share": 0.5}, VEM])
def test_a_run_plays_nothing_learns_and_resumes(options, tmp_path):
    experiment, states, metrics = train_and_resume(config_of(**options), tmp_path)
    assert not experiment.phases[-1][0].collects
    assert distance(states[2].params, states[3].params) > 0
    assert (distance(states[0].params, states[2].params) == 0) == ("critic_first" in options)
    assert all("episode_return" not in m and m["v_error"] >= 0 for m in metrics)
    assert 0 < metrics[0]["data_return"] == metrics[-1]["data_return"] < 1


def test_cloning_alone_fits_no_values():
    config = config_of(beta=0.0, steps=0)
    experiment = build(config)
    before = jax.jit(experiment.init)(0)
    after, _ = jax.jit(experiment.phases[-1][1])(before)
    name = "offline_values"
    assert distance(before.carry[name].params, after.carry[name].params) == 0
    assert distance(before.params, after.params) > 0
    component = experiment.components[name]
    _, rows = component.source.make(context(before.carry[name], key=jax.random.key(0)), {})
    notes, seen = component.annotate(context(before.carry[name]), None, rows), rows.loss_mask
    np.testing.assert_array_equal(notes["imitation_weight"].values[seen], 1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target": "recoil"}, "expert_share=None with target='recoil'"),
        ({"expert": 0, "expert_share": 0.5}, "no episodes without noise"),
        ({"random": 0, "mixed": 0, "expert_share": 0.5}, "no episodes with noise"),
        ({"expert": 0, "random": 0, "mixed": 0}, "a data set of no episodes"),
        ({"temperature": 1.0}, "temperature=1"),
        ({"noise": (2.0,)}, "noise=.*expected probabilities"),
    ],
)
def test_refusals(options, match):
    with pytest.raises(ValueError, match=match):
        build(config_of(**options))


def episode_of(number, observations, rewards, ends, action=1):
    turns = tuple(
        schema.Turn(
            number=t, reward=reward, terminated=ends == "rules" and t == len(rewards) - 1,
            truncated=ends == "limit" and t == len(rewards) - 1, action=action,
            observation=schema.Array("float32", (4,), tuple(map(float, observations[t]))),
        )
        for t, reward in enumerate(rewards)
    )  # fmt: skip
    task = schema.Task("CartPole-v1", {}, 500)
    return schema.Episode(f"0/0/{number}", task, (schema.Agent(turns=turns),))


def file_of(tmp_path, *episodes):
    path = tmp_path / "episodes.jsonl"
    files.write(path, episodes)
    return str(path)


def test_a_file_says_the_same_by_hand(tmp_path):
    seen = np.arange(24, dtype=np.float32).reshape(6, 4)
    path = file_of(
        tmp_path,
        episode_of(0, seen[:3], [1.0, 0.0, 2.0], "rules"),
        episode_of(1, seen[3:5], [1.0, 1.0], "limit", action=0),
        episode_of(2, seen[5:], [5.0], "limit"),
    )
    env, _ = envs.make("CartPole-v1")
    data, returns = recorded(path, env, gamma=0.5, best=0.4)
    np.testing.assert_array_equal(returns, [3, 2, 5])
    # What followed a turn that a limit cut is not known: it is left out, its reward is not.
    np.testing.assert_array_equal(data.observation, seen[:4])
    np.testing.assert_array_equal(data.following, seen[[1, 2, 2, 4]])
    np.testing.assert_array_equal(data.over, [False, False, True, False])
    np.testing.assert_allclose(data.to_go, [1.5, 1.0, 2.0, 1.5])
    np.testing.assert_array_equal(data.action, [1, 1, 1, 0])
    assert not data.best.any() and data.acted.all()
    data, _ = recorded(path, env, gamma=0.5, best=0.7)
    np.testing.assert_array_equal(data.best, [True, True, True, False])


def test_a_run_from_a_file_learns_and_resumes(tmp_path):
    seen = np.random.default_rng(0).normal(size=(40, 4))
    episodes = [episode_of(n, seen[4 * n :], [1.0] * 4, "rules", action=n % 2) for n in range(10)]
    path = file_of(tmp_path, *episodes)
    config = lake()
    config.env = env_section("CartPole-v1", max_steps_in_episode=4)
    options = {name: SMALL[name] for name in ("hidden", "steps", "batch", "rows")}
    config.components.offline_values = section(offline_values, path=path, **options)
    config.objective.policy.weight = 0.0
    config.objective.offline = term(losses.weighted_imitation, source="offline_values")
    _, _, metrics = train_and_resume(config, tmp_path / "run")
    assert metrics[-1]["data_return"] == 4 and metrics[-1]["q_error"] > 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"path": "nowhere.jsonl"}, "path='nowhere.jsonl' cannot be read"),
        ({"path": "PATH", "mixed": 4}, "does not say who has played"),
        ({"path": "PATH", "target": "labels"}, "does not say who has played"),
        ({"path": "PATH"}, r"shape \(4,\) and action 1; FrozenLake has shape"),
    ],
)
def test_refusals_of_files(options, match, tmp_path):
    path = file_of(tmp_path, episode_of(0, np.zeros((1, 4)), [1.0], "rules"))
    options = {name: path if value == "PATH" else value for name, value in options.items()}
    config = config_of()
    sizes = {name: SMALL[name] for name in ("hidden", "steps", "batch", "rows")}
    config.components.offline_values = section(offline_values, **sizes | options)
    with pytest.raises(ValueError, match=match):
        build(config)
