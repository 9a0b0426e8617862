"""Value learners over a data set in words: the text, its weights, and what is the same as over
arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import distance, lake, train_and_resume
from tiny import TOYS

from agentrl import losses, policies, rollout
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.networks import Embedding
from agentrl.methods.offline_values import Networks, offline_values
from agentrl.methods.transition_text import answered, command_log_probs, named
from agentrl.policies.codec import Tokens, decode, render

VEM = {"target": "labels", "actions": "policy", "weights": "value", "beta": 0.5}
SMALL = {"expert": 3, "random": 3, "mixed": 3, "hidden": 8, "steps": 2, "batch": 16, "rows": 24}
NAME = "offline_values"


def config_of(kind="window", words=True, **options):
    config = lake(size=3, max_steps_in_episode=4)
    if words:
        config.policy = section(
            policies.transformer, width=16, layers=1, heads=2, kv_heads=1, hidden=32
        )
        history = {"history": 1} if kind == "window" else {}
        config.context = section(getattr(rollout.contexts, kind), **history)
    config.components.offline_values = section(offline_values, **SMALL | options)
    config.objective.policy.weight = 0.0
    config.objective.offline = term(losses.weighted_imitation, source=NAME)
    return config


class Run:
    """A run in words: its component, what it carries at first, and the agent that reads."""

    def __init__(self, **options):
        self.experiment = build(config_of(**options))
        self.component = self.experiment.components[NAME]
        self.state = jax.jit(self.experiment.init)(0)
        self.value = self.state.carry[NAME]
        self.env, self.params = self.experiment.env, self.experiment.env_params
        self.codec = self.experiment.policy.codec

    def made(self, value=None, key=0):
        """The rows of an update."""
        value = self.value if value is None else value
        given = context(value, self.state.params, jax.random.key(key))
        streams, rows = self.component.source.make(given, {})
        assert streams is None
        return rows

    def weights(self, rows, value=None):
        """The weights of rows, f32[R, L]."""
        value = self.value if value is None else value
        return np.asarray(
            self.component.annotate(context(value), None, rows)["imitation_weight"].values
        )

    def commands(self, data):
        """The reply of each action in each transition, [M, A, G]."""
        from agentrl.policies.codec import replies, reply_tokens

        policy, env = self.experiment.policy, self.env
        fragments = jax.vmap(lambda s: env.commands(s, self.params))(data.state)
        size = reply_tokens(policy.codec, policy.grammar, env.view, fragments.shape[-1])
        return replies(policy.codec, policy.grammar, fragments, size)


@pytest.fixture(scope="module")
def run():
    return Run()


@pytest.fixture(scope="module")
def vem():
    return Run(kind="whole", **VEM)


def said(codec, tokens):
    return decode(codec, [int(x) for x in np.asarray(tokens)])


@pytest.mark.parametrize("kind", ["window", "whole"])
def test_a_row_is_what_stands_there_and_the_command_of_the_action(kind, run, vem):
    run = run if kind == "window" else vem
    data, env, codec = jax.device_get(run.value.data), run.env, run.codec
    text = jax.vmap(lambda s: render(codec, env.describe_as(s, jnp.int32(0), run.params), 40))(
        run.value.data.state
    )
    turns = 4
    for m in np.flatnonzero(data.acted):
        mask, tokens = data.text.loss_mask[m], data.text.tokens[m]
        reply = said(codec, tokens[mask])
        assert env.action_names[data.action[m]] in reply
        # It is all that is learnt from, and all else stands in front of it.
        at = np.flatnonzero(mask)
        assert (np.diff(at) == 1).all() and data.text.turn[m, at[0]] == m % turns
        prompt = tokens[: at[0]]
        own = np.asarray(text.tokens[m])[: int(text.length[m])]
        np.testing.assert_array_equal(prompt[-len(own) :], own)
        # In front of it stand earlier turns, with the commands that were written there.
        earlier = [m - 1] if kind == "window" else range(m - m % turns, m)
        before = said(codec, prompt[: -len(own)])
        for k in [k for k in earlier if m % turns]:
            assert env.action_names[data.action[k]] in before
    assert not data.text.loss_mask[~data.acted].any()


def test_each_turns_weight_stands_at_its_own_tokens_by_hand(run):
    """Q of the four actions .2, .5, -.1, .4, of its twin .3, .4, .0, .4, and V .1: with beta 3 the
    weights are exp(3 (min Q - V)) = 1.349859, 2.459603, 0.548812, 2.459603."""
    zero = jax.tree.map(jnp.zeros_like, run.value.params)

    def with_bias(tree, bias):
        last = max(tree["params"], key=lambda name: int(name.rpartition("_")[2]))
        return {"params": tree["params"] | {last: tree["params"][last] | {"bias": bias}}}

    q = jnp.float32([0.2, 0.5, -0.1, 0.4, 0.3, 0.4, 0.0, 0.4])
    params = {"q": with_bias(zero["q"], q), "v": with_bias(zero["v"], jnp.float32([0.1]))}
    value = run.value.replace(params=params, slow=params)
    rows = run.made()
    weight, mask = run.weights(rows, value), np.asarray(rows.loss_mask)
    expected = np.float32([1.349859, 2.459603, 0.548812, 2.459603])
    seen = set()
    for n in range(len(mask)):
        (action,) = [
            a for a, name in enumerate(run.env.action_names)
            if name in said(run.codec, np.asarray(rows.tokens)[n][mask[n]])
        ]  # fmt: skip
        np.testing.assert_allclose(weight[n, mask[n]], expected[action], rtol=1e-5)
        seen.add(action)
    assert len(seen) == 4
    # The loss and its slope: -w log pi at the command's tokens, nothing at what was read.
    logp = jnp.full(mask.shape, -0.5)
    loss, slope = jax.value_and_grad(
        lambda x: jnp.sum(losses.weighted_imitation(x, jnp.asarray(weight), rows.loss_mask))
    )(logp)
    np.testing.assert_array_equal(slope, np.where(mask, -weight, 0))
    np.testing.assert_allclose(loss, 0.5 * weight[mask].sum(), rtol=1e-5)


def test_data_draws_values_and_weights_are_those_of_arrays(run):
    """The critic is the same computation: words change nothing that they need not change."""
    words, arrays = run, build(config_of(words=False))
    component, state = arrays.components[NAME], jax.jit(arrays.init)(0)
    value, own = state.carry[NAME], words.value
    for field in ("observation", "following", "action", "reward", "over", "to_go", "acted", "best"):
        np.testing.assert_array_equal(getattr(value.data, field), getattr(own.data, field), field)
    for _ in range(2):
        value, told = jax.jit(component.after)(value, UpdateResult(None, state.params))
        own, again = jax.jit(words.component.after)(own, UpdateResult(None, words.state.params))
    assert distance(value.params, own.params) < 1e-6 and distance(value.slow, own.slow) < 1e-6
    np.testing.assert_allclose(told["q_error"], again["q_error"], rtol=1e-5)
    given = context(value, state.params, jax.random.key(3))
    _, rows = component.source.make(given, {})
    written = words.made(own, key=3)
    np.testing.assert_array_equal(rows.tokens[:, 0], own.data.action[written.stream])
    np.testing.assert_array_equal(rows.observation[:, 0], own.data.observation[written.stream])
    weight = component.annotate(given, None, rows)["imitation_weight"].values
    mask = np.asarray(written.loss_mask)
    assert mask.any(axis=1).all()
    expected = np.broadcast_to(np.asarray(weight), mask.shape)[mask]
    np.testing.assert_allclose(words.weights(written, own)[mask], expected, rtol=1e-5)


def test_padding_is_never_read(run):
    """NaN and other numbers where nobody acted change no row, no weight, and no network."""
    data = run.value.data

    def poison(x):
        bad = jnp.nan if jnp.issubdtype(x.dtype, jnp.floating) else 1
        wide = data.acted.reshape(-1, *(1,) * (x.ndim - 1))
        return x ^ ~wide if x.dtype == bool else jnp.where(wide, x, jnp.asarray(bad, x.dtype))

    other = jax.tree.map(poison, data).replace(acted=data.acted, best=data.best)
    other = other.replace(of_expert=data.of_expert)
    assert np.isnan(other.reward).any() and other.text.loss_mask[~data.acted].all()
    bad = run.value.replace(data=other)
    rows, again = run.made(), run.made(bad)
    for one, two in zip(jax.tree.leaves(rows), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(run.weights(rows), run.weights(rows, bad))
    after, outcome = jax.jit(run.component.after), UpdateResult(None, run.state.params)
    (one, told), (two, seen) = after(run.value, outcome), after(bad, outcome)
    assert distance(one.params, two.params) == 0
    assert {k: v.tolist() for k, v in told.items()} == {k: v.tolist() for k, v in seen.items()}


def test_log_probs_of_commands_by_rows_that_end_in_them(run):
    """Of each turn log pi(a) - log pi(b) is that of the rows; over the commands pi sums to 1."""
    some = jnp.flatnonzero(run.value.data.acted)[:6]
    data = jax.tree.map(lambda x: x[some], run.value.data)
    setup = run_setup(run)
    commands = run.commands(data)
    log_probs = jax.jit(lambda params, rows: command_log_probs(setup, params, rows, commands))
    logp = np.asarray(log_probs(run.state.params, data.text))
    np.testing.assert_allclose(np.exp(logp).sum(axis=1), 1, rtol=1e-5)
    totals, score = [], jax.jit(run.experiment.policy.score)
    for action in range(run.env.num_actions):
        one = Tokens(*(x[:, action] for x in commands))
        rows = answered(data.text, one)
        np.testing.assert_array_equal(named(rows, commands), np.full(6, action))
        scored = score(run.state.params, rows).logp
        totals.append(np.where(rows.loss_mask, scored, 0).sum(axis=1))
    totals = np.stack(totals, axis=1)
    np.testing.assert_allclose(logp - logp[:, :1], totals - totals[:, :1], atol=1e-5)
    # The data's own commands are those of its own actions.
    np.testing.assert_array_equal(named(data.text, commands), data.action)


def run_setup(run):
    """What the component was built from, as far as rows need it."""
    from agentrl.learner.component import Setup

    e = run.experiment
    return Setup(
        envs={"0": (run.env, run.params)}, policy=e.policy, rollout=None, seed=0, num_seeds=1,
        updates=(0, 1), log_every=1, microbatch=None, context=rollout.contexts.window(history=1),
    )  # fmt: skip


def test_drawn_commands_are_weighed_by_their_own_values(vem):
    """VEM in words: what is learnt from is drawn from the policy, and read again from its text."""
    make = jax.jit(
        lambda value, key: vem.component.source.make(context(value, vem.state.params, key), {})
    )
    _, rows = make(vem.value, jax.random.key(0))
    at = np.asarray(rows.stream)
    data = jax.tree.map(lambda x: x[at], vem.value.data)
    action = np.asarray(named(rows, vem.commands(data)))
    mask = np.asarray(rows.loss_mask)
    for n in range(len(mask)):
        reply = said(vem.codec, np.asarray(rows.tokens)[n][mask[n]])
        assert vem.env.action_names[action[n]] in reply
    assert (action != np.asarray(data.action)).any() and len(set(action.tolist())) == 4
    q = Networks(Embedding(8, 8, vem.env.num_codes), Embedding(8, 1, vem.env.num_codes), 4)
    low = np.asarray(q.lower_q(vem.value.slow, data.observation, jnp.asarray(action)))
    expected = np.broadcast_to(0.5 * low[:, None], mask.shape)
    np.testing.assert_allclose(vem.weights(rows)[mask], expected[mask], rtol=1e-5)


def test_a_run_plays_nothing_learns_and_resumes(tmp_path):
    config = config_of(target="recoil", expert_share=0.5)
    experiment, states, metrics = train_and_resume(config, tmp_path)
    assert not experiment.phases[-1][0].collects
    assert distance(states[0].params, states[2].params) > 0
    assert all("episode_return" not in m and np.isfinite(m["loss/offline"]) for m in metrics)
    assert 0 < metrics[0]["data_return"] == metrics[-1]["data_return"] < 1


def test_refusals():
    with pytest.raises(ValueError, match="'offline_values' with context 'summary'"):
        config = config_of()
        config.policy.codec = "byte"
        config.context = section(rollout.contexts.summary, limit=200)
        build(config)
    with pytest.raises(ValueError, match="with a language policy, whose rows"):
        build(config_of(expert=0, random=0, mixed=0, path="episodes.jsonl"))
    with pytest.raises(ValueError, match="an environment in the graph .here: one in Python"):
        config = config_of()
        config.env = env_section(f"{TOYS}:Race")
        config.policy.codec = "byte"
        config.context = section(rollout.contexts.window, history=0, max_new_tokens=3)
        config.rollout = section(rollout.episodes, num_groups=2, group_size=2, max_turns=4)
        build(config)


def test_what_the_policy_plays_has_no_weights():
    config = config_of()
    config.objective.own = term(losses.weighted_imitation)
    experiment = build(config)
    state = jax.eval_shape(experiment.init, 0)
    with pytest.raises(ValueError, match="reads imitation_weight, which nothing fills"):
        jax.eval_shape(experiment.phases[-1][1], state)
