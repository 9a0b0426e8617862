"""Conversations as `agentrl.evaluation.conversation` has them, with an environment in Python."""

from collections.abc import Mapping

import chex
import jax
import numpy as np

from agentrl.evaluation.conversation import (
    Standing,
    Step,
    given_rows,
    no_turns,
    prompt_text,
    reply_of,
)
from agentrl.policies.generation import Given
from agentrl.rollout.host_turns import HostTurns
from agentrl.rollout.hosted import seeds_of


class HostConversation:
    """Episodes of a policy that has all seats, one after another, in one process.

    Turns cannot be taken back, and the environment does not say which commands it admits. `close`
    ends the process.
    """

    no_undo = "an environment in Python cannot take back a turn"

    def __init__(
        self, turns: HostTurns, params: chex.ArrayTree, key: jax.Array, *, greedy: bool = False
    ):
        """key: randomness of replies, as of `Rollout.play`."""
        assert turns.actor.text is not None  # of every actor in words
        self.env, self.text, self._turns = turns.env, turns.actor.text, turns
        self._params, self._key, self._greedy = params, key, greedy
        self.standing = no_turns(self.env.num_agents)

    def begin(self, task_key: jax.Array) -> None:
        """Starts the episode of a task."""
        seed = int(seeds_of(task_key[None])[0])
        self._turns.begin(self._params, seed, self._key, self._greedy)
        self.standing = no_turns(self.env.num_agents)

    def acting(self) -> list[int]:
        """The agents that reply in the next turn."""
        return list(self._turns.replying())

    def read(self, agent: int) -> str:
        """What the agent reads before its next reply, as `Conversation.read`."""
        place = self._turns.replying()[agent]
        return prompt_text(self.text, jax.tree.map(lambda x: x[place], self._turns.prompt()))

    def role(self) -> int | None:
        """The role that writes next, as `Conversation.role`."""
        return self._turns.role()

    def commands(self, agent: int) -> tuple[list[str], list[bool]]:
        """([], []): any text is a reply."""
        return [], []

    def step(self, given: Mapping[int, Given]) -> Step:
        """Takes the turn. given: replies by agent; the policy writes the others."""
        places, before = self._turns.replying(), self.standing
        rows = given_rows(given, self.env.num_agents, self.text.layout.reply_tokens)
        if not self._turns.step(rows):
            self.standing = before._replace(full=True)
            return Step({}, np.zeros(len(before.total)), np.ones(len(before.total), bool))
        record, here = self._turns.record, (before.steps, 0)
        outcome = jax.tree.map(lambda x: x[here], record.outcome)
        reward = outcome.reward.astype(np.float64)
        self.standing = Standing(
            steps=before.steps + 1,
            total=before.total + reward,
            success=before.success | outcome.success,
            offender=int(outcome.offender),
            terminated=bool(outcome.terminated),
            truncated=bool(outcome.truncated),
        )
        replies = {}
        for agent, place in places.items():
            mine = jax.tree.map(lambda x, at=(*here, place): x[at], record.decision.record)
            command = self._turns.said[place] if mine.known else None
            replies[agent] = reply_of(self.text.policy.codec, mine, command, agent in given)
        return Step(replies, reward, outcome.valid)

    def undo(self) -> bool:
        """False: see the class."""
        return False

    def close(self) -> None:
        """Ends the process; `begin` starts another one."""
        self._turns.close()
