"""LookupCheck-v1: an episode by hand, its words, and the order of tags as an automaton."""

import jax
import numpy as np
import playing
import pytest

import envs
from agentrl.policies.automaton import automaton
from agentrl.policies.formulas import parse
from configs.teams.chain_of_agents import ORDER
from envs.text import join

KEY = jax.random.key(0)
STARRED = np.int32([1, 2, 3, 4, 5, 0])


def played(*commands, lie_rate=0.0):
    """The turns of an episode that begins from oak, whose chain is oak, elm, fir: what each
    command was said to, its reward, and whether the episode is over."""
    env, params = envs.make("LookupCheck-v1", lie_rate=lie_rate)
    state = env.initial(KEY, params).replace(table=STARRED, asked=np.int32(0))
    turns, step = [], playing.programs(env)[2]
    for n, command in enumerate(commands):
        said = join(env.view.lexicon, env.view.describe(state, params))
        action = np.int32(env.action_names.index(command))
        _, state, paid, over, info = step(jax.random.key(n), state, action, params)
        turns.append((said, float(paid), bool(over), bool(info["success"])))
    return turns


CHAIN = ("plan", "lookup oak", "lookup elm", "suggest fir", "check 4")


@pytest.mark.parametrize(("answer", "right"), [("answer fir", True), ("answer elm", False)])
def test_two_lookups_lead_to_the_answer(answer, right):
    *before, last = played(*CHAIN, answer)
    assert all(turn[1:] == (0.0, False, False) for turn in before)
    assert last[1:] == (float(right), True, right)


def test_words_are_what_the_last_action_gave():
    said = [turn[0] for turn in played(*CHAIN, "plan", "suggest bay", "reflect good")]
    assert said[:3] == ["find oak", "find oak", "is elm"] and said[3] == "is fir"
    assert said[4] == "was elm now elm was fir now fir" and said[5] == "said fir"
    # A plan forgets what was found; only the first step can be asked again.
    assert said[6] == "find oak" and said[7] == "was nothing now elm was nothing now nothing"


def test_a_tool_that_always_lies_never_tells_the_truth():
    for said, *_ in played("plan", *["lookup oak"] * 4, lie_rate=1.0)[2:]:
        assert said.startswith("is ") and said != "is elm"


def test_the_scripted_team_is_right_where_the_tool_is():
    env, params = envs.make("LookupCheck-v1", lie_rate=0.0)
    state, agents, step = env.initial(KEY, params), [], playing.programs(env)[2]
    for _ in range(6):
        action = env.expert(state, params)
        agents.append(env.action_names[int(action)].split()[0])
        _, state, paid, over, _ = step(KEY, state, action, params)
    assert agents == ["plan", "lookup", "lookup", "suggest", "check", "answer"]
    assert float(paid) == 1 and bool(over)


THOUGHT = frozenset({"think"})
NAMES = ("plan", "lookup", "reflect poor", "reflect good", "suggest")
NAMES = (*NAMES, "check 1", "check 2", "check 3", "check 4", "answer")


@pytest.mark.parametrize(
    ("turns", "refused"),
    [
        (["plan", "lookup", "suggest", "check 4", "answer"], None),
        (["plan", "lookup", "suggest", "answer"], 3),
        (["plan", "lookup", "suggest", "check 2", "answer"], 4),
        (["plan", "lookup", "reflect poor", "lookup"], 3),
        (["plan", "lookup", "reflect poor", "plan", "suggest", "check 3", "answer"], None),
        (["lookup"], 0),
    ],
)
def test_the_order_of_tags(turns, refused):
    """The worked sequences: think plan think search think suggested think check(4) think answer is
    accepted, an answer after a suggestion or after check(2) is refused at that tag."""
    letters = [frozenset({n, n.split()[0]}) | THOUGHT for n in NAMES]
    made = automaton(parse(f"(always think) {ORDER}"), letters, others=[frozenset(), THOUGHT])
    dead, state = len(made.step) - 1, 0
    for n, turn in enumerate(turns):
        state = made.step[state, NAMES.index(turn)]
        assert (state == dead) == (n == refused)
    assert refused is not None or made.accepting[state]
    # Without its thought, or without a command, the first turn is refused.
    assert made.step[0, len(NAMES)] == made.step[0, len(NAMES) + 1] == dead
