"""The belief question in words: rows in which an agent is asked what it believes.

Letters: T turns, B episodes, A agents, K questions per episode, L positions of a row, Q tokens of
the question, W of an answer.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.text_agent import TextAgent
from agentrl.actors.types import View
from agentrl.checks import check_range
from agentrl.policies.codec import tokens_of
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.types import Turn
from agentrl.rollout.unroll import keep_turn
from agentrl.streams import ACTION, OBSERVATION, Rows
from envs.environment import Environment
from envs.vector import World


class Asked(NamedTuple):
    """Questions before a turn, [B, A, ...]; in a trajectory [T, B, A, ...].

    asked: bool. prompt: i32[..., P], what the agent has read by then, of `length` i32 tokens.
    answer: i32[B], the true one's number.
    """

    asked: jax.Array
    prompt: jax.Array
    length: jax.Array
    answer: jax.Array


class Questions(NamedTuple):
    """How a language policy is asked. agent: (World) -> it, bound. roles: of the agents. question:
    i32[Q]; answers: i32[V, W], tokens of each answer, padded with -1. most: K, questions per
    episode that are kept, the first ones."""

    policy: LanguagePolicy
    agent: Callable[[World], TextAgent]
    roles: tuple[int, ...]
    question: np.ndarray
    answers: np.ndarray
    most: int

    def watch(self, world: World) -> Callable:
        """`keep` for `unroll`, whose turns are then (Turn, Asked)."""
        return functools.partial(self.keep, world, self.agent(world))

    def keep(
        self, world: World, agent: TextAgent, notes: chex.ArrayTree, turn: Turn
    ) -> tuple[chex.ArrayTree, tuple[Turn, Asked]]:
        """What `unroll` keeps of a turn; the notes stay as they are."""
        env, before = world.env, turn.before
        assert before is not None  # inside `unroll`
        asked, answer = world.vmap(env.belief_question)(before.state)
        asked = asked & turn.running[:, None]
        everyone = jnp.broadcast_to(jnp.arange(env.num_agents, dtype=jnp.int32), asked.shape)
        view = View(everyone, asked, None, None, before.state)

        def read():
            prompt = agent.prompt(before.memory[0], view)
            return prompt.tokens, jnp.where(prompt.cut, 0, prompt.length)

        empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(read))
        prompt, length = jax.lax.cond(jnp.any(asked), read, lambda: empty)
        asked = asked & (length > 0)
        _, kept = keep_turn(None, turn)
        return notes, (kept, Asked(asked, prompt, length, answer))

    def rows(self, told: Asked, learns: jax.Array, like: Rows) -> tuple[Rows, jax.Array]:
        """(rows [B * K, L] of the questions to agents that are learnt from, the place of each among
        the T * A of its episode i32[B, K]). learns: bool[B, A]. like: the rows of the turns."""
        steps, batch, agents = told.asked.shape

        def by_episode(x):
            """[T, B, A, ...] as [B, T * A, ...]."""
            return jnp.swapaxes(x, 0, 1).reshape(batch, steps * agents, *x.shape[3:])

        asked = by_episode(told.asked & learns)
        place = jnp.argsort(~asked, axis=1, stable=True)[:, : self.most]

        def chosen(x):
            index = place.reshape(*place.shape, *[1] * (x.ndim - 2))
            return jnp.take_along_axis(x, index, axis=1).reshape(-1, *x.shape[2:])

        answer = jnp.broadcast_to(told.answer[..., None], told.asked.shape)
        asked, prompt, length, answer = map(
            chosen, (asked, by_episode(told.prompt), by_episode(told.length), by_episode(answer))
        )
        stream = jnp.arange(batch, dtype=jnp.int32)[:, None] * agents + place % agents
        return self._written(asked, prompt, length, answer, stream.reshape(-1), like), place

    def _written(self, asked, prompt, length, answer, stream, like: Rows) -> Rows:
        size, total = like.tokens.shape[1], self.question.size
        prompt = jnp.pad(prompt, ((0, 0), (0, max(0, size - prompt.shape[1]))))[:, :size]
        offset = jnp.arange(size, dtype=jnp.int32) - length[:, None]
        said = jnp.asarray(self.answers)[answer]
        place = jnp.clip(offset - total, 0, said.shape[1] - 1)
        reply = jnp.take_along_axis(said, place, axis=1)
        answers = asked[:, None] & (offset >= total) & (offset < total + said.shape[1])
        answers &= reply >= 0
        question = jnp.asarray(self.question)[jnp.clip(offset, 0, total - 1)]
        tokens = jnp.where(offset < 0, prompt, jnp.where(offset < total, question, reply))
        there = asked[:, None] & ((offset < total) | answers)
        nothing, legal = jnp.zeros(tokens.shape, bool), None
        if like.legal is not None:
            legal = jnp.ones((*tokens.shape, like.legal.shape[2]), bool)
        return Rows(
            tokens=jnp.where(there, tokens, 0),
            loss_mask=nothing,
            stream=stream,
            turn=jnp.full(tokens.shape, -1, jnp.int32),
            behaviour_logp=jnp.zeros(tokens.shape),
            span=jnp.where(there, jnp.where(answers, ACTION, OBSERVATION), -1).astype(jnp.int32),
            legal=legal,
            role=jnp.asarray(self.roles, jnp.int32)[stream % len(self.roles)],
            asked=answers,
            answer=jnp.where(answers, reply, 0),
        )

    def behind(self, rows: Rows, own: Rows) -> Rows:
        """The rows of turns, in which nothing is asked, and behind them those of the questions."""
        nothing = jnp.zeros(rows.tokens.shape, bool)
        rows = rows.replace(asked=nothing, answer=nothing.astype(jnp.int32))
        return jax.tree.map(lambda *x: jnp.concatenate(x), rows, own)

    def beliefs(
        self, params: chex.ArrayTree, rows: Rows, place: jax.Array, told: Asked
    ) -> tuple[jax.Array, jax.Array]:
        """(asked bool[T, B, A], probability of the true answer f32[T, B, A]) of the questions that
        `rows` holds at `place`."""
        steps, batch, agents = told.asked.shape
        assert rows.asked is not None  # these are questions
        # As many rows at once as there are episodes.
        parts = jax.tree.map(lambda x: x.reshape(-1, batch, *x.shape[1:]), rows)
        logp = jax.lax.map(lambda part: self.policy.score(params, part, part.asked).logp, parts)
        logp = jnp.where(parts.asked, logp, 0.0).sum(axis=2).reshape(place.shape)
        some = jnp.any(rows.asked, axis=1).reshape(place.shape)
        episode = jnp.arange(batch)[:, None]

        def spread(x):
            out = jnp.zeros((batch, steps * agents), x.dtype).at[episode, place].set(x)
            return jnp.swapaxes(out.reshape(batch, steps, agents), 0, 1)

        return spread(some), spread(jnp.where(some, jnp.exp(logp), 0.0))


def questions_of(
    policy: LanguagePolicy,
    env: Environment,
    agent: Callable[[World], TextAgent],
    bound: TextAgent,
    *,
    question: str,
    most: int,
) -> Questions:
    """The question to the agents of an environment. bound: the agent, for its sizes.

    Raises:
      ValueError: an environment that asks nothing, words without tokens, or no room in the rows.
    """
    check_range("rollout questions", most, 1)
    if not env.answer_names:
        raise ValueError(
            f"rollout question={question!r} with {env.name}, which asks for no beliefs: leave it "
            "out, or use an environment with `answer_names`, such as SocialDeduction-v1"
        )
    asked = np.array(tokens_of(policy.codec, question), np.int32)
    names = [tokens_of(policy.codec, name) for name in env.answer_names]
    answers = np.full((len(names), max(map(len, names))), -1, np.int32)
    for row, name in zip(answers, names, strict=True):
        row[: len(name)] = name
    needed, room = asked.size + answers.shape[1], bound.layout.reply_tokens
    if needed > room:
        raise ValueError(
            f"rollout question={question!r}: question and answer take {needed} tokens, and rows "
            f"have room for replies of {room}; set config.context.max_new_tokens={needed}"
        )
    return Questions(policy, agent, env.roles_of_seats, asked, answers, most)
