import dataclasses
import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, generation, sampling
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.sampling import Sampling

CONFIG = DecoderConfig(
    vocab_size=19, width=16, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=24, sliding_window=9
)
END, SIZE, LONGEST = 3, 40, 6
PLAIN = Sampling()
extend = jax.jit(decoder.extend, static_argnums=1)
distribution = jax.jit(sampling.distribution, static_argnums=1)


@functools.cache
def params():
    drawn = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), CONFIG)
    rng = np.random.default_rng(1)
    drawn = jax.tree.map(
        lambda x: x + np.float32(0.3 * rng.normal(size=x.shape)), jax.device_get(drawn)
    )
    return jax.device_put(drawn)


@functools.partial(jax.jit, static_argnames=("options", "keep"))
def generate(cache, hidden, key, active, options=PLAIN, keep=False):
    return generation.generate(
        params(),
        CONFIG,
        cache,
        hidden,
        key,
        sampling=options,
        max_new_tokens=LONGEST,
        end_token=END,
        active=active,
        keep=keep,
    )


def read(cache, rows, width):
    """Appends lists of tokens, padded to `width`: (hidden at the last token of each, cache)."""
    count = np.array([len(row) for row in rows], np.int32)
    padded = np.full((len(rows), width), 11, np.int32)
    for row, new in zip(padded, rows, strict=True):
        row[: len(new)] = new
    hidden, cache = extend(params(), CONFIG, cache, padded, count)
    return np.asarray(hidden)[np.arange(len(rows)), np.maximum(count - 1, 0)], cache


def prompts(rng, rows, longest=5):
    return [rng.integers(4, 19, rng.integers(1, longest + 1)).tolist() for _ in range(rows)]


@pytest.mark.parametrize(
    "options, segment",
    [(PLAIN, 14), (Sampling(temperature=0.5, top_k=7, top_p=0.9, min_p=0.02), 40)],
)
def test_several_turns_are_scored_as_whole_sequences_are(options, segment):
    rng = np.random.default_rng(0)
    batch = 5
    cache = decoder.empty_cache(CONFIG, batch, SIZE, segment=segment)
    texts = [[] for _ in range(batch)]
    recorded = []
    for turn in range(3):
        new = prompts(rng, batch)
        new[turn] = new[turn] if turn == 0 else []
        active = np.array([bool(row) for row in new])
        hidden, cache = read(cache, new, 5)
        out = generate(cache, hidden, jax.random.key(turn), active, options, keep=True)
        cache, out = out.cache, jax.device_get(out.replace(cache=None))
        for row in range(batch):
            texts[row] += new[row]
            length = int(out.length[row])
            assert length == 0 or active[row]
            for t in range(length):
                recorded.append((row, len(texts[row]), out.logp[row, t], out.kept[row, t]))
                texts[row].append(int(out.tokens[row, t]))
    np.testing.assert_array_equal(cache.length, [len(text) for text in texts])
    # In one batch, with another padding.
    padded = np.full((batch, SIZE + 3), 17, np.int32)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = text
    logits = jax.jit(decoder.logits, static_argnums=1)(params(), CONFIG, padded)
    assert len(recorded) > 40
    rows, places, logp, kept = map(np.array, zip(*recorded, strict=True))
    scores = np.asarray(logits)[rows, places - 1]
    expected = distribution(scores, options, None if options == PLAIN else kept)
    written = padded[rows, places]
    expected = np.asarray(expected)[np.arange(len(rows)), written]
    np.testing.assert_allclose(logp, expected, atol=1e-4)


def test_padding_of_the_prompts_changes_nothing():
    rng = np.random.default_rng(1)
    new, active = prompts(rng, 4), np.ones(4, bool)
    outs = []
    for width, segment in ((5, 14), (9, 40)):
        cache = decoder.empty_cache(CONFIG, 4, SIZE, segment=segment)
        hidden, cache = read(cache, new, width)
        outs.append(generate(cache, hidden, jax.random.key(0), active))
    first, second = outs
    np.testing.assert_array_equal(first.tokens, second.tokens)
    np.testing.assert_allclose(first.logp, second.logp, atol=1e-5)
    np.testing.assert_allclose(first.hidden, second.hidden, atol=1e-5)


def test_rows_end_with_the_end_token_or_at_the_limit():
    hidden, cache = read(decoder.empty_cache(CONFIG, 64, SIZE), [[5, 6, 7]] * 64, 3)
    active = np.arange(64) % 4 > 0
    out = generate(cache, hidden, jax.random.key(0), active)
    tokens, length, ended = map(np.asarray, (out.tokens, out.length, out.ended))
    assert ended.any() and not ended[active].all()
    for row in range(64):
        written = tokens[row, : length[row]]
        assert (tokens[row, length[row] :] == END).all()
        assert (np.asarray(out.logp)[row, length[row] :] == 0).all()
        assert (np.asarray(out.entropy)[row, length[row] :] == 0).all()
        if not active[row]:
            assert length[row] == 0 and not ended[row]
        elif ended[row]:
            assert written[-1] == END and END not in written[:-1]
        else:
            assert length[row] == LONGEST and END not in written
    assert (np.asarray(out.logp)[active, 0] < 0).all()
    # The cache and the hidden state go on from the last token, the end token included.
    np.testing.assert_array_equal(out.cache.length, 3 + length)
    padded = np.concatenate([np.tile([5, 6, 7], (64, 1)), tokens], axis=1)
    whole = jax.jit(decoder.hidden, static_argnums=1)(params(), CONFIG, padded)
    np.testing.assert_allclose(out.hidden, np.asarray(whole)[np.arange(64), 2 + length], atol=2e-5)


