"""Episodes of an environment in Python one at a time, turn by turn."""

from typing import Any

import chex
import jax
import numpy as np

from agentrl.actors.transcript import Composed
from agentrl.policies.generation import Given
from agentrl.rollout.host import Host
from agentrl.rollout.host_actors import HostActor
from agentrl.rollout.host_record import HostRecord
from agentrl.rollout.unroll_host import HostLoop, Playing
from envs.hosted import Hosted, HostError


class HostTurns:
    """A policy in words on all seats of one process, with replies that may be given instead.

    For the same seed and key an episode without given replies is that of `HostLoop.collect`.
    """

    def __init__(self, env: Hosted, actor: HostActor, host: Host, *, length: int):
        assert actor.prompt is not None  # of every actor in words
        self.env, self._prompt = env, actor.prompt
        self._given: Given | None = None
        self.actor = actor._replace(act=lambda *view: actor.act(*view, given=self._given))
        host = host._replace(workers=1)
        self._loop = HostLoop(env, self.actor, host, length=length, restart=False)
        self._begun: Playing | None = None

    @property
    def _playing(self) -> Playing:
        """The episode that was begun last."""
        if self._begun is None:
            raise RuntimeError("no episode: call begin() first")
        return self._begun

    @property
    def record(self) -> HostRecord:
        """What has happened in the episode so far."""
        return self._playing.record

    @property
    def said(self) -> list[Any]:
        """The actions of the last turn, by place among the views."""
        return self._playing.actions[0]

    def begin(self, params: chex.ArrayTree, seed: int, key: jax.Array, greedy: bool) -> None:
        """Starts the episode of a seed; `collect` with the same arguments would play it."""
        self._given = None
        self._begun = playing = self._loop.begin(params, [seed], key, greedy=greedy)
        playing.playing[0] = 0
        pool = playing.workers.pool
        while 0 not in pool.idle():
            pool.wait()
        pool.ask(0, {"op": "reset", "seed": seed})
        self._answer()

    def replying(self) -> dict[int, int]:
        """The agents that reply in the next turn, with their places among the views; {} at the
        end."""
        if not self._playing.waiting:
            return {}
        workers = self._playing.workers
        places = np.flatnonzero(workers.acting[0]).tolist()
        return {int(workers.agent[0, place]): place for place in places}

    def role(self) -> int | None:
        """The role that replies next, where several write one transcript; None elsewhere."""
        speaker = self._playing.workers.observation.speaker
        return None if speaker is None else int(speaker[0, 0])

    def prompt(self) -> Composed:
        """The prompts of the next turn, [S, ...]."""
        prompt = self._prompt(self._playing.workers.memory, self._playing.view({0}))
        return jax.tree.map(lambda x: x[0], jax.device_get(prompt))

    def step(self, given: Given | None) -> int:
        """Takes the turn; how many were taken, 0 if a context had no room for it.

        given: replies [A, ...] of single agents, which the policy reads as its own.

        Raises:
          HostError: the environment failed.
        """
        before, self._given = int(self._playing.at[0]), given
        self._playing.decide()
        if self._playing.playing:
            self._answer()
        return int(self._playing.at[0]) - before

    def close(self) -> None:
        """Ends the process; `begin` starts another one."""
        self._loop.close()

    def _answer(self) -> None:
        playing = self._playing
        while not (answers := playing.workers.pool.wait()):
            pass
        ((_, reply, failure),) = answers
        if reply is None:
            seed = playing.request.seeds[0]
            raise HostError(f"{self.env.name}, seed {seed}: {failure}")
        if playing.record_step(0, 0, reply):
            playing.waiting.add(0)
