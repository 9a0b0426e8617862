"""The processes of environments in Python: what each of them shows, and the policy's memory."""

import hashlib
from collections.abc import Collection
from typing import Any

import chex
import numpy as np

from agentrl.actors.records import ObservationTokens
from agentrl.policies import codec as codecs
from agentrl.rollout.host import Host
from agentrl.rollout.host_actors import HostActor, HostView
from envs.hosted import Hosted


class Workers:
    """W processes with one environment each, from their start until `close`.

    By view, [W, S]: agent, whose view it is; acting, whether that agent decides; observation, the
    pending one. By process, [W]: begins, its view is the first of an episode; turns, taken of the
    episode; waits, of segments: it waits with an observation from the collection before. memory:
    the policy's, one row per process.
    """

    def __init__(self, env: Hosted, actor: HostActor, host: Host):
        self.env, self.actor, self.number = env, actor, host.workers
        self.pool = env.pool(host.workers, host.timeout_s)
        rows = (host.workers, env.num_acting)
        self.agent = np.zeros(rows, np.int32)
        if env.num_acting == env.num_agents:
            self.agent[:] = np.arange(env.num_agents)
        self.acting = np.zeros(rows, bool)
        self.observation = self._no_observations(rows)
        self.begins = np.ones(host.workers, bool)
        self.turns = np.zeros(host.workers, np.int32)
        self.waits = np.zeros(host.workers, bool)
        self.memory: chex.ArrayTree = None

    def _no_observations(self, rows):
        if self.actor.text is None:
            return np.zeros((*rows, *self.env.observation_shape), np.float32)
        size = self.actor.text.layout.observation_tokens
        return ObservationTokens(
            np.zeros((*rows, size), np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, bool),
            np.zeros((*rows, 2), np.uint32),
            np.zeros(rows, np.int32) if self.env.speakers > 1 else None,
        )

    def observe(self, worker: int, answer: dict[str, Any]) -> None:
        """Takes the pending observation of a process from an answer of its environment."""
        seen = answer["observation"] if self.env.simultaneous else [answer["observation"]]
        self.acting[worker] = answer.get("acting", True)
        if not self.env.simultaneous:
            self.agent[worker] = answer["seat"]
        if self.actor.text is None:
            self.observation[worker] = np.asarray(seen, np.float32)
            return
        layout, codec = self.actor.text.layout, self.actor.text.policy.codec
        for place, text in enumerate(seen):
            tokens = codecs.render_text(codec, text, layout.observation_tokens)
            digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
            anchor = np.frombuffer(digest, "<u4")
            fields = self.observation[:-1]
            for array, value in zip(fields, (*tokens, anchor), strict=True):
                array[worker, place] = value
        if self.observation.speaker is not None:
            self.observation.speaker[worker] = answer["speaker"]

    def view(self, wanted: Collection[int], episode: np.ndarray, turn: np.ndarray) -> HostView:
        """The views of some processes; in the rows of the others no agent acts.

        episode, turn: i32[W], what each process plays.
        """
        waits = np.array([row in wanted for row in range(self.number)])
        acting, begins = self.acting & waits[:, None], self.begins & waits
        return HostView(self.agent, acting, self.observation, begins, episode, turn)

    def close(self) -> None:
        """Ends the processes and their environments; the object is not used afterwards."""
        self.pool.close()