def test_inactive_rows_stay_as_they_are():
    hidden, cache = read(decoder.empty_cache(CONFIG, 3, SIZE), [[5, 6], [7], [8, 9]], 2)
    out = generate(cache, hidden, jax.random.key(0), np.array([True, False, True]))
    cache, out = jax.device_get((cache, out))
    for before, after in zip(jax.tree.leaves(cache), jax.tree.leaves(out.cache), strict=True):
        np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(hidden[1], out.hidden[1])


def counted_steps(active, limit, stop_after):
    """How many steps were taken when the grammar forces the end after some tokens."""
    calls = []

    def allowed(state):
        jax.debug.callback(lambda: calls.append(1))
        end = (jnp.arange(CONFIG.vocab_size) == END)[None]
        return jnp.where(state[:, None] >= stop_after, end, ~end)

    hidden, cache = read(decoder.empty_cache(CONFIG, 2, SIZE), [[5, 6], [7]], 2)
    out = generation.generate(
        params(),
        CONFIG,
        cache,
        hidden,
        jax.random.key(0),
        sampling=PLAIN,
        max_new_tokens=limit,
        end_token=END,
        active=jnp.array(active),
        constraint=(jnp.array([0, 1]), allowed, lambda state, token: state + 1),
    )
    jax.effects_barrier()
    return len(calls), out


def test_no_step_is_taken_that_no_row_needs():
    steps, out = counted_steps([False, False], 9, 3)
    assert steps == 0 and not np.asarray(out.length).any()
    # The first row writes 3 tokens and the end, the second 2 and the end.
    steps, out = counted_steps([True, True], 9, 3)
    assert steps == 4
    np.testing.assert_array_equal(out.length, [4, 3])
    assert np.asarray(out.ended).all()
    steps, out = counted_steps([False, True], 9, 3)
    assert steps == 3
    steps, out = counted_steps([True, True], 2, 3)
    assert steps == 2
    np.testing.assert_array_equal(out.ended, [False, False])


def test_a_grammar_decides_what_may_come_next():
    # Tokens must rise by 1 or 2 from the state on; from 18 on nothing may come.
    def allowed(state):
        step = jnp.arange(CONFIG.vocab_size) - state[:, None]
        return (step == 1) | (step == 2)

    hidden, cache = read(decoder.empty_cache(CONFIG, 6, SIZE), [[5, 6]] * 6, 2)
    start = np.array([4, 5, 6, 7, 15, 18], np.int32)

    @jax.jit
    def run(cache, hidden):
        return generation.generate(
            params(),
            CONFIG,
            cache,
            hidden,
            jax.random.key(2),
            sampling=PLAIN,
            max_new_tokens=5,
            end_token=END,
            active=jnp.ones(6, bool),
            constraint=generation.Constraint(start, allowed, lambda state, token: token),
            keep=True,
        )

    out = jax.device_get(run(cache, hidden))
    tokens, length = np.asarray(out.tokens), np.asarray(out.length)
    for row in range(6):
        before = int(start[row])
        for t in range(length[row]):
            legal = [x for x in (before + 1, before + 2) if x < 19] or [END]
            assert np.flatnonzero(out.kept[row, t]).tolist() == legal
            assert tokens[row, t] in legal
            before = tokens[row, t]
    # Behind the end everything counts as kept, so that scoring finds no empty row there.
    assert np.asarray(out.kept)[np.arange(5) >= length[:, None]].all()
    # From 18 on only the end is left, with certainty.
    assert length[5] == 1 and out.ended[5] and out.logp[5, 0] == 0 and out.entropy[5, 0] == 0
    assert np.asarray(out.ended)[4]


def test_greedy_takes_the_likeliest():
    hidden, cache = read(decoder.empty_cache(CONFIG, 3, SIZE), [[5, 6], [7], [8, 9]], 2)
    active = np.ones(3, bool)
    out = generate(cache, hidden, jax.random.key(0), active, Sampling(greedy=True))
    again = generate(cache, hidden, jax.random.key(1), active, Sampling(greedy=True))
    chex.assert_trees_all_equal(out, again)
    scores = jax.jit(decoder.unembed, static_argnums=1)(params(), CONFIG, hidden)
    np.testing.assert_array_equal(np.asarray(out.tokens)[:, 0], np.argmax(scores, axis=-1))


@pytest.mark.parametrize("unroll", [1, 2])
def test_the_cache_is_written_in_place(unroll):
    config = dataclasses.replace(CONFIG, decode_unroll=unroll)
    cache = decoder.empty_cache(config, 4, 26, segment=13)
    hidden = np.zeros((4, CONFIG.width), np.float32)

    def run(cache, hidden, key):
        return generation.generate(
            params(),
            config,
            cache,
            hidden,
            key,
            sampling=PLAIN,
            max_new_tokens=5,
            end_token=END,
            active=jnp.ones(4, bool),
        )

    lowered = jax.jit(run, donate_argnums=0).lower(cache, hidden, jax.random.key(0))
    # The tests run without most optimisations; what matters here is what users get.
    text = lowered.compile({"xla_backend_optimization_level": 3}).as_text()
    shapes = {"x".join(map(str, x.shape)) for x in (*cache.k[0], *cache.v[0])}
    # With a loop over the layers an array holds them all, on the second axis.
    lead = {1: "4x2x2", 2: "4x2"}[unroll]
    assert shapes == {f"{lead}x8x13", f"{lead}x13x8"}
    lead = lead.replace("x", ",")
    copies = re.findall(rf"= f32\[{lead},(?:8,13|13,8)\]\S* copy\(", text)
    assert not copies, f"{len(copies)} copies of a segment"
