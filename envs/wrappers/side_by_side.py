"""Drafts side by side: several actions are written for one turn, and one of them is played."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.agents import Draft
from envs.fingerprint import fingerprint
from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState, check_base

SELECT = ("first", "majority", "selector")


@struct.dataclass
class SideBySideState(WrapperState):
    """written: i32[K], the drafts of this turn, -1 for none yet. count: i32[], how many. last:
    i32[K], those of the turn before; picked: i32[], which of them has just been played, -1: none
    was."""

    written: jax.Array
    count: jax.Array
    last: jax.Array
    picked: jax.Array


@dataclasses.dataclass(frozen=True)
class SideBySide(Wrapper):
    """For each turn of the environment the agent writes `drafts`, K, of which one is played.

    A draft is an action of the environment, and a turn here; nothing happens until all are written.
    select: "first", the first one is played, so that the others are wasted; "majority", the
    commonest, of equals the one that came first; "selector", a further turn chooses, by one of the
    actions `take 1` to `take K` behind the environment's own, and sees all drafts.

    sees: drafts are written with the earlier ones of the turn in sight. Otherwise nothing tells
    them apart, and in a context without history (`contexts.window(history=0)`) they are independent
    draws. apart: each draft has a role of its own. The selector always has one. Roles write one
    transcript (`speakers`); each has its own adapter where policy.lora_roles is their number.

    Rewards, success and ends are the environment's. An illegal action is no draft, and costs its
    turn. The limit of the environment counts turns here: `max_steps_in_episode` of `base` has to
    allow for K, or K + 1, times as many.

    Observation: the environment's, then each draft in sight one-hot, whether each draft is written
    (with `sees` or `apart`), and whether the turn is the selector's.

    Expert: the environment's for every draft; it takes the first draft that is the environment's
    expert's action.

    Source: choosing among samples by self-consistency, https://arxiv.org/abs/2203.11171, as a part
    of the task, so that writers and selectors are trained by its reward.
    """

    drafts: int = 3
    select: str = "majority"
    sees: bool = False
    apart: bool = False

    words: ClassVar[str] = "envs.wrappers.side_by_side_words"

    def __post_init__(self):
        check_base("SideBySide", self.base)
        if self.base.num_codes is not None:
            raise ValueError(
                f"SideBySide base={self.base.name}: expected an environment whose observation is "
                "floats, as {'name': 'Coin-v1', ...} in envs.make"
            )
        if not 1 <= self.drafts <= 16 or self.select not in SELECT:
            raise ValueError(
                f"SideBySide drafts={self.drafts}, select={self.select!r}: expected 1 to 16, and "
                f"one of {', '.join(SELECT)}"
            )
        if self.apart and self.base.speakers > 1:
            raise ValueError(
                f"SideBySide apart=True around {self.base.name}, which has {self.base.speakers} "
                "roles already: leave it out"
            )

    @property
    def default_params(self) -> WrapperParams:
        return WrapperParams(base=self.base.default_params)

    @property
    def selects(self) -> bool:
        """There is a selector."""
        return self.select == "selector"

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions, then `take 1` to `take K` of the selector."""
        takes = (f"take {i + 1}" for i in range(self.drafts * self.selects))
        return (*self.base.action_names, *takes)

    @property
    def speakers(self) -> int:
        """The writers' roles, or the environment's, then the selector."""
        return (self.drafts if self.apart else self.base.speakers) + self.selects

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The environment's, flat; drafts, which are written, whose turn it is."""
        own = int(np.prod(self.base.observation_shape))
        return (own + self.drafts * (self.base.num_actions + 1) + 1,)

    def selecting(self, state: SideBySideState) -> jax.Array:
        """Whether it is the selector's turn, bool[]."""
        return self.selects & (state.count == self.drafts)

    def speaker(self, state: SideBySideState, params: WrapperParams) -> jax.Array:
        """The role whose turn it is, i32[]."""
        writer = state.count
        if not self.apart:
            several = self.base.speakers > 1
            writer = self.base.speaker(state.base, params.base) if several else 0 * state.count
        return jnp.where(self.selecting(state), self.speakers - 1, writer).astype(jnp.int32)

    def in_sight(self, state: SideBySideState) -> jax.Array:
        """The drafts that the agent sees, i32[K], -1 for none."""
        return jnp.where(self.sees | self.selecting(state), state.written, -1)

    def initial(self, key: jax.Array, params: WrapperParams) -> SideBySideState:
        zero, none = jnp.zeros((), jnp.int32), jnp.full(self.drafts, -1, jnp.int32)
        base = self.base.initial(key, params.base)
        return SideBySideState(
            time=zero, base=base, written=none, count=zero, last=none, picked=zero - 1
        )

    def chosen(self, written: jax.Array) -> jax.Array:
        """Which of K drafts [K] is played without a selector, i32[]."""
        if self.select == "first":
            return jnp.zeros((), jnp.int32)
        return jnp.argmax(jnp.sum(written[:, None] == written, axis=1)).astype(jnp.int32)

    def _own(self, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(the action takes a draft, which one, the environment's action otherwise)."""
        number, size = self.base.num_actions, self.drafts * self.selects
        takes = (action >= number) & (action < number + size)
        # Actions with free text have numbers behind all others.
        return takes, action - number, action - size * (action >= number + size)

    def transition(
        self, key: jax.Array, state: SideBySideState, action: jax.Array, params: WrapperParams
    ) -> tuple[SideBySideState, jax.Array]:
        """One more draft; when all are there, or one is taken, the environment's step."""
        takes, which, own = self._own(action)
        here = (np.arange(self.drafts) == state.count) & ~takes
        written = jnp.where(here, own, state.written).astype(jnp.int32)
        count = state.count + ~takes
        plays = takes if self.selects else count == self.drafts
        pick = which if self.selects else self.chosen(written)
        pick = jnp.clip(pick, 0, self.drafts - 1).astype(jnp.int32)
        _, base, reward, *_ = self.base.step_env(key, state.base, written[pick], params.base)
        following = state.replace(
            base=jax.tree.map(lambda new, old: jnp.where(plays, new, old), base, state.base),
            written=jnp.where(plays, -1, written),
            count=jnp.where(plays, 0, count),
            last=jnp.where(plays, written, state.last),
            picked=jnp.where(plays, pick, -1),
        )
        return following, jnp.where(plays, reward, 0.0)

    def rejected(self, state: SideBySideState, params: WrapperParams) -> SideBySideState:
        """Nothing was played just now."""
        told = state.replace(picked=jnp.full((), -1, jnp.int32))
        return told.replace(base=self.base.rejected(state.base, params.base))

    def is_truncated(self, state: SideBySideState, params: WrapperParams) -> jax.Array:
        return state.time >= params.max_steps_in_episode

    def legal(self, state: SideBySideState, params: WrapperParams) -> jax.Array:
        """The environment's for drafts; any draft for the selector."""
        legal = self.base.legal(state.base, params.base)
        if not self.selects:
            return legal
        now = self.selecting(state)
        return jnp.concatenate([legal & ~now, jnp.broadcast_to(now, self.drafts)])

    def is_legal(
        self, state: SideBySideState, action: jax.Array, params: WrapperParams
    ) -> jax.Array:
        takes, _, own = self._own(action)
        draft = self.base.is_legal(state.base, own, params.base)
        return jnp.where(self.selecting(state), takes, ~takes & draft)

    def observe(self, state: SideBySideState, params: WrapperParams) -> jax.Array:
        own = self.base.observe(state.base, params.base).reshape(-1)
        seen = self.in_sight(state)[:, None] == np.arange(self.base.num_actions)
        there = (np.arange(self.drafts) < state.count) & (self.sees | self.apart)
        told = [own, seen.reshape(-1), there, self.selecting(state)[None]]
        return jnp.concatenate(told).astype(jnp.float32)

    def expert(self, state: SideBySideState, params: WrapperParams) -> jax.Array:
        own = self.base.expert(state.base, params.base)
        take = self.base.num_actions + jnp.argmax(state.written == own)
        return jnp.where(self.selecting(state), take, own).astype(jnp.int32)

    def fingerprint(
        self, state: SideBySideState, params: WrapperParams, *, of: str = "observation"
    ) -> jax.Array:
        own = self.base.fingerprint(state.base, params.base, of=of)
        if of == "observation":
            there = state.count * (self.sees | self.apart)
            told: Any = self.in_sight(state), there, self.selecting(state)
        else:
            told = state.written, state.count
        return fingerprint((own, told))[None]

    def drafts_of(self, state: SideBySideState, params: WrapperParams) -> tuple[Draft, ...]:
        """The drafts of a turn that has just been played. If it was the last one, those that are
        the played one are right as far as the episode succeeded; of others that is not known."""
        names, picked = self.base.action_names, int(state.picked)
        if picked < 0:
            return ()
        ended = self.has_success and bool(self.base.is_terminated(state.base, params.base))
        right = bool(self.is_success(state, params)) if ended else None
        last = [int(action) for action in state.last]
        return tuple(
            Draft(
                writer=f"draft {i + 1}",
                text=names[action] if action < len(names) else f"action {action}",
                right=right if action == last[picked] else None,
                went_on=i == picked,
            )
            for i, action in enumerate(last)
        )

    def render(self, state: SideBySideState, params: WrapperParams) -> str:
        """The environment's, and the drafts of this turn."""
        names = self.base.action_names
        said = [names[a] if a < len(names) else f"action {a}" for a in map(int, state.written)]
        drafts = ", ".join(said[: int(state.count)])
        return super().render(state, params) + (f"\ndrafts: {drafts}" if drafts else "")
