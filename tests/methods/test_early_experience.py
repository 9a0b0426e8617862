"""Early experience: which actions are tried, what of a row is learnt, and what a thought says."""

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import train_and_resume
from tiny import talk_config

from agentrl import losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import Context
from agentrl.methods import early_experience as module
from agentrl.methods.early_experience import early_experience, reflections, tried_actions
from agentrl.policies import codec as codecs
from envs.frozen_lake import rules
from envs.frozen_lake.env import FrozenLakeState

# What a reply with the thought of four actions takes on a lake of 2 x 2: tags, commands, maps.
ROOM = 32


def config_of(component=early_experience, context=rollout.contexts.whole, room=None, **options):
    config = talk_config(log_every=1, warm_start__updates=2)
    config.env.update(size=2, slippery=False, max_steps_in_episode=4)
    config.policy.grammar = "action"
    history = {"history": 1} if context is rollout.contexts.window else {}
    config.context = section(context, max_new_tokens=room, **history)
    config.objective.policy.weight = config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    name = component.__name__
    config.components[name] = section(component, **options)
    loss = losses.observation_loss if component is early_experience else losses.behaviour_cloning
    config.objective.experience = term(loss, source=name, during="both")
    return config


def setup_of(config):
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    return experiment, own_pieces.SETUPS.pop()


def lake():
    """You, ice / a hole, the goal: the expert goes right and then down."""
    holes = jnp.array([[False, False], [True, False]])
    one = FrozenLakeState(jnp.int32(0), rules.pack(holes), jnp.int32(3), jnp.int32(0))
    return jax.tree.map(lambda x: jnp.asarray(x)[None], one)


def texts(setup, rows, where):
    """The text of each row's positions where this is True."""
    tokens, where = np.asarray(rows.tokens), np.asarray(where)
    return [
        codecs.decode(setup.policy.codec, row[there])
        for row, there in zip(tokens, where, strict=True)
    ]


def test_the_experts_action_and_others():
    legal = jnp.array([1, 0, 1, 1, 1], bool)
    keys = jax.random.split(jax.random.key(0), 300)
    drawn = np.zeros(5)
    for action, there in zip(
        *jax.vmap(lambda key: tried_actions(legal, 3, 2, key))(keys), strict=True
    ):
        assert there.all() and 3 in action and 1 not in action
        assert (np.diff(action) > 0).all()  # in order, each once
        drawn[np.asarray(action)] += 1
    np.testing.assert_allclose(drawn, [200, 0, 200, 300, 200], atol=25)
    # Fewer are legal than are asked for; the others stand behind.
    action, there = tried_actions(jnp.array([0, 1, 0, 1], bool), 1, 3, keys[0])
    np.testing.assert_array_equal(there, [1, 1, 0, 0])
    np.testing.assert_array_equal(action[:2], [1, 3])
    action, there = tried_actions(legal, 4, 0, keys[0])
    assert action.tolist() == [4] and there.all()


@pytest.mark.parametrize("context", [rollout.contexts.whole, rollout.contexts.window])
def test_what_follows_is_learnt_worked_example(context):
    """Both states of the expert, each with all four actions: what is read, and what is trained."""
    _, setup = setup_of(config_of(context=context))
    room = module._room(setup, "early_experience", 3, 0)
    rows = jax.jit(lambda key: module._branches(room, lake(), 3, 3, key))(jax.random.key(0))
    reply = "<think></think><action>{}</action>".format
    first, right = "P_\nOG", "_P\nOG"
    if context is rollout.contexts.whole:  # the window shows one turn
        right = first + reply("right") + right
    expected = {
        (first + reply("left"), "P_\nOG"),
        (first + reply("down"), "__\nXG"),  # in the hole
        (first + reply("right"), "_P\nOG"),
        (first + reply("up"), "P_\nOG"),
        (right + reply("left"), "P_\nOG"),
        (right + reply("down"), "__\nO*"),  # at the goal
        (right + reply("right"), "_P\nOG"),
        (right + reply("up"), "_P\nOG"),
    }
    mask = np.asarray(rows.loss_mask)
    used = mask.any(axis=1)
    assert used.sum() == 8 and len(used) == 12  # the third state is none
    told = zip(texts(setup, rows, ~mask & (rows.span >= 0)), texts(setup, rows, mask), strict=True)
    assert {pair for pair, use in zip(told, used, strict=True) if use} == expected
    # Nothing that the agent has written, and nothing in front of it.
    assert (np.asarray(rows.span)[mask] == 0).all()
    for row, there in enumerate(mask):
        if used[row]:
            wrote = np.flatnonzero(np.asarray(rows.span[row]) > 0)
            assert np.flatnonzero(there).min() == wrote.max() + 1

    def loss(logp):
        return jnp.sum(losses.observation_loss(logp, rows.loss_mask))

    # Padding and what was read before say anything.
    poisoned = jnp.where(rows.loss_mask, -0.5, jnp.nan)
    np.testing.assert_allclose(loss(poisoned), 0.5 * mask.sum())
    np.testing.assert_array_equal(jax.grad(loss)(poisoned), np.where(mask, -1.0, 0.0))


