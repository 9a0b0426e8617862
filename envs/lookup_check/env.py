"""LookupCheck-v1: two lookups, by a tool that lies now and then, and a check before the answer."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

NAMES = ("oak", "elm", "fir", "ash", "yew", "bay", "fig", "box", "rue", "pine", "larch", "beech")
TAGS = ("plan", "lookup", "reflect", "suggest", "check", "answer")
PLAN, LOOKUP, REFLECT, SUGGEST, CHECK, ANSWER = range(len(TAGS))
# Who speaks in the scripted team.
AGENTS = ("planner", "researcher", "checker")
GRADES = 4
# Suggestions of this grade and more may be answered.
GOOD = 3


@struct.dataclass
class LookupCheckState(EnvState):
    """table: i32[entities], what follows each entity. asked: i32[], the entity to begin from.
    found: i32[], the last lookup's result; hops: i32[2], those of the chain; suggested: i32[];
    again: i32[2], what the tool said when the suggestion was made; -1 each for none. last: i32[],
    the last action, -1 before the first."""

    table: jax.Array
    asked: jax.Array
    found: jax.Array
    hops: jax.Array
    suggested: jax.Array
    again: jax.Array
    last: jax.Array


@struct.dataclass
class LookupCheckParams(EnvParams):
    """lie_rate: probability that the tool names another entity than the one that follows."""

    max_steps_in_episode: int = 16
    lie_rate: float = 0.2


@dataclasses.dataclass(frozen=True)
class LookupCheck(Environment):
    """What follows what follows an entity? A tool says what follows one, and sometimes lies.

    Actions, each a tag and its argument, always legal: plan (what was found is forgotten), lookup
    an entity, reflect good or poor, suggest an entity, check with a grade of 1 to 4, answer an
    entity. With a suggestion the tool is asked again, for both steps of the chain, each with a lie
    of its own. Only `lookup`, `suggest` and `plan` change anything: in which order tags should come
    is a specification's affair, see configs/teams/chain_of_agents.py. Reward: 1 for the right
    answer, with which the episode ends; success: the same. Task: an entity, and what follows each,
    never itself; a lie can be any wrong entity.

    Observation: float32, one-hot each: the entity asked for, the last result, both steps, the
    suggestion, both second results, the last action.

    Expert: a team of three. The planner plans, and answers what was graded 3 or more; the
    researcher looks up two steps, calls results that cannot be right poor, and suggests; the
    checker gives 4 if both second results are the first ones, else 1 or, with one of them, 2.

    Source: the smallest task for Chain-of-Agents, https://arxiv.org/abs/2508.13167 (code read:
    OPPO-PersonalAI/Agent_Foundation_Models 8f94516: tags, grades); the environment is ours.
    """

    entities: int = 6

    wordings: ClassVar[str] = "envs.lookup_check.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 3 <= self.entities <= len(NAMES):
            raise ValueError(f"entities {self.entities}: expected 3 to {len(NAMES)}")

    @property
    def default_params(self) -> LookupCheckParams:
        return LookupCheckParams()

    @property
    def names(self) -> tuple[str, ...]:
        """What an entity is called in questions, actions and answers."""
        return NAMES[: self.entities]

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the actions, by number, for `agentrl.methods.segments`."""
        return TAGS

    @property
    def counts(self) -> tuple[int, ...]:
        """Arguments of each tag."""
        return 1, self.entities, 2, self.entities, GRADES, self.entities

    @property
    def firsts(self) -> np.ndarray:
        """The first action of each tag, i32[6]."""
        return np.cumsum((0, *self.counts[:-1])).astype(np.int32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Tag and argument, by tag."""
        grades = map(str, range(1, GRADES + 1))
        arguments = (self.names, ("poor", "good"), self.names, grades, self.names)
        said = (f"{tag} {x}" for tag, each in zip(TAGS[1:], arguments, strict=True) for x in each)
        return (TAGS[PLAN], *said)

    def tag_of(self, action: jax.Array) -> jax.Array:
        """The tag of actions, i32; -1 for none."""
        tag = np.repeat(np.arange(len(TAGS), dtype=np.int32), self.counts)
        return jnp.where(action >= 0, jnp.asarray(tag)[action], -1)

    def argument_of(self, action: jax.Array) -> jax.Array:
        """The number of the action among those of its tag."""
        return action - jnp.asarray(self.firsts)[self.tag_of(action)]

    def initial(self, key: jax.Array, params: LookupCheckParams) -> LookupCheckState:
        ask, draw = jax.random.split(key)
        none = jnp.full((), -1, jnp.int32)
        return LookupCheckState(
            time=none + 1,
            table=self._another(draw, jnp.arange(self.entities, dtype=jnp.int32)),
            asked=jax.random.randint(ask, (), 0, self.entities),
            found=none,
            hops=jnp.full(2, -1, jnp.int32),
            suggested=none,
            again=jnp.full(2, -1, jnp.int32),
            last=none,
        )

    def _another(self, key: jax.Array, entity: jax.Array) -> jax.Array:
        """Of each of some entities another one."""
        step = jax.random.randint(key, entity.shape, 1, self.entities)
        return (entity + step) % self.entities

    def _told(self, key: jax.Array, state, entity: jax.Array, lie_rate) -> jax.Array:
        """What the tool says that follows entities i32[n]; -1 for those that are -1."""
        chance, other = jax.random.split(key)
        right = state.table[entity]
        lies = jax.random.uniform(chance, entity.shape) < lie_rate
        told = jnp.where(lies, self._another(other, right), right)
        return jnp.where(entity >= 0, told, -1)

    def transition(
        self, key: jax.Array, state: LookupCheckState, action: jax.Array, params: LookupCheckParams
    ) -> tuple[LookupCheckState, jax.Array]:
        tag, argument = self.tag_of(action), self.argument_of(action)
        looks, suggests, plans = tag == LOOKUP, tag == SUGGEST, tag == PLAN
        # With a suggestion both steps, else the entity that is looked up.
        steps = jnp.stack([jnp.where(suggests, state.asked, argument), state.hops[0]])
        told = self._told(key, state, steps, params.lie_rate)
        second = (state.hops[0] >= 0) & (argument == state.hops[0])
        of_chain = jnp.stack([~second & (argument == state.asked), second])
        hops = jnp.where(looks & of_chain, told[0], state.hops)
        # Another first step has another second one.
        hops = hops.at[1].set(jnp.where(looks & of_chain[0], -1, hops[1]))
        following = state.replace(
            found=jnp.where(looks, told[0], jnp.where(plans, -1, state.found)),
            hops=jnp.where(plans, -1, hops),
            suggested=jnp.where(suggests, argument, jnp.where(plans, -1, state.suggested)),
            again=jnp.where(suggests, told, jnp.where(plans, -1, state.again)),
            last=action,
        )
        return following, 1.0 * self._right(following)

    def _right(self, state: LookupCheckState) -> jax.Array:
        answered = self.tag_of(state.last) == ANSWER
        return answered & (self.argument_of(state.last) == state.table[state.table[state.asked]])

    def observe(self, state: LookupCheckState, params: LookupCheckParams) -> jax.Array:
        seen = jnp.stack([state.asked, state.found, *state.hops, state.suggested, *state.again])
        known = seen[:, None] == np.arange(self.entities)
        done = state.last == np.arange(self.num_actions)
        return jnp.concatenate([known.reshape(-1), done]).astype(jnp.float32)

    def is_terminated(self, state: LookupCheckState, params: LookupCheckParams) -> jax.Array:
        return self.tag_of(state.last) == ANSWER

    def is_success(self, state: LookupCheckState, params: LookupCheckParams) -> jax.Array:
        return self._right(state)

    def expert(self, state: LookupCheckState, params: LookupCheckParams) -> jax.Array:
        tag, argument = self.tag_of(state.last), self.argument_of(state.last)
        graded = (tag == CHECK) & (argument + 1 >= GOOD)
        planner = jnp.where(graded, self._act(ANSWER, state.suggested), self._act(PLAN, 0))
        agent = self._next_agent(tag, argument)
        said = jnp.stack([planner, self._researcher(state, tag), self._checker(state)])
        return said[agent].astype(jnp.int32)

    def _next_agent(self, tag: jax.Array, argument: jax.Array) -> jax.Array:
        """Which of `AGENTS` speaks after an action in the scripted team, i32[]."""
        researches = (tag == PLAN) | (tag == LOOKUP) | ((tag == REFLECT) & (argument == 1))
        return jnp.where(tag == SUGGEST, 2, 1 * researches)

    def _act(self, tag: int, argument: jax.Array | int) -> jax.Array:
        return jnp.maximum(argument, 0) + int(self.firsts[tag])

    def _researcher(self, state: LookupCheckState, tag: jax.Array) -> jax.Array:
        first, second = state.hops
        looked = jnp.where(tag == LOOKUP, self.argument_of(state.last), -1)
        wrong = (looked >= 0) & (state.found == looked)
        onward = jnp.where(
            first < 0,
            self._act(LOOKUP, state.asked),
            jnp.where(second < 0, self._act(LOOKUP, first), self._act(SUGGEST, second)),
        )
        return jnp.where(wrong, self._act(REFLECT, 0), onward)

    def _checker(self, state: LookupCheckState) -> jax.Array:
        same = jnp.sum((state.again == state.hops) & (state.hops >= 0))
        return self._act(CHECK, jnp.asarray([1, 2, GRADES])[same] - 1)

    def render(self, state: LookupCheckState, params: LookupCheckParams) -> str:
        """For example `oak: elm fir | suggested fir, again elm ash | check 2`."""
        names = (*self.names, "-")
        first, second, suggested = (
            names[int(i)] for i in (*np.asarray(state.hops), state.suggested)
        )
        again = " ".join(names[int(i)] for i in np.asarray(state.again))
        last = "begin" if int(state.last) < 0 else self.action_names[int(state.last)]
        asked = names[int(state.asked)]
        return f"{asked}: {first} {second} | suggested {suggested}, again {again} | {last}"
