"""Scripted policies of the household: a planner with full or with observed information.

Costs are counted in actions. They are exact for tasks with one thing, so a planner with full
information takes a shortest path; with two things it looks ahead over both, and is suboptimal only
in which door it opens first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.rules import household as rules
from envs.rules import household_classes as classes
from envs.rules.household import CLEAN, COOL, HEAT, House, has, only, unpack

SUBGOALS = ("find", "take", "transform", "place")
FIND, FETCH, TRANSFORM, PLACE = range(4)
# An upper bound on the cost of a plan.
FAR = 1000


class Plan(NamedTuple):
    """The next action, as verb and slot, and the sub-goal that it serves; i32[] each."""

    verb: jax.Array
    slot: jax.Array
    subgoal: jax.Array


def everything(house: House) -> jax.Array:
    """Knowledge of the planner with full information: the set of all things."""
    return jnp.full((), rules.ALL)


def remembered(house: House) -> jax.Array:
    """Knowledge of an agent with perfect memory: the set of things in places it has seen."""
    return rules.pack(has(house.seen, house.where)) | only(house.hand)


def reached(house: House) -> jax.Array:
    """Subgoals that hold, bool[4], for an agent with perfect memory.

    find: it knows the position of a thing of the goal that has to be fetched or, with it in hand,
    of the lamp; take: a thing of the goal is in hand; transform: it also has the required property,
    or is lit; place: hands are free of it, and it is in its place.
    """
    home, hand, known = house.home, house.hand, remembered(house)
    objects = house.where.shape[0]
    look = home.task == rules.LOOK
    holds = has(home.wanted, hand)
    changed = jnp.where(home.task == COOL, house.cool, rules.ALL)
    changed = jnp.where(home.task == HEAT, house.hot, changed)
    changed = jnp.where(home.task == CLEAN, house.clean, changed)
    placed = unpack(home.wanted & changed, objects) & has(home.places, house.where)
    free = unpack(home.wanted & known, objects) & (house.where >= 0)
    # If two have to be put, the one already in its place is not fetched again.
    free &= ~(placed & (home.task == rules.TWO))
    lamps = (home.lamps & known) != 0
    return jnp.stack(
        [
            jnp.where(holds, ~look | lamps, jnp.any(free)),
            holds,
            jnp.where(look, house.won, holds & has(changed, hand)),
            ~holds & jnp.any(placed),
        ]
    )


def _choose(first: jax.Array, then: Plan, otherwise: Plan) -> Plan:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), then, otherwise)


def _plan(verb: jax.Array | int, slot: jax.Array | int, subgoal: int) -> Plan:
    return Plan(*(jnp.asarray(x, jnp.int32) for x in (verb, slot, subgoal)))


def plan(house: House, known: jax.Array) -> Plan:
    """The next step of an agent that knows the positions of the things in the set `known`."""
    home, here = house.home, house.location.astype(jnp.int32)
    receptacles, objects = home.receptacle_class.shape[0], house.where.shape[0]
    stands, things = np.arange(receptacles), np.arange(objects)
    where, hand = house.where.astype(jnp.int32), house.hand
    shut = unpack(~rules.accessible(house), receptacles).astype(jnp.int32)
    away = (stands != here).astype(jnp.int32)
    between = 1 - np.eye(receptacles, dtype=np.int32)
    two, look = home.task == rules.TWO, home.task == rules.LOOK
    wanted, places = unpack(home.wanted, objects), unpack(home.places, receptacles)
    appliances = unpack(
        jnp.where(
            home.task == CLEAN,
            home.sinks,
            jnp.where(home.task == HEAT, home.microwaves, home.fridges),
        ),
        receptacles,
    )
    transforms = (home.task == CLEAN) | (home.task == HEAT) | (home.task == COOL)
    changed = jnp.where(
        home.task == CLEAN, house.clean, jnp.where(home.task == HEAT, house.hot, house.cool)
    )
    ready = unpack(changed, objects) | ~transforms
    change = jnp.where(
        home.task == CLEAN, rules.WASH, jnp.where(home.task == HEAT, rules.WARM, rules.CHILL)
    )

    def at(value: jax.Array, slot: jax.Array) -> jax.Array:
        return value[jnp.clip(slot, 0, value.shape[0] - 1)]

    def reach(stand: jax.Array, verb: jax.Array | int, slot: jax.Array, subgoal: int) -> Plan:
        """Goes there, opens it, acts."""
        arrived = _choose(
            at(shut, stand) == 1,
            _plan(rules.OPEN, 0, subgoal),
            _plan(verb, slot, subgoal),
        )
        return _choose(stand == here, arrived, _plan(rules.GO, stand, subgoal))

    # Places with a thing of the goal already, if two must be together.
    count = jnp.sum((where[:, None] == stands) & wanted[:, None] & places, axis=0)
    most = jnp.where(places, count, -1)
    meeting = places & (~two | (most == jnp.max(most)))
    # Cost of delivering from each receptacle, and of transforming first: the appliance's door
    # may stay shut.
    deliver = jnp.min(jnp.where(meeting, between + shut, FAR), axis=1)
    treat = jnp.min(jnp.where(appliances, between + 1 + deliver, FAR), axis=1)

    # Lamps: the known ones, and the path from each receptacle to the nearest.
    lamps = unpack(home.lamps & known, objects)
    way = jnp.where(lamps, where[None, :] != stands[:, None], FAR).astype(jnp.int32)
    light = jnp.where(jnp.any(lamps), jnp.min(way, axis=1), 0)

    # Empty hands: choose a thing to fetch.
    met = at(meeting, where) & (where >= 0)
    free = wanted & unpack(known, objects) & (where >= 0) & ~(two & met)
    fetch = at(away, where) + at(shut, where)
    onwards = jnp.where(ready, at(deliver, where), at(treat, where))
    onwards = jnp.where(look, at(light, where), onwards)
    together = where[:, None] == where[None, :]
    other = jnp.where(together, 0, at(shut, where)[None, :])
    other = jnp.where(free[None, :] & (things[:, None] != things), other, FAR)
    second = jnp.min(other, axis=1)
    second = jnp.where((jnp.max(most) > 0) | (second == FAR), 0, second)
    cost = jnp.where(free, fetch + jnp.where(two, second, onwards), FAR)
    target = jnp.argmin(cost)
    take = reach(at(where, target), rules.TAKE, target, FETCH)

    # No known thing to fetch, or no lamp: search where it may be, open furniture first.
    def search(kind: jax.Array) -> Plan:
        held = jnp.asarray(classes.HOLDS)[
            jnp.minimum(home.receptacle_class, len(classes.RECEPTACLES) - 1), kind
        ]
        unseen = unpack(home.receptacles & ~house.seen, receptacles)
        effort = away + shut + jnp.where(held, 0, 10)
        nearest = jnp.argmin(jnp.where(unseen, effort, FAR))
        searching = reach(nearest, rules.LOOK_AROUND, 0, FIND)
        return _choose(jnp.any(unseen), searching, _plan(rules.LOOK_AROUND, 0, FIND))

    empty = _choose(jnp.any(free), take, search(home.goal_object))

    # The right thing in hand.
    place = jnp.argmin(jnp.where(meeting, away + shut, FAR))
    put = reach(place, rules.MOVE, 0, PLACE)
    appliance = jnp.argmin(jnp.where(appliances, away + deliver, FAR))
    treated = _choose(
        appliance == here, _plan(change, 0, TRANSFORM), _plan(rules.GO, appliance, TRANSFORM)
    )
    lamp = jnp.argmin(jnp.where(lamps, where != here, FAR))
    lamp_place = at(where, lamp)
    lit = _choose(
        lamp_place == here,
        _plan(rules.USE, lamp, TRANSFORM),
        _plan(rules.GO, lamp_place, TRANSFORM),
    )
    lit = _choose(jnp.any(lamps), lit, search(home.goal_place))
    holding = _choose(look, lit, _choose(at(ready, hand), put, treated))

    # The wrong thing in hand: put it down.
    fits = unpack(at(home.fits, hand), receptacles)
    aside = jnp.argmin(jnp.where(fits, away + shut, FAR))
    drop = reach(aside, rules.MOVE, 0, FETCH)
    holding = _choose(at(wanted, hand), holding, drop)
    return _choose(hand < 0, empty, holding)
