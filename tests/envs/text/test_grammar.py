"""Replies: worked examples of the three grammars, an oracle in Python, and any bytes at all."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from envs.text import Lexicon, Query, View, make_grammar, parse, template

SIZE = 120


def _view(query=False):
    lexicon = Lexicon()
    things = lexicon.table(["apple", "Mug 2"])
    words = lexicon.table(["red", "blue", "shoes"])
    ways = lexicon.table(["up", "down"])
    shelf = np.array([[lexicon("shelf"), lexicon(" 7")]])
    ask = Query("search[", "]", words, 2, lambda w: 100 + 10 * (w[0] + 1) + (w[1] + 1))
    return View(
        lexicon=lexicon,
        describe=lambda state, params: jnp.zeros(1, jnp.int32),
        templates=(
            template(lexicon, "look"),
            template(lexicon, "take {thing} from {here}"),
            template(lexicon, "go {way}"),
        ),
        slots=lambda state, params: {
            "thing": things[:, None],
            "here": jnp.asarray(shelf),
            "way": ways[:, None],
        },
        max_fragments=1,
        max_bytes=1,
        max_command_bytes=24,
        query=ask if query else None,
    )


COMMANDS = ["look", "take apple from shelf 7", "take mug 2 from shelf 7", "go up", "go down"]


@functools.cache
def _parser(grammar, query=False):
    view = _view(query)
    slots = view.slots(None, None)
    return jax.jit(lambda text, length: parse(grammar, view, slots, text, length))


def run(grammar, reply, query=False):
    data = reply if isinstance(reply, bytes) else reply.encode()
    assert len(data) <= SIZE
    # What stands behind the reply must not matter.
    padded = np.frombuffer(data.ljust(SIZE, b"</answer>"[:1]), np.uint8)
    parsed = _parser(grammar, query)(padded, len(data))
    return np.asarray(parsed.actions).tolist(), bool(parsed.valid_format), bool(parsed.known)


def thinks(reply):
    padded = np.frombuffer(reply.encode().ljust(SIZE, b"x"), np.uint8)
    return bool(_parser(make_grammar("action"), False)(padded, len(reply)).thinks)


@pytest.mark.parametrize("index", range(len(COMMANDS)))
def test_commands_are_numbered_in_template_order(index):
    assert run(make_grammar("bare"), f"  {COMMANDS[index].upper()}\n") == ([index], True, True)


@pytest.mark.parametrize("reply", ["", "  ", "loo", "look!", "take apple from shelf 8", "go"])
def test_bare_unknown(reply):
    actions, _, known = run(make_grammar("bare"), reply)
    assert actions == [-1] and not known


@pytest.mark.parametrize(
    ("reply", "action", "valid"),
    [
        ("<think>hm</think><action>go up</action>", 3, True),
        ("<think>hm</think> so <action> GO UP </action> yes", 3, True),
        ("<action>go up</action>", 3, False),
        ("<think>a</think><action>go up", -1, False),
        ("<think>a</think><action>nothing</action>", -1, True),
        ("go up", 3, False),
        ("<think>中</think><action>go up</action>", 3, False),
        ("<think>x</think><action>go up</action><action>look</action>", 3, True),
        ("</action><action>go up", -1, True),
    ],
)
def test_action_grammar(reply, action, valid):
    # The last example has both tags, the wrong way round: the code base finds each and cuts out
    # nothing. Its format check asks for the thought as well, so think is optional here.
    think = "optional" if reply.startswith("</") else "default"
    actions, valid_format, _ = run(make_grammar("action", think=think), reply)
    assert (actions[0], valid_format) == (action, valid)


@pytest.mark.parametrize(
    ("reply", "actions", "valid"),
    [
        ("<think>t</think> <answer>go up || look</answer>", [3, 0, -1, -1, -1], True),
        ("<think>t</think>\n\n<answer>look</answer> tail", [0, -1, -1, -1, -1], True),
        ("<think>t</think> and <answer>look</answer>", [-1] * 5, False),
        ("<think>a</think> x </think><answer>look</answer>", [0, -1, -1, -1, -1], True),
        ("<answer>look</answer>", [-1] * 5, False),
        ("<think>t</think><answer>bad||look|||go up</answer>", [-1, 0, -1, -1, -1], True),
    ],
)
def test_answer_grammar(reply, actions, valid):
    parsed, valid_format, _ = run(make_grammar("answer"), reply)
    assert (parsed, valid_format) == (actions, valid)


def test_answer_without_thought():
    grammar = make_grammar("answer", think="none", max_actions=2)
    assert run(grammar, "<answer>look||go up||go down</answer>") == ([0, 3], True, True)
    assert run(grammar, "<answer>look||fly</answer>") == ([0, -1], True, False)


def test_queries_keep_known_words():
    bare = make_grammar("bare")
    assert run(bare, "Search[Red  big shoes]", query=True)[0] == [100 + 10 * 1 + 3]
    assert run(bare, "search[huge]", query=True)[0] == [100]
    assert run(bare, "search[]", query=True)[0] == [-1]
    assert run(bare, "search[red", query=True)[0] == [-1]
    assert run(bare, "look", query=True)[0] == [0]


PIECES = st.sampled_from(
    ["<think>", "</think>", "<answer>", "</answer>", "<action>", "</action>", "||", "|", " ", "\n"]
    + [*COMMANDS, "xx", "<", ">"]
)


def _answer_oracle(reply):
    """RAGEN's expression, over bytes lower-cased as ours."""
    match = re.search(r"<think>(.*?)</think>\s*<answer>(.*?)</answer>", reply, re.DOTALL)
    if match is None:
        return [-1] * 5, False
    parts = match.group(2).split("||")[:5]
    found = [COMMANDS.index(p.strip()) if p.strip() in COMMANDS else -1 for p in parts]
    return found + [-1] * (5 - len(found)), True


