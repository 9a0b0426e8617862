"""Screens: the tree against a plain search, scripted episodes, splits, and its words."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

import envs
from envs.screens import rules
from envs.screens.env import SPLITS

SHAPES = [(3, 2, 2), (2, 3), (4,), (1, 1, 2), (2, 1, 3)]


functions = functools.partial(playing.functions, "Screens-v1")
teller = functools.partial(playing.teller, "Screens-v1")


@functools.cache
def tasks(count, **options):
    """Many first states."""
    env, params, *_ = functions(**options)
    return playing.starts(env, params, count)


@pytest.mark.parametrize("branching", SHAPES, ids=str)
def test_tree_against_a_plain_search(branching):
    tree = rules.tree(branching)
    screens = rules.size(branching)
    assert len(tree.reach) == screens
    for start in range(screens):
        distance, queue = {start: 0}, collections.deque([start])
        while queue:
            here = queue.popleft()
            for there in tree.reach[here]:
                if there >= 0 and int(there) not in distance:
                    distance[int(there)] = distance[here] + 1
                    queue.append(int(there))
        np.testing.assert_array_equal(tree.distance[start], [distance[s] for s in range(screens)])
        for goal in range(screens):
            if goal != start:
                ahead = tree.reach[start, tree.hop[start, goal]]
                assert tree.distance[ahead, goal] == tree.distance[start, goal] - 1


def test_levels_decide_what_is_on_a_screen():
    # Root, two screens below it, three below each: home is on the last level alone.
    np.testing.assert_array_equal(
        rules.tree((2, 3)).reach[[0, 1, 2, 3]],
        [[1, 2, -1, -1, -1], [3, 4, 5, 0, -1], [6, 7, 8, 0, -1], [-1, -1, -1, 1, 0]],
    )


def scripted(**options):
    """The graph in which icons and labels are in order, from screen 5 to screen 3 of (2, 2)."""
    _, _, reset, _ = functions(branching=(2, 2), icons=6, **options)
    return reset(jax.random.key(0)).replace(
        labels=jnp.arange(7, dtype=jnp.uint8),
        icons=jnp.array([6, 0, 1, 2, 3, 4, 5], jnp.uint8),
        screen=jnp.uint8(5),
        goal=jnp.uint8(3),
        distance=jnp.uint8(3),
    )


def test_scripted_episode():
    options = {"branching": (2, 2), "icons": 6}
    env, params, _, step = functions(**options)
    # Icons sun car key cat bell book lead to screens 1 to 6.
    state, tell, actions = scripted(), teller(**options), env.action_names
    assert tell(state) == "p05>p03: |back,home"
    assert actions[int(env.expert(state, params))] == "home"
    said = []
    for name in ("back", "sun", "back", "sun", "key"):
        observation, state, reward, done, info = step(state, actions.index(name))
        said.append((tell(state), round(float(reward), 4), bool(done), bool(info["valid"])))
    assert said == [
        ("p02>p03: bell,book|back", -0.1, False, True),
        ("p02>p03: bell,book|back", -1.0, False, False),
        ("p00>p03: sun,car", -0.1, False, True),
        ("p01>p03: key,cat|back", -0.1, False, True),
        ("p03>p03: |back,home", 10.0, True, True),
    ]
    np.testing.assert_array_equal(np.flatnonzero(observation), [3, 7 + 3, 14 + 6, 14 + 7])
    assert bool(info["success"])
    sentences = teller(wording="faithful", **options)
    assert sentences(scripted()) == (
        "You are on screen p05. Go to screen p03.\nButtons: back, home."
    )
    assert sentences(scripted().replace(screen=jnp.uint8(1))) == (
        "You are on screen p01. Go to screen p03.\nIcons: key, cat.\nButtons: back."
    )
    assert env.render(scripted(), params).splitlines() == [
        "   p00",
        "     sun p01",
        " $     key p03",
        "       cat p04",
        "     car p02",
        ">      bell p05",
        "       book p06",
    ]


def test_limit_is_that_of_the_task():
    env, params, _, step = functions(branching=(2, 2), icons=6)
    state = scripted()
    # A way of three moves: 2 * 3 + 4 steps.
    for taken in range(1, 12):
        _, state, *_ = step(state, 0)
        assert bool(env.is_truncated(state, params)) == (taken >= 10)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "options", [{}, {"aliased": True, "icons": 5, "branching": (2, 3)}], ids=str
)
def test_expert_takes_a_shortest_way(split, options):
    env, params, *_ = functions(split=split, **options)

    history = playing.episodes(env, params, 256, int(env.tree.distance.max()))
    states = jax.tree.map(lambda x: x[:, 0], history.state)
    last, total = history.last, history.reward.sum(axis=1)
    length = states.distance
    assert history.info["success"][:, -1].all() and history.info["valid"].all()
    np.testing.assert_array_equal(last.time, length)
    np.testing.assert_allclose(total, 10 - 0.1 * (length - 1), rtol=1e-5)


def test_splits():
    pairs = {}
    for split in SPLITS:
        states = tasks(2048, split=split)
        pairs[split] = set(zip(np.asarray(states.screen), np.asarray(states.goal), strict=True))
        labels, icons = (len(np.unique(x, axis=0)) for x in (states.labels, states.icons))
        assert (labels == 1) == (split != "graphs")
        assert (icons == 1) == (split in ("seen", "unseen"))
    assert not pairs["seen"] & pairs["unseen"]
    # 22 * 21 = 462 pairs, of which 346 and 116.
    assert len(pairs["unseen"]) == 116 and len(pairs["seen"]) > 335
    assert len(pairs["graphs"]) > 440
    same = [tasks(2048, split=split) for split in ("seen", "unseen", "icons")]
    assert all(np.array_equal(same[0].labels[0], other.labels[0]) for other in same[1:])


@pytest.mark.parametrize("split", ["seen", "graphs"])
@pytest.mark.parametrize("aliased", [False, True])
def test_icons_of_a_screen_differ(split, aliased):
    options = {"aliased": aliased, "icons": 24 if not aliased else 4}
    env, _, *_ = functions(split=split, **options)
    icons = np.asarray(tasks(64, split=split, **options).icons)
    assert np.all(icons[:, 0] == env.icons) and np.all(icons[:, 1:] < env.icons)
    for drawn in icons:
        for children in env.tree.reach[:, :-2]:
            children = children[children >= 0]
            assert len(set(drawn[children])) == len(children)
        assert (len(set(drawn)) == env.screens) == (not aliased)


def test_noise_hits_the_elements_alike():
    env, params = envs.make("Screens-v1", branching=(2, 2), icons=6, noise=0.6)
    state = scripted().replace(screen=jnp.uint8(1))
    step = jax.vmap(lambda key: env.step_env(key, state, jnp.int32(2), params)[1].screen)
    screens = np.asarray(jax.jit(step)(jax.random.split(jax.random.key(0), 20000)))
    share = np.bincount(screens, minlength=7) / 20000
    # key leads to screen 3: 0.4, and 0.2 for each of the three elements (3, 4 and back to 0).
    np.testing.assert_allclose(share, [0.2, 0, 0, 0.6, 0.2, 0, 0], atol=0.015)


@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_every_screen_is_told_within_the_bounds(wording):
    env, _, reset, _ = functions(wording=wording)
    tell, start = teller(wording=wording), reset(jax.random.key(1))
    said = [tell(start.replace(screen=jnp.uint8(screen))) for screen in range(env.screens)]
    assert len(set(said)) == env.screens
