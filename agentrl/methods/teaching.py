"""Episodes that a teacher watches: what it would do in each state, and what it does in them.

Letters: B episodes of one agent, T turns.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor, Decision, View, beside, no_memory
from agentrl.devices.placement import along_data
from agentrl.learner.component import Setup
from agentrl.learner.required import required
from agentrl.players.scripted import OUTSIDE, is_outside, random_actions
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.pack import pack
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Turn
from agentrl.rollout.unroll import fresh, keep_turn, unroll
from agentrl.streams import Rows, Streams
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.records import PromptAndReply
    from agentrl.actors.text_agent import TextAgent
    from agentrl.players.asked import Asked
    from agentrl.policies.generation import Given

# (BoundPolicy, World) -> an actor with the records of the policy's rows. It acts from the memory
# of the policy, and with the policy's parameters unless it has its own.
Teacher = Callable[[BoundPolicy, World], Actor]


class Chances(NamedTuple):
    """Who acts in a turn; else the policy does.

    leads: f32[], probability that the teacher does; after a wrong turn it is no less than
    `corrects`. errs: probability that otherwise a random legal action is taken.
    """

    leads: jax.Array | float = 0.0
    errs: float = 0.0
    corrects: float = 0.0


class Correction(NamedTuple):
    """What a corrector says of a turn, [B, 1, ...].

    record: from which the row is made. right: bool, nothing is to be corrected. hopeless: bool, no
    correction helps in this state.
    """

    record: chex.ArrayTree
    right: jax.Array
    hopeless: jax.Array


# (World, View, the policy's record of the turn, the teacher's) -> Correction
Corrector = Callable[[World, View, chex.ArrayTree, chex.ArrayTree], Correction]


class Watched(NamedTuple):
    """Record of a watched turn, [B, 1, ...].

    record: from which the row is made. right: bool, what was done is what the teacher would have
    done, or what a corrector accepts. led: bool, the teacher did it. score: f32, the reward of the
    teacher's answer. hopeless: bool, see `Correction`; None without a corrector.
    """

    record: chex.ArrayTree
    right: jax.Array
    led: jax.Array
    score: jax.Array
    hopeless: jax.Array | None = None


class Lesson(NamedTuple):
    """Watched episodes. right, led, hopeless: bool[B, T]; score: f32[B, T]; see `Watched`."""

    streams: Streams
    rows: Rows
    right: jax.Array
    led: jax.Array
    score: jax.Array
    hopeless: jax.Array | None = None


class Classroom(NamedTuple):
    """A policy and its teacher in an environment.

    labels: rows hold the teacher's answers, in place of what was done. scored: answers are scored,
    by a step of the environment. agent: of a language policy. corrects: makes labels of what both
    have said.
    """

    world: World
    bound: BoundPolicy
    teacher: Teacher
    turns: int
    labels: bool
    scored: bool
    agent: "TextAgent | None"
    corrects: Corrector | None = None

    def play(
        self, params: chex.ArrayTree, keys: jax.Array, key: jax.Array, chances: Chances
    ) -> Lesson:
        """Episodes of the tasks of these keys, [B], which the teacher watches."""
        world, bound = self.world, self.bound
        count, start = len(keys), fresh(world, along_data(keys))
        if not bound.reads_arrays:
            start = start._replace(observation=None)
        pupil, teacher = bound.actor(world, params), self.teacher(bound, world)
        watch = Watch(self, pupil, teacher, chances)
        actor = pupil._replace(init=watch.init, act=watch.act, restart=None)
        seating = seat_all(world.env, count)
        played = unroll(
            world, [actor], seating, start, key,
            length=self.turns, early_exit=bound.early_exit, keep=_apart,
        )  # fmt: skip
        turns, watched = played.turns
        (own, _), (first, _) = played.final.memory[0], played.first.memory[0]
        played = played._replace(
            turns=turns,
            first=played.first._replace(memory=(first,)),
            final=played.final._replace(memory=(own,)),
        )
        streams, rows = pack(world.env, bound.packing, played, seating.learns)
        right, led, score, hopeless = jax.tree.map(lambda x: x[..., 0].T, watched)
        return Lesson(streams, rows, right & streams.mask, led & streams.mask, score, hopeless)


class Watch(NamedTuple):
    """How the policy acts while a teacher watches, and acts in its place by chance.

    Its memory is the policy's, and whether the last turn was wrong, bool[B, A].
    """

    room: Classroom
    pupil: Actor
    teacher: Actor
    chances: Chances

    def init(self, batch: int, agents: int) -> tuple[chex.ArrayTree, jax.Array]:
        """The policy's memory, and no turn that was wrong."""
        return self.pupil.init(batch, agents), jnp.zeros((batch, agents), bool)

    def act(
        self,
        params: chex.ArrayTree,
        memory: tuple[chex.ArrayTree, jax.Array],
        view: View,
        key: jax.Array,
    ) -> tuple[Decision, tuple[chex.ArrayTree, jax.Array]]:
        """`Actor.act`; the record is a `Watched`."""
        room, teacher, chances, (own, wrong) = self.room, self.teacher, self.chances, memory
        lead_key, err_key, stray_key, teach_key, key = jax.random.split(key, 5)
        shape = view.agent.shape
        leads = jnp.maximum(chances.leads, jnp.where(wrong, chances.corrects, 0.0))
        leads = jax.random.uniform(lead_key, shape) < leads
        errs = ~leads & (jax.random.uniform(err_key, shape) < chances.errs)
        taught, _ = teacher.act(
            params if teacher.params is None else teacher.params, own, view, teach_key
        )
        stray = random_actions(room.world.env, view, stray_key)
        if room.agent is None:
            decision, own = self.pupil.act(params, own, view, key)
            decision = _acted(decision, leads | errs, jnp.where(leads, taught.action, stray))
        else:
            given = _given(room, view, leads, errs, taught.record.reply, stray)
            decision, own = self.pupil.act(params, own, view, key, given=given)
        same = (decision.action == taught.action).reshape(*shape, -1)
        right = jnp.all(same, axis=-1) & view.acting
        source = taught if room.labels else decision
        score = jnp.zeros(shape)
        if room.scored:
            score = _score(room.world, jax.random.fold_in(stray_key, 1), view, taught.action)
        record = Watched(source.record, right, leads, score)
        if room.corrects is not None:
            found = room.corrects(room.world, view, decision.record, taught.record)
            record = Watched(found.record, found.right & view.acting, leads, score, found.hopeless)
        decision = decision._replace(record=record, logp=source.logp)
        return decision, (own, view.acting & ~record.right)


