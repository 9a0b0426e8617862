"""Co-self-play: a planner and skills learn together, tied to where they began."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import train_of

import envs
from agentrl import policies, rollout
from agentrl.actors.array import array_actor
from agentrl.actors.types import Actor, Decision, no_memory
from agentrl.config import section
from agentrl.config.build import build
from agentrl.players.scripted import scripted, translated
from agentrl.rollout.results import play_results
from agentrl.run import restored
from agentrl.selfplay import arena
from agentrl.trained import contestants
from configs.hierarchy import volleyball, volleyball_flat, volleyball_levels, volleyball_skills
from envs.vector import World

SEATS = 4


def small(**policy):
    config = volleyball_levels.get_config("plane")
    config.mesh.data = 1
    config.num_seeds, config.updates, config.log_every = 1, 2, 1
    config.env.update(max_seconds=0.8, max_steps_in_episode=46)
    config.policy.update(hidden=(8,), planner_hidden=(8,), **policy)
    config.rollout = section(
        rollout.episodes, num_groups=8, opponent="pool", members=2, mask_illegal=False, group_size=1
    )
    config.pool.update(capacity=2, every=1)
    config.learner.update(epochs=1, minibatches=1, microbatch=None)
    return config


@pytest.fixture(scope="module")
def trained():
    """(experiment, streams, rows, credit, params before and after an update, its metrics, those of
    the next)."""
    experiment = build(small())
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    train = jax.jit(chex.assert_max_traces(train_of(experiment), n=1))
    one, metrics = train(state)
    _, later = train(one)
    return experiment, *batch[:3], state.params, one.params, metrics, later


def test_the_policy_has_all_seats_of_a_team(trained):
    _, streams, _, credit, _, _, metrics, _ = trained
    mask = np.asarray(streams.mask).reshape(8, SEATS, -1)
    team = np.array([0, 0, 1, 1])
    np.testing.assert_array_equal(mask.any(axis=2), team == np.arange(8)[:, None] % 2)
    # Planners begin, and decide at events: seldom. Drones have every other turn.
    own = mask[mask.any(axis=2)].reshape(8, 2, -1)
    assert own[:, 0, 0].all() and not (own[:, 0] & own[:, 1]).any()
    np.testing.assert_array_equal(own.any(axis=1).sum(axis=1), own.sum(axis=(1, 2)))
    assert (own[:, 0].sum(axis=1) < 6).all() and (own[:, 1].sum(axis=1) >= 40).all()
    # A drone's turn is a control step, a planner's takes no time.
    seconds = metrics["episode_seconds"][0] / metrics["episode_seconds"][1]
    np.testing.assert_allclose(seconds, 0.02 * own[:, 1].sum(axis=1).mean(), rtol=1e-5)
    parent = np.asarray(streams.parent).reshape(8, SEATS) - 4 * np.arange(8)[:, None]
    np.testing.assert_array_equal(parent[:, 1::2], [[0, 2]] * 8)
    assert (np.asarray(streams.parent).reshape(8, SEATS)[:, ::2] == -1).all()
    assert np.isfinite(credit.advantage.values).all() and np.asarray(credit.advantage.values).any()


def test_ratios_begin_at_one_and_nothing_is_away_from_the_reference(trained):
    experiment, streams, rows, _, params, _, metrics, later = trained
    logp = jax.jit(experiment.policy.score)(params, rows).logp
    mask = np.asarray(rows.loss_mask)
    np.testing.assert_allclose(logp[mask], rows.behaviour_logp[mask], atol=1e-4)
    assert mask.sum() == np.asarray(streams.mask).sum()
    for name in ("kl/rollout_train", "kl_ref", "clip_fraction"):
        np.testing.assert_allclose(metrics[name][0] / metrics[name][1], 0, atol=1e-5)
    assert later["kl_ref"][0] > 0


def test_what_is_not_trained_stays(trained):
    *_, before, after, _, _ = trained
    change = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), *jax.device_get((before, after)))
    moved = {name for name, part in change.items() if max(jax.tree.leaves(part)) > 0}
    assert moved == {"planner", "planner critic", "critic", "hit"}


def test_a_team_is_one_player_in_the_arena():
    env, params = envs.make("PlannedVolleyball-v1", max_seconds=1.6, max_steps_in_episode=90)
    players = {name: scripted(name, env, params) for name in ("expert", "random")}
    met = arena.play_all(players, env, params, matches=16, seed=0)
    assert met.mean.shape == (2, 2, 2) and met.payoff[0, 1] > 0.9
    np.testing.assert_allclose(met.payoff, -met.payoff.T, atol=1e-6)


@pytest.fixture(scope="module")
def forms():
    """Matches of each form against itself in the two-level game, and where it is trained.

    Of decisions and of rates what their experts do; of a residual always the same command.
    """
    options = {"max_seconds": 2.0, "noise": 0.8}
    env, params = envs.make("PlannedVolleyball-v1", **options)
    made = [
        envs.make("PlanarVolleyball-v1", **options),
        envs.make("PlanarVolleyball-v1", actions="rates", **options),
        envs.make("PlannedVolleyball-v1", residual=0.3, **options),
    ]

    def always(policy_params, memory, view, key):
        return Decision(jnp.full((*view.agent.shape, 2), 0.4)), memory

    trained = [scripted("expert", *one) for one in made[:2]] + [Actor(no_memory, always)]

    def met(players, seating, env, params):
        keys = jax.random.split(jax.random.key(3), 8)
        keys = jnp.tile(keys, seating.shape[0] // 8)
        return play_results(players, World(env, params), seating, keys, jax.random.key(0))

    @jax.jit
    def here():
        players = [
            translated(player, env.form_of(other), World(other, other_params))
            for player, (other, other_params) in zip(trained, made, strict=True)
        ]
        players.append(scripted("expert", env, params))
        return met(players, jnp.repeat(jnp.arange(4)[:, None], 8, axis=0).repeat(4, 1), env, params)

    @jax.jit
    def there():
        return [
            met([player], jnp.zeros((8, one[0].num_agents), jnp.int32), *one)
            for player, one in zip(trained[1:], made[1:], strict=True)
        ]

    here = jax.tree.map(lambda x: np.asarray(x).reshape(4, 8, *x.shape[1:]), here())
    return env, made, here, there()


def test_all_forms_of_a_match_go_as_where_they_were_trained(forms):
    env, _, here, (rates, residual) = forms
    # Of decisions: as the scripted planner and skills here, turn by turn.
    for field in ("episode_return", "moves", "success"):
        np.testing.assert_array_equal(getattr(here, field)[0], getattr(here, field)[3])
    # Of rates: drones have as many turns, and the planners' are theirs to leave.
    np.testing.assert_array_equal(here.moves[1][:, 1::2], rates.moves)
    np.testing.assert_array_equal(here.episode_return[1][:, 1::2], rates.episode_return)
    for field in ("episode_return", "moves", "success"):
        np.testing.assert_array_equal(getattr(here, field)[2], getattr(residual, field))
    assert (here.success.any(axis=2).sum(axis=1) > 0).all()


def test_other_matches_are_no_form_of_it(forms):
    env, made, *_ = forms
    rotors, _ = envs.make("PlanarVolleyball-v1", actions="rotors")
    for other in (rotors, envs.make("Volleyball-v1")[0], envs.make("TicTacToe-v1")[0]):
        assert env.form_of(other) is None
    # Commands cannot be undone into what a residual adds.
    assert made[2][0].form_of(env) is None and made[2][0].form_of(made[1][0]) is None
    memory = policies.gru((26,), None, 4, hidden=(4,), memory_size=4)
    player = array_actor(memory, None, greedy=True)
    with pytest.raises(ValueError, match="a policy with memory, trained in PlanarVolleyball"):
        translated(player, env.form_of(made[0][0]), World(*made[0]))


def _run(config):
    """What `restored.load` gives for a run of the config that has only begun."""
    experiment = build(config)
    state = jax.jit(jax.vmap(experiment.init))(jnp.arange(config.num_seeds))
    return restored.Run(config, experiment, 0, state)


def test_runs_of_all_forms_are_players_of_two_levels(monkeypatch, tmp_path):
    configs = [small(), volleyball.get_config("plane"), volleyball_flat.get_config("plane")]
    for config in configs:
        config.num_seeds = 1
    runs = {name: _run(config) for name, config in zip("abc", configs, strict=True)}
    monkeypatch.setattr(restored, "load", lambda path, update: runs[path.name])
    names = [str(tmp_path / name) for name in runs]
    for name in runs:
        (tmp_path / name).mkdir()
    env, params = envs.make("PlannedVolleyball-v1", max_seconds=0.2, max_steps_in_episode=12)
    players = contestants.named(names, env, params, greedy=True)
    assert list(players) == names
    seating, keys = jnp.zeros((3, SEATS), jnp.int32), jax.random.split(jax.random.key(0), 3)
    met = jax.eval_shape(
        lambda key: play_results(list(players.values()), World(env, params), seating, keys, key),
        keys[0],
    )
    assert met.moves.shape == (3, SEATS)
    residual, _ = envs.make("PlannedVolleyball-v1", residual=0.3)
    with pytest.raises(ValueError, match="plays PlanarVolleyball, not PlannedVolleyball"):
        contestants.named(names, residual, params, greedy=True)


def test_parts_begin_from_runs_of_their_own(monkeypatch):
    planner = volleyball.get_config("plane")
    planner.policy = section(policies.mlp, hidden=(8,))
    skill = volleyball_skills.get_config("plane_hit")
    skill.policy = section(policies.mlp, hidden=(8,), log_std=-0.5)
    for config in (planner, skill):
        config.num_seeds = 2
    runs = {"one": _run(planner), "other": _run(skill)}
    monkeypatch.setattr(restored, "load", lambda path: runs[str(path)])
    config = small()
    config.seed = 1
    config.init_from = "planner=one,hit=other"
    experiment = build(config)
    params = restored.beginning(config, experiment)
    assert params.keys() == {"planner", "hit"}
    np.testing.assert_allclose(params["hit"]["log_std"], [[-0.5, -0.5]])
    for name, run in (("planner", "one"), ("hit", "other")):
        theirs = runs[run].state.params
        for key, part in params[name].items():
            jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b[1]), part, theirs[key])
    for wrong, message in (
        ("fly=one", "the policy has no 'fly'"),
        ("hit=one", "'hit=one' holds another policy"),
    ):
        config.init_from = wrong
        with pytest.raises(restored.RunError, match=message):
            restored.beginning(config, experiment)
    config.seed, config.init_from = 2, "planner=one"
    with pytest.raises(restored.RunError, match="has seeds 0 to 1, this config 2 to 2"):
        restored.beginning(config, experiment)
