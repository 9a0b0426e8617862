"""Environments as tests play them: one set of compiled programs each, and text read and written.

Params are arguments of the programs, which options that are params only therefore share. Actions
and rewards are the same in every wording, so the programs that play are shared by all of them.
"""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from programs import fetched

import envs
from envs.game import GameParams
from envs.text import join, make_grammar, parse

KEY, BATCH = jax.random.key(0), 256
SIZE = 64  # Room for a reply, more than for any command.
# Wrappers, each around an environment whose conformance is tested by itself.
WRAPPED = {
    "envs.wrappers.Attempts": {
        "base": {"name": "DictSum-v1", "turns": 1, "pairs": 3, "span": 2, "limit": 2, "recall": 0}
    },
    "envs.wrappers.Clock": {"base": {"name": "Coin-v1"}},
    "envs.wrappers.SideBySide": {
        "base": {"name": "Coin-v1", "max_steps_in_episode": 60},
        "select": "selector",
    },
    "envs.wrappers.SingleStep": {"base": {"name": "Coin-v1"}, "depth": 3},
    "envs.wrappers.OneTranscript": {"base": {"name": "CheckedSum-v1"}},
    "envs.wrappers.Subgoals": {"base": {"name": "KeyDoor-v1"}},
    "envs.wrappers.Submission": {"base": {"name": "NumberLine-v1"}},
    "envs.wrappers.TurnBudget": {"base": {"name": "Coin-v1"}, "turns": 6, "extension": 3},
}
# Of modules beside this one.
OWN = ("pure_desk.Desk",)


def fresh(name, **options):
    """As `envs.make`; a wrapper around its environment of `WRAPPED`."""
    return envs.make(name, **(WRAPPED.get(name, {}) | options))


make = functools.cache(fresh)


def changed(params, **changes):
    """Params with other values; those of what a wrapper wraps are changed there."""
    if hasattr(params, "base") and not isinstance(params, GameParams):
        return params.replace(base=changed(params.base, **changes))
    return params.replace(**changes)


def untimed(state):
    """A state at time 0, as what a wrapper wraps."""
    if hasattr(state, "base"):
        state = state.replace(base=untimed(state.base))
    return state.replace(time=0 * state.time)


@functools.cache
def programs(env):
    """(reset of key and params, the same of a batch, step), compiled once; step as `step_env`."""
    if env.wording != "compact":
        return programs(dataclasses.replace(env, wording="compact"))
    batch = jax.vmap(env.initial, in_axes=(0, None))
    return jax.jit(env.initial), jax.jit(batch), jax.jit(env.step_env)


@functools.cache
def functions(name, **options):
    """(env, params, reset of a key, step of state, action and key); results are in numpy."""
    env, params = make(name, **options)
    reset, _, step = programs(env)

    def take(state, action, key=KEY):
        return jax.device_get(step(key, state, np.int32(action), params))

    return env, params, lambda key: jax.device_get(reset(key, params)), take


@functools.cache
def method(env, name, **options):
    """A method of state and params, compiled once, with results in numpy:
    `method(env, "fingerprint", of="state")`."""
    return fetched(functools.partial(getattr(env, name), **options))


def starts(env, params, count, seed=0):
    """Many first states, drawn in batches of one size, for which one program will do."""
    rounds = -(-count // BATCH)
    keys = jax.random.split(jax.random.key(seed), (rounds, BATCH))
    drawn = [jax.tree.map(np.asarray, programs(env)[1](keys[i], params)) for i in range(rounds)]
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *drawn)


# An episode without resets: its last state, and what came before and after each step.
FIELDS = "last state action over seen after reward terminated info"
Episode = collections.namedtuple("Episode", FIELDS)


def expert(env, params, key, state):
    """The action of the environment's expert."""
    return env.expert(state, params)


def some_action(env, number):
    """Action number `number`, wrapped; of continuous ones a corner or what lies between."""
    if env.continuous:
        angle = np.arange(env.num_actions, dtype=np.float32) + number
        return np.sin(angle, dtype=np.float32)
    return np.int32(number % env.num_actions)


def illegal_actions(env):
    """Actions that no state admits."""
    if env.continuous:
        return [np.full(env.num_actions, bad, np.float32) for bad in (np.nan, np.inf, -np.inf)]
    return [np.int32(action) for action in (-1, env.num_actions, 1000)]


def at_random(env, params, key, state):
    """Any legal action."""
    if env.continuous:
        return jax.random.uniform(key, env.action_shape, minval=-1.0)
    legal = env.legal_actions(state, params)[0]
    return jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))


def episode(env, params, first, key, steps, policy):
    """An episode of a policy (key, state) -> action. To be compiled by who calls it, in a batch."""

    def step(state, key):
        act_key, step_key = jax.random.split(key)
        over = env.is_terminated(state, params) | env.is_truncated(state, params)
        action = policy(act_key, state)
        out = env.step_env(step_key, state, action, params)
        return out[1], (state, action, over, *out)

    last, told = jax.lax.scan(step, first, jax.random.split(key, steps))
    return Episode(last, *told)


def episodes(env, params, count, steps, policy=None, seed=0):
    """Episodes of the expert, or of a policy (key, state) -> action: [count, steps, ...]."""
    policy = policy or functools.partial(expert, env, params)
    play = jax.jit(jax.vmap(lambda *start: episode(env, params, *start, steps, policy)))
    keys = jax.random.split(jax.random.key(seed + 1), count)
    return jax.tree.map(np.asarray, play(starts(env, params, count, seed), keys))


@functools.cache
def reading(env):
    """Action of state, params, reply and its length by the bare grammar, compiled once."""
    view, bare = env.view, make_grammar("bare")
    return jax.jit(lambda s, params, *r: parse(bare, view, view.slots(s, params), *r).actions[0])


@functools.cache
def teller(name, **options):
    """What is said in a state (to an agent of a game), as a string; its bounds are held."""
    env, params = make(name, **options)
    view, describe = env.view, jax.jit(env.view.describe)

    def tell(state, *agent):
        # Before packing, which would hide that there is too much.
        fragments = np.asarray(describe(state, params, *agent)).reshape(-1)
        assert np.count_nonzero(fragments) <= view.max_fragments
        said = join(view.lexicon, fragments)
        assert len(said.encode()) <= view.max_bytes
        return said

    return tell


def reader(name, **options):
    """Action number of a reply's text; what stands behind the reply must not matter."""
    env, params = make(name, **options)

    def read(reply, state=None):
        data, length = reply.encode().ljust(SIZE, b"?"), len(reply.encode())
        return int(reading(env)(state, params, np.frombuffer(data, np.uint8), length))

    return read


def commands(env, state, params):
    """How each action is written now."""
    return [
        join(env.view.lexicon, row) for row in np.asarray(method(env, "commands")(state, params))
    ]


def assert_commands_are_understood(name, **options):
    """All commands of a first state are parsed to their actions, the longest fits exactly."""
    env, params, reset, _ = functions(name, **options)
    state, size = reset(KEY), env.view.max_command_bytes
    texts = commands(env, state, params)
    lengths = np.array([len(text.encode()) for text in texts])
    assert len(texts) == env.num_actions and max(lengths) == size
    replies = np.stack([np.frombuffer(text.encode().ljust(size), np.uint8) for text in texts])
    read = jax.jit(jax.vmap(reading(env), in_axes=(None, None, 0, 0)))
    actions = read(state, params, replies, lengths)
    np.testing.assert_array_equal(actions, np.arange(env.num_actions))
    return texts
