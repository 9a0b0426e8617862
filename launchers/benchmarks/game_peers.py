"""The peers of the suite of games, each run as in its own documentation, imported on demand."""

import contextlib
import io
import itertools
import random
from collections.abc import Callable
from typing import Any

import jax

from launchers.benchmarks.peers import Compile, need
from launchers.benchmarks.simulator import Simulator, random_actions
from launchers.benchmarks.timing import Ready


def _pgx(name: str, batch: int, length: int, compile_: Compile) -> Ready:
    """A game of pgx with its own `auto_reset`; the state contains the current player's
    observation."""
    peer = f"pgx {name}"
    pgx, wrappers = need(peer, "pgx"), need(peer, "pgx.experimental.wrappers")
    env = pgx.make(name)
    step = jax.vmap(wrappers.auto_reset(env.step, env.init))

    def init(key):
        return None, jax.vmap(env.init)(jax.random.split(key, batch))

    def advance(_, state, key):
        action_key, step_key = jax.random.split(key)
        action = random_actions(action_key, batch, env.num_actions, state.legal_action_mask.T)
        state = step(state, action, jax.random.split(step_key, batch))
        return None, state, state.rewards, state.terminated | state.truncated

    return compile_(Simulator(init, lambda key: None, advance, 0), batch, length)


def _jaxmarl_hanabi(batch: int, length: int, compile_: Compile) -> Ready:
    """JaxMARL's two-player Hanabi with its own `step`, which resets; the other player's action is a
    no-op."""
    # It prints which of its own environments are unavailable.
    with contextlib.redirect_stdout(io.StringIO()):
        jaxmarl = need("JaxMARL hanabi", "jaxmarl")
    env = jaxmarl.make("hanabi")

    def init(key):
        return jax.vmap(env.reset)(jax.random.split(key, batch))

    def advance(_, state, key):
        action_key, step_key = jax.random.split(key)
        legal = jax.vmap(env.get_legal_moves)(state)
        keys = jax.random.split(action_key, len(env.agents))
        action = {
            agent: random_actions(own, batch, env.num_moves, legal[agent].T > 0)
            for agent, own in zip(env.agents, keys, strict=True)
        }
        keys = jax.random.split(step_key, batch)
        observation, state, reward, done, _ = jax.vmap(env.step)(keys, state, action)
        return observation, state, reward["__all__"], done["__all__"]

    return compile_(Simulator(init, lambda key: None, advance, 0), batch, length)


def _jumanji_foraging(batch: int, length: int, compile_: Compile) -> Ready:
    """jumanji's Level-Based Foraging with its defaults and AutoResetWrapper."""
    peer = "jumanji LevelBasedForaging"
    lbf, wrappers = need(peer, "jumanji.environments.routing.lbf"), need(peer, "jumanji.wrappers")
    env = wrappers.AutoResetWrapper(lbf.LevelBasedForaging())

    def init(key):
        state, timestep = jax.vmap(env.reset)(jax.random.split(key, batch))
        return timestep.observation, (state, timestep.observation.action_mask)

    def advance(_, carry, key):
        state, legal = carry
        legal = legal.reshape(-1, legal.shape[-1]).T
        action = random_actions(key, legal.shape[1], legal.shape[0], legal).reshape(batch, -1)
        state, timestep = jax.vmap(env.step)(state, action)
        observation = timestep.observation
        return observation, (state, observation.action_mask), timestep.reward, timestep.last()

    return compile_(Simulator(init, lambda key: None, advance, 0), batch, length)


GAMES: dict[str, Callable[[int, int, Compile], Ready]] = {
    **{
        f"pgx {name}": lambda *rest, name=name: _pgx(name, *rest)
        for name in ("tic_tac_toe", "kuhn_poker", "leduc_holdem", "connect_four")
    },
    "JaxMARL hanabi": _jaxmarl_hanabi,
    "jumanji LevelBasedForaging": _jumanji_foraging,
}


# Possible replies, by the state of a game.
REPLIES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "TicTacToe-v0": lambda state: [
        f"[{square}]" for square, mark in enumerate(itertools.chain(*state["board"])) if mark == ""
    ],
    "KuhnPoker-v0": lambda state: [f"[{word}]" for word in state["current_legal_action_tree"]],
    "ConnectFour-v0": lambda state: [
        f"[col {i}]" for i, cell in enumerate(state["board"][0]) if cell == "."
    ],
    "Nim-v0": lambda state: [
        f"[{pile} {taken + 1}]" for pile, left in enumerate(state["piles"]) for taken in range(left)
    ],
    "PigDice-v0": lambda state: ["[roll]", "[hold]"],
}


def textarena(name: str, length: int) -> Ready:
    """TextArena's engine of a two-player game, on one core; work is steps.

    A fresh environment for each game: its observation wrapper keeps the messages of earlier games
    across a reset, so the observations of a reused one grow without bound.
    """
    arena, replies = need(f"TextArena {name}", "textarena"), REPLIES[name]
    choose, steps = random.Random(0).choice, 8 * length

    def fresh():
        env = arena.make(name)
        env.reset(num_players=2)
        return env

    env, ended = fresh(), 0

    def call():
        nonlocal env, ended
        ended = 0
        for _ in range(steps):
            env.get_observation()
            done, _ = env.step(action=choose(replies(env.state.game_state)))
            if done:
                ended += 1
                env.close()
                env = fresh()

    def facts():
        return {"episodes_ended": ended, "mean_episode_steps": steps / ended if ended else None}

    return Ready(call, float(steps), 0.0, facts)


def open_spiel_nash_conv(policy: Any, infostates: tuple[str, ...]) -> tuple[Ready, float]:
    """OpenSpiel's NashConv in Leduc poker, in C++: (program, its value of the policy)."""
    pyspiel = need("OpenSpiel NashConv", "pyspiel")
    game = pyspiel.load_game("leduc_poker")
    table = {
        infostate: [(a, float(p)) for a, p in enumerate(row) if p > 0]
        for infostate, row in zip(infostates, policy, strict=True)
    }
    tabular = pyspiel.TabularPolicy(table)
    value = pyspiel.nash_conv(game, tabular)
    return Ready(lambda: pyspiel.nash_conv(game, tabular), 1.0), value
