"""Formulas of temporal logic against a direct evaluation of what they mean, and their automata."""

import itertools

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from agentrl.policies.automaton import NEVER, automaton
from agentrl.policies.formulas import parse

NAMES = ("a", "b")
LETTERS = [
    frozenset(n for n, on in zip(NAMES, bits, strict=True) if on)
    for bits in itertools.product((False, True), repeat=2)
]


def holds(f, trace, i=0):
    """Whether the expression (nested tuples) is true of a trace at i, by the definition."""
    last = len(trace) - 1
    if isinstance(f, str):
        return {"true": True, "false": False, "last": i == last}.get(f, f in trace[i])
    op, *rest = f
    if op == "at-most":
        count, f, *end = rest
        stop = next((j for j in range(i, last + 1) if end and holds(end[0], trace, j)), last + 1)
        return sum(holds(f, trace, j) for j in range(i, stop)) <= count
    if op == "episode":
        return last + 1 in spans(rest[0], trace, i)
    if op.startswith("until_"):
        least, most = ([0, *map(int, op.split("_")[1:])])[-2:]
        f, g = rest
        return any(
            i + k <= last
            and holds(g, trace, i + k)
            and all(holds(f, trace, i + j) for j in range(k))
            for k in range(least, most + 1)
        )
    ahead = range(i, last + 1)
    truth = {
        "not": lambda f: not holds(f, trace, i),
        "and": lambda *fs: all(holds(f, trace, i) for f in fs),
        "or": lambda *fs: any(holds(f, trace, i) for f in fs),
        "implies": lambda f, g: not holds(f, trace, i) or holds(g, trace, i),
        "next": lambda f: i < last and holds(f, trace, i + 1),
        "weak-next": lambda f: i == last or holds(f, trace, i + 1),
        "eventually": lambda f: any(holds(f, trace, j) for j in ahead),
        "always": lambda f: all(holds(f, trace, j) for j in ahead),
        "until": lambda f, g: any(
            holds(g, trace, j) and all(holds(f, trace, k) for k in range(i, j)) for j in ahead
        ),
        "weak-until": lambda f, g: holds(("or", ("always", f), ("until", f, g)), trace, i),
        "before": lambda f, g: all(
            not holds(g, trace, j) or any(holds(f, trace, k) for k in range(i, j + 1))
            for j in ahead
        ),
    }
    return truth[op](*rest)


def spans(p, trace, i):
    """Ends of the parts of a trace from i on that a pattern describes."""
    if isinstance(p, str) or p[0] in ("not", "and"):
        return {i + 1} if i < len(trace) and holds(p, trace, i) else set()
    op, *rest = p
    if op == "or":
        return set().union(*(spans(q, trace, i) for q in rest))
    if op == "next":
        ends = {i}
        for q in rest:
            ends = set().union(*(spans(q, trace, j) for j in ends))
        return ends
    bounds = [int(n) for n in op.split("_")[1:]]
    least, most = ([0, *bounds])[-2:] if bounds else (0, len(trace))
    ends, here = set(), {i}
    for times in range(most + 1):
        ends |= here if times >= least else set()
        here = set().union(*(spans(rest[0], trace, j) for j in here))
    if op == "always":
        return ends
    return set().union(*(spans(rest[1], trace, j) for j in ends))


def shown(f):
    return str(f) if isinstance(f, (str, int)) else f"({' '.join(map(shown, f))})"


def calls(inner, one, two, many):
    return st.one_of(
        st.tuples(st.sampled_from(one), inner),
        st.tuples(st.sampled_from(two), inner, inner),
        st.lists(inner, min_size=1, max_size=3).flatmap(
            lambda fs: st.sampled_from(many).map(lambda op: (op, *fs))
        ),
    )


TESTS = st.sampled_from([*NAMES, "true", ("not", "a"), ("and", "a", "b")])
PATTERNS = st.recursive(
    TESTS,
    lambda p: calls(p, ["always"], ["until", "until_2", "until_1_2"], ["next", "or"]),
    max_leaves=5,
)
FORMULAS = st.recursive(
    st.one_of(
        st.sampled_from([*NAMES, "true", "false", "last"]), st.tuples(st.just("episode"), PATTERNS)
    ),
    lambda f: st.one_of(
        calls(
            f,
            ["not", "next", "weak-next", "eventually", "always"],
            ["until", "weak-until", "before", "implies", "until_2", "until_1_2"],
            ["and", "or"],
        ),
        st.tuples(st.just("at-most"), st.integers(0, 2), f),
        st.tuples(st.just("at-most"), st.integers(0, 2), f, f),
    ),
    max_leaves=5,
)
LONGEST = 4
TRACES = [t for n in range(1, LONGEST + 1) for t in itertools.product(range(4), repeat=n)]


