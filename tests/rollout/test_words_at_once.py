"""Games in words in which all act at once: everybody reads its own and replies in the same turn."""

import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

import envs
import envs.vector
from agentrl import policies, rollout
from agentrl.actors.text_source import text_agent
from agentrl.devices.placement import AXES
from agentrl.evaluation import play
from agentrl.policies import codec as codecs
from agentrl.rollout import contexts
from agentrl.rollout.bound import bind
from agentrl.rollout.episodes import packed
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import unroll
from agentrl.streams import OBSERVATION, to_last_turn
from envs.foraging.env import Foraging
from envs.text import join
from envs.vector import World

GROUPS, MEMBERS, TURNS, SEATS = 8, 1, 6, 2
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
ALONE = contexts.window(history=0)
LOAD = 5


class Resting(Foraging):
    """In every third step of its own each player rests."""

    def acting(self, state, params):
        return ((state.time + self._agents) % 3 > 0) & self.is_running(state, params)


def resting():
    """Players see two cells far, and who errs pays for it alone."""
    env = Resting(size=5, sight=2)
    return env, env.default_params.replace(max_steps_in_episode=TURNS, illegal_reward=-0.25)


@functools.cache
def programs():
    """A step, and what stands before the players of a state."""
    env, params = resting()

    def before(state):
        return (
            env.acting(state, params),
            env.describe(state, params),
            env.legal_actions(state, params),
            env.expert(state, params),
        )

    step = jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, params))
    return step, jax.jit(before)


@functools.cache
def bound():
    env, params = resting()
    policy = policies.transformer(env.view, **SMALL, critic="shared")
    sizes = {"num_groups": GROUPS, "group_size": MEMBERS}
    made = rollout.episodes(policy, env, params, ALONE, **sizes)
    # Larger weights, so that distributions are far from uniform.
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(1)))
    return env, params, policy, made, weights


@functools.cache
def collected():
    _, _, _, made, weights = bound()
    collect = jax.jit(chex.assert_max_traces(made.collect, n=1))
    out = [collect(weights, made.init(None), jax.random.key(seed))[1:] for seed in (2, 3)]
    return jax.tree.map(np.asarray, out[0])


def test_what_was_said_is_what_the_game_was_played_with():
    """The collected matches once more, from the tokens of their rows, in Python."""
    env, params, policy, _, _ = bound()
    streams, rows, metrics = collected()
    names, (step, before) = list(env.action_names), programs()
    task_key, _ = jax.random.split(jax.random.key(2))
    draw = jax.jit(lambda keys: envs.vector.draw(env, params, keys).state)
    starts = jax.device_get(draw(jax.random.split(task_key, GROUPS)))
    reward = np.zeros((GROUPS * SEATS, TURNS), np.float32)
    where = {}
    for row, (owner, turn, written) in enumerate(
        zip(rows.stream, rows.turn, rows.loss_mask, strict=True)
    ):
        if written.any():
            where[owner, turn.max()] = row
            assert rows.role[row] == owner % SEATS
    replies, done = 0, 0
    for match in range(GROUPS):
        state = jax.tree.map(lambda x, i=match: x[i], starts)
        for t in range(TURNS):
            acting, texts, legal, _ = jax.tree.map(np.asarray, before(state))
            mine = slice(match * SEATS, match * SEATS + SEATS)
            np.testing.assert_array_equal(streams.mask[mine, t], acting)
            # What stands for who rests is not read.
            action = [LOAD] * SEATS
            for seat in np.flatnonzero(acting):
                stream = match * SEATS + seat
                row = where[stream, t]
                tokens, written = rows.tokens[row], rows.loss_mask[row]
                read = (rows.turn[row] == t) & ~written
                own = join(env.view.lexicon, texts.fragments[seat])
                assert codecs.decode(policy.codec, tokens[read]) == own
                # A reply that is cut is done, and is not valid.
                ended = int(tokens[written][-1] == policy.codec.end)
                said = codecs.decode(policy.codec, tokens[written][: -ended or None])
                action[seat] = names.index(said) if said in names else -1
                known = action[seat] >= 0 and bool(legal[seat, action[seat]])
                assert streams.valid[stream, t] == (known and ended)
                replies, done = replies + 1, done + known
            _, state, gained, *_ = step(state, np.array(action))
            reward[mine, t] = gained
    expected = jax.jit(to_last_turn)(reward, streams.mask)
    np.testing.assert_allclose(streams.reward, expected, atol=1e-6)
    assert replies == streams.mask.sum() == metrics["response_length"][1]
    assert 0 < done < replies and set(streams.reward[streams.mask]) == {0, -0.25}


