"""PettingZoo and dm_env with the interface of `envs.hosted.worker`, as numbers.

Runs under the Python of the worker, from 3.9 on; each class imports the package that it needs.
"""

import importlib
import sys


def _numpy():
    return sys.modules["numpy"]  # which both packages import


def _scaled(action, low, high, dtype):
    """Components in [-1, 1] scaled to an interval."""
    share = (_numpy().clip(action, -1.0, 1.0) + 1) / 2
    return (low + share * (high - low)).astype(dtype)


def _row(observation):
    """An array as it is, float32; arrays in dicts and lists one behind the other, in one row."""
    numpy = _numpy()
    if isinstance(observation, dict):
        observation = tuple(observation.values())
    if isinstance(observation, (list, tuple)):
        return numpy.concatenate([_row(part).reshape(-1) for part in observation])
    return numpy.asarray(observation, "float32")


def pettingzoo_game(name, /, **options):
    """A game of PettingZoo, all at once where its module has `parallel_env`, else in turns.

    name: the module below `pettingzoo`, such as "classic.tictactoe_v3", or a module of your own.
    Observations are one row of numbers, without the mask of legal actions; what an illegal one
    costs is the game's affair. Other options are those of the module's `parallel_env` or `env`.
    """
    below = f"pettingzoo.{name}"
    try:
        module = importlib.import_module(below)
    except ModuleNotFoundError as error:
        # Not if a package that the game imports is missing.
        if error.name is None or not (below + ".").startswith(error.name + "."):
            raise
        module = importlib.import_module(name)
    if hasattr(module, "parallel_env"):
        return PettingZooAtOnce(name, module.parallel_env(**options))
    return PettingZooInTurns(name, module.env(**options))


class _PettingZoo:
    """What both kinds of games have: agents, spaces and observations."""

    has_success = True

    def __init__(self, name, env):
        self._env, self._agents = env, list(env.possible_agents)
        self.seats = len(self._agents)
        kinds = {str(env.action_space(agent)) for agent in self._agents}
        space = env.action_space(self._agents[0])
        self.continuous = not hasattr(space, "n") and len(getattr(space, "shape", ())) == 1
        if len(kinds) > 1 or not (hasattr(space, "n") or self.continuous):
            raise ValueError(
                f"pettingzoo:{name} has the action spaces {sorted(kinds)}; expected the same "
                "Discrete one, or Box of one row, for every agent"
            )
        self._space, self._total = space, [0.0] * self.seats
        self.num_actions = int(space.shape[0] if self.continuous else space.n)

    def _seen(self, observation):
        """The observation of an agent as one row, without the mask that stands beside it."""
        if isinstance(observation, dict) and "observation" in observation:
            observation = observation["observation"]
        return _row(observation).reshape(-1)

    def _taken(self, action):
        if not self.continuous:
            return int(action)
        return _scaled(action, self._space.low, self._space.high, self._space.dtype)

    def close(self):
        """Closes PettingZoo's environment; it is not used afterwards."""
        self._env.close()


class PettingZooInTurns(_PettingZoo):
    """A game in turns of PettingZoo (AEC)."""

    def __init__(self, name, env):
        super().__init__(name, env)
        env.reset(seed=0)
        self.observation_shape = self._seen(env.observe(self._agents[0])).shape

    def _next(self):
        """(observation, info) of the agent that acts next; agents that are out are passed over."""
        while self._env.agents:
            agent = self._env.agent_selection
            if not (self._env.terminations[agent] or self._env.truncations[agent]):
                return self._seen(self._env.observe(agent)), {"seat": self._agents.index(agent)}
            self._env.step(None)
        return _numpy().zeros(self.observation_shape), {}

    def reset(self, *, seed):
        self._env.reset(seed=seed)
        self._total = [0.0] * self.seats
        return self._next()

    def step(self, action):
        """Plays an action for the agent whose turn it is."""
        self._env.step(self._taken(action))
        rewards = dict(self._env.rewards)
        # An illegal action that ends the game sets both.
        terminated = any(self._env.terminations.values())
        truncated = any(self._env.truncations.values()) and not terminated
        observation, info = self._next()
        reward = [float(rewards.get(agent, 0.0)) for agent in self._agents]
        self._total = [self._total[i] + reward[i] for i in range(self.seats)]
        ended = not self._env.agents
        success = [ended and total > 0 for total in self._total]
        cut = ended and truncated
        return observation, reward, ended and not cut, cut, {**info, "success": success}


