"""Household-v1: find things in a room, change them, put them in their place (ALFWorld in text)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.fingerprint import fingerprint
from envs.household import classes, experts, rules
from envs.household import tasks as generation
from envs.household.rules import TASKS, House, has, only, unpack

# Bits that encode the index of a class.
OBJECT_BITS = len(classes.OBJECTS).bit_length()
RECEPTACLE_BITS = len(classes.RECEPTACLES).bit_length()
# Marks in the list of receptacles.
UNSEEN, SEEN, FOUND, HOLDING = range(4)


@struct.dataclass
class HouseholdState(EnvState):
    """house: the state of the house, including the task."""

    house: House


@struct.dataclass
class HouseholdParams(EnvParams):
    """Contents of the room.

    openables: share of the openable receptacles (cabinets, drawers, ...) with a door, shut at the
    start.
    distractors: things of the goal's class beyond those that the goal needs.
    """

    max_steps_in_episode: int = 20
    openables: float = 1.0
    distractors: int = 0


@dataclasses.dataclass(frozen=True)
class Household(Environment):
    """A room with R = `receptacles` places and M = `objects` things; ALFWorld's six tasks.

    Tasks: put a thing in a place, the same after having it cleaned, heated or cooled, put two in
    one place, look at a thing under a lamp. Goals name classes: any thing and any place of the
    class count. The agent sees the things at its place, unless they are behind a shut door.

    Actions, numbered verb by verb: go to receptacle (R); take, use, slice thing (M each); open,
    close, move the held thing to this place, heat, cool, clean it here, examine this place, examine
    the held thing, inventory, look: R + 3 M + 10. Legal are ALFWorld's admissible commands except
    help. One thing in hand at a time; receptacles are never full; heating, cooling and cleaning
    need the agent at the microwave, fridge or sink with the thing in hand, open or not; heating
    undoes cooling and vice versa; a lamp that was used stays on.

    Observation: float32 indicators with the content of the compact wording. Task [6], bits of the
    goal's two classes, whether the place here is open or shut, whether the last action was refused,
    properties [4: hot, cool, clean, sliced] of the held thing; for each receptacle its class in
    bits, whether it is the goal's, whether the agent is there, and its mark [3] (`show_seen`); for
    each thing in view or in hand, which of the two, class and number in bits, and whether it is the
    goal's or its lamp.

    show_seen marks the receptacles whose inside has been seen, those where a thing of the goal (or
    its lamp) was, and the goal's place once it holds one of two. A memoryless policy can then solve
    the task; ALFWorld requires memory for it.

    Reward: 1 for reaching the goal, which ends the episode; illegal actions cost
    `illegal_reward`; limit 20 steps. The paper's size: receptacles=24, objects=32,
    max_steps_in_episode=50. R and M are at most 32.

    Task generation: `envs.household.tasks`, always solvable. `tasks` names the kinds of tasks
    that are drawn. split="seen" or "unseen": goals and room layouts of "unseen" never occur in
    "seen".

    Anchors with of="state" include the places of the agent and of all things, which of them are
    open, hot, cool, clean, used or sliced, and the goal, but not the last message or the agent's
    history.

    Expert: with `expert_sees_all` a planner that knows where everything is (optimal except for some
    tasks with two things); without, the same planner with only the observed information, which
    searches places that may contain the needed thing, open ones first. Both solved all of 1024
    tasks in time, in 6.1 and 8.2 steps on average (in 6.2 and 12.6 at the paper's size, all of
    512). `subgoal` is the current one of find, take, transform, place of the second expert.

    Source: ALFWorld's domain, grammar and goals (read); replayed against recorded episodes of them.
    Its rooms are replaced by ours with its statistics; positions of lamps are ours.
    """

    receptacles: int = 7
    objects: int = 7
    tasks: tuple[str, ...] = TASKS
    split: str = "seen"
    show_seen: bool = True
    expert_sees_all: bool = True

    wordings: ClassVar[str] = "envs.household.words"
    # 20 steps, all doors shut, no distractors.
    default_params: ClassVar[HouseholdParams] = HouseholdParams()

    def __post_init__(self):
        if not 4 <= self.receptacles <= 32 or not 3 <= self.objects <= 32:
            raise ValueError(
                f"receptacles {self.receptacles}, objects {self.objects}: expected 4 to 32 and 3 "
                "to 32"
            )
        if not self.tasks or not set(self.tasks) <= set(TASKS):
            raise ValueError(f"tasks {self.tasks}: expected some of {', '.join(TASKS)}")
        if self.split not in generation.SPLITS:
            raise ValueError(
                f"split {self.split!r}: expected one of {', '.join(generation.SPLITS)}"
            )

    @property
    def num_actions(self) -> int:
        """R + 3 M + 10: go to a receptacle; take, use or slice a thing; ten verbs without a
        slot."""
        return self.receptacles + 3 * self.objects + len(rules.VERBS) - rules.OPEN

    @property
    def action_names(self) -> tuple[str, ...]:
        """Verbs with the slot of the receptacle or thing."""
        sizes = [self.receptacles] + 3 * [self.objects]
        ranged = [
            f"{verb} {slot}"
            for verb, size in zip(rules.VERBS, sizes, strict=False)
            for slot in range(size)
        ]
        return (*ranged, *rules.VERBS[rules.OPEN :])

    def initial(self, key: jax.Array, params: HouseholdParams) -> HouseholdState:
        house = generation.draw(
            key,
            generation.goals(self.tasks, self.split),
            self.tasks,
            self.receptacles,
            self.objects,
            params.openables,
            params.distractors,
        )
        return HouseholdState(jnp.zeros((), jnp.int32), house)

    def transition(
        self, key: jax.Array, state: HouseholdState, action: jax.Array, params: HouseholdParams
    ) -> tuple[HouseholdState, jax.Array]:
        house = rules.act(state.house, action)
        return state.replace(house=house), house.won.astype(jnp.float32)

    def rejected(self, state: HouseholdState, params: HouseholdParams) -> HouseholdState:
        """The message says that nothing happened."""
        told = jnp.full((), rules.REJECTED, jnp.uint8)
        return state.replace(house=state.house.replace(told=told))

    def legal(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        return rules.legal(state.house)

    def is_legal(
        self, state: HouseholdState, action: jax.Array, params: HouseholdParams
    ) -> jax.Array:
        """Computed from the sets of slot values, without listing all actions."""
        return rules.is_legal(state.house, action)

    def observe(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        """Indicators of the task, the place, the hand, the receptacles and the things in view."""
        house, home = state.house, state.house.home
        stands = np.arange(self.receptacles, dtype=np.int8)
        slots = np.arange(self.objects, dtype=np.int8)
        held, seen = slots == house.hand, unpack(rules.things_in_view(house), self.objects)
        known = (held | seen)[:, None]
        here = house.location
        shut = home.openable & ~house.opened
        properties = (house.hot, house.cool, house.clean, house.sliced)
        head = [
            home.task == np.arange(len(TASKS)),
            _bits(home.goal_object, OBJECT_BITS),
            _bits(home.goal_place, OBJECT_BITS),
            has(home.openable & house.opened, here)[None],
            has(shut, here)[None],
            (house.told == rules.REJECTED)[None],
            jnp.stack([has(made, house.hand) for made in properties]),
        ]
        receptacles = [
            _bits(home.receptacle_class, RECEPTACLE_BITS),
            unpack(home.places, self.receptacles)[:, None],
            (stands == here)[:, None],
        ]
        if self.show_seen:
            receptacles.append(marks(house)[:, None] == np.arange(1, 4))
        things = [
            held[:, None],
            seen[:, None],
            _bits(home.object_class, OBJECT_BITS) & known,
            _bits(home.object_number, self.objects.bit_length()) & known,
            unpack(home.wanted, self.objects)[:, None] & known,
            unpack(home.lamps, self.objects)[:, None] & known,
        ]
        parts = [*head, _join(receptacles).reshape(-1), _join(things).reshape(-1)]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def is_terminated(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        return state.house.won

    def is_success(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        return state.house.won

    def fingerprint(
        self, state: HouseholdState, params: HouseholdParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class, apart from what of="state" leaves out (see the class)."""
        if of != "state":
            return super().fingerprint(state, params, of=of)
        house, home = state.house, state.house.home
        slots = (house.where, house.location, house.hand)
        sets = (house.opened, house.hot, house.cool, house.clean, house.toggled, house.sliced)
        goal = (home.task, home.goal_object, home.goal_place)
        room = (home.receptacle_class, home.object_class, home.openable)
        return fingerprint((slots, sets, goal, room))[None]

    def expert(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        """The planner's next action, with full or with observed information."""
        knows = experts.everything if self.expert_sees_all else experts.remembered
        plan = experts.plan(state.house, knows(state.house))
        return rules.join(plan.verb, plan.slot, self.receptacles, self.objects)

    @property
    def subgoal_names(self) -> tuple[str, ...]:
        return experts.SUBGOALS

    def reached(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        """Which of the subgoals of `subgoal_names` the state satisfies, bool[4]."""
        return experts.reached(state.house)

    def subgoal(self, state: HouseholdState, params: HouseholdParams) -> jax.Array:
        """Index in `experts.SUBGOALS` of the subgoal of an agent with perfect memory, i32[]."""
        return experts.plan(state.house, experts.remembered(state.house)).subgoal

    def render(self, state: HouseholdState, params: HouseholdParams) -> str:
        """One line per receptacle with its things; > marks the agent, * things of the goal."""
        house, home = jax.tree.map(np.asarray, (state.house, state.house.home))
        wanted = np.asarray(unpack(home.wanted, self.objects)).tolist()
        shut = np.asarray(unpack(home.openable & ~house.opened, self.receptacles)).tolist()
        things = {
            slot: f"{classes.OBJECTS[kind].lower()} {home.object_number[slot]}" + "*" * wanted[slot]
            for slot, kind in enumerate(home.object_class)
            if kind != rules.NONE
        }
        lines = [
            f"{TASKS[home.task]} {classes.OBJECTS[home.goal_object].lower()}",
            f"hand: {things[int(house.hand)] if house.hand >= 0 else 'empty'}",
        ]
        for slot, kind in enumerate(home.receptacle_class):
            if kind == rules.NONE:
                continue
            mark = ">" if slot == house.location else " "
            name = f"{classes.RECEPTACLES[kind].lower()} {home.receptacle_number[slot]}"
            inside = ", ".join(things[thing] for thing in np.flatnonzero(house.where == slot))
            lines.append(f"{mark} {name}{' (shut)' * shut[slot]}: {inside}".rstrip())
        return "\n".join(lines)


def marks(house: House) -> jax.Array:
    """Mark of each receptacle for an agent with perfect memory, u8[R].

    UNSEEN; SEEN inside; FOUND: seen with a thing of the goal or its lamp in it; HOLDING: the goal's
    place with one of the two required things.
    """
    home = house.home
    size = home.receptacle_class.shape[0]
    things = unpack(home.wanted | home.lamps, house.where.shape[0]) & (house.where >= 0)
    found = rules.union(things, only(house.where)) & house.seen
    holding = found & jnp.where(home.task == rules.TWO, home.places, 0)
    layers = (house.seen, found, holding)
    return sum(unpack(layer, size).astype(jnp.uint8) for layer in layers)


def _bits(number: jax.Array, count: int) -> jax.Array:
    """Binary digits of small numbers, bool[..., count]; all set for the class of an empty slot."""
    return ((number[..., None] >> np.arange(count, dtype=np.uint8)) & 1).astype(bool)


def _join(parts: list[jax.Array]) -> jax.Array:
    return jnp.concatenate([part.astype(bool) for part in parts], axis=-1)