def test_streams_and_rows_are_those_of_matches():
    env, _, _, made, _ = bound()
    streams, rows, metrics = collected()
    count = GROUPS * MEMBERS
    np.testing.assert_array_equal(streams.role, np.tile([0, 1], count))
    np.testing.assert_array_equal(streams.episode, np.repeat(np.arange(count), SEATS))
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(GROUPS), SEATS))
    assert rows.tokens.shape[0] == made.num_rows == count * SEATS * TURNS
    ended = streams.terminated | streams.truncated
    np.testing.assert_array_equal(ended.sum(axis=1), 1)
    assert not ended[~streams.mask].any()
    assert metrics["episodes"][0] == count and metrics["tokens"][0] == rows.loss_mask.sum()
    assert made.provides >= {"role", "task", "group", "value", "bootstrap"}


def test_the_learner_scores_what_was_sampled_and_nothing_else():
    _, _, policy, _, weights = bound()
    streams, rows, _ = collected()
    score, mask = jax.jit(policy.score), rows.loss_mask
    scored = score(weights, rows)
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-4)
    assert rows.behaviour_logp[~mask].max() == 0 == rows.behaviour_logp[~mask].min()
    poisoned = np.where(rows.turn < 0, 5, rows.tokens)
    assert (poisoned != rows.tokens).any()
    again = score(weights, rows.replace(tokens=poisoned))
    np.testing.assert_array_equal(scored.logp[mask], again.logp[mask])
    first = mask & (np.cumsum(mask, axis=1) == 1)
    turn = rows.turn.max(axis=1)[first.any(axis=1)]
    said = streams.value[rows.stream[first.any(axis=1)], turn]
    np.testing.assert_allclose(np.asarray(scored.value)[first], said, atol=1e-4)


def test_eight_devices_collect_what_one_does():
    _, _, _, made, weights = bound()
    mesh = jax.make_mesh((8, 1, 1), AXES, axis_types=(AxisType.Auto,) * 3)
    with jax.set_mesh(mesh):
        out = jax.jit(made.collect)(weights, made.init(None), jax.random.key(2))[1:]
    chex.assert_trees_all_close(jax.tree.map(np.asarray, out), collected(), atol=1e-5)


def test_permuted_seats_give_permuted_streams():
    """By a policy to which p1 and p2 are the same word; seats have no other difference."""
    _, params, _, _, weights = bound()
    env = Foraging(size=5, sight=2)
    policy = policies.transformer(env.view, **SMALL, critic="shared", constrained=True)
    table = weights["embed_tokens"]["weight"]
    one, two = (3 + codecs.vocabulary(env.view).index(f"; p{i}") for i in (1, 2))
    weights = weights | {"embed_tokens": {"weight": table.at[two].set(table[one])}}
    world = World(env, params)
    words = bind(policy, env, params, ALONE, TURNS, mask_illegal=False, anchor="state")
    start = envs.vector.draw(env, params, jax.random.split(jax.random.key(4), GROUPS)).state
    swapped = start.replace(cells=start.cells[:, ::-1], levels=start.levels[:, ::-1])

    @jax.jit
    def played(state):
        actor, seats = words.actor(world, weights, greedy=True), seat_all(env, GROUPS)
        trajectory = unroll(
            world,
            [actor],
            seats,
            Start(state, None),
            jax.random.key(0),
            length=TURNS,
            early_exit=True,
        )
        return packed(words, world, trajectory, seats, weights, None)[0]

    ours, theirs = (jax.tree.map(np.asarray, played(s)) for s in (start, swapped))
    other = np.arange(GROUPS * SEATS) ^ 1
    for name in ("mask", "reward", "value", "cost", "valid", "terminated", "truncated", "success"):
        mine = getattr(ours, name)
        np.testing.assert_allclose(mine[other], getattr(theirs, name), atol=1e-5, err_msg=name)
    assert np.abs(ours.value - ours.value[other]).max() > 0.1
    assert ours.valid[ours.mask].all()