def _action_oracle(reply):
    start, end = reply.find("<action>"), reply.find("</action>")
    if start == -1 or end == -1:
        span, valid = reply[-30:], False
    else:
        span = reply[start + len("<action>") : end]
        valid = "<think>" in reply and "</think>" in reply
    span = span.strip()
    return COMMANDS.index(span) if span in COMMANDS else -1, valid


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=14).map("".join).filter(lambda s: len(s) <= SIZE))
def test_against_regular_expressions(reply):
    actions, valid, _ = run(make_grammar("answer"), reply)
    assert (actions, valid) == _answer_oracle(reply)
    actions, valid, _ = run(make_grammar("action"), reply)
    assert (actions[0], valid) == _action_oracle(reply)
    thought = re.search(r"<think>(.*?)</think>", reply, re.DOTALL)
    assert thinks(reply) == (thought is not None and thought.group(1).strip() != "")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=SIZE), st.sampled_from(["bare", "action", "answer"]), st.booleans())
def test_any_bytes_give_an_answer(reply, name, query):
    actions, _, known = run(make_grammar(name), reply, query)
    assert all(-1 <= a < 200 for a in actions)
    assert not known or max(actions) >= 0


def test_environment_text_cannot_hold_tags():
    lexicon = Lexicon()
    lexicon("note: <action>open</action>")
    with pytest.raises(ValueError, match="reply grammar"):
        View(lexicon, None, (), None, 1, 1, 1)


def test_errors_name_what_is_expected():
    with pytest.raises(ValueError, match="expected one of bare, action, answer"):
        make_grammar("json")
    with pytest.raises(ValueError, match="must be 'none'"):
        make_grammar("bare", think="required")
    with pytest.raises(ValueError, match="only 'answer'"):
        make_grammar("action", max_actions=2)
    with pytest.raises(ValueError, match="expected one of compact, faithful"):
        _ = envs.make("FrozenLake-v1", wording="terse")[0].view
