"""Tool programs: answers and programs against plain Python, scripted episodes, and their words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.tool_program import rules

FAMILIES = rules.FAMILIES


functions = functools.partial(playing.functions, "ToolProgram-v1")
teller = functools.partial(playing.teller, "ToolProgram-v1")


def task(family, digits, arguments=(0, 0), **options):
    """First state of a given task."""
    *_, reset, _ = functions(**options)
    return reset(jax.random.key(0)).replace(
        family=jnp.uint8(FAMILIES.index(family)),
        digits=jnp.array(digits, jnp.uint8),
        arguments=jnp.array(arguments, jnp.uint8),
    )


def plain_answers(family, digits, a, b):
    """Right answers in plain Python."""
    digits = [int(d) for d in digits]
    places = range(len(digits))
    if family in ("max", "min"):
        best = {"max": max, "min": min}[family](digits)
        return {i for i in places if digits[i] == best}
    if family == "count":
        return {digits.count(a)}
    if family == "find":
        return {i for i in places if digits[i] == a}
    if family == "range":
        return {sum(digits[a : b + 1]) % 10}
    if family == "pair":
        return {i for i in places for j in places if i != j and digits[i] + digits[j] == a}
    if family == "sort":
        return {0} if digits == sorted(digits) else set()
    text = "".join("()"[d] for d in digits if d < 2)
    while "()" in text:
        text = text.replace("()", "")
    return {int(not text)}


@pytest.mark.parametrize("family", FAMILIES)
def test_right_answers_and_drawn_tasks(family):
    number = FAMILIES.index(family)

    @jax.vmap
    def draw(key):
        digits, arguments = rules.draw(key, number, 6)
        return digits, arguments, rules.right(digits, arguments)[number]

    drawn = jax.tree.map(np.asarray, jax.jit(draw)(jax.random.split(jax.random.key(0), 256)))
    answers = [
        plain_answers(family, digits, int(a), int(b))
        for digits, (a, b), _ in zip(*drawn, strict=True)
    ]
    for expected, found in zip(answers, drawn[2], strict=True):
        assert expected == set(np.flatnonzero(found))
    if family not in ("sort", "balance"):
        assert all(answers)
    allowed = np.flatnonzero(rules.allowed(6)[number]) - rules.layout(6).done
    assert set.union(*answers) <= set(allowed)
    if family == "balance":
        assert 90 < sum(1 in answer for answer in answers) < 166


@functools.cache
def played(cells, notes):
    """Experts' episodes of all families."""
    env, params, *_ = functions(cells=cells, notes=notes, families=FAMILIES)
    return playing.episodes(env, params, 512, int(rules.longest(cells).max()), seed=1)


@pytest.mark.parametrize("cells", [4, 6])
def test_programs_answer_within_their_longest_run(cells):
    history = played(cells, True)
    last = history.last
    np.testing.assert_array_equal(history.reward.sum(axis=1), 1.0)
    assert bool(last.won.all())
    family, time = np.asarray(last.family), np.asarray(last.time)
    for number, worst in enumerate(rules.longest(cells)):
        calls = time[family == number]
        assert len(calls) > 20 and calls.max() <= worst
        # The bound is reached, but for sort, whose worst case is rare.
        if FAMILIES[number] != "sort":
            assert calls.max() == worst


def test_programs_call_their_own_tools():
    history = played(6, True)
    assert np.all(history.info["valid"][~history.state.finished])


def test_programs_look_at_nothing_but_the_notes():
    rng = np.random.default_rng(0)
    program = jax.jit(jax.vmap(rules.programs))
    digits = rng.integers(10, size=(300, 6)).astype(np.uint8)
    read = rng.random((300, 6)) < 0.6
    digits[:100] %= 2
    other = np.where(read, digits, rng.integers(10, size=(300, 6))).astype(np.uint8)
    other[:100] = np.where(read, digits, rng.integers(2, size=(300, 6)))[:100]
    arguments = np.stack([rng.integers(10, size=300), np.full(300, 5)], axis=1).astype(np.uint8)
    notes = rules.Notes(read, read, np.zeros((300, 15), bool))
    ours, theirs = program(digits, arguments, notes), program(other, arguments, notes)
    for family, rows in (("count", 300), ("find", 300), ("pair", 300), ("balance", 100)):
        number = FAMILIES.index(family)
        known = ~read.all(axis=1)[:rows]
        np.testing.assert_array_equal(ours[:rows, number][known], theirs[:rows, number][known])