def test_others_move_in_the_same_step():
    """Two experts who can lift anything collect all, whatever the policy's own player does."""
    env, params = envs.make("Foraging-v1", size=5, players=3, max_steps_in_episode=20)
    params = params.replace(max_player_level=1, max_food_level=1)
    policy = policies.transformer(env.view, **SMALL, constrained=True)
    sizes = {"num_groups": 6, "group_size": 1, "opponent": "expert"}
    made = rollout.episodes(policy, env, params, ALONE, **sizes)
    weights, key = policy.init(jax.random.key(1)), jax.random.key(2)
    _, streams, rows, metrics = jax.jit(made.collect)(weights, made.init(None), key)
    own = np.arange(18) % 3 == np.repeat(np.arange(6), 3) % 3
    mask = np.asarray(streams.mask)
    assert mask[own].any(axis=1).all() and not mask[~own].any()
    assert np.asarray(streams.success)[own].any(axis=1).all()
    assert set(np.asarray(rows.stream)[np.asarray(rows.loss_mask).any(axis=1)]) == set(
        np.flatnonzero(own)
    )
    assert metrics["success_rate"][0] == metrics["episodes"][0] == 6


def test_members_of_a_pool_have_the_other_seats():
    """Who does nothing meets one who does nothing, and one who goes north where it can."""
    env, params = envs.make("Foraging-v1", size=5, foods=1, max_steps_in_episode=4)
    policy = policies.transformer(env.view, **SMALL, constrained=True)
    sizes = {"num_groups": GROUPS, "group_size": 1, "opponent": "pool", "members": 2}
    made = rollout.episodes(policy, env, params, ALONE, **sizes)
    start = policy.init(jax.random.key(0))

    def always(word):
        # What is read goes through no layer, and its norm hides which token was the last.
        token = policy.codec.fragments[env.view.lexicon.index(word), 0]
        table = jnp.zeros_like(start["embed_tokens"]["weight"]).at[:, 0].set(1.0)
        return start | {
            "embed_tokens": {"weight": table.at[token, 0].set(2.0)},
            "layers": jax.tree.map(jnp.zeros_like, start["layers"]),
            "norm": {"weight": 20 * jnp.ones_like(start["norm"]["weight"])},
        }

    idle = always("none")
    members = jax.tree.map(lambda *x: jnp.stack(x), idle, always("north"))
    out = jax.jit(made.collect)(idle, made.init(None), jax.random.key(2), opponents=members)
    streams, rows = jax.tree.map(np.asarray, out[1:3])
    own = np.arange(GROUPS) * 2 + np.arange(GROUPS) % 2
    assert streams.mask[own].all() and streams.mask.sum() == GROUPS * 4
    places = {}
    for row in np.flatnonzero(rows.loss_mask.any(axis=1)):
        read = codecs.decode(policy.codec, rows.tokens[row][rows.span[row] == OBSERVATION])
        other = re.search(r"; p\d (\d),(\d) ", read)
        places.setdefault(int(rows.stream[row]), []).append([int(x) for x in other.groups()])
    assert sorted(places) == sorted(own)
    moved = np.diff([places[stream] for stream in own], axis=1)
    slot = made.slots.of_match()
    assert not moved[slot == 0].any()
    # Where the way is blocked another legal word is drawn.
    assert (moved[slot == 1, :, 0] < 0).any(axis=1).sum() >= 3


def test_evaluation_is_a_player_of_all_seats():
    env, params = resting()
    _, _, policy, made, weights = bound()
    keys, chance = play.task_keys(0, 6), jax.random.key(1)
    outcomes, _, _ = jax.jit(made.play, static_argnums=3)(weights, keys, chance, True)
    ours = play.of_teams(outcomes, range(made.agents))
    player = text_agent(policy, World(env, params), ALONE).actor(weights, greedy=True)
    met = jax.jit(lambda keys: play.play(player, env, params, keys, chance))(keys)
    for mine, theirs in zip(ours, met, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_experts_show_every_seats_action():
    env, params = resting()
    _, _, policy, made, _ = bound()
    keys = jax.random.split(jax.random.key(5), 2)
    _, rows = jax.tree.map(np.asarray, jax.jit(made.demonstrate)(keys, jax.random.key(6)))
    names, said, (step, before) = list(env.action_names), {}, programs()
    for tokens, mask, stream, turn in zip(
        rows.tokens, rows.loss_mask, rows.stream, rows.turn, strict=True
    ):
        if mask.any():
            said[int(stream), int(turn.max())] = codecs.decode(policy.codec, tokens[mask][:-1])
    shown = 0
    for match, key in enumerate(keys):
        state = env.initial(key, params)
        ended = False
        while not ended:
            acting, _, _, best = jax.tree.map(np.asarray, before(state))
            for seat in np.flatnonzero(acting):
                assert said[match * SEATS + seat, int(state.time)] == names[int(best[seat])]
                shown += 1
            _, state, _, terminated, _ = step(state, best)
            ended = bool(terminated) or int(state.time) == TURNS
    assert shown == len(said)
