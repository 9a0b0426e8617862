"""A user's own policies by dotted path: recognised by their signature, whatever their name."""

import itertools

import chex
import jax
import pytest
import tiny

import envs
from agentrl import policies
from agentrl.config import env_section, env_sections, roles_section, section
from agentrl.config.build import build

MODULE = """
from agentrl import policies

SIZES = {"layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}


def colder(view, *others, width: int = 16):
    return policies.transformer(view, *others, width=width, temperature=0.5, **SIZES)


def of_one_environment(view, *, codec: str = "word"):
    return policies.transformer(view, codec=codec, width=16, **SIZES)


def transformer(observation_shape, num_codes, num_actions, continuous, *, size: int = 8):
    return policies.mlp(
        observation_shape, num_codes, num_actions, continuous, hidden=(size,), critic="none"
    )


def with_critic(observation_shape, num_codes, num_actions, continuous):
    return policies.mlp(observation_shape, num_codes, num_actions, continuous, critic="shared")


def too_few(observation_shape, num_actions, *, size: int = 8):
    return transformer(observation_shape, None, num_actions, False, size=size)


def too_many(observation_shape, num_codes, num_actions, continuous, num_agents):
    return transformer(observation_shape, num_codes, num_actions, continuous)


def a_number(observation_shape, num_codes, num_actions, continuous):
    return 3


def over_arrays(view):
    return transformer((3,), None, 4, False)
"""
NUMBER = itertools.count()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The dotted path of a user's module, which stands in a folder of theirs."""
    name = f"own_policies_{next(NUMBER)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def talk(name, **options):
    config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0, log_every=1)
    config.policy = {"name": name, **options}
    return config


def test_a_language_policy_is_the_librarys_with_its_options(own):
    sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    configs = talk(f"{own}.colder"), talk("transformer", temperature=0.5, **sizes)
    states, batches = [], []
    for experiment in map(build, configs):
        assert experiment.policy.reads_text
        state = jax.jit(experiment.init)(0)
        states.append(state.params)
        batches.append(jax.jit(experiment.batches)(state)["rollout"].rows)
    chex.assert_trees_all_equal(*states)
    chex.assert_trees_all_equal(*batches)
    assert bool(batches[0].loss_mask.any())


def test_a_language_policy_learns_several_environments(own):
    config = talk(f"{own}.colder")
    config.env = env_sections(
        env_section("KuhnPoker-v1", max_steps_in_episode=3),
        env_section("FrozenLake-v1", size=3, max_steps_in_episode=4),
    )
    config.advantage = section(tiny.advantages.rae_by_turn)
    config.lexicon = ("Nim-v1",)
    experiment = build(config)
    assert experiment.rollout.tasks == ("KuhnPoker-v1", "FrozenLake-v1")
    nim, _ = envs.make("Nim-v1")
    assert experiment.policy.on(nim.view).reads_text


def test_a_network_over_arrays_may_have_any_name(own):
    experiment = build(tiny.groups_config(policy={"name": f"{own}.transformer", "size": 4}))
    assert not experiment.policy.reads_text
    config = tiny.groups_config()
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.advantage = section(tiny.advantages.rae_by_turn)
    mine = section(policies.mlp, hidden=(4,), critic="none")
    config.policy = roles_section(first=mine, second=mine)
    config.policy.roles.second = {"name": f"{own}.transformer", "agents": (1,), "size": 4}
    assert build(config).policy.init(jax.random.key(0)).keys() == {"first", "second"}


FORMS = r"expected \(observation_shape, num_codes, num_actions, continuous, \*, option\) -> Policy"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "too_few",
            r"too_few\(observation_shape, num_actions\) cannot be called as a policy over ",
        ),
        ("too_many", r"too_many\(observation_shape, .*, num_agents\) cannot be called as a policy"),
        ("a_number", "a_number gives int"),
    ],
)
def test_another_signature_is_an_error_that_shows_the_right_one(own, name, message):
    config = tiny.groups_config(policy={"name": f"{own}.{name}"})
    with pytest.raises(ValueError, match=f"config.policy.name: {message}.*{FORMS}"):
        build(config)


def test_a_language_policy_that_is_none(own):
    with pytest.raises(ValueError, match=f"over_arrays gives Policy; {FORMS}"):
        build(talk(f"{own}.over_arrays"))
    config = talk(f"{own}.of_one_environment")
    config.lexicon = ("Nim-v1",)
    with pytest.raises(ValueError, match=r"of_one_environment\(view\) cannot be called as a lang"):
        build(config)


def test_roles_have_networks_over_arrays(own):
    config = tiny.groups_config()
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.policy = roles_section(all=section(policies.mlp, critic="none"))
    config.policy.roles.all = {"name": f"{own}.colder", "agents": (0, 1)}
    with pytest.raises(ValueError, match="config.policy.roles.all.name: colder.*policy over arr"):
        build(config)


def test_a_context_is_for_language_policies(own):
    config = talk(f"{own}.colder")
    config.context = {"name": "none"}
    with pytest.raises(ValueError, match="first parameter is `view`.* need a context"):
        build(config)


def test_the_critic_of_a_network_of_ones_own_is_named_by_its_function(own):
    config = tiny.groups_config(policy={"name": f"{own}.with_critic"})
    said = rf"config.policy.name='{own}.with_critic' has a critic, but .* has_critic=False or use"
    with pytest.raises(ValueError, match=said):
        build(config)


def test_the_critic_of_a_role_is_named_by_its_section():
    config = tiny.groups_config()
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    network = section(policies.mlp, hidden=(4,), critic="shared")
    config.policy = roles_section(first=network, second=network)
    said = "config.policy.roles.first.critic='shared', but .* set config.policy.roles.first.critic"
    with pytest.raises(ValueError, match=said):
        build(config)