def told(
    room: Classroom,
    params: chex.ArrayTree,
    said: Callable[[chex.ArrayTree, View, jax.Array], Decision],
) -> Actor:
    """The policy with these parameters, which reads and remembers answers from elsewhere as its
    own. said: (the policy's memory, View, key) -> a decision with the policy's records."""
    pupil = room.bound.actor(room.world, params)
    return pupil._replace(act=functools.partial(_act_as_told, room, pupil, said), restart=None)


def _act_as_told(
    room: Classroom,
    pupil: Actor,
    said: Callable[[chex.ArrayTree, View, jax.Array], Decision],
    params: chex.ArrayTree,
    memory: chex.ArrayTree,
    view: View,
    key: jax.Array,
) -> tuple[Decision, chex.ArrayTree]:
    """`Actor.act` of `told`."""
    said_key, key = jax.random.split(key)
    other = said(memory, view, said_key)
    if room.agent is None:
        decision, memory = pupil.act(params, memory, view, key)
        return _acted(decision, jnp.ones(view.agent.shape, bool), other.action), memory
    # It imports the decoder, which a policy over arrays starts without.
    from agentrl.policies.generation import Given

    reply = other.record.reply
    given = Given(reply.tokens[:, 0], reply.count[:, 0])
    return pupil.act(params, memory, view, key, given=given)


