"""The text actor: in every context and every kind of environment, a row is what its reply was
sampled after."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies
from agentrl.actors import contexts
from agentrl.actors.records import token_spans
from agentrl.actors.text_source import text_agent
from agentrl.policies import codec as codecs
from agentrl.rollout.text_rows import text_metrics, text_rows
from agentrl.rollout.types import Seating
from agentrl.rollout.unroll import fresh, unroll
from agentrl.streams import ACTION, OBSERVATION, SPANS, SUMMARY, THOUGHT
from envs.text import join
from envs.vector import World

BATCH, TURNS = 5, 5
WORDS = (contexts.SUMMARY_REQUEST, *contexts.BRANCH_TAGS, "a hint: ")
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32, "words": WORDS}
ENVS = {
    "one agent": ("FrozenLake-v1", {"size": 3, "slippery": False, "max_steps_in_episode": TURNS}),
    "in turns": ("TicTacToe-v1", {"illegal_allowance": 9, "max_steps_in_episode": 2 * TURNS}),
    "at once": ("Foraging-v1", {"size": 5, "max_steps_in_episode": TURNS}),
}
CONTEXTS = {
    "whole": (contexts.whole, {}),
    "alone": (contexts.window, {"history": 0}),
    "window": (contexts.window, {"history": 1}),
    "first": (contexts.window, {"history": 1, "keep_first": True}),
    "mem1": (contexts.window, {"keep_first": True, "replies": 1}),
    "sliding": (contexts.sliding, {"history": 1}),
    "strides": (contexts.sliding, {"history": 1, "keep_first": True, "stride": 2}),
    "summary": (contexts.summary, {"summary_tokens": 3}),
    "summary once": (contexts.summary, {"summary_tokens": 3, "max_summaries": 1}),
    "fold": (contexts.fold, {"max_new_tokens": 6}),
    "hint": (contexts.window, {"history": 1, "inject": WORDS[-1], "inject_every": 2}),
}
# Contexts know of lanes only, one for each agent of each episode. So of those that differ from
# `window` in a few numbers not each is played in every kind of environment (of one agent in
# tests/rollout/test_words.py, too).
IN_ALL = ("whole", "window", "summary", "summary once", "fold")
PLAYED = (
    *((name, kind) for name in IN_ALL for kind in ENVS),
    ("alone", "in turns"),
    ("first", "in turns"),
    ("mem1", "at once"),
    ("sliding", "in turns"),
    ("strides", "in turns"),
    ("strides", "at once"),
    ("hint", "one agent"),
    ("hint", "at once"),
)


@functools.cache
def rules(kind):
    """(next state of a state and actions, what is said in a state), compiled once."""
    env, params = envs.make(ENVS[kind][0], **ENVS[kind][1])
    step = jax.jit(lambda s, a: env.step_env(jax.random.key(0), s, a, params)[1])
    return step, jax.jit(lambda s: env.describe(s, params))


@functools.cache
def played(kind, name, segments=False, **options):
    env, params = envs.make(ENVS[kind][0], **ENVS[kind][1])
    make, context_options = CONTEXTS[name]
    context_options = dict(context_options)
    if name.startswith("summary"):
        observation = policies.transformer(env.view, **SMALL).codec.observation_tokens(env.view)
        context_options["limit"] = 2 * observation + 6
    if name == "fold":
        options = {"grammar": "action", "think": "none", **options}
    policy = policies.transformer(env.view, **SMALL, critic="shared", **options)
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(0)))
    if name == "fold":
        # Branches are opened and closed often.
        table, tags = weights["embed_tokens"]["weight"], policy.codec.tags
        often = jnp.array([tags[tag][0] for tag in contexts.BRANCH_TAGS])
        weights["embed_tokens"]["weight"] = table.at[often].multiply(8)
    world = World(env, params)
    turns = int(params.max_steps_in_episode)
    text = text_agent(policy, world, make(**context_options), turns=turns, segments=segments)

    @jax.jit
    def run(weights):
        start = fresh(world, jax.random.split(jax.random.key(1), BATCH))._replace(observation=None)
        everyone = jnp.zeros((BATCH, env.num_agents), jnp.int32)
        trajectory = unroll(
            world,
            [text.actor(weights)],
            Seating(everyone, everyone == 0),
            start,
            jax.random.key(2),
            length=turns,
            early_exit=True,
        )
        rows = text_rows(text, trajectory.turns, trajectory.final.memory[0])
        return trajectory, rows, text_metrics(trajectory.turns)

    return env, policy, weights, text, jax.tree.map(np.asarray, run(weights))


def replied(trajectory):
    """(turn, episode, place) of all replies."""
    return np.argwhere(trajectory.turns.decision.record.replied)


@pytest.mark.parametrize(("name", "kind"), PLAYED)
def test_on_policy_ratios_are_one(kind, name):
    _, policy, weights, text, (trajectory, rows, metrics) = played(kind, name)
    scored = jax.tree.map(np.asarray, jax.jit(policy.score)(weights, rows))
    mask, record = rows.loss_mask, trajectory.turns.decision.record
    assert mask.sum() == metrics["tokens"][0] > 20
    if name.startswith("summary"):
        assert metrics["summary_rate"][0] > 0
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-4)
    assert not rows.behaviour_logp[~mask].any()
    assert rows.tokens.shape[1] == text.row_tokens
    # Every reply is trained once, in a row of its stream, where its value was read.
    agents = text.agents
    replies = set()
    for row in np.flatnonzero(mask.any(axis=1)):
        for turn in np.unique(rows.turn[row][mask[row]]):
            here = mask[row] & (rows.turn[row] == turn)
            if (rows.span[row][here] == SUMMARY).all():
                continue
            episode, agent = divmod(int(rows.stream[row]), agents)
            (place,) = np.flatnonzero(trajectory.turns.agent[turn, episode] == agent)
            value = trajectory.turns.decision.value[turn, episode, place]
            np.testing.assert_allclose(scored.value[row][here][0], value, atol=1e-4)
            said = record.reply.tokens[turn, episode, place]
            count = record.reply.count[turn, episode, place]
            np.testing.assert_array_equal(rows.tokens[row][here], said[:count])
            replies.add((int(turn), episode, int(place)))
    assert replies == {tuple(map(int, index)) for index in replied(trajectory)}
    assert (rows.role == rows.stream % agents).all()


def shown(name, texts, replies, t, marks):
    """What the context shows before the reply of own turn t, written out in Python."""
    if name in ("alone", "window", "hint", "first"):
        history = 0 if name == "alone" else 1
        turns = [s for s in range(t) if s >= t - history or (name == "first" and s == 0)]
        out = []
        for s in turns:
            out += [texts[s]] + ([replies[s]] if s >= t - history else [])
        return [*out, texts[t]]
    if name == "mem1":
        return [*([texts[0], *replies[-1:]] if t else []), texts[t]]
    if name == "sliding":
        out = []
        for s in range(t):
            out += [texts[s] if s >= t - 1 else "", replies[s]]
        return [*out, texts[t]]
    if name == "strides":
        # Of the results after the first text two at most are in view, and leave two by two.
        gone = 2 * ((t - 1) // 2) if t > 2 else 0
        out = []
        for s in range(t):
            out += [texts[s] if s == 0 or s > gone else "", replies[s]]
        return [*out, texts[t]]
    if name.startswith("summary") and marks:
        since, said = marks[-1]
        out = [texts[0], contexts.SUMMARY_REQUEST, said] if since else []
        for s in range(since, t):
            out += [texts[s], replies[s]]
        return [*out, texts[t]]
    if name == "fold":
        gone, opened = set(), None
        for s in range(t):
            if opened is not None and contexts.BRANCH_TAGS[1] in replies[s]:
                gone |= {(k, "reply") for k in range(opened + 1, s)}
                gone |= {(k, "text") for k in range(opened + 1, s + 1)}
                opened = None
            elif opened is None and contexts.BRANCH_TAGS[0] in replies[s]:
                opened = s
        out = []
        for s in range(t):
            out += [] if (s, "text") in gone else [texts[s]]
            out += [] if (s, "reply") in gone else [replies[s]]
        marks.extend(gone)
        return [*out, texts[t]]
    return [x for s in range(t) for x in (texts[s], replies[s])] + [texts[t]]


@pytest.mark.parametrize(("name", "kind"), PLAYED)
def test_rows_show_what_the_context_says(kind, name):
    """Played again in Python from the recorded actions: the text of every row, word for word."""
    env, policy, _, text, (trajectory, rows, _) = played(kind, name)
    codec, agents = policy.codec, text.agents
    record, actions = trajectory.turns.decision.record, trajectory.turns.action
    step, describe = rules(kind)
    folds = 0
    by_turn = {}
    for row in np.flatnonzero(rows.loss_mask.any(axis=1)):
        last = rows.turn[row][rows.loss_mask[row]].max()
        is_summary = (rows.span[row][rows.loss_mask[row]] == SUMMARY).all()
        by_turn[int(rows.stream[row]), int(last), bool(is_summary)] = row
    for episode in range(BATCH):
        state = jax.tree.map(lambda x, i=episode: x[i], trajectory.first.state)
        state = jax.tree.map(jnp.asarray, state)
        texts, replies, marks = ([[] for _ in range(agents)] for _ in range(3))
        for t in np.flatnonzero(trajectory.turns.running[:, episode]):
            seen = describe(state)
            for place, agent in enumerate(trajectory.turns.agent[t, episode]):
                if not record.replied[t, episode, place]:
                    continue
                said = join(env.view.lexicon, np.asarray(seen.fragments[agent]))
                turn = len(texts[agent])
                if name == "hint" and turn % 2 == 0:
                    said = WORDS[-1] + said
                texts[agent].append(said)
                stream = episode * agents + agent
                if (stream, t, True) in by_turn:
                    row = by_turn[stream, t, True]
                    mask = rows.loss_mask[row]
                    asked = shown(name, texts[agent], replies[agent], turn, marks[agent])
                    read = rows.tokens[row][~mask]
                    said = codecs.decode(codec, read)
                    assert said == "".join([*asked[:-1], contexts.SUMMARY_REQUEST])
                    said = codecs.decode(codec, rows.tokens[row][mask])
                    marks[agent].append((turn, said))
                tokens = record.reply.tokens[t, episode, place]
                reply = codecs.decode(codec, tokens[: record.reply.count[t, episode, place]])
                # Turns that another one continues have no row of their own.
                if name != "whole" and (name != "strides" or (stream, t, False) in by_turn):
                    row = by_turn[stream, t, False]
                    folded = [] if name == "fold" else marks[agent]
                    pieces = shown(name, texts[agent], replies[agent], turn, folded)
                    folds += len(folded) if name == "fold" else 0
                    expected = "".join([*pieces, reply])
                    assert codecs.decode(codec, rows.tokens[row]) == expected
                replies[agent].append(reply)
            action = actions[t, episode]
            joint = np.broadcast_to(action, (agents,)) if agents > action.shape[0] else action
            state = step(state, jnp.asarray(joint[0] if agents == 1 else joint))
        if name == "whole":
            for agent in range(agents):
                row = episode * agents + agent
                pieces = [
                    x for pair in zip(texts[agent], replies[agent], strict=True) for x in pair
                ]
                assert codecs.decode(codec, rows.tokens[row]) == "".join(pieces)
    if name == "fold" and kind == "at once":
        assert folds > 0


@pytest.mark.parametrize("kind", ENVS)
def test_episodes_that_need_one_more_summary_are_truncated(kind):
    _, _, _, _, (many, *_) = played(kind, "summary")
    _, _, _, _, (once, rows, _) = played(kind, "summary once")
    written = [x.turns.decision.record.summary.count > 0 for x in (many, once)]
    per_agent = [
        _per_agent(x.turns.agent, there) for x, there in zip((many, once), written, strict=True)
    ]
    assert per_agent[0].max() > 1 and per_agent[1].max() == 1
    # The turn of the second summary, of any agent, is not played: until then nothing differs.
    cut = once.turns.outcome.truncated & ~many.turns.outcome.truncated
    assert (cut.any(axis=0) == (per_agent[0] > 1).any(axis=1)).all()
    for episode in np.flatnonzero(cut.any(axis=0)):
        end = int(np.flatnonzero(cut[:, episode])[0])
        assert written[0][end, episode].any()
        np.testing.assert_array_equal(
            once.turns.action[:end, episode], many.turns.action[:end, episode]
        )
        assert not once.turns.running[end:, episode].any()


def _per_agent(agent, there):
    """Number of flags of each episode and agent [B, A], of flags [T, B, S]."""
    out = np.zeros((agent.shape[1], agent.max() + 1), int)
    for turn, episode, place in np.argwhere(there):
        out[episode, agent[turn, episode, place]] += 1
    return out


def test_spans_are_what_the_tags_say():
    env, _ = envs.make("FrozenLake-v1", size=3)
    policy = policies.transformer(env.view, codec="byte", **SMALL | {"words": ()}, grammar="action")
    world = World(env, env.default_params)
    text_agent(policy, world, contexts.window(max_new_tokens=60), turns=3)
    reply = "<think>so</think> <action>left</action>"
    tokens = jnp.array([3 + b for b in reply.encode()] + [policy.codec.end])
    text, length = codecs.to_bytes(policy.codec, tokens, jnp.int32(tokens.shape[0]))
    spans = np.asarray(token_spans(policy, text, length, tokens))
    end = len("<think>so</think>")
    assert (spans[:end] == THOUGHT).all() and (spans[end:] == ACTION).all()
    assert SPANS[THOUGHT] == "thought" and SPANS[OBSERVATION] == "observation"
