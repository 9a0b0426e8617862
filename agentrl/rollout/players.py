"""Players: ways of acting in an environment that may sit at one table, whatever they are made of.

A trained policy over arrays, one over words, random legal play, the environment's expert,
exhaustive search and Monte Carlo tree search are all a `Player`. Text is a view of the same states,
so a policy that reads and writes meets one that sees arrays in the same match.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.policies.actor_critic import Policy
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout import minimax, search
from agentrl.rollout.acting import choose
from agentrl.rollout.seats import expert_play, look, random_play, takes_vectors
from agentrl.rollout.talk import Talk
from envs.game import Form


class Player(NamedTuple):
    """A way of acting, as pure functions.

    act: (params, memory, seen, state, key) -> (action i32[B, S], or f32[B, S, K] of continuous
      ones, memory), for what `rollout.seats.look` shows of states [B, ...]. Where `seen.acting` is
      False the action is not read, and need not be thought about. An action that is no legal one is
      played as such.
    memory: (n) -> memory of n agents before an episode's first turn, or None.
    params: what `act` is called with. Programs are compiled for `act`, whatever the params.
    remembers: it has to see the turns of others too (S = A). draws: the same state may bring
    different actions.
    """

    act: Callable[..., tuple[jax.Array, chex.ArrayTree | None]]
    memory: Callable[[int], chex.ArrayTree | None] = lambda n: None
    params: chex.ArrayTree = None
    remembers: bool = False
    draws: bool = True


def _random(params, memory, seen, state, key):
    return random_play(seen, key), memory


def random_player(env: Any) -> Player:
    """Any legal action, all alike; of continuous ones uniform in [-1, 1]."""
    if not takes_vectors(env):
        return Player(_random)

    def act(params, memory, seen, state, key):
        shape = (*seen.seat.shape, *env.action_shape)
        return jax.random.uniform(key, shape, minval=-1.0), memory

    return Player(act)


def expert_player(env: Any, env_params: Any) -> Player:
    """The environment's scripted expert. NotImplementedError, when it acts, where there is none."""

    def act(params, memory, seen, state, key):
        return expert_play(env, env_params, state, seen), memory

    return Player(act, draws=False)


def policy_player(
    policy: Policy, params: chex.ArrayTree, *, greedy: bool, mask_illegal: bool
) -> Player:
    """A trained policy over arrays.

    greedy: its most likely action. mask_illegal: it chooses among legal actions only.
    """

    def act(params, memory, seen, state, key):
        shape = seen.seat.shape
        observation, legal = jax.tree.map(
            lambda x: x.reshape(shape[0] * shape[1], *x.shape[2:]), (seen.observation, seen.legal)
        )
        legal = legal if mask_illegal and policy.head.numbered else None
        choice, memory = choose(policy, params, memory, observation, legal, key, greedy=greedy)
        return choice.action.reshape(*shape, *choice.action.shape[1:]), memory

    remembers = policy.memory(1) is not None
    return Player(act, policy.memory, params, remembers, draws=not greedy)


def translated(player: Player, form: Form, trained: Any, trained_params: Any) -> Player:
    """A player of another form of the game, `trained`, as a player of this one (`Game.form_of`).

    It is asked at every turn; what it would do where it has none there is not read.

    Raises:
      ValueError: a player that remembers, which would see turns twice.
    """
    if player.remembers:
        raise ValueError(
            f"a policy with memory, trained in {trained.name}, plays in no other form of it"
        )

    def act(params, memory, seen, state, key):
        there = jax.vmap(form.state)(state)
        watched = jax.vmap(trained.observe, in_axes=(0, None))(there, trained_params)
        asked = look(trained, trained_params, there, watched, all_look=False)
        action, _ = player.act(params, None, asked, there, key)
        return jax.vmap(form.action)(state, action), memory

    return Player(act, params=player.params, draws=player.draws)


def language_player(
    policy: LanguagePolicy,
    params: chex.ArrayTree,
    env: Any,
    env_params: Any,
    *,
    greedy: bool,
    max_new_tokens: int | None = None,
) -> Player:
    """A trained language policy in a game: each turn is read by itself, and replied to.

    env: the game in the wording that the policy reads; another player's may be another. A reply
    that names no command is an illegal action, one that is cut is not: as in `conversation`.
    max_new_tokens: as there.

    Raises:
      ValueError: a grammar with several commands a reply, which are no move.
    """
    talk = Talk(
        policy,
        env,
        env_params,
        max_turns=1,
        max_new_tokens=max_new_tokens,
        context="window",
        history=0,
        keep_first=False,
        context_tokens=None,
        anchor="observation",
    )

    def act(params, memory, seen, state, key):
        asked = seen.acting
        if talk.movers == 1:
            asked = jnp.any(asked, axis=1, keepdims=True)
        action = talk.reply(params, state, key, asked, greedy=greedy)
        # In turns one command, of who moves: the others' are not read.
        return jnp.broadcast_to(action, seen.seat.shape), memory

    return Player(act, params=params, draws=not greedy)


def _searching(choose_one: Callable[..., jax.Array]) -> Player:
    """A player of games in turns by choose_one: (state, wanted bool[], key) -> action i32[]."""

    def act(params, memory, seen, state, key):
        wanted = jnp.any(seen.acting, axis=1)
        keys = jax.random.split(key, wanted.shape[0])
        action = jax.vmap(choose_one)(state, wanted, keys)
        return jnp.broadcast_to(action[:, None], seen.seat.shape), memory

    return Player(act)


SCRIPTED = ("random", "expert", "minimax", "minimax:DEPTH", "mcts:SIMULATIONS")


def scripted(name: str, env: Any, env_params: Any) -> Player:
    """A player that needs no training, by name.

    "random": any legal action. "expert": the environment's. "minimax": exhaustive, any of the best
    moves; "minimax:4": the same, looking four moves ahead (`agentrl.rollout.minimax`).
    "mcts:100": Monte Carlo tree search of 100 simulations a move (`agentrl.rollout.search`).

    Raises:
      ValueError: no such player, or not of this environment.
    """
    kind, colon, text = name.partition(":")
    number = int(text) if text.isdecimal() and int(text) > 0 else None
    if kind == "random" and not colon:
        return random_player(env)
    if kind == "expert" and not colon:
        _check_expert(env, env_params)
        return expert_player(env, env_params)
    if kind == "minimax" and (not colon or number):
        return _searching(minimax.make_minimax(env, env_params, depth=number))
    if kind == "mcts" and number:
        return _searching(search.make_search(env, env_params, simulations=number))
    raise ValueError(f"there is no player {name!r}; expected one of {', '.join(SCRIPTED)}")


def opponent_named(name: str, env: Any, env_params: Any) -> Player:
    """`scripted`, with errors for who sets config.rollout.opponent."""
    try:
        return scripted(name, env, env_params)
    except ValueError as error:
        raise ValueError(
            f"rollout opponent={name!r}: {error}, or 'self' or 'pool' for the policy itself"
        ) from None


def _check_expert(env: Any, env_params: Any) -> None:
    _, state = jax.eval_shape(lambda key: env.reset_env(key, env_params), jax.random.key(0))
    try:
        jax.eval_shape(lambda s: env.expert(s, env_params), state)
    except NotImplementedError as error:
        raise ValueError(f"player 'expert': {error}") from None
