"""Behaviour specified in temporal logic, kept while a language policy decodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.actors.behaviour import Behaviour
from agentrl.policies import codec as codecs
from agentrl.policies.formulas import parse
from agentrl.policies.sampling import Sampling, sample
from agentrl.rollout import contexts
from envs.text import make_grammar

SIZES = {"width": 8, "layers": 1, "heads": 1, "kv_heads": 1, "hidden": 8}
TOOLS = {"tools": 2, "arguments": 2, "needed": 1, "limit": 4}
# A call first, no answer without a thought, at most two calls before it; the answer is the last.
SPECIFIED = "(before weather answer) (always (implies answer (and think last)))"
SPECIFIED += " (at-most 2 (not answer) answer) (eventually answer)"


def made_of(*, tokens=None, **options):
    env, params = envs.make("ToolCalls-v1", **TOOLS)
    policy = policies.transformer(env.view, **SIZES, **options)
    context = contexts.window(history=0, max_new_tokens=tokens)
    return policy, rollout.episodes(policy, env, params, context, num_groups=8, group_size=2)


def collected(policy, made):
    weights = policy.init(jax.random.key(0))
    collect = jax.jit(made.collect)
    state = made.init(None)
    for seed in range(2):
        state, streams, rows, metrics = collect(weights, state, jax.random.key(seed))
    assert collect._cache_size() == 1
    return streams, rows, metrics, policy.score(weights, rows)


def turns_of(policy, rows):
    """Of each stream its replies, in order."""
    out = {}
    for i in np.argsort(np.asarray(rows.turn).max(axis=1), kind="stable"):
        written = np.asarray(rows.tokens[i])[np.asarray(rows.loss_mask[i])]
        if len(written):
            out.setdefault(int(rows.stream[i]), []).append(codecs.decode(policy.codec, written))
    return out.values()


def test_sampled_episodes_keep_the_specification_and_ratios_are_one():
    options = {"grammar": "action", "think": "optional", "tokens": 7}
    policy, made = made_of(behaviour=SPECIFIED, **options)
    streams, rows, metrics, scored = collected(policy, made)
    said = list(turns_of(policy, rows))
    assert len(said) == 16 and len({turn for turns in said for turn in turns}) > 16
    for turns in said:
        first = next(i for i, turn in enumerate(turns) if "<action>answer<" in turn)
        assert first == len(turns) - 1 and first <= 2
        assert any("<action>weather" in turn for turn in turns[:first])
        assert not turns[-1].startswith("<think></think>") and turns[-1].startswith("<think>")
    assert any(not turn.startswith("<think>") for turns in said for turn in turns)
    for name in ("behaviour_violation_rate", "invalid_format_rate", "response_cut_rate"):
        assert float(metrics[name][0]) == 0 and float(metrics[name][1]) > 30
    mask = np.asarray(rows.loss_mask)
    np.testing.assert_allclose(
        np.where(mask, scored.logp, 0), rows.behaviour_logp, rtol=1e-5, atol=1e-6
    )
    assert np.asarray(streams.mask).any()
    # A tag's token without alternatives is forced.
    assert (np.asarray(rows.behaviour_logp)[mask] == 0).sum() > mask.sum() / 4


@pytest.mark.long
def test_bytes_with_required_thoughts():
    policy, made = made_of(
        codec="byte", grammar="action", think="required", tokens=50, behaviour="(always think)"
    )
    _, rows, metrics, _ = collected(policy, made)
    assert float(metrics["invalid_format_rate"][0]) == 0
    assert float(metrics["empty_thought_rate"][0]) == 0
    assert float(metrics["unknown_command_rate"][0]) == 0
    for turn in (turn for turns in turns_of(policy, rows) for turn in turns):
        assert turn.count("<") == 4 and turn.startswith("<think>") and turn.endswith("</action>")


def test_nothing_changes_without_a_specification_and_with_an_empty_one():
    policy, made = made_of(constrained=True)
    _, plain, _, _ = collected(policy, made)
    policy, made = made_of(constrained=True, behaviour="(always true)")
    _, empty, metrics, _ = collected(policy, made)
    policy, made = made_of(constrained=True, behaviour="(before weather answer)", enforce=False)
    _, counted, violations, _ = collected(policy, made)
    jax.tree.map(np.testing.assert_array_equal, plain, empty)
    jax.tree.map(np.testing.assert_array_equal, plain, counted)
    assert float(metrics["behaviour_violation_rate"][0]) == 0
    assert float(violations["behaviour_violation_rate"][0]) > 0


def test_masked_log_probabilities_worked():
    """Logits 1, 2, 0.5, 0, of which the first and third may be drawn."""
    logits, allowed = jnp.array([1.0, 2.0, 0.5, 0.0]), jnp.array([True, False, True, False])
    each = [sample(jax.random.key(i), logits, Sampling(), allowed)[:2] for i in range(8)]
    found = {int(token): float(logp) for token, logp in each}
    assert found == pytest.approx({0: -0.474077, 2: -0.974077}, abs=1e-6)
    whole = float(jax.nn.log_softmax(logits)[0])
    assert whole == pytest.approx(-1.546006, abs=1e-6)
    assert np.exp(found[0] - whole) == pytest.approx(2.921010, abs=1e-5)


def test_the_last_turns_are_kept_for_what_is_still_to_come():
    env, _ = envs.make("ToolCalls-v1", **TOOLS)
    behaviour = Behaviour(parse("(eventually answer)"), env, make_grammar("bare"), turns=4)
    start = jnp.zeros(4, jnp.int32)
    allowed = np.asarray(behaviour.allowed(start, jnp.arange(4)))[:, 0]
    assert allowed[:3].all() and list(allowed[3]) == [False] * 4 + [True]
    done = behaviour.advance(start, jnp.array([4, 0, -1, 99]), jnp.zeros(4, bool))
    assert list(np.asarray(behaviour.distance)[done]) == [0, 1, 1, 1]


def test_where_nothing_is_left_to_keep_any_command_may_be_written():
    env, _ = envs.make("ToolCalls-v1", **TOOLS)
    formula = parse("(episode weather)")
    behaviour = Behaviour(formula, env, make_grammar("bare"), turns=4)
    over = behaviour.advance(jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1, bool))
    assert np.asarray(behaviour.allowed(over, jnp.ones(1, jnp.int32))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"behaviour": "(before serach answer)"}, "names 'serach', with which no command"),
        ({"behaviour": "(before weathr answer)"}, "did you mean 'weather'?"),
        ({"behaviour": "(always think)"}, "grammar 'bare' has no thoughts"),
        ({"behaviour": "(and weather (not weather))"}, "no episode of at most 4 turns"),
        ({"behaviour": "(until_5_5 weather answer)"}, "no episode of at most 4 turns"),
        ({"enforce": False}, "enforce=False without a behaviour"),
        ({"behaviour": "answer", "grammar": "answer"}, "max_actions=5: a turn has one command"),
        (
            {"behaviour": "answer", "grammar": "action", "tokens": 3},
            "max_new_tokens=3 with policy behaviour: expected at least",
        ),
    ],
)
def test_wrong_specifications(options, message):
    with pytest.raises(ValueError, match="behaviour") as caught:
        made_of(**options)
    assert message in str(caught.value) and "\n" not in str(caught.value)
