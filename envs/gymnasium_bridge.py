"""Our environments of one agent, and gymnax's, under Gymnasium's interfaces.

    env = gymnasium_bridge.single("Sokoban-v1", size=(7, 7))
    env = gymnasium_bridge.single("FrozenLake-v1", words=True)          # reads and writes text
    many = gymnasium_bridge.vector("Sokoban-v1", 1024, autoreset="same_step")

    import envs.gymnasium_bridge, gymnasium
    env = gymnasium.make("agentrl/Sokoban-v1", size=(7, 7))
    many = gymnasium.make_vec("agentrl/Sokoban-v1", num_envs=1024)

info has `action_mask`, i8[num_actions], the legal actions now (not of continuous ones), and of a
step `valid` (the action was legal) and, where the environment has it, `success`. A limit of steps
truncates. What an illegal action costs is the environment's rule.

Seeds: episode after episode depend on the seed of `reset` alone, through `jax.random.key(seed)`;
a vector environment with seed s plays the same as single ones with the seeds s, s + 1, ...

`vector` is one compiled program over all episodes, its arrays copied to the host in every step:
for learners written against Gymnasium. (gymnax's own wrappers are not used: one returns the first
observation of the next episode as the last of this one, the other assigns to attributes of the
environment and knows nothing of autoreset modes; both return arrays on the device.)
"""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs import vector as batches
from envs.environment import Environment
from envs.played import Played, gymnasium_space, playable
from envs.registry import registered

_MODES = {mode.name.lower(): mode for mode in AutoresetMode}


def _one_agent(name: str, env: Environment) -> None:
    """ValueError if there are several agents."""
    if env.num_agents > 1:
        raise ValueError(
            f"{name} has {env.num_agents} agents: use pettingzoo_bridge, or expect one agent"
        )


class _Single(gymnasium.Env):
    """One environment on the host with Gymnasium's interface, made by `single`."""

    def __init__(self, played: Played, render_mode: str | None):
        env = played.env
        drawn = type(env).render is not Environment.render
        self.metadata = {"name": env.name, "render_modes": ["ansi"] if drawn else []}
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(
                f"render_mode={render_mode!r} with {env.name}: expected None" + " or 'ansi'" * drawn
            )
        self.render_mode, self._played = render_mode, played
        if played.words:
            view = env.view
            letters = "".join(sorted(set("".join(view.lexicon))))
            self.observation_space = gymnasium.spaces.Text(
                view.max_bytes, min_length=0, charset=letters
            )
            self.action_space = gymnasium.spaces.Text(
                view.max_command_bytes, min_length=0, charset=letters
            )
            return
        self.observation_space = gymnasium_space(env.observation_space(played.params))
        self.action_space = gymnasium_space(env.action_space(played.params))

    def _now(self) -> tuple[Any, dict[str, Any]]:
        now, info = self._played.now, {}
        if not self._played.env.continuous:
            info["action_mask"] = now["legal"][0].astype(np.int8)
        if not self._played.words:
            return now["observation"][0], info
        info["commands"] = self._played.commands(0)
        return self._played.text(0), info

    def reset(self, *, seed=None, options=None):
        first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and first:  # as Gymnasium: without any seed, episodes are arbitrary
            seed = int(self.np_random.integers(2**31))
        self._played.begin(seed)
        return self._now()

    def step(self, action):
        if self._played.words:
            action = self._played.read(action)
        reward, terminated, truncated, outcome = self._played.advance(np.asarray(action)[None])
        seen, info = self._now()
        info["valid"] = bool(outcome.valid[0])
        if self._played.env.has_success:
            info["success"] = bool(outcome.success[0])
        return seen, float(reward[0]), terminated, truncated, info

    def render(self):
        if self.render_mode is None:
            return None
        return self._played.env.render(self._played.state, self._played.params)


class _Programs:
    """The reset and the step of N episodes, to be compiled. `keys` has one key per episode."""

    def __init__(self, env: Environment, params: Any, mode: AutoresetMode):
        self.world, self.mode = batches.World(env, params), mode

    def reset(self, keys: jax.Array, now: tuple[Any, Any] | None, which: jax.Array) -> tuple:
        """New episodes where `which`, bool[N]: (keys, (observation, state))."""
        pairs = jax.vmap(jax.random.split)(keys)

        def fresh():
            return self.world.vmap(self.world.env.reset_env)(pairs[:, 1])

        if now is None:
            return pairs[:, 0], fresh()
        restarted = jax.lax.cond(
            jnp.any(which),
            lambda: batches.restart(which, *now, batches.Starts(*fresh())),
            lambda: now,
        )
        return jnp.where(which, pairs[:, 0], keys), restarted

    def mask(self, state: Any) -> jax.Array:
        """Legal actions, i8[N, num_actions]."""
        return self.world.vmap(self.world.env.legal_actions)(state)[:, 0].astype(jnp.int8)

    def step(self, keys: jax.Array, state: Any, action: jax.Array, ended: jax.Array) -> tuple:
        """(keys, (observation, state), reward, terminated, truncated, info, final).

        ended: bool[N], the step before this one was an episode's last. final: observation and
        legal actions before a reset in the same step, None in other modes.
        """
        env, world = self.world.env, self.world
        resets = ended if self.mode is AutoresetMode.NEXT_STEP else jnp.zeros_like(ended)
        pairs = jax.vmap(jax.random.split)(keys)
        observation, state, reward, terminated, about = world.vmap(env.step_env)(
            pairs[:, 1], state, action
        )
        # An episode that has ended absorbs the step in which it is reset: reward 0.
        truncated = world.vmap(env.is_truncated)(state) & ~terminated & ~resets
        terminated &= ~resets
        keys, now, final = jnp.where(resets, keys, pairs[:, 0]), (observation, state), None
        if self.mode is AutoresetMode.SAME_STEP:
            resets, final = terminated | truncated, (observation, self.mask(state))
        if self.mode is not AutoresetMode.DISABLED:
            keys, now = self.reset(keys, now, resets)
        info = {"valid": about["valid"], "success": about["success"]}
        return keys, now, reward, terminated, truncated, info, final


