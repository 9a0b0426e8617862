"""Several roles on one transcript: in the graph and on the host the same, token for token."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.actors.text_source import text_agent
from agentrl.actors.types import Actor
from agentrl.policies import codec as codecs
from agentrl.policies.generation import Given
from agentrl.rollout import contexts
from agentrl.rollout.host_actors import host_text_actor, host_text_agent
from agentrl.rollout.pack import pack
from agentrl.rollout.seating import seat_all
from agentrl.rollout.text_rows import text_packing
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import fresh, unroll
from agentrl.rollout.unroll_host import HostLoop
from envs.vector import World

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "hosted_toys.py")
NUMBERS = ((3, 5, 1), (6, 2, 6), (0, 4, 2), (1, 1, 1))
SIZES = {"width": 16, "layers": 2, "heads": 2, "kv_heads": 2, "hidden": 32, "codec": "byte"}
# What the seats say in their turns, task by task: a solver and its verifier, one of them at times
# out of its turn, or in no words of the game.
SCRIPT = (
    ("say 3", "reject", "say 5"),
    ("say 6", "approve"),
    ("reject", "say 2", "say 4", "reject", "zzz", "say 4"),
    ("say 1", "reject", "say 0"),
)
TURNS, REPLY = 6, 8


@functools.cache
def made(where, lora_roles=2):
    """(env, params, policy, weights): adapters of both roles do something."""
    if where == "graph":
        base = {"name": "CheckedSum-v1", "question": "largest", "terms": 3}
    else:
        base = {"name": f"{TOYS}:Checked", "numbers": NUMBERS}
    env, params = envs.make("envs.wrappers.OneTranscript", base=base)
    policy = policies.transformer(env.view, **SIZES, lora_rank=2, lora_roles=lora_roles)
    weights = policy.init(jax.random.key(0))
    leaves, tree = jax.tree.flatten(weights["lora"])
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noise = [0.2 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return env, params, policy, weights | {"lora": tree.unflatten(noise)}


def script(codec):
    """Replies of each task and turn as tokens, with their end: i32[tasks, turns, G], lengths."""
    tokens = np.zeros((len(SCRIPT), TURNS, REPLY), np.int32)
    length = np.zeros((len(SCRIPT), TURNS), np.int32)
    for task, said in enumerate(SCRIPT):
        for turn, text in enumerate(said):
            written = [*codecs.tokens_of(codec, text), codec.end]
            tokens[task, turn, : len(written)], length[task, turn] = written, len(written)
    return jnp.asarray(tokens), jnp.asarray(length)


def scripted_in_graph(context):
    """(streams, rows) of the script in the graph."""
    env, params, policy, weights = made("graph")
    world = World(env, params)
    agent = text_agent(policy, world, context, turns=TURNS)
    tokens, length = script(policy.codec)
    task = jnp.arange(len(SCRIPT))

    def act(weights, memory, view, key):
        turn = memory.turn.reshape(-1)
        given = Given(tokens[task, turn], length[task, turn])
        return agent.act(weights, memory, view, key, given=given)

    actor = Actor(
        init=lambda batch, agents: agent.init(weights, batch), act=act, params=weights,
        reads_arrays=False,
    )  # fmt: skip
    start = fresh(world, jax.random.split(jax.random.key(3), len(SCRIPT)))
    base = start.state.base.replace(terms=jnp.asarray(NUMBERS, jnp.int32))
    start = Start(start.state.replace(base=base), None)
    seating = seat_all(env, len(SCRIPT))
    run = jax.jit(lambda: unroll(world, [actor], seating, start, jax.random.key(4), length=TURNS))
    return pack(env, text_packing(agent, env), run(), seating.learns)


def scripted_on_host(context):
    """(streams, rows) of the script, with the environment in Python."""
    env, _, policy, weights = made("host")
    agent = host_text_agent(
        policy, env, context, turns=TURNS, observation_tokens=64, segments=False
    )
    actor = host_text_actor(agent)
    tokens, length = script(policy.codec)

    def act(params, memory, shown, key, greedy):
        # Rows are processes, which play one task after another.
        turn = memory.turn.reshape(-1) * ~jnp.asarray(shown.begins)
        given = Given(tokens[shown.episode, turn], length[shown.episode, turn])
        return actor.act(params, memory, shown, key, greedy, given=given)

    options = rollout.processes(workers=2, observation_tokens=64, max_turns=TURNS)
    loop = HostLoop(env, actor._replace(act=act), options, length=TURNS, restart=False)
    try:
        got = loop.collect(weights, range(len(SCRIPT)), jax.random.key(5))
    finally:
        loop.close()
    learns = np.ones((len(SCRIPT), 1), bool)
    return pack(env, text_packing(agent, env), got.trajectory, learns)


CONTEXTS = {
    "whole": functools.partial(contexts.whole, max_new_tokens=REPLY),
    "window": functools.partial(contexts.window, history=1, max_new_tokens=REPLY),
}


@pytest.mark.parametrize("name", list(CONTEXTS))
def test_the_same_replies_are_the_same_rows(name):
    context = CONTEXTS[name]()
    here, there = scripted_in_graph(context), scripted_on_host(context)
    (streams, rows), (others, again) = jax.tree.map(np.asarray, (here, there))
    for field in ("mask", "reward", "valid", "well_formed", "success", "terminated", "cost"):
        x, y = getattr(streams, field), getattr(others, field)
        np.testing.assert_array_equal(x, y, err_msg=field)
    turns = [len(said) for said in SCRIPT]
    np.testing.assert_array_equal(streams.mask.sum(axis=1), turns)
    assert streams.reward.sum(axis=1).tolist() == [1.0, 1.0, 1.0, 0.0]
    # Words of the other one, and one of nobody.
    invalid = np.argwhere(~streams.valid & streams.mask)
    np.testing.assert_array_equal(invalid, [[2, 0], [2, 2], [2, 4]])
    # Rows have room for the longest observation that each source knows of.
    wide = min(rows.tokens.shape[1], again.tokens.shape[1])
    assert (rows.turn[:, wide:] < 0).all() and (again.turn[:, wide:] < 0).all()
    assert rows.tokens.shape[0] == again.tokens.shape[0] and rows.loss_mask.any()
    for field in ("tokens", "loss_mask", "turn", "span"):
        x, y = getattr(rows, field)[:, :wide], getattr(again, field)[:, :wide]
        np.testing.assert_array_equal(x, y, err_msg=field)
    np.testing.assert_array_equal(rows.stream, again.stream)
    if name == "window":
        trained = rows.loss_mask.any(axis=1)
        np.testing.assert_array_equal(rows.role[trained], again.role[trained])
        assert rows.role[trained].tolist().count(1) == 1 + 1 + 2 + 1
        return
    read = rows.turn[:, :wide] >= 0
    np.testing.assert_array_equal(rows.speaker[:, :wide][read], again.speaker[:, :wide][read])
    # The verifier's turns, by hand.
    verifies = [{1}, {1}, {2, 3}, {1}]
    for row, at in enumerate(verifies):
        speaks = rows.turn[row][(rows.speaker[row] == 1) & (rows.turn[row] >= 0)]
        assert set(speaks.tolist()) == at


@pytest.mark.parametrize("name", list(CONTEXTS))
def test_ratio_one_before_the_first_update_for_each_role(name):
    """Replies that were drawn, by each role's own adapter."""
    env, params, policy, weights = made("host")
    where = rollout.processes(workers=2, observation_tokens=64, max_turns=4)
    matches = rollout.episodes(
        policy, env, params, CONTEXTS[name](), where, num_groups=2, group_size=2
    )
    try:
        _, streams, rows, _ = matches.collect(weights, None, jax.random.key(2))
    finally:
        matches.close()
    assert matches.agents == 1 and streams.role is None
    scored = np.asarray(jax.jit(policy.score)(weights, rows).logp)
    mask = np.asarray(rows.loss_mask)
    np.testing.assert_allclose(scored[mask], np.asarray(rows.behaviour_logp)[mask], atol=2e-5)


