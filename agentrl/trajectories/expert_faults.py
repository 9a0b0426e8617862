"""Episodes of experts of environments in JAX, with one injected fault each."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from agentrl.trajectories.counterfactual import expert_actions
from agentrl.trajectories.faults import Injected
from agentrl.trajectories.references import Step
from agentrl.trajectories.replay import STEP, key_of, stepped, world_of
from agentrl.trajectories.schema import Agent, Episode, Seeds, Task, Turn

# Episodes that are played for one that fails by its fault.
_TRIES = 100


def expert_episode(
    task: Task,
    seeds: Seeds,
    at: Step | None = None,
    wrong: Callable[[np.ndarray], int] = lambda others: int(others[0]),
) -> Episode:
    """An episode in which the expert acts for all agents, but for one action.

    at: where, if at all. wrong: (the legal actions that are not the expert's) -> one of them.
    Rewards are 1 with success, else 0.
    """
    world = world_of(task)
    state = world.reset(key_of(seeds.task))
    turns: list[list[Turn]] = [[] for _ in range(world.env.num_agents)]
    episode = Episode("", task, tuple(Agent() for _ in turns), seeds=seeds)
    for t in range(task.turns):
        acting, _ = world.seen(state)
        actions = {}
        for a in np.flatnonzero(acting).tolist():
            actions[a] = expert_actions(world, task, state, a)
            if at == Step(t, a):
                legal = np.array(world.legal(state, a))
                legal[actions[a][0]] = False
                if legal.any():
                    actions[a] = [np.int32(wrong(np.flatnonzero(legal)))]
        key = jax.random.fold_in(jax.random.fold_in(key_of(seeds.chance), t), STEP)
        state, _, *ended = stepped(world, episode, state, actions, key)
        won = bool(world.success(state))
        for a, (action,) in actions.items():
            turns[a].append(Turn(t, float(won), False, False, success=won, action=int(action)))
        if any(ended):
            break
    # What ends the episode ends it in the last turn of each agent.
    end = {"terminated": ended[0], "truncated": not ended[0]}
    whole = [[*x[:-1], dataclasses.replace(x[-1], **end)] if x else [] for x in turns]
    return dataclasses.replace(episode, agents=tuple(Agent(turns=tuple(x)) for x in whole))


def draw(task: Task, count: int, seed: int) -> list[Injected]:
    """Episodes that the expert solves and that fail by one other legal action in a step, both drawn
    uniformly; the expert goes on from there.

    ValueError if hardly any fault makes it fail.
    """
    rng, found = np.random.default_rng(seed), []
    for tried in range(_TRIES * count):
        if len(found) == count:
            break
        words = rng.integers(0, 2**32, 4).tolist()
        seeds = Seeds((words[0], words[1]), (words[2], words[3]), 0)
        good = expert_episode(task, seeds)
        steps = [Step(turn.number, a) for a, x in enumerate(good.agents) for turn in x.turns]
        step = steps[rng.integers(len(steps))]
        episode = expert_episode(task, seeds, step, lambda others: int(rng.choice(others)))
        if good.success and not episode.success:
            found.append(Injected(dataclasses.replace(episode, id=str(tried)), step))
    if len(found) < count:
        raise ValueError(
            f"{task.environment}: {len(found)} episodes of {_TRIES * count} failed by their fault, "
            f"expected {count}; name an environment from whose faults its expert recovers less"
        )
    return found
