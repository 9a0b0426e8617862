"""Drafts-v1: an episode by hand, what is read from its turns, which answer is shown, words."""

import jax
import jax.numpy as jnp
import numpy as np

import envs
from envs.drafts.env import Drafts
from envs.text import join

SMALL = {"agents": 2, "steps": 2, "terms": 2, "numbers": 5}


def start(**readings):
    env, params = envs.make("Drafts-v1", **SMALL)
    _, state = env.reset(jax.random.key(0), params)
    readings = jnp.array([[[1, 3], [-1, 3]], [[-1, -1], [4, 1]]])
    return env, params, state.replace(numbers=jnp.array([1, 3]), readings=readings)


def named(env, *names):
    return jnp.array([env.action_names.index(name) for name in names])


# Of both agents in each step; the second one has nothing to do while the first drafts longer.
PLAYED = [
    ("note 1", "answer 2"),
    ("note 3", "note 4"),
    ("note 0", "answer 4"),  # no third note: a pass
    ("note 3", "pass"),
    ("answer 3", "pass"),
    ("grade 0", "grade 1"),
    ("grade 1", "grade 3"),
]


def test_an_episode_by_hand():
    env, params, state = start()
    actions, acted, told = [], [], []
    for names in PLAYED:
        told.append([join(env.view.lexicon, env.view.describe(state, params, a)) for a in (0, 1)])
        acts, action = env.acting(state, params), named(env, *names)
        legal = np.asarray(env.legal_actions(state, params))
        _, state, reward, over, info = env.step_env(jax.random.key(1), state, action, params)
        taken = np.asarray(acts & legal[np.arange(2), action])
        assert np.asarray(info["valid"] | ~acts).tolist() == (taken | ~np.asarray(acts)).tolist()
        actions.append(jnp.where(taken, action, 0))
        acted.append(acts)
    assert bool(over) and np.asarray(reward).tolist() == [1.0, 1.0]
    assert [np.asarray(x).tolist() for x in acted][3:5] == [[True, False], [True, False]]
    # The second draft of each is well formed; the reviewers prefer that of the first agent.
    assert np.asarray(state.answers).tolist() == [[-1, 3], [2, 4]]
    assert np.asarray(state.grades).tolist() == [[0, 1], [1, 3]]
    assert told[0] == ["draft 1 3", "draft ? ?"]
    assert told[2] == ["draft 1 3 wrote 1 3", "draft 4 1 wrote 4 before so 2"]
    assert told[3][0] == "draft ? 3 before 1 3"
    assert told[5] == ["grade so 2 mine 3 so 3", "grade 1 3 mine 4 so 4"]
    written = env.written(jnp.stack(actions, axis=1), jnp.stack(acted, axis=1))
    np.testing.assert_array_equal(written.notes, state.notes)
    np.testing.assert_array_equal(written.answer, state.answers)
    np.testing.assert_array_equal(written.grade, env.by_draft(state.grades))
    assert np.asarray(written.grade)[..., 0].tolist() == [[1, 3], [0, 1]]
    assert np.asarray(written.draft).tolist() == [
        [0, 0, 0, 1, 1, -1, -1],
        [0, 1, 1, -1, -1, -1, -1],
    ]


def test_where_the_first_draft_is_not_seen_it_changes_nothing():
    for sees in (True, False):
        env, params = envs.make("Drafts-v1", sees_first=sees)
        _, state = env.reset(jax.random.key(0), params)
        state = state.replace(drafted=jnp.ones(3, jnp.int32))
        other = state.replace(answers=state.answers.at[:, 0].set(2))
        same = np.array_equal(env.observe_as(state, 0, params), env.observe_as(other, 0, params))
        assert same != sees


def test_the_expert_is_right_when_it_can_be():
    """Without blanks always; with blanks when the largest number was read: 0.3 of them are blank,
    so a largest one that stands once is read for a first draft with probability 0.7."""

    def shares(**options):
        env, params = envs.make("Drafts-v1", misread=0.0, **options)

        def play(key):
            _, state = env.reset(key, params)

            def step(state, _):
                return env.step_env(key, state, env.expert(state, params), params)[1], None

            state, _ = jax.lax.scan(step, state, length=params.max_steps_in_episode)
            once = jnp.sum(state.numbers == env.solution(state)) == 1
            return state.answers == env.solution(state), once, env.right(state)

        return jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 2048)))

    assert shares(blank=0.0)[0].all()
    right, once, _ = shares(blank=0.3)
    guessed = 0.3**3  # all blank: the expert says the highest number
    for draft, unread in ((0, 0.3), (1, 0.3**2)):
        assert abs(right[once, :, draft].mean() - (1 - unread)) < 0.02 + guessed
    assert isinstance(envs.make("Drafts-v1")[0], Drafts)
