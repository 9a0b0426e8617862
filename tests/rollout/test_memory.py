"""A policy whose thought is its memory (MEM1): what its rows show, and nothing else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.policies import codec as codecs
from agentrl.rollout import contexts

SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
TASK = {
    "entities": 20, "relations": 4, "max_hops": 1, "show_questions": False, "answer_last": True,
    "distinct": True, "wording": "notes",
}  # fmt: skip


@functools.cache
def made(objectives, replies=1):
    env, params = envs.make("SearchQA-v1", objectives=objectives, **TASK)
    policy = policies.transformer(env.view, **SMALL, grammar="answer", max_actions=4)
    context = contexts.window(keep_first=True, replies=replies)
    return env, policy, rollout.episodes(policy, env, params, context, num_groups=4, group_size=2)


@functools.cache
def shown(objectives, replies=1):
    """Rows of the expert's thoughts in three episodes."""
    _, policy, episodes = made(objectives, replies)
    demonstrate = functools.partial(episodes.demonstrate, thoughts=True)
    keys = jax.random.split(jax.random.key(0), 3)
    _, rows = jax.jit(demonstrate)(keys, jax.random.key(1))
    return policy, jax.tree.map(np.asarray, rows)


def texts(policy, rows, row):
    """(what is read, what is written) in a row, as text."""
    read = (rows.turn[row] >= 0) & ~rows.loss_mask[row]
    return tuple(
        codecs.decode(policy.codec, rows.tokens[row][x]) for x in (read, rows.loss_mask[row])
    )


@pytest.mark.parametrize("objectives, replies", [(2, 1), (4, 1), (2, 0)])
def test_a_row_is_the_questions_the_last_reply_and_its_result(objectives, replies):
    policy, rows = shown(objectives, replies)
    hint = "3 or more turns left"
    for episode in range(3):
        own = [r for r in np.flatnonzero(rows.stream == episode) if rows.loss_mask[r].any()]
        own.sort(key=lambda r: int(rows.turn[r].max()))
        # A search for each question, then all answers at once.
        assert len(own) == objectives + 1
        said = [texts(policy, rows, r) for r in own]
        question = said[0][0]
        assert question.startswith(f"{hint}\nask ") and question.count(";") == objectives
        assert said[0][1].startswith("<think></think>")
        facts = []
        for turn in range(1, objectives + 1):
            before, now = said[turn - 1][1], said[turn]
            words = before.split("search ")[1].removesuffix("</answer>").strip()
            kept = before if replies else ""
            assert now[0].startswith(f"{question}{kept}{hint}\nfound {words}=")
            result = now[0].removeprefix(f"{question}{kept}{hint}\nfound ")
            # The thought is the last one and what was just found.
            facts.append(f" {words.split()[0]}={result.split('=')[1]};")
            assert now[1].startswith(f"<think>{''.join(facts)}</think>")
        answers = [fact.split("=")[1][:-1] for fact in facts]
        given = "||".join(f"answer {name}" for name in answers)
        assert said[-1][1].endswith(f"<answer>{given}</answer>")


def test_the_hint_and_the_results_are_read_not_learnt():
    policy, rows = shown(2)
    hints = np.isin(
        rows.tokens, [t for t in range(policy.codec.vocab_size) if b"left" in piece(policy, t)]
    )
    assert hints.any() and not (hints & rows.loss_mask).any()


def piece(policy, token):
    return bytes(policy.codec.token_bytes[token, : policy.codec.token_lengths[token]])


def test_ratios_are_one():
    _, policy, episodes = made(2)
    weights = jax.tree.map(lambda x: 2 * x, policy.init(jax.random.key(0)))
    start = jax.jit(episodes.init)(jax.random.key(1))
    _, _, rows, _ = jax.jit(episodes.collect)(weights, start, jax.random.key(2))
    scored = jax.jit(policy.score)(weights, rows)
    trained = np.asarray(rows.loss_mask)
    assert trained.any()
    np.testing.assert_allclose(
        np.asarray(scored.logp)[trained], np.asarray(rows.behaviour_logp)[trained], atol=1e-4
    )


def test_policies_of_two_questions_read_four():
    _, policy, _ = made(2)
    env, more, _ = made(4)
    there = policy.on(env.view)
    np.testing.assert_array_equal(there.codec.token_bytes, more.codec.token_bytes)
    np.testing.assert_array_equal(there.codec.fragments, more.codec.fragments)


def test_the_longest_row_grows_by_the_notes_alone():
    """A question more: three tokens in the list, four in each of two notes, three of an answer."""

    def longest(objectives):
        _, rows = shown(objectives)
        return int(jnp.sum(rows.turn >= 0, axis=1).max())

    # A dropped observation leaves its control token.
    assert [longest(2), longest(4)] == [19 + k * (3 + 2 * 4 + 3) for k in (2, 4)]
