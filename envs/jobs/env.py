"""Jobs-v1: jobs done by quick or slow methods, in a shift of fixed time."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class JobsState(EnvState):
    """kind: i32[], of the job at hand. used: f32[], time of the shift that is gone."""

    kind: jax.Array
    used: jax.Array


@struct.dataclass
class JobsParams(EnvParams):
    """shift: time of an episode. overtime: the job at its end is still finished. milestone_reward:
    for each milestone that a job without success reached."""

    max_steps_in_episode: int = 32
    shift: float = 32.0
    overtime: bool = False
    milestone_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class Jobs(Environment):
    """One job after the other; each turn chooses a method for the job at hand.

    Method m takes `durations[m]` of time, and does a job of kind k well with probability
    `chances[k][m]`. The kinds of the jobs are uniform. At the end of the shift the job in progress
    fails, or, with `overtime`, is finished first.

    Observation: float32, the kind of the job, one-hot; never the time. Actions: the methods.
    Reward: 1 for a job done well; any other gets `milestone_reward` for each of its `milestones`
    that it reached, so that a job which was begun and not finished is paid in part. Milestone i of
    M is due after i/M of the job's time, and reached with probability chance^(i/M); all M are a job
    done well. What the end of a shift cuts has reached what was due by then. Ends with the shift.
    `info["seconds"]` is the time that the turn took; of a job that the end of the shift cut, the
    time until then.

    Expert: the method with the best chance, whatever its duration: it has the most reward per job,
    not per time.

    Source: Yang et al. (2025), https://arxiv.org/abs/2509.01684 (from notes, no code published):
    actions of unequal duration, of which those count that end in time; 0.1 for each of seven prints
    that a frozen model has put into a program (imports, data loaded, ...), which the grade of a
    valid submission replaces. The environment is ours; there a failed program also costs 10.
    """

    durations: tuple[float, ...] = (1.0, 8.0)
    chances: tuple[tuple[float, ...], ...] = ((0.5, 0.9), (0.8, 0.6))
    milestones: int = 7

    wordings: ClassVar[str] = "envs.jobs.words"
    costly_reset: ClassVar[bool] = False
    has_success: ClassVar[bool] = False
    timed: ClassVar[bool] = True
    default_params: ClassVar[JobsParams] = JobsParams()

    def __post_init__(self):
        methods = len(self.durations)
        if methods < 2 or min(self.durations) <= 0:
            raise ValueError(f"durations {self.durations}: expected two or more, all above 0")
        if not self.chances or any(
            len(row) != methods or not all(0 <= p <= 1 for p in row) for row in self.chances
        ):
            raise ValueError(
                f"chances {self.chances}: expected for each kind of job {methods} probabilities, "
                "one per duration"
            )
        if self.milestones < 1:
            raise ValueError(f"milestones {self.milestones}: expected at least 1")

    @property
    def action_names(self) -> tuple[str, ...]:
        """`method 1` to the number of methods."""
        return tuple(f"method {m + 1}" for m in range(len(self.durations)))

    def initial(self, key: jax.Array, params: JobsParams) -> JobsState:
        kind = jax.random.randint(key, (), 0, len(self.chances))
        return JobsState(time=jnp.zeros((), jnp.int32), kind=kind, used=jnp.zeros(()))

    def transition(
        self, key: jax.Array, state: JobsState, action: jax.Array, params: JobsParams
    ) -> tuple[JobsState, jax.Array]:
        """Time passes, the job succeeds or not, and the next one is at hand."""
        luck_key, kind_key = jax.random.split(key)
        duration = jnp.asarray(self.durations, jnp.float32)[action]
        until = state.used + duration
        in_time = params.overtime | (until <= params.shift)
        chance = jnp.asarray(self.chances, jnp.float32)[state.kind, action]
        luck = jax.random.uniform(luck_key)
        well = in_time & (luck < chance)
        # Its last milestone is the job done well.
        part = np.arange(1, self.milestones, dtype=np.float32) / self.milestones
        due = params.overtime | (state.used + part * duration <= params.shift)
        partial = params.milestone_reward * jnp.sum(due & (luck < chance**part))
        kind = jax.random.randint(kind_key, (), 0, len(self.chances))
        used = jnp.where(in_time, until, params.shift)
        return state.replace(kind=kind, used=used), jnp.where(well, 1.0, partial)

    def observe(self, state: JobsState, params: JobsParams) -> jax.Array:
        return (state.kind == np.arange(len(self.chances))).astype(jnp.float32)

    def is_terminated(self, state: JobsState, params: JobsParams) -> jax.Array:
        return state.used >= params.shift

    def is_success(self, state: JobsState, params: JobsParams) -> jax.Array:
        """Always False: jobs succeed, a shift does not (`has_success` is False)."""
        return jnp.zeros((), bool)

    def step_env(
        self, key: jax.Array, state: JobsState, action: jax.Array, params: JobsParams
    ) -> tuple[jax.Array, JobsState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """As in all environments; info also has `seconds`, the time that the turn took."""
        observation, following, *rest, info = super().step_env(key, state, action, params)
        return observation, following, *rest, info | {"seconds": following.used - state.used}

    def expert(self, state: JobsState, params: JobsParams) -> jax.Array:
        """The method with the best chance for the job at hand."""
        best = np.argmax(np.array(self.chances), axis=1).astype(np.int32)
        return jnp.asarray(best)[state.kind]

    def render(self, state: JobsState, params: JobsParams) -> str:
        """For example `job of kind 1 | 12 of 32`."""
        return f"job of kind {int(state.kind) + 1} | {float(state.used):g} of {params.shift:g}"