class _Vector(VectorEnv):
    """N environments in one program with Gymnasium's vector interface, made by `vector`."""

    def __init__(self, env: Environment, params: Any, num_envs: int, mode: AutoresetMode):
        self.num_envs, self.render_mode, self._env = num_envs, None, env
        self.metadata = {"name": env.name, "render_modes": [], "autoreset_mode": mode}
        self.single_observation_space = gymnasium_space(env.observation_space(params))
        self.single_action_space = gymnasium_space(env.action_space(params))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        programs = _Programs(env, params, mode)
        self._reset, self._step = jax.jit(programs.reset), jax.jit(programs.step)
        self._mask, self._keys, self._now = jax.jit(programs.mask), None, None
        self._ended = np.zeros(num_envs, bool)

    def _infos(self, about: dict[str, Any], which: dict[str, np.ndarray]) -> dict[str, Any]:
        """Gymnasium's infos: a value for all, and `_name`, for which it holds."""
        infos = {}
        for name, value in about.items():
            there = which.get(name, np.ones(self.num_envs, bool))
            infos |= {name: np.asarray(value), f"_{name}": there}
        return infos

    def _masks(self, state: Any) -> dict[str, np.ndarray]:
        return {} if self._env.continuous else {"action_mask": np.asarray(self._mask(state))}

    def reset(self, *, seed=None, options=None):
        which = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            which = np.asarray(options["reset_mask"], bool)
        if seed is None and self._keys is None:
            seed = int(np.random.default_rng().integers(2**31))
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if np.ndim(seed) == 0 else seed
            if len(seeds) != self.num_envs or None in seeds:
                raise ValueError(f"seed={seed}: expected one number, or {self.num_envs}")
            keys = jax.vmap(jax.random.key)(np.asarray(seeds, np.uint32))
            self._keys = keys if self._keys is None else jnp.where(which, keys, self._keys)
        now = None if which.all() else self._now
        self._keys, self._now = self._reset(self._keys, now, which)
        self._ended &= ~which
        return np.asarray(self._now[0]), self._infos(self._masks(self._now[1]), {})

    def step(self, actions):
        mode = self.metadata["autoreset_mode"]
        if mode is AutoresetMode.DISABLED and self._ended.any():
            raise ValueError(
                "step after the end of an episode with autoreset='disabled': call "
                "reset(options={'reset_mask': terminated | truncated}) first"
            )
        kind = np.float32 if self._env.continuous else np.int32
        self._keys, self._now, reward, terminated, truncated, about, final = self._step(
            self._keys, self._now[1], np.asarray(actions, kind), self._ended
        )
        terminated, truncated, about = jax.device_get((terminated, truncated, about))
        if not self._env.has_success:
            del about["success"]
        begun = self._ended if mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        self._ended = terminated | truncated
        infos = self._masks(self._now[1])
        if mode is not AutoresetMode.SAME_STEP:
            infos = self._infos(infos | about, dict.fromkeys(about, ~begun))
        else:
            infos = self._infos(infos | about, dict.fromkeys(about, ~self._ended))
            infos |= self._final(final, about) if self._ended.any() else {}
        seen = np.asarray(self._now[0])
        return seen, np.asarray(reward, np.float64), terminated, truncated, infos

    def _final(self, final: tuple[jax.Array, jax.Array], about: dict[str, Any]) -> dict[str, Any]:
        """Last observations and infos of the episodes that ended in this step."""
        done, (seen, mask) = self._ended.copy(), jax.device_get(final)
        last = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(done):
            last[i] = seen[i]
        about = about if self._env.continuous else about | {"action_mask": mask}
        infos = self._infos(about, dict.fromkeys(about, done))
        return {"final_obs": last, "_final_obs": done, "final_info": infos, "_final_info": done}


def single(
    name: str, *, words: bool = False, render_mode: str | None = None, **options: Any
) -> gymnasium.Env:
    """An environment of one agent by its name (`envs.make`) as a `gymnasium.Env`.

    words: observations and actions are `spaces.Text`: what a language policy reads, and a command,
    whose case does not matter; any other text is an illegal action. info["commands"] lists the text
    of each numbered action ("" for none). For several at once: `gymnasium.vector.SyncVectorEnv`.
    render_mode: "ansi", the environment's drawing as text.

    Raises:
      ValueError: several agents, an environment in Python, options that it does not have, no words.
    """
    played = Played(name, words, options)
    _one_agent(name, played.env)
    return _Single(played, render_mode)


def vector(name: str, num_envs: int, *, autoreset: str = "next_step", **options: Any) -> VectorEnv:
    """`num_envs` episodes of an environment of one agent as a `gymnasium.vector.VectorEnv`.

    autoreset: "next_step" (an ended episode ignores its next action and starts anew), "same_step"
    (`final_obs` and `final_info` hold its end) or "disabled" (`reset_mask` starts it).

    Raises:
      ValueError: as `single`, or another `autoreset`.
    """
    if autoreset not in _MODES:
        raise ValueError(f"autoreset={autoreset!r}: expected one of {', '.join(_MODES)}")
    env, params = playable(name, options)
    _one_agent(name, env)
    return _Vector(env, params, num_envs, _MODES[autoreset])


for _name in registered():
    gymnasium.register(
        f"agentrl/{_name}", f"{__name__}:single", vector_entry_point=f"{__name__}:vector",
        kwargs={"name": _name},
    )  # fmt: skip
