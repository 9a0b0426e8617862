"""An episode of an environment in JAX played again with the expert in the place of some agents.

As in `agentrl.trajectories.replay`, from the episode's task and with its chance. An agent that is
not corrected does what it did, its n-th turn as its n-th turn in the file, whatever it sees now;
where it has to act more often than in the file, the expert acts. With nothing corrected the episode
is that of the file.
"""

import jax
import numpy as np

from agentrl.trajectories.attribution import Outcome
from agentrl.trajectories.references import Step
from agentrl.trajectories.replay import (
    STEP,
    ReplayError,
    World,
    actions_of,
    key_of,
    stepped,
    world_of,
)
from agentrl.trajectories.schema import Episode, Task
from envs.environment import EnvState


def outcome(episode: Episode, draws: int = 1) -> Outcome:
    """Plays the episode again and returns whether it succeeds.

    draws: repetitions, whose mean is returned: the first with the chance of the file, each further
    one with another; the same whatever is corrected.

    Raises:
      ReplayError: without seeds, without an expert or a success, in a game of opponents.
    """
    if episode.seeds is None:
        raise ReplayError("no seeds, from which it could be played again")
    world = world_of(episode.task)
    name, env = episode.task.environment, world.env
    if env.num_agents > 1 and not env.cooperative:
        raise ReplayError(f"{name} is a game of opponents: expected one agent, or a team")
    if not env.has_success:
        raise ReplayError(f"{name} has no success, which could be restored")
    keys = [key_of(episode.seeds.chance)]
    keys += [jax.random.fold_in(keys[0], 2**31 + i) for i in range(1, draws)]

    def play(agents: frozenset[int] = frozenset(), steps: frozenset[Step] = frozenset()) -> float:
        try:
            played = [_played(world, episode, key, agents, steps) for key in keys]
        except NotImplementedError as error:
            raise ReplayError(str(error)) from None
        return float(np.mean(played))

    return play


def _played(
    world: World,
    episode: Episode,
    chance: jax.Array,
    agents: frozenset[int],
    steps: frozenset[Step],
) -> bool:
    assert episode.seeds is not None  # `outcome` has checked
    state = world.reset(key_of(episode.seeds.task))
    acted, won = [0] * len(episode.agents), False
    for t in range(episode.task.turns):
        acting, _ = world.seen(state)
        actions: dict[int, list[np.ndarray]] = {}
        for a in np.flatnonzero(acting).tolist():
            turns = episode.agents[a].turns[acted[a] :]
            acted[a] += 1
            if a in agents or not turns or Step(turns[0].number, a) in steps:
                actions[a] = expert_actions(world, episode.task, state, a)
            else:
                actions[a] = actions_of(world, episode, state, a, turns[0].number)
        key = jax.random.fold_in(jax.random.fold_in(chance, t), STEP)
        state, _, *ended = stepped(world, episode, state, actions, key)
        won |= bool(world.success(state))
        if any(ended):
            break
    return won


def expert_actions(world: World, task: Task, state: EnvState, agent: int) -> list[np.ndarray]:
    """The expert's action, and none for the further commands of a reply."""
    action = np.asarray(world.expert(state, agent))
    grammar = task.grammar
    more = 0 if grammar is None else grammar["max_actions"] - 1
    return [action] + [np.full_like(action, -1)] * more