class PettingZooAtOnce(_PettingZoo):
    """A game of PettingZoo in which all agents act at once (Parallel).

    An agent that leaves no longer acts and sees zeros. The end is a truncation if those that are
    left at the end are truncated and none of them is terminated.
    """

    simultaneous = True

    def __init__(self, name, env):
        super().__init__(name, env)
        first, _ = env.reset(seed=0)
        self.observation_shape = self._seen(first[self._agents[0]]).shape

    def _each(self, observations):
        nothing = _numpy().zeros(self.observation_shape)
        return [self._seen(observations[a]) if a in observations else nothing for a in self._agents]

    def _acting(self):
        return [agent in self._env.agents for agent in self._agents]

    def reset(self, *, seed):
        observations, _ = self._env.reset(seed=seed)
        self._total = [0.0] * self.seats
        return self._each(observations), {"acting": self._acting()}

    def step(self, action):
        """Plays the actions of all agents, one per seat; those of agents that left are ignored."""
        acting = self._acting()
        chosen = {
            agent: self._taken(action[i]) for i, agent in enumerate(self._agents) if acting[i]
        }
        observations, rewards, terminated, truncated, _ = self._env.step(chosen)
        reward = [float(rewards.get(agent, 0.0)) for agent in self._agents]
        self._total = [self._total[i] + reward[i] for i in range(self.seats)]
        ended = not self._env.agents
        cut = ended and any(truncated.values()) and not any(terminated.values())
        success = [ended and total > 0 for total in self._total]
        info = {"acting": self._acting(), "success": success}
        return self._each(observations), reward, ended and not cut, cut, info


class DmEnv:
    """An environment of dm_env.

    name: dotted path of a callable that takes the options and returns it, such as
    "dm_control.suite.load". seed: the option that takes the seed of an episode ("seed", or
    "task_kwargs.random" for an entry of a dict); the environment is then made anew for each
    episode. Without it dm_env offers no way to seed: an episode depends on those before it, unless
    the environment draws from `random` or `numpy.random`.

    An observation is one array, or all arrays of its dict one behind the other. Actions are a
    number (a scalar of integers with bounds) or components in [-1, 1] of a row's bounds. The
    discount at the end says what ended the episode: 0 the task, else a limit, which truncates;
    discounts before the end are dropped.
    """

    def __init__(self, name, /, seed="", **options):
        module, _, attribute = name.rpartition(".")
        if not module:
            raise ValueError(f"dm_env:{name}: expected a dotted path, module.callable")
        self._factory = getattr(importlib.import_module(module), attribute)
        self._options, self._seed, self._env = options, seed, None
        self._made(0)
        numpy, spec = _numpy(), self._env.action_spec()
        low = getattr(spec, "minimum", None)
        number = low is not None and numpy.issubdtype(spec.dtype, numpy.integer)
        self.continuous = low is not None and not number and len(spec.shape) == 1
        if not self.continuous and not (number and spec.shape == ()):
            raise ValueError(
                f"dm_env:{name} has the action spec {spec}; expected an integer with bounds, or "
                "one row of numbers with bounds"
            )
        self._low, self._high, self._dtype = low, spec.maximum, spec.dtype
        self.num_actions = spec.shape[0] if self.continuous else int(spec.maximum - low) + 1
        self.observation_shape = _row(self._env.reset().observation).shape

    def _made(self, seed):
        self.close()
        options = _with(self._options, self._seed, seed) if self._seed else self._options
        self._env = self._factory(**options)

    def reset(self, *, seed):
        if self._seed:
            self._made(seed)
        return _row(self._env.reset().observation), {}

    def step(self, action):
        """Takes an action: a number, or components in [-1, 1]."""
        if self.continuous:
            action = _scaled(action, self._low, self._high, self._dtype)
        else:
            action = _numpy().asarray(self._low + action, self._dtype)
        now = self._env.step(action)
        terminated = now.last() and not now.discount
        observation = _row(now.observation)
        return observation, float(now.reward or 0.0), terminated, now.last() and not terminated, {}

    def close(self):
        """Closes dm_env's environment; it is not used afterwards."""
        if self._env is not None:
            self._env.close()


def _with(options, path, value):
    """Options with the entry at a dotted path changed."""
    first, _, rest = path.partition(".")
    return {**options, first: _with(options.get(first) or {}, rest, value) if rest else value}