def taught(room: Classroom, params: chex.ArrayTree) -> Actor:
    """The teacher, whose answers the policy with these parameters reads as its own."""
    teacher = room.teacher(room.bound, room.world)

    def said(memory, view, key):
        own = params if teacher.params is None else teacher.params
        return teacher.act(own, memory, view, key)[0]

    return told(room, params, said)


def _apart(
    notes: chex.ArrayTree, turn: Turn
) -> tuple[chex.ArrayTree, tuple[Turn, tuple[jax.Array, ...]]]:
    """Keeps a turn, and apart from it what the teacher has found."""
    record, *found = turn.decision.record
    notes, kept = keep_turn(notes, turn._replace(decision=turn.decision._replace(record=record)))
    return notes, (kept, tuple(found))


def _acted(decision: Decision, forced: jax.Array, action: jax.Array) -> Decision:
    """A decision over arrays, or this action where it is forced."""
    action = action.astype(decision.action.dtype)
    action = jnp.where(beside(forced, action), action, decision.action)
    record = decision.record._replace(action=action)
    logp = jnp.where(forced, 0.0, decision.logp)
    return decision._replace(action=action, record=record, logp=logp)


def _given(
    room: Classroom,
    view: View,
    leads: jax.Array,
    errs: jax.Array,
    reply: "PromptAndReply",
    stray: jax.Array,
) -> "Given":
    """The replies that the policy does not choose: the teacher's where it leads, and the command of
    a stray action where there is an error; of length 0 elsewhere."""
    # Both import the decoder, which a policy over arrays starts without.
    from agentrl.actors.text_source import commands
    from agentrl.policies.generation import Given

    known = commands(room.agent, room.world, view)
    other = jax.vmap(lambda x, at: x[at])(known.tokens, stray[:, 0])
    length = jax.vmap(lambda x, at: x[at])(known.length, stray[:, 0])
    leads, errs = leads[:, 0], errs[:, 0]
    tokens = jnp.where(leads[:, None], reply.tokens[:, 0], other)
    return Given(tokens, jnp.where(leads, reply.count[:, 0], jnp.where(errs, length, 0)))


def _score(world: World, key: jax.Array, view: View, action: jax.Array) -> jax.Array:
    """The reward of one action in each state, f32[B, 1]."""
    keys = jax.random.split(key, action.shape[0])
    _, _, outcome = world.vmap(world.env.step_agents)(keys, view.state, action)
    return jnp.where(view.acting, outcome.reward, 0.0)


def classroom(
    setup: Setup,
    component: str,
    teacher: Teacher,
    *,
    labels: bool,
    scored: bool = False,
    corrects: Corrector | None = None,
) -> Classroom:
    """The classroom of a run; fields as in `Classroom`.

    Raises:
      ValueError: several environments or agents, one in Python, segments, or a teacher that does
        not fit.
    """
    env, params = required(
        setup, component, None,
        one_agent=True, one_environment=True, in_graph=True, whole_episodes=True,
    )  # fmt: skip
    turns = setup.rollout.turns
    # What a teacher says is in no later prompt: each row is one turn, whatever the context.
    bound = bind(
        setup.policy, env, params, setup.context, turns,
        mask_illegal=False, anchor="observation", segments=labels,
    )  # fmt: skip
    world = World(env, params)
    agent = _text_agent(setup, world, segments=labels)
    room = Classroom(world, bound, teacher, turns, labels, scored, agent, corrects)
    # A teacher that does not fit is found before anything compiles.
    teacher(bound, world)
    return room


def expert_teacher(thoughts: bool = False) -> Teacher:
    """The environment's expert. thoughts: its replies have thoughts."""
    return lambda bound, world: bound.demonstrator(world, 0.0, thoughts)


def teacher_named(setup: Setup, name: str, thoughts: bool) -> Teacher:
    """The expert or a player outside this process. ValueError: neither, or one with thoughts."""
    if is_outside(name) and not thoughts:
        return outside_teacher(setup, name)
    if name != "expert":
        raise ValueError(
            f"teacher={name!r}, thoughts={thoughts}: expected 'expert', or "
            f"{' or '.join(OUTSIDE)} without thoughts"
        )
    return expert_teacher(thoughts)