def test_each_position_is_scored_by_the_role_that_the_environment_names():
    """Three roles in turn: ratio 1 with their adapters, and not with the roles exchanged."""
    env, params = envs.make(f"{TOYS}:Alternating")
    policy = policies.transformer(env.view, **SIZES, lora_rank=2, lora_roles=3)
    weights = policy.init(jax.random.key(0))
    weights["lora"] = jax.tree.map(
        lambda x: 0.3 * jax.random.normal(jax.random.key(x.size), x.shape), weights["lora"]
    )
    where = rollout.processes(workers=2, observation_tokens=16, max_turns=4)
    matches = rollout.episodes(
        policy, env, params, CONTEXTS["whole"](), where, num_groups=1, group_size=2
    )
    try:
        _, _, rows, _ = matches.collect(weights, None, jax.random.key(2))
    finally:
        matches.close()
    mask, turn = np.asarray(rows.loss_mask), np.asarray(rows.turn)
    np.testing.assert_array_equal(np.asarray(rows.speaker)[turn >= 0], turn[turn >= 0] % 3)
    score = jax.jit(policy.score)
    drawn = np.asarray(rows.behaviour_logp)[mask]
    np.testing.assert_allclose(np.asarray(score(weights, rows).logp)[mask], drawn, atol=2e-5)
    others = rows.replace(speaker=(rows.speaker + 1) % 3)
    assert np.abs(np.asarray(score(weights, others).logp)[mask] - drawn).max() > 0.01


