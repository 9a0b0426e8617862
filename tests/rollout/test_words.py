"""Episodes in words: the learner sees what the sampler did, in every context, and nothing else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.actors import text_agent as module
from agentrl.actors.text_source import expert, text_agent
from agentrl.policies import codec as codecs
from agentrl.rollout import contexts
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import unroll
from agentrl.streams import at_positions, turn_starts
from envs.text import join
from envs.vector import World

TURNS = 4
SMALL = {"width": 16, "layers": 2, "heads": 2, "kv_heads": 1, "hidden": 32}


@functools.cache
def lake(slippery=True):
    return envs.make("FrozenLake-v1", size=3, slippery=slippery, max_steps_in_episode=TURNS)


@functools.cache
def rules(slippery=True):
    """(first state of a key, (text, expert's action) of a state, step of a state and action)."""
    env, params = lake(slippery)

    def before(state):
        return env.describe(state, params), env.expert(state, params)

    def step(state, action):
        return env.step_env(jax.random.key(0), state, action, params)

    return jax.jit(lambda key: env.initial(key, params)), jax.jit(before), jax.jit(step)


def make(policy=(), context="whole", read=(), **options):
    env, params = lake()
    policy = policies.transformer(env.view, **SMALL, **dict(policy))
    options = {"num_groups": 3, "group_size": 4, **options}
    reading = getattr(contexts, context)(**dict(read))
    return policy, rollout.episodes(policy, env, params, reading, **options)


@functools.cache
def collected(policy=(), options=()):
    policy, made = make(policy, **dict(options))
    weights = policy.init(jax.random.key(0))
    # Larger weights, so that distributions are far from uniform.
    weights = jax.tree.map(lambda x: 3 * x, weights)
    state, streams, rows, metrics = jax.jit(made.collect)(
        weights, jax.jit(made.init)(jax.random.key(1)), jax.random.key(2)
    )
    return policy, weights, streams, rows, metrics


def reads(context, **options):
    return (("context", context), ("read", tuple(options.items())))


CASES = {
    "whole": ((("critic", "shared"),), ()),
    "window": ((("critic", "shared"),), reads("window", history=1)),
    "sliding": ((), reads("sliding", history=1)),
    "strides": ((("critic", "shared"),), reads("sliding", history=1, stride=2)),
    "strides, cut": (
        (("constrained", True),),
        reads("sliding", history=1, stride=2, keep_first=True),
    ),
    "first": ((), reads("window", history=1, keep_first=True)),
    "mem1": ((), reads("window", keep_first=True, replies=1)),
    "bytes": ((("codec", "byte"), ("temperature", 0.7)), ()),
    "constrained": ((("constrained", True),), ()),
    "constrained bytes": ((("constrained", True), ("codec", "byte")), ()),
    "top_p": ((("top_p", 0.8), ("top_k", 9), ("min_p", 0.01)), reads("window", history=2)),
    "lists": ((("grammar", "answer"), ("think", "none")), reads("whole", max_new_tokens=9)),
}


@pytest.mark.parametrize("case", CASES)
def test_on_policy_ratios_are_one(case):
    policy, weights, streams, rows, _ = collected(*CASES[case])
    scored = jax.jit(policy.score)(weights, rows)
    trained = np.asarray(rows.loss_mask)
    assert trained.any()
    np.testing.assert_allclose(
        np.asarray(scored.logp)[trained], np.asarray(rows.behaviour_logp)[trained], atol=1e-4
    )
    assert np.all(np.asarray(scored.logp)[trained] <= 0)
    if policy.has_critic:
        starts = np.asarray(turn_starts(rows))
        assert starts.sum() == np.asarray(streams.mask).sum()
        np.testing.assert_allclose(
            np.asarray(scored.value)[starts],
            np.asarray(at_positions(streams.value, rows))[starts],
            atol=1e-4,
        )


@pytest.mark.parametrize("case", ["whole", "window", "sliding", "strides"])
def test_padding_and_what_is_masked_change_nothing(case):
    policy, weights, _, rows, _ = collected(*CASES[case])
    score = jax.jit(policy.score)
    before = score(weights, rows)
    padding = np.asarray(rows.turn) < 0
    poisoned = np.where(padding, 5, np.asarray(rows.tokens))
    after = score(weights, rows.replace(tokens=jnp.asarray(poisoned)))
    for a, b in zip(before, after, strict=True):
        trained = np.asarray(rows.loss_mask)
        np.testing.assert_array_equal(np.asarray(a)[trained], np.asarray(b)[trained])


def test_every_written_token_is_trained_once():
    sizes = set()
    for case in ("whole", "window", "sliding", "strides", "strides, cut"):
        _, _, streams, rows, metrics = collected(CASES[case][0], CASES[case][1])
        sizes.add(int(rows.loss_mask.sum()))
        assert int(rows.loss_mask.sum()) == int(metrics["tokens"][0])
        assert int(rows.loss_mask.sum()) == int(np.asarray(streams.cost).sum())
        turn = np.where(np.asarray(rows.loss_mask), np.asarray(rows.turn), -1)
        pairs = {
            (int(s), int(t)) for s, r in zip(rows.stream, turn, strict=True) for t in r if t >= 0
        }
        assert pairs == {(int(n), int(t)) for n, t in np.argwhere(np.asarray(streams.mask))}


def test_a_window_of_everything_is_the_whole_conversation():
    """Other rows and another cache, the same contexts: the same episodes, values and bootstraps."""
    critic = (("critic", "shared"),)
    _, _, whole, _, _ = collected(critic, ())
    _, _, window, _, _ = collected(critic, reads("window", history=TURNS))
    _, _, sliding, _, _ = collected(critic, reads("sliding", history=TURNS))
    for other in (window, sliding):
        for name in ("reward", "mask", "anchor", "valid", "cost", "truncated", "terminated"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(other, name), err_msg=name)
        np.testing.assert_allclose(whole.value, other.value, atol=1e-5)
        cut = np.asarray(whole.truncated).any(1)
        assert cut.any()
        np.testing.assert_allclose(
            np.asarray(whole.bootstrap)[cut], np.asarray(other.bootstrap)[cut], atol=1e-5
        )


def test_strides_are_the_rows_of_turns_that_continue_each_other():
    """The same episodes and values as with a row for every turn, in half as many rows."""
    _, _, streams, rows, _ = collected(*CASES["strides"])
    made = make(**dict(CASES["strides"][1]))[1]
    assert rows.tokens.shape[0] == made.num_rows == 12 * 2
    turns = np.where(np.asarray(rows.loss_mask), np.asarray(rows.turn), -1)
    trained = [set(row[row >= 0].tolist()) for row in turns]
    lengths = np.asarray(streams.mask).sum(1)
    for stream, length in enumerate(lengths):
        assert trained[2 * stream : 2 * stream + 2] == [
            set(range(min(2, length))), set(range(2, length))
        ]  # fmt: skip
    # A window that holds everything is one row, that of the whole episode.
    all_shown = (CASES["strides"][0], reads("sliding", history=TURNS, stride=2))
    whole, held = collected(CASES["strides"][0], ())[3], collected(*all_shown)[3]
    for name in ("tokens", "loss_mask", "turn", "stream", "span", "role"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(held, name), err_msg=name)
    np.testing.assert_allclose(whole.behaviour_logp, held.behaviour_logp, atol=1e-5)


def test_groups_share_the_task_and_nothing_else():
    _, _, streams, _, _ = collected(*CASES["constrained"])
    anchor = np.asarray(streams.anchor).reshape(3, 4, TURNS, 2)
    assert np.all(anchor[:, :, 0] == anchor[:, :1, 0])
    assert len(np.unique(anchor[:, 0, 0], axis=0)) > 1
    rewards = np.asarray(streams.cost)
    assert rewards.sum() > 0
    assert len(np.unique(anchor[:, :, 1].reshape(-1, 2), axis=0)) > 3


def test_episodes_end_once():
    for case in CASES.values():
        s = jax.tree.map(np.asarray, collected(*case)[2])
        ended = s.terminated | s.truncated
        assert np.all(ended.sum(1) == 1) and not np.any(s.terminated & s.truncated)
        assert np.all(ended[np.arange(12), s.mask.sum(1) - 1])
        assert np.all(s.mask[:, :-1] >= s.mask[:, 1:])
        assert np.all(s.reward[~s.mask] == 0)


def test_constrained_replies_are_legal_commands():
    for case in ("constrained", "constrained bytes"):
        _, _, streams, _, metrics = collected(*CASES[case])
        assert np.asarray(streams.valid)[np.asarray(streams.mask)].all()
        assert float(metrics["invalid_action_rate"][0]) == 0


def test_demonstrations_are_the_experts_conversations():
    env, params = lake(slippery=False)
    policy = policies.transformer(env.view, **SMALL)
    made = rollout.episodes(policy, env, params, contexts.whole(), num_groups=2, group_size=2)
    keys = jax.random.split(jax.random.key(5), 6)
    streams, rows = jax.jit(made.demonstrate)(keys, jax.random.key(6))
    names, (initial, before, step) = list(env.action_names), rules(slippery=False)
    for i, key in enumerate(keys):
        state, written, said, total = initial(key), "", 0, 0.0
        while not env.is_terminated(state, params) and state.time < TURNS:
            text, action = jax.tree.map(np.asarray, before(state))
            written += join(env.view.lexicon, text.fragments[0]) + names[int(action)]
            said += 2  # the command and the end token
            _, state, reward, _, _ = step(state, action)
            total += float(reward)
        assert float(streams.reward[i].sum()) == total > 0
        assert codecs.decode(policy.codec, np.asarray(rows.tokens[i])) == written
        assert int(rows.loss_mask[i].sum()) == said
        ends = np.asarray(rows.tokens[i])[np.asarray(rows.loss_mask[i])]
        assert (ends[1::2] == policy.codec.end).all()


def test_demonstrations_write_no_summaries():
    """An expert has no parameters to write one with: its rows are those of a wide window."""
    env, params = lake(slippery=False)
    policy = policies.transformer(env.view, **SMALL, words=(contexts.SUMMARY_REQUEST,))
    keys, shown = jax.random.split(jax.random.key(5), 2), []
    for context in (contexts.summary(limit=400), contexts.window(history=TURNS)):
        made = rollout.episodes(policy, env, params, context, num_groups=2, group_size=2)
        shown.append(jax.tree.map(np.asarray, jax.jit(made.demonstrate)(keys, keys[0])[1]))
    summary, window = shown
    count, width = window.tokens.shape
    assert window.loss_mask.any() and not summary.loss_mask[count:].any()
    assert not summary.tokens[:count, width:].any()
    np.testing.assert_array_equal(summary.tokens[:count, :width], window.tokens)
    np.testing.assert_array_equal(summary.loss_mask[:count, :width], window.loss_mask)


def test_demonstrations_with_noise_stray_and_say_what_the_expert_would_do():
    env, params = lake(slippery=False)
    policy = policies.transformer(env.view, **SMALL)
    made = rollout.episodes(policy, env, params, contexts.whole(), num_groups=2, group_size=2)
    keys = jax.random.split(jax.random.key(5), 6)
    _, rows = jax.jit(functools.partial(made.demonstrate, noise=0.6))(keys, jax.random.key(6))
    names, strayed, (initial, before, step) = list(env.action_names), 0, rules(slippery=False)
    for i, key in enumerate(keys):
        state = initial(key)
        left = codecs.decode(policy.codec, np.asarray(rows.tokens[i]))
        text = join(env.view.lexicon, np.asarray(before(state)[0].fragments[0]))
        while left:
            best = int(before(state)[1])
            assert left.startswith(text + names[best])
            left = left.removeprefix(text + names[best])
            # What was done is what leads to what is read next; the expert's, if that does.
            for action in (best, *range(env.num_actions)):
                _, after, *_ = step(state, np.int32(action))
                text = join(env.view.lexicon, np.asarray(before(after)[0].fragments[0]))
                if left.startswith(text):
                    break
            strayed += bool(left) and action != best
            state = after
    assert strayed > 3
    with pytest.raises(ValueError, match="thoughts=True with grammar 'bare'"):
        jax.eval_shape(functools.partial(made.demonstrate, thoughts=True), keys, keys[0])


def test_finished_episodes_cost_no_generation(monkeypatch):
    """Generation is called in as many turns as the longest episode takes, not in max_turns."""
    calls = []

    def counting(*args, **kwargs):
        jax.debug.callback(lambda: calls.append(1))
        return original(*args, **kwargs)

    original = module.generate
    monkeypatch.setattr(module, "generate", counting)
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=50)
    policy = policies.transformer(env.view, **SMALL, constrained=True)
    made = rollout.episodes(policy, env, params, contexts.whole(), num_groups=2, group_size=1)
    weights = policy.init(jax.random.key(0))
    _, streams, _, _ = jax.jit(made.collect)(weights, made.init(None), jax.random.key(0))
    jax.effects_barrier()
    longest = int(np.asarray(streams.mask).sum(1).max())
    assert longest < 50 and len(calls) == longest


def test_horizons_grow_with_collections():
    policy, made = make((), horizons=(1, 3), horizon_every=2)
    weights, state = policy.init(jax.random.key(0)), made.init(jax.random.key(1))
    collect, longest = jax.jit(made.collect), []
    for i in range(5):
        state, streams, _, _ = collect(weights, state, jax.random.key(i))
        longest.append(int(np.asarray(streams.mask).sum(1).max()))
    assert longest[:2] == [1, 1] and max(longest[2:]) <= 3 and max(longest[2:]) > 1


def test_a_full_context_truncates():
    policy, made = make((), read=(("context_tokens", 2 * 15),))
    weights = policy.init(jax.random.key(0))
    _, streams, rows, metrics = jax.jit(made.collect)(weights, made.init(None), jax.random.key(3))
    # An observation takes 11 fragments and a control token, a reply at most 2: two turns fit.
    assert rows.tokens.shape[1] == 30
    assert int(np.asarray(streams.mask).sum(1).max()) == 2
    cut = np.asarray(streams.truncated)[:, 1]
    assert cut.any()
    np.testing.assert_array_equal(metrics["full_row_rate"], [cut.sum(), len(cut)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_turns": 9}, "raise env.max_steps_in_episode"),
        ({"read": (("context_tokens", 5),)}, "one turn takes"),
        ({"horizons": (9,)}, "expected 1 to max_turns"),
        ({"anchor": "name"}, "expected one of 'observation', 'state'"),
        ({"num_groups": 0}, "expected at least 1"),
        ({"context": "window", "read": (("history", -1),)}, "history=-1: expected at least 0"),
        ({"context": "summary", "read": (("limit", 9),)}, "no token for 'Summarize"),
        ({"context": "fold"}, "use config.policy.grammar"),
        ({"read": (("inject_every", 2),)}, "and a text to inject"),
        ({"horizon_every": 5}, "or neither"),
        ({"horizons": (2,)}, "set both"),
    ],
)
def test_errors_say_what_was_expected(options, message):
    with pytest.raises(ValueError, match=message):
        make((), **options)


def test_a_language_policy_needs_a_context_and_no_other_policy_has_one():
    env, params = lake()
    policy = policies.transformer(env.view, **SMALL)
    with pytest.raises(ValueError, match="needs a context"):
        rollout.episodes(policy, env, params)
    arrays = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    with pytest.raises(ValueError, match="this policy reads arrays"):
        rollout.episodes(arrays, env, params, contexts.whole())


@pytest.mark.parametrize("name", ["FrozenLake-v1", "TicTacToe-v1"])
def test_a_reply_that_is_cut_is_done_and_is_not_valid(name):
    """The expert's commands without their end token: the same episode, in games too.

    Of the commands, those as long as a reply may be have no room for the end.
    """
    env, params = lake(False) if name == "FrozenLake-v1" else envs.make(name, wording="faithful")
    policy = policies.transformer(env.view, codec="byte", **SMALL)
    starts = jax.vmap(lambda key: env.initial(key, params))(jax.random.split(jax.random.key(0), 6))
    world, played, tokens = World(env, params), [], None
    turns = int(params.max_steps_in_episode)
    for _ in range(2):
        context = contexts.window(max_new_tokens=tokens)
        shown = expert(text_agent(policy, world, context, turns=turns), world)

        def run(states, shown=shown):
            start = Start(states, None)
            seats = seat_all(env, 6)
            return unroll(world, [shown], seats, start, jax.random.key(1), length=turns).turns

        played.append(jax.tree.map(np.asarray, jax.jit(run)(starts)))
        running = played[0].running
        # EOS not counted.
        length = played[0].decision.record.reply.count[..., 0] - 1
        tokens = int(length[running].max())
    whole, cut = played
    np.testing.assert_array_equal(cut.running, running)
    record, short = whole.decision.record, cut.decision.record
    done = (record.replied & record.format_ok & record.known)[..., 0]
    assert done[running].all() and whole.outcome.valid[running].all()
    tight = running & (length == tokens)
    assert tight.any() and tokens > 1
    assert short.known[running].all() and not short.ended[tight].any()
    assert not short.format_ok[tight].any() and short.format_ok[running & ~tight].all()
    assert (cut.outcome.offender[running] == -1).all()
    for field in ("reward", "terminated", "truncated", "success"):
        mine, theirs = getattr(cut.outcome, field), getattr(whole.outcome, field)
        np.testing.assert_array_equal(mine[running], theirs[running])
    np.testing.assert_array_equal(cut.decision.anchor[running], whole.decision.anchor[running])
