"""ToolFlow-v1: a planner picks noisy tools; an executor, a verifier and a generator do the rest."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.research.rules import TOPICS

PLANNER, EXECUTOR, VERIFIER, GENERATOR = range(4)
TOOLS = ("map", "mail", "code", "shop", "wiki", "news", "chat")


@struct.dataclass
class ToolFlowState(GameState):
    """The question, the memory, and what the modules did in this turn.

    topic: i32[H], of each fact of the question, -1 behind the last. value: i32[H]. found: bool[H],
    facts in memory. stage: i32[], the module that acts. calls: i32[], of tools, so far. tool:
    i32[], of this turn. result: i32[], the fact that the last call found, -1 for none. answered,
    correct: bool[].
    """

    topic: jax.Array
    value: jax.Array
    found: jax.Array
    stage: jax.Array
    calls: jax.Array
    tool: jax.Array
    result: jax.Array
    answered: jax.Array
    correct: jax.Array


@struct.dataclass
class ToolFlowParams(GameParams):
    """right: chance that a tool finds a fact of its own topics. general: the same of the last tool,
    which has all topics. An illegal action costs its turn."""

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000
    right: float = 0.8
    general: float = 0.3


@dataclasses.dataclass(frozen=True)
class ToolFlow(TurnGame):
    """Four modules answer a question: planner, executor, verifier, generator (seats 0 to 3).

    A question names `facts` (fewest, most) different facts of `topics`, each with a value below
    `values`, and asks for the largest value. In each turn the planner picks one of the `tools`, the
    executor names the fact that is looked up with it, the verifier is shown the result and stops or
    goes on, and the result is written into memory. After a stop, or after `budget` calls, the
    generator answers from memory. A tool finds facts of its own topics alone, with chance `right`;
    the last one has all topics, with chance `general`. Which tool has a topic is the same in all
    episodes, and not told.

    The planner reads the question, what memory holds and the calls that are left, not the
    transcript. With memory=False it reads the last result in place of memory, so that what it knows
    is in the transcript alone, for policies that remember theirs.

    Actions: `use` of each tool; `look up` of each topic; `stop`, `go on`; `say` of each value.
    Legal are the acting module's own; of topics those that the question names and memory lacks, or
    all that it names if nothing is missing. Reward, of all: 1 if every fact is in memory and the
    answer is their largest value. Ends with the answer; success: it is right. Observation: float32
    indicators of the module, topics, memory (found, values), the tool of the turn (executor), the
    result (verifier), the share of calls that is left (planner).

    Expert: the tool of the first missing fact; the first missing fact that the tool has, or else
    the first missing; stop as soon as memory with the result has everything; the largest value.

    Source: the loop of AgentFlow (Li et al. 2025, https://arxiv.org/abs/2510.05592; code
    lupantech/AgentFlow b940064); the world is ours.
    """

    facts: tuple[int, int] = (2, 3)
    topics: int = 8
    tools: int = 5
    values: int = 5
    budget: int = 5
    memory: bool = True

    num_agents: ClassVar[int] = 4
    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    sides: ClassVar[tuple[str, ...]] = ("planner", "executor", "verifier", "generator")
    wordings: ClassVar[str] = "envs.tool_flow.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        low, high = self.facts
        if not 1 <= low <= high <= self.topics <= len(TOPICS):
            raise ValueError(
                f"facts {self.facts}, topics {self.topics}: expected (fewest, most) of 1 to as "
                f"many as there are topics, {len(TOPICS)} at most"
            )
        if not 2 <= self.tools <= len(TOOLS) or not 2 <= self.values <= 10:
            raise ValueError(
                f"tools {self.tools}, values {self.values}: expected 2 to {len(TOOLS)} and 2 to 10"
            )
        if not 1 <= self.budget <= 32:
            raise ValueError(f"budget {self.budget}: expected 1 to 32 calls")

    @property
    def default_params(self) -> ToolFlowParams:
        """Turns of three modules for each call, and the answer."""
        return ToolFlowParams(max_steps_in_episode=3 * self.budget + 1)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The planner's, the executor's, the verifier's, the generator's."""
        use = (f"use {name}" for name in TOOLS[: self.tools])
        look = (f"look up {name}" for name in TOPICS[: self.topics])
        return (*use, *look, "stop", "go on", *(f"say {v}" for v in range(self.values)))

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """(first, number) of each module's actions."""
        counts = (self.tools, self.topics, 2, self.values)
        return tuple(zip(np.cumsum((0, *counts)).tolist(), counts, strict=False))

    def initial(self, key: jax.Array, params: ToolFlowParams) -> ToolFlowState:
        """A uniform number of different topics, uniform values."""
        count_key, topic_key, value_key = jax.random.split(key, 3)
        low, high = self.facts
        count = jax.random.randint(count_key, (), low, high + 1)
        topic = jax.random.permutation(topic_key, self.topics)[:high].astype(jnp.int32)
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return ToolFlowState(
            **opening(),
            topic=jnp.where(np.arange(high) < count, topic, -1),
            value=jax.random.randint(value_key, (high,), 0, self.values),
            found=jnp.zeros(high, bool),
            stage=zero,
            calls=zero,
            tool=zero,
            result=zero - 1,
            answered=no,
            correct=no,
        )

    def missing(self, state: ToolFlowState) -> jax.Array:
        """Facts of the question that memory lacks, bool[H]."""
        return (state.topic >= 0) & ~state.found

    def has(self, tool: jax.Array, topic: jax.Array) -> jax.Array:
        """Whether a tool has a topic: topics go round the tools but for the last, which has all."""
        return (topic % (self.tools - 1) == tool) | (tool == self.tools - 1)

    def mover(self, state: ToolFlowState, params: ToolFlowParams) -> jax.Array:
        return state.stage

    def legal(self, state: ToolFlowState, params: ToolFlowParams) -> jax.Array:
        """The acting module's own; see the class for topics."""
        missing = self.missing(state)
        wanted = jnp.where(jnp.any(missing), missing, state.topic >= 0)
        named = jnp.any((state.topic[:, None] == np.arange(self.topics)) & wanted[:, None], axis=0)
        parts = [jnp.ones(self.tools, bool), named, jnp.ones(2, bool), jnp.ones(self.values, bool)]
        return jnp.concatenate([part & (state.stage == k) for k, part in enumerate(parts)])

    def transition(
        self, key: jax.Array, state: ToolFlowState, action: jax.Array, params: ToolFlowParams
    ) -> tuple[ToolFlowState, jax.Array]:
        """The next module's turn; the tool's luck is drawn when the executor calls it."""
        action = action - jnp.asarray([first for first, _ in self.role_actions])[state.stage]
        planned = state.replace(tool=action, stage=state.stage + 1)
        named = self.missing(state) & (state.topic == action)
        last = state.tool == self.tools - 1
        chance = jnp.where(last, params.general, params.right) * self.has(state.tool, action)
        hit = (jax.random.uniform(key) < chance) & jnp.any(named)
        called = state.replace(
            result=jnp.where(hit, jnp.argmax(named), -1).astype(jnp.int32),
            calls=state.calls + 1,
            stage=state.stage + 1,
        )
        ends = (action == 0) | (state.calls >= self.budget)
        verified = state.replace(
            found=state.found | (np.arange(self.facts[1]) == state.result),
            stage=jnp.where(ends, GENERATOR, PLANNER),
        )
        right = ~jnp.any(self.missing(state)) & (action == self.largest(state))
        said = state.replace(answered=jnp.ones((), bool), correct=right)
        following = jax.tree.map(
            lambda *each: jnp.stack(each)[state.stage], planned, called, verified, said
        )
        reward = (right & (state.stage == GENERATOR)).astype(jnp.float32)
        return following, jnp.broadcast_to(reward, (4,))

    def largest(self, state: ToolFlowState) -> jax.Array:
        """The largest value in memory, i32[]; 0 if there is none."""
        return jnp.max(jnp.where(state.found, state.value, 0))

    def observe_as(
        self, state: ToolFlowState, agent: jax.Array, params: ToolFlowParams
    ) -> jax.Array:
        """The module, the question, memory; then the executor's, verifier's, planner's."""
        reads = (agent != PLANNER) | self.memory
        result = np.arange(self.facts[1]) == state.result
        shown = jnp.where(agent == VERIFIER, True, (agent == PLANNER) & (not self.memory))
        value = state.value[:, None] == np.arange(self.values)
        left = jnp.atleast_1d(1 - state.calls / self.budget)
        parts = [
            np.arange(4) == agent,
            state.topic[:, None] == np.arange(self.topics),
            state.found & reads,
            value & state.found[:, None] & reads,
            (np.arange(self.tools) == state.tool) & (agent == EXECUTOR),
            result & shown,
            value & (result & shown)[:, None],
            jnp.where(agent == PLANNER, left, 0.0),
        ]
        return jnp.concatenate([jnp.ravel(part).astype(jnp.float32) for part in parts])

    def is_over(self, state: ToolFlowState, params: ToolFlowParams) -> jax.Array:
        return state.answered

    def won(self, state: ToolFlowState, params: ToolFlowParams) -> jax.Array:
        """All, if the answer is right."""
        return jnp.broadcast_to(state.correct, (4,))

    def expert(self, state: ToolFlowState, params: ToolFlowParams) -> jax.Array:
        """The module's best move: the first missing fact's tool, a fact that the tool has, to stop
        when memory will be complete, the largest value."""
        missing = self.missing(state)
        first = state.topic[jnp.argmax(missing)]
        able = missing & self.has(state.tool, state.topic)
        look = state.topic[jnp.where(jnp.any(able), jnp.argmax(able), jnp.argmax(missing))]
        lacks = jnp.any(missing & (np.arange(self.facts[1]) != state.result))
        own = jnp.stack([first % (self.tools - 1), look, lacks * 1, self.largest(state)])
        return (own + np.array([start for start, _ in self.role_actions]))[state.stage].astype(
            jnp.int32
        )

    def render(self, state: ToolFlowState, params: ToolFlowParams) -> str:
        """For example `boss 3, heir | 4 calls left | executor, tool map`."""
        facts = [
            TOPICS[int(topic)] + f" {int(value)}" * bool(found)
            for topic, value, found in zip(state.topic, state.value, state.found, strict=True)
            if int(topic) >= 0
        ]
        text = f"{', '.join(facts)} | {self.budget - int(state.calls)} calls left | "
        text += self.sides[int(state.stage)]
        if int(state.stage) == EXECUTOR:
            text += f", tool {TOOLS[int(state.tool)]}"
        if int(state.stage) == VERIFIER:
            found = int(state.result)
            text += (
                f", found {TOPICS[int(state.topic[found])]}" if found >= 0 else ", nothing found"
            )
        if bool(state.answered):
            text += ", answered " + ("rightly" if bool(state.correct) else "wrongly")
        return text
