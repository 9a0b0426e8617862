"""ToolCalls-v1: make the calls that a request asks for, in any order, then answer."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class ToolCallsState(EnvState):
    """wanted: i32[needed], calls asked for, ascending. called: i32[limit], calls made, in order,
    -1 for none. answered: bool[]."""

    wanted: jax.Array
    called: jax.Array
    answered: jax.Array


@struct.dataclass
class ToolCallsParams(EnvParams):
    """partial: share of the F1 that calls are paid which are not exactly those wanted. 0: success
    alone pays."""

    partial: float = 1.0


@dataclasses.dataclass(frozen=True)
class ToolCalls(Environment):
    """A request names `needed` different calls, each a tool and its argument.

    Observation: float32, which of the tools x arguments calls are wanted, then how often each was
    made. Actions: call tool * arguments + argument, and last `answer`; always legal. Reward: with
    the answer the F1 of the calls made against those wanted, 2 hits / (made + wanted), where a
    repeated call hits once, times `partial` (1) unless it is 1; 0 before, and 0 without an answer
    within `limit` turns. Success: the answer after exactly the calls wanted. Task: `needed` of the
    calls, uniform.

    Expert: the first call that is still missing, then the answer, as many of them in a reply as it
    may have; optimal.

    Source: the smallest task for MatchTIR, https://arxiv.org/abs/2601.10712 (its reward of calls
    against a reference trace); the environment is ours.
    """

    tools: int = 6
    arguments: int = 4
    needed: int = 3
    limit: int = 6

    wordings: ClassVar[str] = "envs.tool_calls.words"
    costly_reset: ClassVar[bool] = False
    # As many as a reply may have.
    foresees: ClassVar[int] = 1 << 30

    def __post_init__(self):
        if not (1 <= self.tools <= len(TOOLS) and 1 <= self.arguments <= len(ARGUMENTS)):
            raise ValueError(
                f"tools {self.tools}, arguments {self.arguments}: expected 1 to {len(TOOLS)} and 1 "
                f"to {len(ARGUMENTS)}"
            )
        if not 1 <= self.needed < self.limit or self.needed > self.size:
            raise ValueError(
                f"needed {self.needed}, limit {self.limit}: expected at least one call, no more "
                f"than there are ({self.size}), and a limit with room for them and the answer"
            )

    @property
    def size(self) -> int:
        """Number of different calls: each tool with each argument."""
        return self.tools * self.arguments

    @property
    def default_params(self) -> ToolCallsParams:
        return ToolCallsParams(max_steps_in_episode=self.limit)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Tool and argument of each call, then `answer`."""
        calls = (f"{t} {a}" for t in TOOLS[: self.tools] for a in ARGUMENTS[: self.arguments])
        return (*calls, "answer")

    def initial(self, key: jax.Array, params: ToolCallsParams) -> ToolCallsState:
        wanted = jax.random.choice(key, self.size, (self.needed,), replace=False)
        return ToolCallsState(
            time=jnp.zeros((), jnp.int32),
            wanted=jnp.sort(wanted).astype(jnp.int32),
            called=jnp.full(self.limit, -1, jnp.int32),
            answered=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: ToolCallsState, action: jax.Array, params: ToolCallsParams
    ) -> tuple[ToolCallsState, jax.Array]:
        answers = action == self.size
        made = jnp.where(answers, -1, action)
        called = jnp.where(np.arange(self.limit) == state.time, made, state.called)
        hits, calls = self._hits(state)
        exact = (hits == self.needed) & (calls == self.needed)
        share = jnp.where(exact, 1.0, params.partial)
        reward = jnp.where(answers, share * 2.0 * hits / (calls + self.needed), 0.0)
        return state.replace(called=called, answered=answers), reward

    def _hits(self, state: ToolCallsState) -> tuple[jax.Array, jax.Array]:
        """(wanted calls that were made, calls made), i32[] each."""
        made = state.wanted[:, None] == state.called
        return jnp.sum(jnp.any(made, axis=1)), jnp.sum(state.called >= 0)

    def observe(self, state: ToolCallsState, params: ToolCallsParams) -> jax.Array:
        number = np.arange(self.size)
        wanted = jnp.any(state.wanted[:, None] == number, axis=0)
        made = jnp.sum(state.called[:, None] == number, axis=0)
        return jnp.concatenate([wanted, made]).astype(jnp.float32)

    def is_terminated(self, state: ToolCallsState, params: ToolCallsParams) -> jax.Array:
        return state.answered

    def is_success(self, state: ToolCallsState, params: ToolCallsParams) -> jax.Array:
        hits, calls = self._hits(state)
        return state.answered & (hits == self.needed) & (calls == self.needed)

    def expert(self, state: ToolCallsState, params: ToolCallsParams) -> jax.Array:
        missing = ~jnp.any(state.wanted[:, None] == state.called, axis=1)
        first = state.wanted[jnp.argmax(missing)]
        return jnp.where(jnp.any(missing), first, self.size).astype(jnp.int32)

    def foreseen(
        self, state: ToolCallsState, action: jax.Array
    ) -> tuple[ToolCallsState, jax.Array]:
        """A call says nothing new, and nothing follows the answer."""
        following, _ = self.transition(jax.random.key(0), state, action, self.default_params)
        return following.replace(time=state.time + 1), action < self.size

    # What `agentrl.methods.call_matching` compares.

    def call_of(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(tool, parameters [..., 1]) of actions; tool -1 for the answer."""
        tool = jnp.where(action < self.size, action // self.arguments, -1)
        return tool, (action % self.arguments)[..., None]

    def reference_calls(
        self, state: ToolCallsState, params: ToolCallsParams
    ) -> tuple[jax.Array, jax.Array]:
        """The calls wanted: tools i32[needed] and parameters i32[needed, 1]."""
        return self.call_of(state.wanted)

    def render(self, state: ToolCallsState, params: ToolCallsParams) -> str:
        """Two lines: the calls wanted, and those made."""
        said = [
            ", ".join(self.action_names[i] for i in np.asarray(calls) if i >= 0) or "none"
            for calls in (state.wanted, state.called)
        ]
        return f"wanted: {said[0]}\nmade: {said[1]}"


TOOLS = ("weather", "hotel", "taxi", "train", "table", "map")
ARGUMENTS = ("oslo", "rome", "cairo", "lima")
