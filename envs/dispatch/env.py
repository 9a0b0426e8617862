"""Dispatch-v1: a worker attempts a task, a manager takes the attempt or has it tried again."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

KINDS = ("sum", "search", "code")
ACTIONS = ("take", "again")
# What each worker says of itself, by kind: three specialists, one that is fair at everything, one
# that boasts.
DECLARED = np.array([[0.9, 0.3, 0.3], [0.3, 0.9, 0.3], [0.3, 0.3, 0.9], [0.6] * 3, [0.95] * 3])
# Chance that an attempt is good: as declared, but for the one that boasts.
SKILL = np.array([*DECLARED[:4], [0.2] * 3])
# From the change on each specialist has the next one's skill, whatever it declares.
LATER = SKILL[[1, 2, 0, 3, 4]]
LATENCY = np.array([400.0, 800.0, 1200.0, 300.0, 100.0])  # milliseconds


class Offers(NamedTuple):
    """What is known of each worker before a task is given away, f32[W] each.

    match: how well it says that it suits, in [0, 1]. latency: milliseconds. available: 0 or 1.
    """

    match: jax.Array
    latency: jax.Array
    available: jax.Array


@struct.dataclass
class DispatchState(EnvState):
    """kind: i32[], of the task. away: bool[W], workers that cannot work. good: bool[], the last
    attempt is. passed: bool[], a check of it says so. tries: i32[], attempts. taken: bool[]."""

    kind: jax.Array
    away: jax.Array
    good: jax.Array
    passed: jax.Array
    tries: jax.Array
    taken: jax.Array


@struct.dataclass
class DispatchParams(EnvParams):
    """worker: who has the task. now, change: number of the collection, and of the first one in
    which skills are the later ones. checker: chance that a check is right. price: of a further
    attempt. away: chance that a worker cannot work."""

    max_steps_in_episode: int = 2
    worker: int = 0
    now: int = 0
    change: int = 1_000_000
    checker: float = 0.9
    price: float = 0.1
    away: float = 0.05


@dataclasses.dataclass(frozen=True)
class Dispatch(Environment):
    """A task of one of three kinds is with one of five frozen workers, `params.worker`.

    The worker has made an attempt when the episode begins. It is good with the chance in `SKILL`,
    from collection `change` on in `LATER`, and never if the worker is away. The manager reads what
    a check says of it, and takes it or has it tried again; the attempt number `attempts` is taken.

    Who has a task is no action: a component such as `agentrl.methods.routing.router` decides it
    between `offers` and the episode. Left alone, worker 0 has all tasks.

    Observation: float32, the kind and the worker one-hot, whether the check passed, attempts so far
    over `attempts`. Actions: take, again; always legal. Reward: 1 at the end for a good attempt,
    less `price` for each further one. Ends when an attempt is taken; success: it is good.

    Expert: takes what passed.

    Source: the task and the workers are ours, after the setting of Symphony-Coord (2026).
    """

    attempts: int = 3

    kinds: ClassVar[tuple[str, ...]] = KINDS
    wordings: ClassVar[str] = "envs.dispatch.words"
    costly_reset: ClassVar[bool] = False
    action_names: ClassVar[tuple[str, ...]] = ACTIONS

    def __post_init__(self):
        if not 2 <= self.attempts <= 9:
            raise ValueError(f"attempts {self.attempts}: expected 2 to 9")

    @property
    def default_params(self) -> DispatchParams:
        """A decision after each attempt but the last."""
        return DispatchParams(max_steps_in_episode=self.attempts - 1)

    def initial(self, key: jax.Array, params: DispatchParams) -> DispatchState:
        """A kind, who is away, and the first attempt. The first two are the same for any worker."""
        kind_key, away_key, key = jax.random.split(key, 3)
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        kind = jax.random.randint(kind_key, (), 0, len(KINDS))
        away = jax.random.bernoulli(away_key, params.away, (len(SKILL),))
        state = DispatchState(
            time=zero, kind=kind, away=away, good=no, passed=no, tries=zero, taken=no
        )
        return self._attempted(key, state, params)

    def offers(self, state: DispatchState, params: DispatchParams) -> Offers:
        """What is known of each worker for this task, whoever has it."""
        return Offers(
            jnp.asarray(DECLARED, jnp.float32)[:, state.kind],
            jnp.asarray(LATENCY, jnp.float32),
            1.0 - state.away,
        )

    def chances(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        """The chance that an attempt of each worker is good, f32[W]."""
        later = jnp.asarray(params.now) >= params.change
        skill = jnp.where(later, LATER.astype(np.float32), SKILL.astype(np.float32))
        return jnp.where(state.away, 0.0, skill[:, state.kind])

    def _attempted(
        self, key: jax.Array, state: DispatchState, params: DispatchParams
    ) -> DispatchState:
        good_key, check_key = jax.random.split(key)
        good = jax.random.bernoulli(good_key, self.chances(state, params)[params.worker])
        passed = good == jax.random.bernoulli(check_key, params.checker)
        return state.replace(good=good, passed=passed, tries=state.tries + 1)

    def transition(
        self, key: jax.Array, state: DispatchState, action: jax.Array, params: DispatchParams
    ) -> tuple[DispatchState, jax.Array]:
        again = self._attempted(key, state, params)
        again = again.replace(taken=again.tries >= self.attempts)
        taken = state.replace(taken=jnp.ones((), bool))
        following = jax.tree.map(lambda a, b: jnp.where(action == 0, a, b), taken, again)
        return following, following.taken * following.good - params.price * action

    def observe(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        told = [
            np.arange(len(KINDS)) == state.kind,
            np.arange(len(SKILL)) == params.worker,
            state.passed[None],
            state.tries[None] / self.attempts,
        ]
        return jnp.concatenate(told).astype(jnp.float32)

    def is_terminated(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        return state.taken

    def is_success(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        return state.taken & state.good

    def kind_of(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        return state.kind

    def expert(self, state: DispatchState, params: DispatchParams) -> jax.Array:
        """Takes what passed the check."""
        return 1 - state.passed.astype(jnp.int32)

    def render(self, state: DispatchState, params: DispatchParams) -> str:
        """For example `search with worker 2: attempt 1 passed`."""
        said = "passed" if bool(state.passed) else "failed"
        who = f"{KINDS[int(state.kind)]} with worker {int(params.worker)}"
        return f"{who}: attempt {int(state.tries)} {said}"
