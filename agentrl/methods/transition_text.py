"""Rows of a language policy for transitions that were played over arrays.

Letters: N episodes of T turns, M = N T transitions; n of them are drawn; A actions, G tokens of a
reply, R rows of L positions.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.text_agent import TextAgent
from agentrl.actors.text_source import commanded, commands, text_agent
from agentrl.learner.component import Setup
from agentrl.learner.passes import log_probs
from agentrl.methods.igpo import answer_rows
from agentrl.methods.transition_rows import Actions
from agentrl.methods.transitions import Transitions
from agentrl.methods.turn_actions import replies
from agentrl.players.scripted import view_of
from agentrl.policies.codec import Tokens
from agentrl.rollout.text_rows import text_rows
from agentrl.rollout.types import Turn
from agentrl.streams import Rows
from envs.vector import World


def written(
    agent: TextAgent, world: World, states: chex.ArrayTree, action: jax.Array, acted: jax.Array
) -> Rows:
    """The rows of episodes in which the commands of these actions were written, [N * T, L].

    Row n T + t is turn t of episode n: what the agent's context shows there, and then the command,
    as briefly as the grammar allows, which is the row's loss_mask; nothing where nobody acted.

    Args:
      agent: whose rows are single turns.
      states: in front of each turn, [N, T, ...]. action: i32[N, T]. acted: bool[N, T], True up to
        the last turn of each episode.
    """
    count, length = acted.shape

    def turn(memory, now):
        state, action, acted = now
        view = view_of(world, state)
        view = view._replace(acting=view.acting & acted[:, None])
        decision, memory = commanded(agent, world, memory, view, action)
        told = Turn(acted, None, view.agent, view.acting, view.acting, decision, None, None)
        return memory, told

    by_turn = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (states, action, acted))
    memory, turns = jax.lax.scan(turn, agent.init(None, count), by_turn)
    rows = text_rows(agent, turns, memory)

    def by_episode(x):
        x = jnp.swapaxes(x.reshape(length, count, *x.shape[1:]), 0, 1)
        return x.reshape(length * count, *x.shape[2:])

    return jax.tree.map(by_episode, rows)


def answered(rows: Rows, said: Tokens) -> Rows:
    """The rows [n, L] with these replies [n, G] after their prompts, in place of their own."""
    count = rows.tokens.shape[0]
    alone = rows.replace(
        stream=jnp.arange(count, dtype=jnp.int32), turn=jnp.where(rows.loss_mask, 0, -1)
    )
    return answer_rows(alone, said.tokens, said.length, (count, 1))[0]


def command_log_probs(setup: Setup, params: chex.ArrayTree, rows: Rows, said: Tokens) -> jax.Array:
    """The log-probability of each command among all commands, f32[n, A].

    log pi(a) = sum over its tokens of log pi(token), less the logarithm of the sum of pi(a) over
    the commands: what else a language policy could say does not count.

    rows: [n, L], with a reply each. said: the commands, [n, A, G].
    """
    count, actions = said.length.shape
    each = jax.tree.map(lambda x: jnp.repeat(x, actions, axis=0), rows)
    other = Tokens(*(x.reshape(count * actions, *x.shape[2:]) for x in said))
    asked = answered(each, other)
    logp = log_probs(setup.policy, params, asked, setup.microbatch, setup.lengths)
    total = jnp.sum(jnp.where(asked.loss_mask, logp, 0.0), axis=1)
    return jax.nn.log_softmax(total.reshape(count, actions))


def named(rows: Rows, said: Tokens) -> jax.Array:
    """Which of the commands [n, A, G] each row [n, L] ends in, the first of equal ones: i32[n]."""
    count, _, size = said.tokens.shape
    alone = rows.replace(stream=jnp.arange(count, dtype=jnp.int32))
    alone = alone.replace(turn=jnp.where(rows.loss_mask, 0, -1))
    tokens, length = replies(alone, (count, 1), size)
    same = (said.tokens == tokens) | (jnp.arange(size) >= said.length[..., None])
    same = jnp.all(same, axis=2) & (said.length == length)
    return jnp.argmax(same, axis=1).astype(jnp.int32)


class TextRows(NamedTuple):
    """`RowsOf` a language policy: rows of single turns, whatever its context.

    A transition is a stream of its own, `Rows.stream` is its number in the data set. asks: whether
    `probability` is read, which takes a pass over A rows per transition; else it is 0.
    """

    setup: Setup
    agent: TextAgent
    world: World
    turns: int
    actions: Actions
    asks: bool
    states: bool = True

    def told(self, data: Transitions) -> Transitions:
        """The data with `text`."""

        def by_episode(x):
            return x.reshape(-1, self.turns, *x.shape[1:])

        episodes = jax.tree.map(by_episode, (data.state, data.action, data.acted))
        return data.replace(text=written(self.agent, self.world, *episodes))

    def commands(self, turns: Transitions) -> Tokens:
        """The reply of each action, [n, A, G]."""
        return commands(self.agent, self.world, view_of(self.world, turns.state))

    def probability(self, params: chex.ArrayTree, turns: Transitions) -> jax.Array:
        """That of the actions' commands, among these, f32[n, A]."""
        if not self.asks:
            return jnp.zeros((turns.action.shape[0], self.world.env.num_actions))
        assert turns.text is not None  # `told` fills it
        logp = command_log_probs(self.setup, params, turns.text, self.commands(turns))
        return jnp.exp(logp)

    def rows(
        self, params: chex.ArrayTree, turns: Transitions, number: jax.Array, key: jax.Array
    ) -> Rows:
        """Rows [n, L] with the data's commands, or others drawn from the policy among all."""
        rows = turns.text
        assert rows is not None  # `told` fills it
        if self.actions == "policy":
            said = self.commands(turns)
            logp = command_log_probs(self.setup, params, rows, said)
            action = jax.random.categorical(key, logp)
            rows = answered(
                rows, jax.tree.map(lambda x: jax.vmap(lambda x, a: x[a])(x, action), said)
            )
        return rows.replace(stream=number.astype(jnp.int32))

    def acted(
        self, data: Transitions, rows: Rows, drawn: bool
    ) -> tuple[jax.Array, jax.Array] | None:
        """What was read as arrays, and the action whose command was written; None of episodes that
        the policy has played, whose arrays are not recorded."""
        if not drawn:
            return None
        turns = jax.tree.map(lambda x: x[rows.stream], data.replace(text=None))
        if self.actions == "data":
            return turns.observation, turns.action
        return turns.observation, named(rows, self.commands(turns))


def text_rows_by(setup: Setup, actions: Actions, asks: bool) -> TextRows:
    """How rows are made in a run with a language policy. ValueError: a context with summaries,
    which nobody has written."""
    if setup.context.limit is not None:
        raise ValueError(
            "component 'offline_values' with context 'summary': the data have no summaries; use "
            "'window', 'sliding' or 'whole'"
        )
    env, params = next(iter(setup.envs.values()))
    world, turns = World(env, params), int(params.max_steps_in_episode)
    agent = text_agent(setup.policy, world, setup.context, turns=turns, segments=True)
    return TextRows(setup, agent, world, turns, actions, asks)