def outside_teacher(setup: Setup, name: str) -> Teacher:
    """A program, or a model behind a server (`agentrl.players.outside`).

    It knows what the agent reads in a state, and nothing from before. Where it abstains, the answer
    is the policy's own.

    Raises:
      ValueError: no such player, several seeds, or a game without words.
    """
    from agentrl.players.outside import outside  # few runs need it

    if setup.num_seeds > 1:
        raise ValueError(
            f"teacher={name!r} with config.num_seeds={setup.num_seeds}: it is asked in the order "
            "of the steps, by one seed; set config.num_seeds=1"
        )
    return Outside(setup, outside(name, next(iter(setup.envs.values()))[0]))


class Outside(NamedTuple):
    """A player outside of the graph as a teacher, asked by callbacks: see `outside_teacher`."""

    setup: Setup
    player: "Asked"

    def __call__(self, bound: BoundPolicy, world: World) -> Actor:
        from agentrl.players.asked import asked_actor  # few runs need it

        said_by = asked_actor(self.player, world, must_play=True)
        agent = _text_agent(self.setup, world, segments=True)
        return Actor(no_memory, functools.partial(_act_as_asked, bound, world, said_by, agent))


def _act_as_asked(
    bound: BoundPolicy,
    world: World,
    said_by: Actor,
    agent: "TextAgent | None",
    params: chex.ArrayTree,
    memory: chex.ArrayTree,
    view: View,
    key: jax.Array,
) -> tuple[Decision, chex.ArrayTree]:
    """`Actor.act` of `outside_teacher`: what `said_by` says, with the policy's records."""
    actor = bound.actor(world, params)
    said, _ = said_by.act(None, said_by.init(*view.agent.shape), view, key)
    action, some = jnp.maximum(said.action, 0), said.action >= 0
    if agent is None:
        decision, _ = actor.act(params, memory, view, key)
        return _acted(decision, some, action), memory
    from agentrl.actors.text_source import commands
    from agentrl.policies.generation import Given

    every, pick = commands(agent, world, view), jax.vmap(lambda x, at: x[at])
    length = jnp.where(some[:, 0], pick(every.length, action[:, 0]), 0)
    given = Given(pick(every.tokens, action[:, 0]), length)
    decision, _ = actor.act(params, memory, view, key, given=given)
    return decision, memory


def _text_agent(setup: Setup, world: World, *, segments: bool) -> "TextAgent | None":
    """How a language policy acts in words; None of a policy over arrays."""
    if setup.context is None:
        return None
    from agentrl.actors.text_source import text_agent  # imports the decoder

    turns = setup.rollout.turns
    return text_agent(setup.policy, world, setup.context, turns=turns, segments=segments)


class BestOf(NamedTuple):
    """A teacher: the best of `count` answers of the policy itself, by the reward of a step from its
    state; of equal ones the first."""

    count: int

    def __call__(self, bound: BoundPolicy, world: World) -> Actor:
        return Actor(no_memory, functools.partial(self.act, bound, world))

    def act(
        self,
        bound: BoundPolicy,
        world: World,
        params: chex.ArrayTree,
        memory: chex.ArrayTree,
        view: View,
        key: jax.Array,
    ) -> tuple[Decision, chex.ArrayTree]:
        """`Actor.act` of the policy `bound`, for the best of several answers."""
        step_key, key = jax.random.split(key)
        actor = bound.actor(world, params)

        def one(key):
            decision, _ = actor.act(params, memory, view, key)
            return decision, _score(world, step_key, view, decision.action)

        said, scores = jax.lax.map(one, jax.random.split(key, self.count))
        best = jnp.argmax(scores, axis=0)

        def pick(x):
            at = best.reshape(1, *best.shape, *[1] * (x.ndim - 3))
            return jnp.take_along_axis(x, at, axis=0)[0]

        return jax.tree.map(pick, said), memory
