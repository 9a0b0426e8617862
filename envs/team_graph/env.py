"""TeamGraph-v1: build a team one edit at a time for a task that needs some roles."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

ROLES = ("coder", "critic", "planner", "solver", "tester", "writer", "lawyer", "poet")


@struct.dataclass
class TeamGraphState(EnvState):
    """family: i32[], kind of task. members: i32[roles], agents of each role. finished, correct:
    bool[], the team has worked, and rightly."""

    family: jax.Array
    members: jax.Array
    finished: jax.Array
    correct: jax.Array


@struct.dataclass
class TeamGraphParams(EnvParams):
    """right: chance of success of a team with all roles that are needed; each one that is missing
    multiplies it by `lacking`. price: of each member, subtracted from the reward at the end."""

    right: float = 0.95
    lacking: float = 0.5
    price: float = 0.0


@dataclasses.dataclass(frozen=True)
class TeamGraph(Environment):
    """Edits build a team: add an agent of a role, delete one, or let the team work.

    There are `roles` roles and `families` kinds of task; a family needs `needed` of the roles, the
    same in every episode, drawn once from `seed`. Others are of no use. A team has `size` members
    at most.

    Observation: float32, the family one-hot, then the members per role over `size`. Actions: `add`
    of each role, `delete` of each role, `work`. Illegal: adding to a full team, deleting what is
    not there. Reward, with `work`: 1 if the team succeeds, less `price` per member. Ends with it;
    limit: 2 `size` turns, in which an unfinished team has no reward. Success: the team succeeded.

    `edit_facts` says what `agentrl.methods.edit_rewards` judges: whether an added role is there
    already, and whether it is needed.

    Expert: adds what is missing, then works.

    Source: MasHost (2025), after its reviews: a team is built by single edits, and these are
    rewarded, too. The environment is ours, without edges: every member hears all others.
    """

    roles: int = 6
    families: int = 8
    needed: int = 3
    size: int = 6
    seed: int = 0

    wordings: ClassVar[str] = "envs.team_graph.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 1 <= self.needed <= self.roles <= len(ROLES) or self.families < 1:
            raise ValueError(
                f"roles {self.roles}, needed {self.needed}, families {self.families}: expected up "
                f"to {len(ROLES)} roles, of which 1 or more are needed, and 1 family or more"
            )
        if not self.needed <= self.size <= 16:
            raise ValueError(f"size {self.size}: expected {self.needed} (needed) to 16")

    @property
    def default_params(self) -> TeamGraphParams:
        return TeamGraphParams(max_steps_in_episode=2 * self.size)

    @property
    def table(self) -> np.ndarray:
        """Which roles each family needs, bool[families, roles]."""
        order = np.random.default_rng(self.seed).random((self.families, self.roles)).argsort(axis=1)
        return order < self.needed

    @property
    def action_names(self) -> tuple[str, ...]:
        """`add ROLE` and `delete ROLE` for each role, then `work`."""
        names = ROLES[: self.roles]
        return (*(f"add {n}" for n in names), *(f"delete {n}" for n in names), "work")

    def initial(self, key: jax.Array, params: TeamGraphParams) -> TeamGraphState:
        no = jnp.zeros((), bool)
        return TeamGraphState(
            time=jnp.zeros((), jnp.int32),
            family=jax.random.randint(key, (), 0, self.families),
            members=jnp.zeros(self.roles, jnp.int32),
            finished=no,
            correct=no,
        )

    def legal(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        """Additions until the team is full, deletions of what is there; `work` always."""
        room = jnp.broadcast_to(jnp.sum(state.members) < self.size, (self.roles,))
        return jnp.concatenate([room, state.members > 0, jnp.ones(1, bool)])

    def transition(
        self, key: jax.Array, state: TeamGraphState, action: jax.Array, params: TeamGraphParams
    ) -> tuple[TeamGraphState, jax.Array]:
        role = np.arange(self.roles)
        change = (role == action).astype(jnp.int32) - (role == action - self.roles)
        works = action == 2 * self.roles
        right = works & (jax.random.uniform(key) < self.chance(state, params))
        reward = right - params.price * jnp.sum(state.members)
        following = state.replace(members=state.members + change, finished=works, correct=right)
        return following, jnp.where(works, reward, 0.0)

    def chance(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        """Probability that the team as it is succeeds, f32[]: `right`, times `lacking` for each
        needed role without a member."""
        needed = jnp.asarray(self.table)[state.family]
        missing = jnp.sum(needed & (state.members == 0))
        return params.right * params.lacking**missing

    def observe(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        family = state.family == np.arange(self.families)
        return jnp.concatenate([family, state.members / self.size]).astype(jnp.float32)

    def is_terminated(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        return state.finished

    def is_success(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        return state.correct

    def expert(self, state: TeamGraphState, params: TeamGraphParams) -> jax.Array:
        """The first role that is needed and missing, or `work`."""
        missing = jnp.asarray(self.table)[state.family] & (state.members == 0)
        return jnp.where(jnp.any(missing), jnp.argmax(missing), 2 * self.roles).astype(jnp.int32)

    def edit_facts(
        self, state: TeamGraphState, actions: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(added, repeated, useless) bool[T] of the edits of an episode from its first state.

        added: an agent was added. repeated: of a role that was there. useless: of a role that the
        task does not need. actions: i32[T]; mask: bool[T], the turns that were taken.
        """
        role = np.arange(self.roles)
        one = (actions[:, None] == role) & mask[:, None]
        gone = (actions[:, None] == role + self.roles) & mask[:, None]
        change = one.astype(jnp.int32) - gone
        before = jnp.cumsum(change, axis=0) - change
        needed = jnp.asarray(self.table)[state.family]
        added = jnp.any(one, axis=1)
        return added, jnp.any(one & (before > 0), axis=1), added & ~jnp.any(one & needed, axis=1)

    def render(self, state: TeamGraphState, params: TeamGraphParams) -> str:
        """For example `family 3 | coder, 2 critic | worked rightly`."""
        counts = zip(ROLES, np.asarray(state.members).tolist(), strict=False)
        names = [f"{n} {role}" if n > 1 else role for role, n in counts if n]
        end = ""
        if bool(state.finished):
            end = " | worked " + ("rightly" if bool(state.correct) else "wrongly")
        return f"family {int(state.family) + 1} | {', '.join(names) or 'nobody'}{end}"