def test_scripted_sort():
    env, _, _, step = functions()
    state, tell, actions = task("sort", (3, 1, 2, 5, 5, 9)), teller(), env.action_names
    _, _, reward, done, info = step(state, actions.index("done 0"))
    assert (float(reward), bool(done), bool(info["success"])) == (0.0, True, False)
    said = []
    for name in ("get 0", "cmp 1 2", "cmp 0 1", "swap 0 1", "swap 1 2", "done 0"):
        _, state, reward, done, info = step(state, actions.index(name))
        said.append((tell(state), float(reward), bool(done), bool(info["valid"])))
    assert said == [
        ("sort:", 0.0, False, False),
        ("sort: 1<2", 0.0, False, True),
        ("sort: 0>1 1<2", 0.0, False, True),
        # 1 3 2: what was known of cell 1 is known of cell 0 now.
        ("sort: 0<1 0<2", 0.0, False, True),
        ("sort: 0<1 0<2", 0.0, False, True),
        ("sort: 0<1 0<2", 1.0, True, True),
    ]


def test_scripted_count_with_and_without_notes():
    env, _, _, step = functions()
    bare, _, _, step_bare = functions(notes=False)
    first = task("count", (4, 0, 4, 1, 2, 9), (4, 0))
    second = task("count", (4, 0, 4, 1, 2, 9), (4, 0), notes=False)
    for name, with_notes, without in (
        ("get 2", "count 4: 2:4", "count 4: 2:4"),
        ("get 1", "count 4: 1:0 2:4", "count 4: 1:0"),
    ):
        action = env.action_names.index(name)
        seen, first, *_ = step(first, action)
        seen_bare, second, *_ = step_bare(second, action)
        assert (teller()(first), teller(notes=False)(second)) == (with_notes, without)
    # Family 2, arguments 4 and 0, cells 1 and 2 read as 0 and 4.
    np.testing.assert_array_equal(seen[:9], [2, 4, 0, 0, 1, 5, 0, 0, 0])
    np.testing.assert_array_equal(seen_bare, [2, 4, 0, 1 + 1, 1 + 0])
    _, _, reward, done, info = step(first, env.action_names.index("done 2"))
    assert (float(reward), bool(done), bool(info["success"])) == (1.0, True, True)
    _, _, reward, done, info = step(first, env.action_names.index("done 3"))
    assert (float(reward), bool(done), bool(info["success"])) == (0.0, True, False)
    assert teller(wording="faithful")(first) == (
        "How many cells hold 4?\nCell 1 holds 0.\nCell 2 holds 4."
    )
    assert env.render(first, None) == "count 4 | 4 [0] [4] 1 2 9 | get 1"


def test_swaps_carry_what_is_known_along():
    rng = np.random.default_rng(0)
    first, second = rules.pairs(6)
    swap = jax.jit(rules.swap)
    for _ in range(20):
        digits, compared = rng.permutation(6).astype(np.uint8), rng.random(15) < 0.5
        pair = rng.integers(15)
        moved, known = swap(digits, compared, pair)
        i, j = first[pair], second[pair]
        expected = digits.copy()
        expected[[i, j]] = digits[[j, i]]
        np.testing.assert_array_equal(moved, expected)
        before = {
            frozenset((digits[a], digits[b]))
            for a, b in zip(first[compared], second[compared], strict=True)
        }
        known = np.asarray(known)
        assert before == {
            frozenset((expected[a], expected[b]))
            for a, b in zip(first[known], second[known], strict=True)
        }


def test_limit_is_that_of_the_family():
    env, params, _, step = functions()
    state = task("find", (0, 1, 2, 3, 4, 5), (5, 0))
    # Halving takes at most three reads and the answer: 1.5 * 4 = 6 calls.
    for taken in range(1, 8):
        _, state, *_ = step(state, 0)
        assert bool(env.is_truncated(state, params)) == (taken >= 6)


def test_splits():
    families = {}
    for split in ("seen", "unseen"):
        states = playing.starts(*functions(split=split)[:2], 256)
        families[split] = {FAMILIES[i] for i in np.asarray(states.family)}
    assert families == {"seen": set(rules.SEEN), "unseen": set(rules.UNSEEN)}
    assert families["seen"] | families["unseen"] == set(FAMILIES)


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("notes", [False, True])
def test_everything_is_told_within_the_bounds(wording, notes):
    tell = teller(wording=wording, notes=notes)
    every = rules.Notes(np.ones(6, bool), np.ones(6, bool), np.ones(15, bool))
    nothing = rules.Notes(np.zeros(6, bool), np.zeros(6, bool), np.zeros(15, bool))
    for family in FAMILIES:
        tool = rules.TOOLS[family][0]
        known = {"get": "read", "sum": "summed", "cmp": "compared"}[tool]
        kept = nothing._replace(**{known: getattr(every, known)})
        arguments = (18, 0) if family == "pair" else (0, 5)
        state = task(family, (9,) * 6, arguments, wording=wording, notes=notes)
        assert tell(state.replace(notes=kept))
    if not notes:
        said = {tell(state.replace(last=jnp.uint8(call))) for call in range(1, 43)}
        assert len(said) == 42
