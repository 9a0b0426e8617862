"""Scripted policies of the household: a planner with full or with observed information.

Costs are counted in actions. They are exact for tasks with one thing, so a planner with full
information takes a shortest path; with two things it looks ahead over both, and is suboptimal only
in which door it opens first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.household import classes, rules
from envs.household.rules import CLEAN, COOL, HEAT, House, has, only, unpack

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


class _Situation(NamedTuple):
    """What the planner decides from, for R receptacles and M things.

    here i32[]: the agent's place. where i32[M]: places of things. away, shut i32[R]: actions to go
    to a receptacle, and to open it. two, look bool[]: the task is that one. wanted bool[M]: things
    of the goal. ready bool[M]: things with the property that the task requires. appliances bool[R],
    change i32[]: where a thing gets it, and by which verb. meeting bool[R]: where a thing of the
    goal may be put. most i32[]: how many are there already. deliver i32[R]: actions to deliver from
    each receptacle. lamps bool[M]: known lamps.
    """

    here: jax.Array
    where: jax.Array
    away: jax.Array
    shut: jax.Array
    two: jax.Array
    look: jax.Array
    wanted: jax.Array
    ready: jax.Array
    appliances: jax.Array
    change: jax.Array
    meeting: jax.Array
    most: jax.Array
    deliver: jax.Array
    lamps: jax.Array


def _at(value: jax.Array, slot: jax.Array) -> jax.Array:
    return value[jnp.clip(slot, 0, value.shape[0] - 1)]


def _between(receptacles: int) -> np.ndarray:
    """Actions from each receptacle to each, i32[R, R]."""
    return 1 - np.eye(receptacles, dtype=np.int32)


def _situation(house: House, known: jax.Array) -> _Situation:
    home, here = house.home, house.location.astype(jnp.int32)
    receptacles, objects = home.receptacle_class.shape[0], house.where.shape[0]
    stands = np.arange(receptacles)
    where = house.where.astype(jnp.int32)
    shut = unpack(~rules.accessible(house), receptacles).astype(jnp.int32)
    two = home.task == rules.TWO
    wanted, places = unpack(home.wanted, objects), unpack(home.places, receptacles)
    clean, heat, cool = (home.task == task for task in (CLEAN, HEAT, COOL))

    def by_task(for_clean, for_heat, for_cool):
        return jnp.where(clean, for_clean, jnp.where(heat, for_heat, for_cool))

    changed = unpack(by_task(house.clean, house.hot, house.cool), objects)
    # Places with a thing of the goal already, if two must be together.
    count = jnp.sum((where[:, None] == stands) & wanted[:, None] & places, axis=0)
    most = jnp.where(places, count, -1)
    meeting = places & (~two | (most == jnp.max(most)))
    return _Situation(
        here=here,
        where=where,
        away=(stands != here).astype(jnp.int32),
        shut=shut,
        two=two,
        look=home.task == rules.LOOK,
        wanted=wanted,
        ready=changed | ~(clean | heat | cool),
        appliances=unpack(by_task(home.sinks, home.microwaves, home.fridges), receptacles),
        change=by_task(rules.WASH, rules.WARM, rules.CHILL),
        meeting=meeting,
        most=jnp.max(most),
        deliver=jnp.min(jnp.where(meeting, _between(receptacles) + shut, FAR), axis=1),
        lamps=unpack(home.lamps & known, objects),
    )


def _reach(
    now: _Situation, stand: jax.Array, verb: jax.Array | int, slot: jax.Array | int, subgoal: int
) -> Plan:
    """The first action of: go to a receptacle, open it if it is shut, do `verb` there."""
    arrived = _choose(
        _at(now.shut, stand) == 1,
        _plan(rules.OPEN, 0, subgoal),
        _plan(verb, slot, subgoal),
    )
    return _choose(stand == now.here, arrived, _plan(rules.GO, stand, subgoal))


def _search(house: House, now: _Situation, kind: jax.Array) -> Plan:
    """Looks for a class of things where it may be, in open furniture first."""
    home, receptacles = house.home, now.away.shape[0]
    held = jnp.asarray(classes.HOLDS)[
        jnp.minimum(home.receptacle_class, len(classes.RECEPTACLES) - 1), kind
    ]
    unseen = unpack(home.receptacles & ~house.seen, receptacles)
    effort = now.away + now.shut + jnp.where(held, 0, 10)
    nearest = jnp.argmin(jnp.where(unseen, effort, FAR))
    searching = _reach(now, nearest, rules.LOOK_AROUND, 0, FIND)
    return _choose(jnp.any(unseen), searching, _plan(rules.LOOK_AROUND, 0, FIND))


def _with_empty_hands(house: House, known: jax.Array, now: _Situation) -> Plan:
    """Fetches the thing of the goal that costs least, or searches for one."""
    where, two = now.where, now.two
    stands, things = np.arange(now.away.shape[0]), np.arange(where.shape[0])
    # To the nearest lamp, and by an appliance, whose door may stay shut, to the goal.
    way = jnp.where(now.lamps, where[None, :] != stands[:, None], FAR).astype(jnp.int32)
    light = jnp.where(jnp.any(now.lamps), jnp.min(way, axis=1), 0)
    by_appliance = _between(len(stands)) + 1 + now.deliver
    treat = jnp.min(jnp.where(now.appliances, by_appliance, FAR), axis=1)

    met = _at(now.meeting, where) & (where >= 0)
    free = now.wanted & unpack(known, len(things)) & (where >= 0) & ~(two & met)
    fetch = _at(now.away, where) + _at(now.shut, where)
    onwards = jnp.where(now.ready, _at(now.deliver, where), _at(treat, where))
    onwards = jnp.where(now.look, _at(light, where), onwards)
    # Doors to open for the second of two.
    together = where[:, None] == where[None, :]
    other = jnp.where(together, 0, _at(now.shut, where)[None, :])
    other = jnp.where(free[None, :] & (things[:, None] != things), other, FAR)
    second = jnp.min(other, axis=1)
    second = jnp.where((now.most > 0) | (second == FAR), 0, second)
    cost = jnp.where(free, fetch + jnp.where(two, second, onwards), FAR)
    target = jnp.argmin(cost)
    take = _reach(now, _at(where, target), rules.TAKE, target, FETCH)
    return _choose(jnp.any(free), take, _search(house, now, house.home.goal_object))


def _with_a_thing_in_hand(house: House, now: _Situation) -> Plan:
    """Changes it and puts it into its place, or holds it under a lamp; puts down a wrong one."""
    place = jnp.argmin(jnp.where(now.meeting, now.away + now.shut, FAR))
    put = _reach(now, place, rules.MOVE, 0, PLACE)
    appliance = jnp.argmin(jnp.where(now.appliances, now.away + now.deliver, FAR))
    treated = _choose(
        appliance == now.here,
        _plan(now.change, 0, TRANSFORM),
        _plan(rules.GO, appliance, TRANSFORM),
    )
    lamp = jnp.argmin(jnp.where(now.lamps, now.where != now.here, FAR))
    lamp_place = _at(now.where, lamp)
    lit = _choose(
        lamp_place == now.here,
        _plan(rules.USE, lamp, TRANSFORM),
        _plan(rules.GO, lamp_place, TRANSFORM),
    )
    lit = _choose(jnp.any(now.lamps), lit, _search(house, now, house.home.goal_place))
    right = _choose(now.look, lit, _choose(_at(now.ready, house.hand), put, treated))

    fits = unpack(_at(house.home.fits, house.hand), now.away.shape[0])
    aside = jnp.argmin(jnp.where(fits, now.away + now.shut, FAR))
    drop = _reach(now, aside, rules.MOVE, 0, FETCH)
    return _choose(_at(now.wanted, house.hand), right, drop)


def plan(house: House, known: jax.Array) -> Plan:
    """The next step of an agent that knows the positions of the things in the set `known`."""
    now = _situation(house, known)
    empty = _with_empty_hands(house, known, now)
    return _choose(house.hand < 0, empty, _with_a_thing_in_hand(house, now))
