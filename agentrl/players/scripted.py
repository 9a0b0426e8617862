"""Actors that need no training: random play, the environment's expert, search."""

import importlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.array import ArrayRecord
from agentrl.actors.types import Actor, Decision, View, beside, no_memory
from envs.environment import Environment, EnvParams
from envs.vector import World

if TYPE_CHECKING:
    from envs.game import Form

SCRIPTED = (
    "random", "expert", "expert:NOISE", "minimax", "minimax:DEPTH", "mcts:SIMULATIONS",
    "a dotted path",
)  # fmt: skip
# Players outside this process, `agentrl.players.outside`.
OUTSIDE = ("program:COMMAND", "served:URL#MODEL")
# More simulations of a move, or a deeper search, than anyone waits for.
_MOST = 1_000_000


def is_outside(name: str) -> bool:
    """Whether a name is of a player outside this process."""
    return name.startswith(tuple(form.partition(":")[0] + ":" for form in OUTSIDE))


def random_actions(env: Environment, view: View, key: jax.Array) -> jax.Array:
    """Any legal action of each agent, [B, S]; of continuous ones uniform in [-1, 1]."""
    if env.continuous:
        return jax.random.uniform(key, (*view.agent.shape, *env.action_shape), minval=-1.0)
    assert view.legal is not None  # only views for values have none
    logits = jnp.where(view.legal, 0.0, -jnp.inf)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def random_actor(env: Environment) -> Actor:
    """Any legal action, all equally likely; of continuous ones uniform in [-1, 1]."""

    def act(params, memory, view, key):
        return Decision(random_actions(env, view, key)), memory

    return Actor(no_memory, act, reads_arrays=False)


def expert_actions(world: World, view: View) -> jax.Array:
    """Actions of the environment's expert for each agent that acts now, [B, S, ...]."""

    def one(state, agent, params):
        return jax.vmap(world.env.expert_as, in_axes=(None, 0, None))(state, agent, params)

    return world.vmap(one)(view.state, view.agent)


def expert_actor(
    world: World, *, noise: float = 0.0, records: bool = False, mask_illegal: bool = False
) -> Actor:
    """The environment's scripted expert. NotImplementedError, when it acts, where there is none.

    noise: probability that a random action is played instead. records: decisions include the record
    of an array policy, with the expert's action even if another one was played.
    """

    def act(params, memory, view, key):
        action = expert_actions(world, view)
        action = action.astype(jnp.float32 if world.env.continuous else jnp.int32)
        record, zeros = None, None
        if records:
            legal = view.legal if mask_illegal and not world.env.continuous else None
            record = ArrayRecord(view.observation, legal, action)
            zeros = jnp.zeros(view.agent.shape)
        if noise:
            stray_key, other_key = jax.random.split(key)
            strays = jax.random.bernoulli(stray_key, noise, view.agent.shape)
            others = random_actions(world.env, view, other_key)
            action = jnp.where(beside(strays, action), others, action)
        return Decision(action, zeros, zeros, record), memory

    return Actor(no_memory, act, draws=noise > 0, reads_arrays=records)


def _searching(choose_one: Callable[..., jax.Array]) -> Actor:
    """An actor of turn-based games from choose_one: (state, wanted bool[], key) -> action i32[]."""

    def act(params, memory, view, key):
        wanted = jnp.any(view.acting, axis=1)
        keys = jax.random.split(key, wanted.shape[0])
        action = jax.vmap(choose_one)(view.state, wanted, keys)
        return Decision(jnp.broadcast_to(action[:, None], view.agent.shape)), memory

    return Actor(no_memory, act, reads_arrays=False)