def test_an_experts_action_alone_and_a_last_turn():
    """alternatives=0; and the observation behind the last turn that there may be is not cut."""
    config = config_of()
    config.env.max_steps_in_episode = 2
    _, setup = setup_of(config)
    room = module._room(setup, "early_experience", 0, 0)
    rows = jax.jit(lambda key: module._branches(room, lake(), 0, 2, key))(jax.random.key(0))
    assert set(texts(setup, rows, rows.loss_mask)) == {"_P\nOG", "__\nO*"}


def test_a_thought_tells_what_each_action_leads_to():
    """Two turns; the expert's action is among those of the thought, and is then taken."""
    _, setup = setup_of(config_of(reflections, room=ROOM, alternatives=3))
    room = module._room(setup, "reflections", 3, 1)

    @jax.jit
    def play(key):
        return module._played(room, module._reflecting(room, 3), lake(), key)

    streams, rows = play(jax.random.key(0))
    assert streams.success.any() and streams.valid[streams.mask].all()
    one = "<think>leftP_\nOGdown__\nXGright_P\nOGupP_\nOG</think><action>right</action>"
    two = "<think>leftP_\nOGdown__\nO*right_P\nOGup_P\nOG</think><action>down</action>"
    assert texts(setup, rows, rows.loss_mask) == [one + two]
    assert texts(setup, rows, rows.span >= 0) == ["P_\nOG" + one + "_P\nOG" + two]
    # With one alternative a thought is of two actions, the expert's and another one.
    few = jax.jit(lambda key: module._played(room, module._reflecting(room, 1), lake(), key))
    seen = set()
    for seed in range(8):
        _, rows = few(jax.random.key(seed))
        (text,) = texts(setup, rows, rows.loss_mask & (rows.turn == 0))
        thought = text.partition("</think>")[0]
        seen |= {name for name in ("left", "down", "up") if name in thought}
        assert "right_P\nOG" in thought and thought.count("G") == 2
    assert seen == {"left", "down", "up"}


def test_the_tasks_are_those_of_the_demonstrations():
    """The prompts of branches are what the expert has read, of its two demonstrations alone."""
    config = config_of(states=16)
    config.expert.update(demonstrations=2, episodes=8)
    experiment, setup = setup_of(config)
    state = jax.jit(experiment.init)(0)

    @jax.jit
    def made(key):
        expert, own = (experiment.components[name] for name in ("expert", "early_experience"))
        context = Context(setup, state.carry["expert"], state.params, key)
        shown = expert.source.make(context, {})
        return shown[1], own.source.make(context, {"expert": shown})[1]

    for seed in range(3):
        shown, rows = made(jax.random.key(seed))
        known = texts(setup, shown, shown.span >= 0)
        assert len(set(known)) <= 2
        used = np.asarray(rows.loss_mask.any(axis=1))
        read = texts(setup, rows, (rows.span >= 0) & ~rows.loss_mask)
        for text, use in zip(read, used, strict=True):
            if use:
                before = text.rpartition("<think>")[0]
                assert any(episode.startswith(before) for episode in known)


@pytest.mark.parametrize("component", [early_experience, reflections])
def test_it_learns_resumes_and_is_traced_once(component, tmp_path):
    room = ROOM if component is reflections else None
    config = config_of(component, room=room, alternatives=2)
    # No term is of the expert: what it plays is read all the same.
    config.objective.imitation.weight = 0.0
    config.objective.imitation.during = "rl"
    config.objective.imitation.source = "rollout"
    _, _, metrics = train_and_resume(config, tmp_path)
    assert all(np.isfinite(told["loss/experience"]) for told in metrics)


@pytest.mark.parametrize(
    ("component", "options", "said"),
    [
        (early_experience, {"context": rollout.contexts.window}, "history=0"),
        (early_experience, {"alternatives": 4}, "at most 3"),
        (early_experience, {"states": 0}, "at least 1"),
        (reflections, {"alternatives": 0}, "at least 1"),
        (reflections, {}, "max_new_tokens=24"),
        (reflections, {"grammar": "bare"}, "think='none'"),
    ],
)
def test_errors(component, options, said):
    grammar = options.pop("grammar", "action")
    config = config_of(component, **options)
    config.policy.grammar = grammar
    if "history" in config.context:
        config.context.history = 0
    with pytest.raises(ValueError, match=said):
        build(config)