def test_what_does_not_fit_is_an_error():
    transcript = "envs.wrappers.OneTranscript"
    for base, message in (
        ({"name": f"{TOYS}:Sum"}, "two or more, act one after another"),
        ({"name": f"{TOYS}:Digits", "kind": "once"}, "act one after another"),
        ({"name": f"{TOYS}:Checked", "numbers": NUMBERS, "roles": [0]}, "one number per seat"),
    ):
        with pytest.raises(ValueError, match=message):
            envs.make(transcript, base=base)
    with pytest.raises(ValueError, match="speakers=3 with seats=2"):
        envs.make(f"{TOYS}:Alternating", seats=2)
    with pytest.raises(ValueError, match="options wording"):
        envs.make(transcript, base={"name": f"{TOYS}:Checked", "numbers": NUMBERS}, wording="x")
    with pytest.raises(ValueError, match="lora_roles=2 with .*Alternating, which has 3 roles"):
        env, params = envs.make(f"{TOYS}:Alternating")
        policy = policies.transformer(env.view, **SIZES, lora_rank=2, lora_roles=2)
        rollout.episodes(policy, env, params, contexts.whole(max_new_tokens=4))


@pytest.mark.parametrize("options, message", [({"pay": "solver"}, "seats differ"), ({}, None)])
def test_rewards_are_those_of_a_team(options, message):
    source = f"transcript:{TOYS}:Checked"
    env, _ = envs.make(source, numbers=NUMBERS, roles=[1, 0], **options)
    assert (env.num_agents, env.speakers, env.has_success) == (1, 2, True)
    pool = env.pool(1, 10.0)
    try:
        answers = []
        for request in (
            {"op": "reset", "seed": 1},
            {"op": "step", "action": "say 6"},
            {"op": "step", "action": "approve"},
        ):
            while not pool.idle():
                pool.wait()
            pool.ask(0, request)
            while not (got := pool.wait()):
                pass
            answers.append(got[0])
    finally:
        pool.close()
    (_, first, _), (_, second, _), (_, last, failure) = answers
    assert (first["speaker"], second["speaker"]) == (1, 0)  # the roles as given
    if message:
        assert last is None and message in failure
    else:
        assert last["reward"] == [1.0] and last["success"] == [True] and last["terminated"]