@settings(max_examples=60, deadline=None)
@given(FORMULAS)
def test_automaton_accepts_the_traces_of_which_the_formula_is_true(f):
    try:
        made = automaton(parse(shown(f)), LETTERS)
    except ValueError as error:  # A few formulas of this size have too many states.
        assert "has more than 4096 states" in str(error)
        reject()
    nearest = {}
    for trace in TRACES:
        state = 0
        for letter in trace:
            state = made.step[state, letter]
        true = holds(f, [LETTERS[k] for k in trace])
        assert made.accepting[state] == true, (shown(f), trace)
        if true:
            for n in range(1, len(trace)):
                left = len(trace) - n
                nearest[trace[:n]] = min(left, nearest.get(trace[:n], left))
            nearest[trace] = 0
    # What may come next: what some continuation that is short enough completes.
    for trace in TRACES:
        state = 0
        for letter in trace:
            state = made.step[state, letter]
        left = LONGEST - len(trace)
        assert (made.distance[state] <= left) == (trace in nearest), (shown(f), trace)
        if trace in nearest:
            assert made.distance[state] == nearest[trace]


def test_the_papers_react_with_at_most_five_loops():
    """24 live states and six words; IBM/llm-agent-framework's ReAct."""
    names = "question thought action action-input observation final-thought answer".split()
    loop = "(next thought action action-input observation)"
    f = parse(f"(episode (next question (until_5 {loop} final-thought) answer))")
    made = automaton(f, [frozenset({name}) for name in names])
    assert made.step.shape == (25, 7) and (made.distance < NEVER).sum() == 24

    def may(state):
        return [k for k in range(7) if made.distance[made.step[state, k]] < NEVER]

    def lengths(state, written):
        if made.accepting[state]:
            yield written
        for k in may(state):
            yield from lengths(made.step[state, k], written + 1)

    assert sorted(lengths(0, 0)) == [3, 7, 11, 15, 19, 23]
    state = made.step[0, 0]
    assert [names[k] for k in may(state)] == ["thought", "final-thought"]
    for k in [1, 2, 3, 4] * 5:
        state = made.step[state, k]
    assert [names[k] for k in may(state)] == ["final-thought"]
    assert made.distance[0] == 3


@pytest.mark.parametrize(
    ("text", "states"),
    [
        # Before the search; after it; dead.
        ("(before search answer)", 3),
        # 0 to 5 searches; dead.
        ("(at-most 5 search)", 7),
        ("(at-most 30 search answer)", 33),
        ("(always think)", 2),
        ("(always (implies answer last)) (eventually think)", 4),
        ("(until_1_3 search answer)", 6),
        ("(and search (not search))", 1),
    ],
)
def test_number_of_states(text, states):
    f = parse(text)
    names = sorted(f.names)
    letters = [
        frozenset(c) for n in range(len(names) + 1) for c in itertools.combinations(names, n)
    ]
    assert len(automaton(f, letters).step) == states


def test_letters_that_cannot_be_chosen_shorten_no_way():
    made = automaton(parse("(next (not a))"), [frozenset({"a"})], others=[frozenset()])
    assert made.step.shape == (1, 2) and made.distance[0] == NEVER and not made.accepting.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a formula"),
        ("(always think", "1 parentheses are not closed"),
        ("always think)", "closing parenthesis has no opening"),
        ('(before "search answer)', "quotation mark has no second"),
        ('""', "an empty name"),
        ("()", "expected an operator"),
        ("((always) think)", "expected an operator"),
        ("(allways think)", "unknown operator 'allways'; expected one of not, and"),
        ("always think", "an operator without parentheses; (always ...)"),
        ("(before search)", "1 arguments, expected 2"),
        ("(always a b)", "2 arguments, expected 1"),
        ("(and)", "0 arguments, expected at least 1"),
        ("(at-most search answer)", "expected a number after at-most"),
        ("(at-most 3)", "0 arguments, expected 1 or 2"),
        ("(until_x a b)", "expected until_N or until_M_N"),
        ("(until_3_1 a b)", "at least 3, at most 1"),
        ("(until_101 a b)", "101 is more than 100"),
        ("(episode (eventually a))", "unknown operator 'eventually' of patterns"),
        ("(episode (not (next a)))", "what stands for one turn"),
    ],
)
def test_wrong_specifications(text, message):
    with pytest.raises(ValueError, match="behaviour ") as caught:
        parse(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_too_many_states():
    counts = " ".join(f"(at-most 9 {name})" for name in "abcd")
    with pytest.raises(ValueError, match="more than 4096 states"):
        automaton(parse(counts), [frozenset({name}) for name in "abcd"])
