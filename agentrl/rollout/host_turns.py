"""Episodes of an environment in Python one at a time, turn by turn."""

import chex
import jax
import numpy as np

from agentrl.actors.transcript import Composed
from agentrl.policies.generation import Given
from agentrl.rollout.host import Host
from agentrl.rollout.host_actors import HostActor
from agentrl.rollout.unroll_host import HostLoop
from envs.hosted import Hosted, HostError


class HostTurns(HostLoop):
    """A policy in words on all seats of one process, with replies that may be given instead.

    For the same seed and key an episode without given replies is that of `HostLoop.collect`.
    said: actions of the last turn, by place among the views.
    """

    def __init__(self, env: Hosted, actor: HostActor, host: Host, *, length: int):
        host = host._replace(workers=1)
        super().__init__(env, actor, host, length=length, restart=False)
        self._prompt, self._given = actor.prompt, None
        self.actor = actor._replace(act=lambda *view: actor.act(*view, given=self._given))

    def begin(self, params: chex.ArrayTree, seed: int, key: jax.Array, greedy: bool) -> None:
        """Starts the episode of a seed; `collect` with the same arguments would play it."""
        if self.pool is None:
            self._start()
        self.memory, self._given = self.actor.init(params, 1), None
        self.params, self.key, self.greedy, self.seeds = params, key, greedy, [seed]
        self._allocate(1)
        self.playing, self.begins[:], self.turns[:] = {0: 0}, True, 0
        while 0 not in self.pool.idle():
            self.pool.wait()
        self.pool.ask(0, {"op": "reset", "seed": seed})
        self._answer()

    def replying(self) -> dict[int, int]:
        """The agents that reply in the next turn, with their places among the views; {} at the
        end."""
        if not self.waiting:
            return {}
        return {int(self.agent[0, place]): place for place in np.flatnonzero(self.acting[0])}

    def prompt(self) -> Composed:
        """The prompts of the next turn, [S, ...]."""
        prompt = self._prompt(self.memory, self._shown({0}))
        return jax.tree.map(lambda x: x[0], jax.device_get(prompt))

    def step(self, given: Given | None) -> int:
        """Takes the turn; how many were taken, 0 if a context had no room for it.

        given: replies [A, ...] of single agents, which the policy reads as its own.

        Raises:
          HostError: the environment failed.
        """
        before, self._given = int(self.at[0]), given
        self._decide()
        if self.playing:
            self._answer()
        return int(self.at[0]) - before

    def _action(self, worker, decision, said):
        """As in `HostLoop`; kept by place for who shows them."""
        out = super()._action(worker, decision, said)
        self.said = out if self.env.simultaneous else [out]
        return out

    def _answer(self) -> None:
        while not (answers := self.pool.wait()):
            pass
        ((_, reply, failure),) = answers
        if reply is None:
            raise HostError(f"{self.env.name}, seed {self.seeds[0]}: {failure}")
        if self._record_step(0, 0, reply):
            self.waiting = {0}
