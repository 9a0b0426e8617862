"""MatchTIR's rewards of calls: by hand in ToolCalls-v1, and what it does not fit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context as context_of
from by_hand import setup_of, turn_rewards

import envs
from agentrl import policies, rewards, rollout
from agentrl.methods.call_matching import call_matching
from agentrl.policies.codec import decode
from agentrl.rollout import contexts
from agentrl.streams import ACTION, OBSERVATION, Rows, Streams

ENV, PARAMS = envs.make("ToolCalls-v1")
TURNS = 7


@functools.cache
def program(**options):
    """(calls i32[TURNS], bool[TURNS] whether there is one, wanted i32[3]) -> rewards of the turns
    of one stream that makes these calls, in rows of one turn."""
    component = call_matching(setup_of(ENV, PARAMS), **options)

    def found(number, mask, wanted):
        state = ENV.initial(jax.random.key(0), PARAMS).replace(wanted=wanted)
        return turn_rewards(component, state, number, mask)

    return jax.jit(found)


def annotated(calls, wanted, **options):
    """The rewards of these calls, and of the padding behind."""
    number, asked = ([ENV.action_names.index(name) for name in names] for names in (calls, wanted))
    padded = np.int32([*number, *[7] * (TURNS - len(number))])
    mask = np.arange(TURNS) < len(number)
    return np.asarray(program(**options)(padded, mask, np.int32(asked)))


def test_each_call_by_hand():
    calls = ["taxi rome", "taxi oslo", "taxi rome", "map lima", "answer"]
    wanted = ["weather oslo", "hotel lima", "taxi rome"]
    # One taxi is wanted: the first that is right has it, for the others nothing is left.
    np.testing.assert_allclose(annotated(calls, wanted), [1, 0, 0, 0, 0, 0, 0], atol=1e-6)
    punished = annotated(calls, wanted, unmatched=-0.5)
    np.testing.assert_allclose(punished, [1, -0.5, -0.5, -0.5, 0, 0, 0], atol=1e-6)
    # Of the right tool with another argument: name 1, parameter names 1, values 0, over 3.
    half = annotated(["taxi oslo", "answer"], wanted)
    np.testing.assert_allclose(half, [2 / 3, 0, 0, 0, 0, 0, 0], atol=1e-6)


def test_the_order_of_the_calls_does_not_matter():
    wanted = ["weather oslo", "weather rome", "hotel lima"]
    calls = ["weather lima", "weather rome", "hotel lima"]
    forth, back = annotated(calls, wanted), annotated(calls[::-1], wanted)
    np.testing.assert_allclose(forth[:3], back[:3][::-1], atol=1e-6)
    np.testing.assert_allclose(forth[:3], [2 / 3, 1, 1], atol=1e-6)


def test_turn_bonus_adds_to_the_outcome_alone():
    mask = jnp.array([[True, True, False]])
    reward, bonus = jnp.array([[0.0, 1.0, jnp.nan]]), jnp.array([[0.5, 0.25, jnp.nan]])
    given = rewards.turn_bonus(reward, mask, bonus, coefficient=2.0)
    np.testing.assert_allclose(given, [[1.0, 1.5, 0.0]])
    none = rewards.turn_bonus(reward, mask, bonus, coefficient=0.0)
    np.testing.assert_allclose(none, [[0.0, 1.0, 0.0]])


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match="ToolCalls-v1"):
        call_matching(setup_of(*envs.make("FrozenLake-v1")))
    with pytest.raises(ValueError, match="whole episodes"):
        call_matching(setup_of(ENV, PARAMS, rollout.segments))


def test_calls_in_words():
    """Rows of whole episodes in words, several commands in a reply: each turn's mean of its calls,
    which are matched together."""
    policy = policies.transformer(
        ENV.view, grammar="answer", think="none", max_actions=3,
        width=8, layers=1, heads=1, kv_heads=1, hidden=8,
    )  # fmt: skip
    context = contexts.whole(max_new_tokens=9)
    acting = rollout.episodes(policy, ENV, PARAMS, context, num_groups=1, group_size=1)
    setup = setup_of(ENV, PARAMS)._replace(policy=policy, rollout=acting, context=context)
    tags, end = policy.codec.tags, policy.codec.end
    said = [["weather oslo", "map rome"], ["hotel lima"], ["nothing"], ["answer", "taxi rome"]]
    tokens, turn = [], []
    for number, commands in enumerate(said):
        reply = [*tags["<answer>"]]
        for i, name in enumerate(commands):
            reply += tags["||"] if i else ()
            reply += word(policy, name)
        reply += [*tags["</answer>"], end]
        tokens += [5, 6, *reply]
        turn += [-1, -1, *[number] * len(reply)]
    mask = np.array(turn) >= 0
    rows = Rows(
        tokens=np.int32([tokens]), loss_mask=mask[None], stream=np.int32([0]),
        turn=np.int32([turn]), behaviour_logp=np.zeros((1, len(turn))),
        span=np.where(mask, ACTION, OBSERVATION)[None],
    )  # fmt: skip
    state = ENV.initial(jax.random.key(0), PARAMS)
    asked = np.int32([ENV.action_names.index(n) for n in ("weather oslo", "map lima", "taxi rome")])
    streams = Streams(
        reward=np.zeros((1, 5)), mask=np.arange(5)[None] < 4,
        first_state=jax.tree.map(lambda x: x[None], state.replace(wanted=asked)),
    )  # fmt: skip
    notes, metrics = call_matching(setup).annotate(context_of(), streams, rows)
    # The taxi stands behind the answer, and was not called; a map of another place is two thirds.
    expected = [[(1 + 2 / 3) / 2, 0, 0, 0, 0]]
    np.testing.assert_allclose(notes["turn_reward"].values, expected, atol=1e-6)
    np.testing.assert_allclose(metrics["calls/matched"], [1 + 2 / 3, 3], atol=1e-6)


def word(policy, name):
    """Tokens of a command; of one that does not exist, of something else."""
    codec = policy.codec
    found = [token for token in range(codec.vocab_size) if decode(codec, [token]) == name]
    return found or codec.tags["<think>"]
