"""The peers of the environment suite, each run as in its own documentation, imported on demand."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from launchers.benchmarks.simulator import Simulator, random_actions
from launchers.benchmarks.timing import Ready

# (simulator, batch, length) -> Ready, passed in by the suite.
Compile = Callable[[Simulator, int, int], Ready]


class MissingError(Exception):
    """A peer is not installed; the message says how to install it."""


def need(peer: str, module: str) -> types.ModuleType:
    """The module; `MissingError` if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingError(
            f"{peer} skipped, {module} cannot be imported ({error}): pip install 'agentrl[peers]'"
        ) from error


def _gymnax(name: str, batch: int, length: int, compile_: Compile) -> Ready:
    """gymnax's own `step`, which resets, under vmap."""
    gymnax = need(f"gymnax {name}", "gymnax")
    env, params = gymnax.make(name)

    def init(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, batch), params)

    def advance(_, state, key):
        action_key, step_key = jax.random.split(key)
        action = random_actions(action_key, batch, env.num_actions)
        keys = jax.random.split(step_key, batch)
        observation, state, reward, terminated, truncated, _ = jax.vmap(
            env.step, in_axes=(0, 0, 0, None)
        )(keys, state, action, params)
        return observation, state, reward, terminated | truncated

    def start(key):
        # gymnax initialises its clocks as Python ints, whose arrays are weakly typed.
        observation, state = init(key)
        return observation, jax.tree.map(lambda x: jnp.asarray(x, x.dtype), state)

    return compile_(Simulator(start, lambda key: None, advance, 0), batch, length)


def _jumanji_sokoban(batch: int, length: int, compile_: Compile) -> Ready:
    """jumanji's Sokoban with its two built-in levels and AutoResetWrapper."""
    # Without this the environment's module downloads levels that are not used here.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    peer = "jumanji Sokoban 10x10"
    sokoban = need(peer, "jumanji.environments.routing.sokoban")
    generator = need(peer, "jumanji.environments.routing.sokoban.generator")
    wrappers = need(peer, "jumanji.wrappers")
    env = wrappers.AutoResetWrapper(sokoban.Sokoban(generator=generator.ToyGenerator()))

    def init(key):
        state, timestep = jax.vmap(env.reset)(jax.random.split(key, batch))
        return timestep.observation, state

    def advance(_, state, key):
        state, timestep = jax.vmap(env.step)(state, random_actions(key, batch, 4))
        return timestep.observation, state, timestep.reward, timestep.last()

    return compile_(Simulator(init, lambda key: None, advance, 0), batch, length)


def _xminigrid_empty(batch: int, length: int, compile_: Compile) -> Ready:
    """XLand-MiniGrid's empty room with GymAutoResetWrapper; the timestep is the state."""
    peer = "xminigrid Empty-8x8"
    xminigrid = need(peer, "xminigrid")
    wrappers = need(peer, "xminigrid.wrappers")
    env, params = xminigrid.make("MiniGrid-Empty-8x8")
    env = wrappers.GymAutoResetWrapper(env)

    def init(key):
        timestep = jax.vmap(env.reset, in_axes=(None, 0))(params, jax.random.split(key, batch))
        return timestep.observation, timestep

    def advance(_, timestep, key):
        action = random_actions(key, batch, env.num_actions(params))
        timestep = jax.vmap(env.step, in_axes=(None, 0, 0))(params, timestep, action)
        return timestep.observation, timestep, timestep.reward, timestep.last()

    return compile_(Simulator(init, lambda key: None, advance, 0), batch, length)


@contextlib.contextmanager
def _gymnasium_as_gym() -> Iterator[None]:
    """gym_sokoban imports `gym`, which fails with numpy 2; gymnasium has all that it uses."""
    gymnasium = need("gym-sokoban 6x6, 1 box", "gymnasium")
    names = ("envs", "envs.registration", "spaces", "spaces.discrete", "utils", "utils.seeding")
    alias = {"gym": gymnasium}
    alias |= {f"gym.{name}": importlib.import_module(f"gymnasium.{name}") for name in names}
    before = {name: sys.modules.get(name) for name in alias}
    sys.modules.update(alias)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _gym_sokoban(batch: int, length: int, compile_: Compile) -> Ready:
    """gym-sokoban in Python: one episode at a time, on one core, levels drawn at reset.

    With its smallest observation, "tiny_rgb_array" (one pixel per cell); the default, 96 x 96
    pixels, is some twenty times slower.
    """
    with _gymnasium_as_gym():
        module = need("gym-sokoban 6x6, 1 box", "gym_sokoban.envs.sokoban_env")
    # It prints a message whenever it has to draw a level again.
    silent = contextlib.redirect_stdout(io.StringIO())
    with silent:
        env = module.SokobanEnv(dim_room=(6, 6), max_steps=120, num_boxes=1)
    actions = np.random.default_rng(0)
    steps = 8 * length
    ended = 0

    def call():
        nonlocal ended
        ended = 0
        with silent:
            for action in actions.integers(1, 5, steps):
                _, _, done, _ = env.step(int(action), observation_mode="tiny_rgb_array")
                if done:
                    ended += 1
                    env.reset(render_mode="tiny_rgb_array")

    def facts():
        found = {"episodes_ended": ended, "tasks_drawn": ended}
        return found | {"mean_episode_steps": steps / ended if ended else None}

    return Ready(call, float(steps), 0.0, facts)


def textworld_coin(length: int) -> Ready:
    """TextWorld's engine on a coin collector game of 5 rooms and 5 dead ends.

    One game at a time, on one core; admissible commands are requested, as for agents that choose
    among them.
    """
    name = "textworld coin collector"
    textworld = need(name, "textworld")
    folder = tempfile.TemporaryDirectory()
    game = os.path.join(folder.name, "coin.z8")
    maker = os.path.join(os.path.dirname(sys.executable), "tw-make")
    command = [maker, "tw-coin_collector", "--level", "105", "--seed", "1", "--output", game]
    subprocess.run(command, check=True, capture_output=True)
    env = textworld.start(game, textworld.EnvInfos(admissible_commands=True))
    actions = np.random.default_rng(0)
    state, ended, steps = env.reset(), 0, max(16, length // 4)

    def call():
        nonlocal state, ended
        ended = 0
        for _ in range(steps):
            state, _, done = env.step(str(actions.choice(state["admissible_commands"])))
            if done:
                ended += 1
                state = env.reset()
        return folder  # has to exist as long as the game

    return Ready(call, float(steps), 0.0, lambda: {"episodes_ended": ended})


ENVIRONMENTS: dict[str, Callable[[int, int, Compile], Ready]] = {
    "gymnax FrozenLake-misc": lambda *rest: _gymnax("FrozenLake-misc", *rest),
    "gymnax CartPole-v1": lambda *rest: _gymnax("CartPole-v1", *rest),
    "jumanji Sokoban 10x10": _jumanji_sokoban,
    "xminigrid Empty-8x8": _xminigrid_empty,
    "gym-sokoban 6x6, 1 box": _gym_sokoban,
}
