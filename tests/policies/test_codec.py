"""Codecs: any text comes back byte for byte, and no text becomes a control token."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.policies import codec as codecs
from agentrl.policies import ragged
from envs.text import Lexicon, Text, View, make_grammar, parse, template
from envs.text.view import command_fragments

WORDS = ("go ", "you see ", "a lamp", "ü", ", ", ".\n", "north", "south")


@functools.cache
def _view():
    lexicon = Lexicon()
    lexicon.table(WORDS)
    way = lexicon.table(["north", "south", ""])[:, None]
    return View(
        lexicon=lexicon,
        describe=lambda state, params: jnp.zeros(1, jnp.int32),
        templates=(template(lexicon, "go {way}"), template(lexicon, "a lamp")),
        slots=lambda state, params: {"way": way},
        max_fragments=6,
        max_bytes=60,
        max_command_bytes=8,
    )


def _pairs(view):
    """A small tokenizer of the table form: pairs of bytes where they fit, else bytes."""
    pieces = [b"", b"", b""] + [bytes([i]) for i in range(256)] + [b"th", b"so", b"ee", b"<a"]

    def encode(text):
        data, out = text.encode(), []
        while data:
            size = 2 if data[:2] in pieces[259:] else 1
            out.append(pieces.index(data[:size], 3))
            data = data[size:]
        return out

    return codecs.bind("pairs", view, encode, pieces, pad=0, end=1, before=(2,), after=(1, 2))


@functools.cache
def _codec(name):
    return _pairs(_view()) if name == "pairs" else codecs.CODECS[name](_view())


@functools.cache
def _render(name, size):
    return jax.jit(lambda text: codecs.render(_codec(name), text, size))


@functools.cache
def _to_bytes(name):
    return jax.jit(lambda tokens, length: codecs.to_bytes(_codec(name), tokens, length))


CODECS = ("word", "byte", "pairs")


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(CODECS), st.lists(st.integers(1, len(WORDS)), max_size=6))
def test_render_decodes_to_the_same_bytes(name, ids):
    codec, text = _codec(name), "".join(WORDS[i - 1] for i in ids)
    packed = Text(np.array(ids + [0] * (6 - len(ids)), np.int32), np.int32(len(ids)))
    tokens, length, cut = _render(name, 70)(packed)
    tokens, length = np.asarray(tokens), int(length)
    assert not cut and codecs.decode(codec, tokens) == text
    assert (tokens[length:] == codec.pad).all()
    body = tokens[len(codec.before) : length - len(codec.after)]
    assert tuple(tokens[: len(codec.before)]) == codec.before
    assert tuple(tokens[length - len(codec.after) : length]) == codec.after
    assert not set(body) & {codec.pad, codec.end, *codec.before, *codec.after}
    data, total = _to_bytes(name)(tokens, length)
    assert bytes(np.asarray(data)[: int(total)]) == text.encode()


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(("byte", "pairs")), st.data())
def test_texts_of_many_pieces_are_rendered_alike(name, data):
    """From 64 pieces on they are put in place in another way; cut where they do not fit."""
    codec, most, size = _codec(name), 80, 300
    assert most > ragged.UNROLLED
    ids = data.draw(st.lists(st.integers(1, len(WORDS)), max_size=most))
    packed = Text(np.array(ids + [0] * (most - len(ids)), np.int32), np.int32(len(ids)))
    tokens, length, cut = map(np.asarray, _render(name, size)(packed))
    rows = [codec.fragments[i][: codec.lengths[i]] for i in ids]
    body = np.concatenate([np.zeros(0, np.int32), *rows])
    room = size - len(codec.before) - len(codec.after)
    assert bool(cut) == (len(body) > room)
    expected = np.concatenate([codec.before, body[:room], codec.after]).astype(int)
    np.testing.assert_array_equal(tokens[:length], expected)
    assert (tokens[length:] == codec.pad).all()


@pytest.mark.parametrize("name", CODECS)
def test_a_text_that_does_not_fit_says_so(name):
    size = 5 + len(_codec(name).before) + len(_codec(name).after) - 1
    packed = Text(np.array([2, 3, 4, 5, 6, 7], np.int32), np.int32(6))
    tokens, length, cut = _render(name, size)(packed)
    assert cut and int(length) == size
    assert tuple(np.asarray(tokens)[-len(_codec(name).after) :]) == _codec(name).after


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    "grammar, thoughts",
    [("bare", False), ("action", False), ("answer", False), ("action", True), ("answer", True)],
)
def test_replies_parse_to_their_commands(name, grammar, thoughts):
    codec, view, grammar = _codec(name), _view(), make_grammar(grammar)
    slots = view.slots(None, None)
    size = codecs.reply_tokens(codec, grammar, view, 2, thoughts=thoughts)

    @jax.jit
    def run():
        commands = command_fragments(view, slots)
        written = codecs.replies(codec, grammar, commands, size, thoughts=thoughts)

        def read(tokens, length):
            return parse(grammar, view, slots, *codecs.to_bytes(codec, tokens, length))

        return written, jax.vmap(read)(written.tokens, written.length)

    written, parsed = jax.device_get(run())
    assert not written.cut.any()
    # Command 2 is "go " with an absent way: it is written, and nothing recognises it.
    assert np.asarray(parsed.actions)[:, 0].tolist() == [0, 1, -1, 3]
    assert parsed.valid_format.all()
    assert parsed.thinks.tolist() == [thoughts] * 4
    last = np.take_along_axis(
        np.asarray(written.tokens), np.asarray(written.length)[:, None] - 1, 1
    )
    assert (last == codec.end).all()
    for tokens, length in zip(written.tokens, written.length, strict=True):
        said = codecs.decode(codec, np.asarray(tokens)[:length])
        thought = re.search(r"(?:<think>(.*?)</think>)?(?:<\w*>)?(.*?)(?:</.*)?$", said)
        assert not thoughts or thought[1] == thought[2] != ""


def test_thoughts_need_a_grammar_with_a_place_for_them():
    codec, view = _codec("word"), _view()
    with pytest.raises(ValueError, match="thoughts=True with grammar 'bare'"):
        commands = command_fragments(view, view.slots(None, None))
        codecs.replies(codec, make_grammar("bare"), commands, 9, thoughts=True)


def test_thoughts_of_their_own_share_the_room_with_the_command():
    codec, view, grammar = _codec("word"), _view(), make_grammar("answer")
    command = command_fragments(view, view.slots(None, None))[0]
    text = view.lexicon[int(command[0])]
    thought = jnp.full(3, command[0])
    size = codecs.reply_tokens(codec, grammar, view, command.shape[0], thoughts=True, thought=3)

    def said(size):
        written = codecs.replies(codec, grammar, command, size, thoughts=True, thought=thought)
        length = int(written.length)
        return codecs.decode(codec, np.asarray(written.tokens)[:length]), bool(written.cut)

    whole, cut = said(size)
    assert whole.startswith(f"<think>{3 * text}</think>") and not cut
    # Four tags, the end and the thought: nothing is left for the command.
    short, cut = said(8)
    assert short == f"<think>{3 * text}</think><answer></answer>" and cut
    with pytest.raises(ValueError, match="with thoughts=True only"):
        codecs.replies(codec, grammar, command, size, thought=thought)


def test_control_tokens_cannot_come_from_text():
    pieces = [b"", b"", b""] + [bytes([i]) for i in range(256)]
    with pytest.raises(ValueError, match="control token"):
        codecs.bind("bad", _view(), lambda text: [1], pieces, pad=0, end=1)
    with pytest.raises(ValueError, match="expected the same bytes"):
        codecs.bind("bad", _view(), lambda text: [5], pieces, pad=0, end=1)
