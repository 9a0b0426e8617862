"""Data sets of transitions: of the expert with more or less noise, or of a file; and draws."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.rewards import discounted_return
from agentrl.streams import Rows
from agentrl.trajectories import files
from agentrl.trajectories.schema import Episode
from envs.environment import Environment, EnvParams


class Transitions(struct.PyTreeNode):
    """M transitions, fields [M, ...]; those where `acted` is False are padding.

    observation, following: what was acted from, and what came of it, also at the end of an episode.
    action: i32[M]. reward: f32[M]. over: bool[M], the rules ended the episode here, not a limit.
    to_go: f32[M], the discounted return of the episode from here on. acted: bool[M]. of_expert:
    bool[M], of an episode without noise. of_way: bool[M], the action is what the expert would do.
    best: bool[M], of an episode among the best of the set. state: the environment's, in front of
    the turn, and text: rows [M, L] of a language policy, what it reads there and the action's
    command; None where not kept.
    """

    observation: jax.Array
    following: jax.Array
    action: jax.Array
    reward: jax.Array
    over: jax.Array
    to_go: jax.Array
    acted: jax.Array
    of_expert: jax.Array
    of_way: jax.Array
    best: jax.Array
    state: chex.ArrayTree = None
    text: Rows | None = None


def episode(
    env: Environment, env_params: EnvParams, noise: jax.Array, key: jax.Array
) -> dict[str, Any]:
    """An episode of the expert, of whose actions a share is random, by name [T, ...].

    env: of one agent with discrete actions and an expert. noise: f32[], probability that an action
    is any legal one instead. Names are those of `Transitions`; after the end `acted` is False.
    """
    start_key, key = jax.random.split(key)

    def turn(carry, key):
        state, observation, runs = carry
        stray_key, action_key, step_key = jax.random.split(key, 3)
        logits = jnp.where(env.legal(state, env_params), 0.0, -jnp.inf)
        stray = jax.random.bernoulli(stray_key, noise)
        chosen = jax.random.categorical(action_key, logits)
        right = env.expert(state, env_params)
        action = jnp.where(stray, chosen, right).astype(jnp.int32)
        following, new, reward, over, _ = env.step_env(step_key, state, action, env_params)
        told = {
            "observation": observation, "following": following, "action": action,
            "reward": reward, "over": over & runs, "acted": runs,
            "of_way": runs & (action == right), "state": state,
        }  # fmt: skip
        return (new, following, runs & ~over & ~env.is_truncated(new, env_params)), told

    observation, state = env.reset_env(start_key, env_params)
    turns = jax.random.split(key, int(env_params.max_steps_in_episode))
    return jax.lax.scan(turn, (state, observation, jnp.ones((), bool)), turns)[1]


def played(
    env: Environment,
    env_params: EnvParams,
    noise: jax.Array,
    key: jax.Array,
    *,
    gamma: float,
    best: float,
    states: bool = False,
) -> Transitions:
    """The transitions of one episode per entry of `noise` f32[N], of tasks of their own, [N * T]:
    those of an episode stand together.

    gamma: of `to_go`. best: share of the episodes, by their returns, that are marked as the best;
    of equal ones all are. states: whether they are kept.
    """
    keys = jax.random.split(key, noise.shape[0])
    told = jax.vmap(lambda noise, key: episode(env, env_params, noise, key))(noise, keys)
    mask = told["acted"]
    total = jnp.sum(jnp.where(mask, told["reward"], 0.0), axis=1)
    least = jnp.sort(total)[-max(1, round(best * noise.shape[0]))]
    told |= {
        "to_go": discounted_return(told["reward"], mask, gamma=gamma),
        "of_expert": mask & (noise == 0)[:, None],
        "best": mask & (total >= least)[:, None],
    } | ({} if states else {"state": None})
    return Transitions(**jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), told))


def recorded(
    path: str, env: Environment, *, gamma: float, best: float
) -> tuple[Transitions, np.ndarray]:
    """(transitions, returns of the episodes f32[N]) of a file of trajectories, NumPy arrays.

    env: whose observations and actions they have to be. gamma, best: as for `played`. Files do not
    have what followed the last turn of an episode, so that a last turn that a limit cut is left
    out. `of_expert` and `of_way` are False: a file does not say who has played.

    Raises:
      ValueError: the file cannot be read, or an episode is not one of this environment's.
    """
    try:
        episodes = list(files.read(path))
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read ({error.strerror})") from None
    turns = [turn for episode in episodes for turn in _of_episode(path, episode, env, gamma)]
    if not turns:
        raise ValueError(f"{path!r} has no turns to learn from; expected a file of trajectories")
    data = Transitions(*map(np.asarray, zip(*turns, strict=True)))
    returns = np.float32([sum(episode.returns) for episode in episodes])
    least = np.sort(returns)[-max(1, round(best * len(episodes)))]
    return data.replace(best=data.best >= least), returns


def _of_episode(path: str, episode: Episode, env: Environment, gamma: float) -> list[tuple]:
    """The transitions of one episode, fields in order; `best` is its return."""
    turns = episode.agents[0].turns if len(episode.agents) == 1 else ()
    seen = []
    for turn in turns:
        shape = None if turn.observation is None else turn.observation.shape
        fits = isinstance(turn.action, int) and 0 <= turn.action < env.num_actions
        if shape != tuple(env.observation_shape) or not fits:
            raise ValueError(
                f"{path!r}, episode {episode.id}: an observation of shape {shape} and action "
                f"{turn.action}; {env.name} has shape {tuple(env.observation_shape)} and actions "
                f"0 to {env.num_actions - 1}"
            )
        assert turn.observation is not None  # it has a shape
        seen.append(np.array(turn.observation.data, turn.observation.dtype).reshape(shape))
    if not turns:
        raise ValueError(f"{path!r}, episode {episode.id}: expected one agent that has acted")
    out, to_go, total = [], 0.0, np.float32(sum(turn.reward for turn in turns))
    for t in reversed(range(len(turns))):
        turn = turns[t]
        to_go = turn.reward + gamma * to_go
        if t + 1 < len(turns) or turn.terminated:
            following = seen[min(t + 1, len(turns) - 1)]
            fields = np.int32(turn.action), np.float32(turn.reward), turn.terminated
            out.append((seen[t], following, *fields, np.float32(to_go), True, False, False, total))
    return out[::-1]


def mean_return(data: Transitions, episodes: int) -> jax.Array:
    """The mean return of the data's episodes, f32[]."""
    return jnp.sum(jnp.where(data.acted, data.reward, 0.0)) / episodes


def shares(data: Transitions, expert_share: float | None) -> jax.Array:
    """The probability of each transition in a draw, f32[M].

    expert_share: of the expert's transitions together; None: all transitions are equally likely.
    """
    of_expert, others = data.of_expert, data.acted & ~data.of_expert
    if expert_share is None:
        return data.acted / jnp.sum(data.acted)
    return expert_share * of_expert / jnp.maximum(jnp.sum(of_expert), 1) + (
        1.0 - expert_share
    ) * others / jnp.maximum(jnp.sum(others), 1)


def drawn_numbers(share: jax.Array, count: int, key: jax.Array) -> jax.Array:
    """`count` of the numbers 0 to M - 1, i32[count], drawn independently with probabilities
    f32[M]."""
    return jax.random.choice(key, share.shape[0], (count,), p=share)


def drawn(data: chex.ArrayTree, share: jax.Array, count: int, key: jax.Array) -> chex.ArrayTree:
    """`count` entries of a tree [M, ...], drawn independently with probabilities f32[M]."""
    number = drawn_numbers(share, count, key)
    return jax.tree.map(lambda x: x[number], data)