def scripted(name: str, env: Environment, env_params: EnvParams) -> Actor:
    """An actor that needs no training, by name.

    "random": any legal action. "expert": the environment's; "expert:0.3": with probability 0.3, in
    (0, 1], a random legal action instead. "minimax": exhaustive, any of the best moves;
    "minimax:4": the same to a depth of four moves (`agentrl.players.minimax`). "mcts:100": Monte
    Carlo tree search of 100 simulations per move (`agentrl.players.search`). A dotted path: a
    function (env, state, params) -> action i32[] of the agent that moves, in games in turns.

    Raises:
      ValueError: no such actor, or not of this environment.
    """
    kind, colon, text = name.partition(":")
    number = int(text) if text.isdecimal() and int(text) > 0 else None
    if kind == "expert" and re.fullmatch(r"0?\.\d+|1(\.0*)?", text) and float(text) > 0:
        check_expert(env, env_params)
        return expert_actor(World(env, env_params), noise=float(text))
    if number is not None and number > _MOST:
        raise ValueError(f"player {name!r}: expected {kind}:1 to {kind}:{_MOST}")
    if kind == "random" and not colon:
        return random_actor(env)
    if kind == "expert" and not colon:
        check_expert(env, env_params)
        return expert_actor(World(env, env_params))
    if kind == "minimax" and (not colon or number):
        from agentrl.players import minimax

        return _searching(minimax.make_minimax(env, env_params, depth=number))
    if kind == "mcts" and number:
        from agentrl.players import search

        return _searching(search.make_search(env, env_params, simulations=number))
    module, dot, attribute = name.rpartition(".")
    if dot and not colon and env.in_turns:
        return ruled(World(env, env_params), getattr(importlib.import_module(module), attribute))
    raise ValueError(f"there is no player {name!r}; expected one of {', '.join(SCRIPTED)}")


def ruled(world: World, rule: Callable[[Any, Any, Any], jax.Array]) -> Actor:
    """The player of a function (env, state, params) -> action i32[] of the agent that moves."""

    def act(params, memory, view, key):
        action = world.vmap(lambda state, p: rule(world.env, state, p))(view.state)
        return Decision(jnp.broadcast_to(action[:, None], view.agent.shape)), memory

    return Actor(no_memory, act, draws=False, reads_arrays=False)


def opponent_named(name: str, env: Environment, env_params: EnvParams) -> Actor:
    """The actor that config.rollout.opponent names; see `scripted`.

    Raises:
      ValueError: as `scripted`, with the name of the config key.
    """
    try:
        return scripted(name, env, env_params)
    except ValueError as error:
        raise ValueError(
            f"rollout opponent={name!r}: {error}, 'self' or 'pool' for the policy itself, or "
            f"{' or '.join(OUTSIDE)}"
        ) from None


def check_expert(env: Environment, env_params: EnvParams) -> None:
    """ValueError where the environment has no expert."""
    _, state = jax.eval_shape(lambda key: env.reset_env(key, env_params), jax.random.key(0))
    try:
        jax.eval_shape(lambda s: env.expert(s, env_params), state)
    except NotImplementedError as error:
        raise ValueError(f"player 'expert': {error}") from None


def translated(actor: Actor, form: "Form", trained: World) -> Actor:
    """An actor of another form of the game, `trained`, as an actor of this one (`Game.form_of`).

    It is called every turn; the result is ignored when the translated state gives it no move.

    Raises:
      ValueError: an actor with memory, which would see turns twice.
    """
    if actor.follows:
        raise ValueError(
            f"a policy with memory, trained in {trained.env.name}, plays in no other form of it"
        )

    def act(params, memory, view, key):
        there = jax.vmap(form.state)(view.state)
        decision, _ = actor.act(params, None, view_of(trained, there), key)
        return Decision(jax.vmap(form.action)(view.state, decision.action)), memory

    return Actor(no_memory, act, actor.params, draws=actor.draws, reads_arrays=False)


def view_of(
    world: World,
    state: chex.ArrayTree,
    observation: chex.ArrayTree = None,
    *,
    follows: bool = False,
) -> View:
    """The view of states [B, ...] outside a loop, for all agents that act.

    observation: [B, A, ...]; by default the environment's.
    """
    env = world.env
    if observation is None:
        observation = world.vmap(lambda s, p: env.per_agent(env.observe(s, p)))(state)

    def one(state, observation, params):
        return env.views(state, observation, params, everyone=follows)

    return View(*world.vmap(one)(state, observation), state)
