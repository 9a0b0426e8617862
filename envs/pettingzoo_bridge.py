"""Our games under PettingZoo's interfaces, for code written against them.

    game = pettingzoo_bridge.aec("ConnectFour-v1", words=True)    # games in turns
    game = pettingzoo_bridge.parallel("Foraging-v1", players=3)   # all move at once

Agents are "agent_0", "agent_1", ... in the order of seats. An observation is a dict of
`observation`, the agent's, and `action_mask`, i8[num_actions], its legal actions (all those of an
agent that does not act now are 1: its action is ignored). What an illegal action costs is the
game's rule, not a wrapper's. A limit of steps truncates all agents. With words=True,
`infos[agent]["text"]` is what a language policy reads, `infos[agent]["commands"]` the text of each
action, where the game has words.

It plays one match at a time on the host, for other people's agents: a step takes a call of a
compiled program. Training here uses the games as they are. Needs the package pettingzoo.
"""

from typing import Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from envs.played import Played, gymnasium_space


class _Match(Played):
    """One match, and the spaces of its agents."""

    def __init__(self, name: str, words: bool, options: dict[str, Any]):
        super().__init__(name, words, options)
        env = self.env
        if env.num_agents < 2 or env.continuous:
            raise ValueError(f"{name}: expected a game of several agents with discrete actions")
        self.agents = [f"agent_{seat}" for seat in range(env.num_agents)]
        mask = gymnasium.spaces.Box(0, 1, (env.num_actions,), np.int8)
        seen = gymnasium_space(env.observation_space(self.params))
        space = gymnasium.spaces.Dict({"observation": seen, "action_mask": mask})
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = {
            agent: gymnasium.spaces.Discrete(env.num_actions) for agent in self.agents
        }

    def seen(self, seat: int) -> dict[str, np.ndarray]:
        """A seat's `observation` and `action_mask` i8[num_actions]; see the module."""
        mask = self.now["legal"][seat].astype(np.int8)
        return {"observation": self.now["observation"][seat], "action_mask": mask}

    def info(self, seat: int) -> dict[str, Any]:
        """What a seat gets beside its observation: {}, or with words its `text` and `commands`."""
        if not self.words:
            return {}
        return {"text": self.text(seat), "commands": self.commands(seat)}


class _Aec(AECEnv):
    """A match of a game in turns with PettingZoo's `AECEnv` interface, made by `aec`."""

    def __init__(self, match: _Match):
        super().__init__()
        self.metadata = {"name": match.env.name, "is_parallelizable": False, "render_modes": []}
        self.render_mode, self._match = None, match
        self.possible_agents = list(match.agents)
        self.observation_spaces = match.observation_spaces
        self.action_spaces = match.action_spaces
        # PettingZoo's names for what `reset` and `step` set.
        self.agents, self.agent_selection = [], ""
        self.rewards, self._cumulative_rewards = {}, {}
        self.terminations, self.truncations, self.infos = {}, {}, {}

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observe(self, agent):
        return self._match.seen(self.possible_agents.index(agent))

    def _infos(self):
        pairs = enumerate(self.possible_agents)
        return {agent: self._match.info(i) for i, agent in pairs if agent in self.agents}

    def _mover(self):
        return self.possible_agents[int(np.argmax(self._match.now["acting"]))]

    def reset(self, seed=None, options=None):
        self._match.begin(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = self._infos()
        self.agent_selection = self._mover()

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        actions = np.full(len(self.possible_agents), action)
        reward, terminated, truncated, _ = self._match.advance(actions)
        self.rewards = {a: float(r) for a, r in zip(self.possible_agents, reward, strict=True)}
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos = self._infos()
        if terminated or truncated:
            number = self.possible_agents.index(agent) + 1
            self.agent_selection = self.possible_agents[number % len(self.possible_agents)]
        else:
            self.agent_selection = self._mover()
        self._accumulate_rewards()


class _Parallel(ParallelEnv):
    """A match in which all move at once as PettingZoo's `ParallelEnv`, made by `parallel`."""

    def __init__(self, match: _Match):
        self.metadata = {"name": match.env.name, "render_modes": []}
        self.render_mode, self._match = None, match
        self.possible_agents, self.agents = list(match.agents), []
        self.observation_spaces = match.observation_spaces
        self.action_spaces = match.action_spaces

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def _each(self, of):
        return {agent: of(seat) for seat, agent in enumerate(self.possible_agents)}

    def reset(self, seed=None, options=None):
        self._match.begin(seed)
        self.agents = list(self.possible_agents)
        return self._each(self._match.seen), self._each(self._match.info)

    def step(self, actions):
        chosen = np.array([actions[agent] for agent in self.possible_agents])
        reward, terminated, truncated, _ = self._match.advance(chosen)
        if terminated or truncated:
            self.agents = []
        return (
            self._each(self._match.seen),
            self._each(lambda seat: float(reward[seat])),
            self._each(lambda seat: terminated),
            self._each(lambda seat: truncated),
            self._each(self._match.info),
        )


def aec(name: str, *, words: bool = False, **options: Any) -> AECEnv:
    """A game in turns by its name (`envs.make`) as an `AECEnv`.

    Raises:
      ValueError: another kind of environment, options that it does not have, or no words.
    """
    match = _Match(name, words, options)
    if not match.env.in_turns:
        raise ValueError(f"{name} is played by all at once: use pettingzoo_bridge.parallel")
    return _Aec(match)


def parallel(name: str, *, words: bool = False, **options: Any) -> ParallelEnv:
    """A game in which all move at once by its name (`envs.make`) as a `ParallelEnv`.

    Raises:
      ValueError: another kind of environment, options that it does not have, or no words.
    """
    match = _Match(name, words, options)
    if match.env.in_turns:
        raise ValueError(f"{name} is played in turns: use pettingzoo_bridge.aec")
    return _Parallel(match)
