"""EIPO: answers sampled in the policy's own states, paid what an expert who goes on loses by them.

Letters: B episodes, T turns, M states, G answers sampled in a state.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.devices.placement import along_data
from agentrl.learner.component import Batches, Component, Context, Setup, Source
from agentrl.methods.by_turn import bare
from agentrl.methods.teaching import Classroom, classroom, expert_teacher
from agentrl.players.scripted import expert_actor
from agentrl.rollout.pack import pack
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import fresh, unroll
from agentrl.streams import Rows, Streams
from envs.vector import World


def expert_advantage(
    reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float
) -> jax.Array:
    """A*(s, a) = r + gamma V*(s') - V*(s) of G answers in each of M states, f32[M, G].

    With V* = gamma^d of a state d steps from success, gamma = .9 and d = 4, answers that lead to
    d = 3, 4, 5, 3 without a reward have 0, -.06561, -.124659, 0.

    Args:
      reward: f32[M, G], r of the step that an answer takes.
      following: f32[M, G], V* of the state behind it, 0 where the episode has ended.
      value: f32[M], V* of the state.
      gamma: the discount.
    """
    return reward + gamma * following - value[:, None]


def expert_value(
    world: World, state: chex.ArrayTree, running: jax.Array, gamma: float, key: jax.Array
) -> jax.Array:
    """V*(s) = sum_t gamma^t r_t of the environment's expert from states [B] to the end, f32[B].

    One continuation each, exact where neither the environment nor its expert draws. running:
    bool[B]; 0 of the others. The environment's limit of steps is an end.
    """
    size = running.shape[0]

    def add(notes, turn):
        total, discount = notes
        gained = jnp.where(turn.running, turn.outcome.reward[:, 0], 0.0)
        return (total + discount * gained, gamma * discount), ()

    played = unroll(
        world, [expert_actor(world)], seat_all(world.env, size), Start(state, None, (), running),
        key, length=int(world.params.max_steps_in_episode), early_exit=True, keep=add,
        notes=(jnp.zeros(size), jnp.ones(())),
    )  # fmt: skip
    return played.notes[0]


def keep_before(notes: None, turn: Turn) -> tuple[None, tuple[Start | None, jax.Array]]:
    """For `unroll`: keeps what is in front of a turn, and whether the episode had it."""
    return notes, (turn.before, turn.running)


class Hooks(NamedTuple):
    """The hooks of `eipo`, with what they are made of."""

    room: Classroom
    episodes: int
    states: int
    samples: int
    gamma: float

    def visited(self, params: chex.ArrayTree, key: jax.Array) -> Start:
        """M states drawn evenly from the turns of the policy's episodes; those that `running`
        leaves out are none, where the episodes had fewer turns."""
        world, bound, turns = self.room.world, self.room.bound, self.room.turns
        task_key, play_key, draw_key = jax.random.split(key, 3)
        start = fresh(world, along_data(jax.random.split(task_key, self.episodes)))
        if not bound.reads_arrays:
            start = start._replace(observation=None)
        played = unroll(
            world, [bound.actor(world, params)], seat_all(world.env, self.episodes), start,
            play_key, length=turns, early_exit=bound.early_exit, keep=keep_before,
        )  # fmt: skip
        before, running = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played.turns)
        chance = jnp.where(running, jax.random.uniform(draw_key, running.shape), -1.0)
        found, at = jax.lax.top_k(chance, self.states)
        return jax.tree.map(lambda x: x[at], before)._replace(running=found >= 0)

    def answered(
        self, params: chex.ArrayTree, states: Start, key: jax.Array
    ) -> tuple[Streams, Rows]:
        """(streams of one turn each, rows) of G answers in each of these states, [M * G].

        A stream's reward is the answer's A*, its group the number of its state.
        """
        world, bound = self.room.world, self.room.bound
        own_key, expert_key = jax.random.split(key)
        copies = functools.partial(jnp.repeat, repeats=self.samples, axis=0)
        begins = jax.tree.map(copies, states)
        pupil, seating = bound.actor(world, params), seat_all(world.env, len(begins.running))
        # A limit of two, so that one step is not the last.
        played = unroll(world, [pupil], seating, begins, own_key, length=1, limit=2)
        streams, rows = pack(world.env, bound.packing, played, seating.learns)
        both = jax.tree.map(
            lambda *x: jnp.concatenate(x),
            (states.state, states.running), (played.final.state, played.final.running),
        )  # fmt: skip
        values = expert_value(world, *both, self.gamma, expert_key)
        shape = (self.states, self.samples)
        advantage = expert_advantage(
            streams.reward.reshape(shape), values[self.states :].reshape(shape),
            values[: self.states], self.gamma,
        )  # fmt: skip
        reward = jnp.where(streams.mask, advantage.reshape(-1, 1), 0.0)
        group = copies(jnp.arange(self.states, dtype=jnp.int32))
        return bare(streams).replace(reward=reward, group=group), rows

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """Answers in states of new episodes."""
        del sources
        state_key, key = jax.random.split(context.key)
        states = self.visited(context.params, state_key)
        return self.answered(context.params, states, key)


def eipo(
    setup: Setup,
    *,
    episodes: int = 8,
    states: int = 32,
    samples: int = 8,
    gamma: float = 0.9,
) -> Component:
    """Source of its own name: answers of the policy in its own states, and what the environment's
    expert loses by each (EIPO, of RoboAgent).

    In each update the policy plays `episodes` new ones. In `states` of their turns it samples G
    answers; each takes a step from a copy of the state, and the expert plays on from where it
    leads. The reward of an answer is the expert's advantage

      A*(s, a) = r + gamma V*(s') - V*(s),   V*(s) the expert's discounted return from s,

    at most 0 where the expert is optimal, 0 for each action that is as good as its own: no label is
    preferred to its equals. For `losses.clipped_surrogate` with this source and advantage `grpo`,
    normalize="mean", whose groups are the states:

      J = mean over s, i of  ratio(a_i, s) (A*(s, a_i) - mean over j of A*(s, a_j)),

    so a state in which all answers are as good has no gradient. Without chance in the environment
    there is no noise but that of the policy's sampling: an answer need not wait for the policy to
    finish an episode, and states from which it always fails teach as well.

    A turn is judged as if the expert played on. The best that can come of it is the policy that is
    greedy for V*: an optimal expert cannot be outdone, a weak one by this single step of policy
    improvement, while `grpo` on the episodes' own rewards has no such limit. And a turn that
    changes nothing costs no more than (1 - gamma) V*, every time, since the expert is believed to
    act in the next one: where gamma is near 1, a policy that cannot tell the right action from one
    that ends the episode learns to wait.

    Args:
      episodes: B, per update.
      states: M, drawn evenly from the turns of all episodes; at most B * T.
      samples: G.
      gamma: discount of the expert's return, in (0, 1].

    Raises:
      ValueError: several environments or agents, one in Python, no expert, segments, or an option
        outside its range.

    References:
      RoboAgent (2026), https://arxiv.org/abs/2604.07774 (from notes; of the code only inference is
      released). There EIPO trains the scheduler of several capabilities, after SFT and DAgger
      (`agentrl.methods.dagger`); here it is any policy. The objective there has no clip;
      gamma=.9 is that of our notes' example, the paper's is not known to us.
    """
    path = "config.components.eipo"
    check_range(f"{path}.episodes", episodes, 1)
    check_range(f"{path}.samples", samples, 2)
    check_range(f"{path}.gamma", gamma, 0.0, 1.0, above=True)
    room = classroom(setup, "eipo", expert_teacher(), labels=True)
    check_range(f"{path}.states", states, 1, episodes * room.turns)
    hooks = Hooks(room, episodes, states, samples, gamma)
    return Component(source=Source(hooks.make))
