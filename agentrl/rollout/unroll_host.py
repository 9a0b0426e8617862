"""The acting loop of environments in Python: the only one outside the graph.

Each process plays one episode; whenever some of them wait for a decision, the policy makes one for
each of these together. The result does not depend on timing: a decision is drawn by the key of its
episode and turn in a program of one fixed shape (`agentrl.rollout.host_actors`), and everything is
recorded at the episode's place. So the same key gives the same trajectory if the environment is
deterministic given its seed.
"""

import collections
import hashlib
import time
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.records import Observed
from agentrl.actors.types import Decision
from agentrl.policies import codec as codecs
from agentrl.rollout.host import Host
from agentrl.rollout.host_actors import HostActor, Said, Shown
from agentrl.rollout.host_record import Collected, HostRecord
from agentrl.rollout.types import Start, Trajectory
from envs.hosted import Hosted, HostError, Pool

# Seconds to wait for more processes that want a decision, once there is one.
_LINGER = 0.002
# Episodes that one process may lose in a row before a collection of segments stops.
_LOST_IN_A_ROW = 10


class HostLoop:
    """Processes with one environment each, the policy's memory, and the pending views.

    With `restart` an episode that ends is followed by another one in the same process, and
    collections continue where the previous one stopped.
    """

    def __init__(self, env: Hosted, actor: HostActor, host: Host, *, length: int, restart: bool):
        self.env, self.actor, self.host = env, actor, host
        self.workers, self.length, self.restart = host.workers, length, restart
        # Turns after which an episode of segments is truncated.
        self.max_turns = host.max_turns if restart else None
        self.agents, self.shown = env.num_agents, env.num_acting
        self.pool: Pool | None = None

    def _start(self) -> None:
        self.pool = self.env.pool(self.workers, self.host.timeout_s)
        rows, workers = (self.workers, self.shown), self.workers
        self.agent = np.zeros(rows, np.int32)
        if self.shown == self.agents:
            self.agent[:] = np.arange(self.agents)
        self.acting = np.zeros(rows, bool)
        self.begins = np.ones(workers, bool)
        self.observation = self._no_observations(rows)
        # Of segments: the process waits with an observation from the collection before.
        self.waits = np.zeros(workers, bool)
        self.turns = np.zeros(workers, np.int32)
        self.memory: Any = None
        self.started = False

    def _no_observations(self, rows):
        if self.actor.speaker is None:
            return np.zeros((*rows, *self.env.observation_shape), np.float32)
        size = self.actor.speaker.layout.observation_tokens
        return Observed(
            np.zeros((*rows, size), np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, bool),
            np.zeros((*rows, 2), np.uint32),
        )

    def collect(
        self, params: chex.ArrayTree, seeds: Sequence[int], key: jax.Array, *, greedy: bool = False
    ) -> Collected:
        """Plays one episode per seed to its end, or with `restart` a segment per process, whose
        seeds of episodes follow from its own.

        The processes are started if there are none, and ended after an error.

        Raises:
          HostError: every episode was lost, or the environment does not start any more.
        """
        if self.pool is None:
            self._start()
        try:
            return self._collect(params, seeds, key, greedy)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes; the next collection starts new ones."""
        if self.pool is not None:
            self.pool.close()
        self.pool = None

    def _collect(self, params, seeds, key, greedy) -> Collected:
        continues, self.started = self.started and self.restart, True
        if not continues:
            self.memory = self.actor.init(params, self.workers)
        self.before = None
        if self.actor.speaker is None and self.memory is not None:
            one_each = self.memory if self.restart else self.actor.init(params, len(seeds))
            self.before = jax.device_get(one_each)
        self.params, self.key, self.greedy = params, key, greedy
        self.seeds = [int(seed) for seed in seeds]
        self._allocate(len(self.seeds))
        self._run()
        # Segments go on with another task instead of playing one again.
        failed, retried = self.lost.sum(), 0
        if not self.restart:
            given_up = self.lost > self.host.retries
            failed, retried = given_up.sum(), ((self.lost > 0) & ~given_up).sum()
            if given_up.all():
                raise HostError(f"all {len(seeds)} episodes were lost; the last: {self.failure}")
        metrics = {
            "failed_episodes": failed,
            "retried_episodes": retried,
            "time/generation": self.seconds[0],
            "time/environment": self.seconds[1],
        }
        metrics = {name: jnp.array([x, 1], jnp.float32) for name, x in metrics.items()}
        first, final = (Start(None, None, (memory,)) for memory in (self.before, self.final))
        trajectory = Trajectory(self.record.turns(), first, final)
        return Collected(trajectory, self.record.bootstrap, metrics, continues)

    def _allocate(self, batch: int) -> None:
        """The arrays and counts of a collection."""
        self.at, self.first, self.lost, self.lost_in_a_row = np.zeros((4, batch), np.int32)
        self.failure, self.seconds = "", [0.0, 0.0]
        self.playing: dict[int, int] = {}
        self.waiting: set[int] = set()
        given = self.params, self.memory, self._shown(()), self.key
        decision, *_ = jax.eval_shape(lambda *given: self.actor.act(*given, self.greedy), *given)
        self.record = HostRecord(
            decision, self.length, batch, self.agents, self.shown, restart=self.restart
        )
        speaker, self.final = self.actor.speaker, None
        if speaker is not None and speaker.one_row:
            one = jax.tree.map(lambda x: np.asarray(x[:1]), self.memory.replace(cache=None))
            self.final = jax.tree.map(lambda x: np.repeat(x, batch, axis=0), one)

    def _run(self) -> None:
        to_play = collections.deque(range(len(self.seeds)))
        if self.restart:
            for worker in range(self.workers):
                self.playing[worker] = worker
            self.waiting = set(np.flatnonzero(self.waits).tolist())
            to_play.clear()
        resets = set(self.playing) - self.waiting
        while to_play or self.playing:
            for worker in self.pool.idle():
                if to_play and worker not in self.playing:
                    self.playing[worker] = to_play.popleft()
                    resets.add(worker)
                if worker in resets:
                    resets.remove(worker)
                    self.pool.ask(worker, {"op": "reset", "seed": self._seed(worker)})
            answers = self._answers(resets)
            for worker, reply, failure in answers:
                episode = self.playing[worker]
                if reply is None:
                    again = self._discard(episode, failure)
                    if self.restart:
                        resets.add(worker)
                        continue
                    del self.playing[worker]
                    if again:
                        to_play.append(episode)
                elif self._record_step(worker, episode, reply):
                    self.waiting.add(worker)
                elif self.restart and self.at[episode] < self.length:
                    resets.add(worker)
                else:
                    self._finish(worker, episode)
            if self.waiting and not answers:
                self._decide()

    def _seed(self, worker: int) -> int:
        """The seed of the episode that begins, 31 bits."""
        episode = self.playing[worker]
        if not self.restart:
            return self.seeds[episode]
        parts = [self.seeds[episode], int(self.at[episode]), int(self.lost[episode])]
        return int(np.random.SeedSequence(parts).generate_state(1)[0] >> 1)

    def _answers(self, resets: set[int]) -> list[Any]:
        """Answers of the environments; waits only as long as no process waits for a decision."""
        busy = len(self.playing) > len(self.waiting) or resets
        if self.waiting and not busy:
            return []
        before = time.perf_counter()
        answers = self.pool.wait(_LINGER if self.waiting else None)
        self.seconds[1] += time.perf_counter() - before
        return answers

    def _record_step(self, worker: int, episode: int, answer: dict[str, Any]) -> bool:
        """Records an answer; whether the process waits for a decision now."""
        ended = False
        if "reward" in answer:
            at = self.at[episode]
            self.record.outcome_of(at, episode, answer, in_words=self.actor.speaker is not None)
            self.turns[worker] += 1
            if self.turns[worker] == self.max_turns and not answer["terminated"]:
                self.record.outcome.truncated[at, episode] = True
            ended = bool(
                self.record.outcome.terminated[at, episode]
                | self.record.outcome.truncated[at, episode]
            )
            self.at[episode] += 1
            self.lost_in_a_row[episode] = 0
        else:
            self.begins[worker], self.first[episode] = True, self.at[episode]
            self.turns[worker] = 0
        self._observe(worker, answer)
        full = self.at[episode] == self.length
        if full and not ended and not self.restart:
            self.record.outcome.truncated[-1, episode] = True
        cut = ended and self.record.outcome.truncated[self.at[episode] - 1, episode]
        if (full and not ended) or cut:
            self._bootstrap(worker, episode)
        if self.restart:
            self.waits[worker] = not ended
        return not ended and not full

    def _observe(self, worker: int, answer: dict[str, Any]) -> None:
        """Records the pending observation of the process."""
        seen = answer["observation"] if self.env.simultaneous else [answer["observation"]]
        self.acting[worker] = answer.get("acting", True)
        if not self.env.simultaneous:
            self.agent[worker] = answer["seat"]
        if self.actor.speaker is None:
            self.observation[worker] = np.asarray(seen, np.float32)
            return
        layout, codec = self.actor.speaker.layout, self.actor.speaker.policy.codec
        for place, text in enumerate(seen):
            tokens = codecs.render_text(codec, text, layout.observation_tokens)
            digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
            anchor = np.frombuffer(digest, "<u4")
            for array, value in zip(self.observation, (*tokens, anchor), strict=True):
                array[worker, place] = value

    def _shown(self, workers) -> Shown:
        """Views of these processes; the other rows have no acting agent."""
        rows = range(self.workers)
        waits = np.array([row in workers for row in rows])
        episode = np.array([self.playing.get(row, 0) for row in rows], np.int32)
        turn, acting = self.at[episode], self.acting & waits[:, None]
        return Shown(self.agent, acting, self.observation, self.begins & waits, episode, turn)

    def _decide(self) -> None:
        """Decides for all processes that wait, and passes the actions on."""
        before = time.perf_counter()
        decision, said, self.memory = self.actor.act(
            self.params, self.memory, self._shown(self.waiting), self.key, self.greedy
        )
        decision, said = jax.device_get((decision, said))
        self.seconds[0] += time.perf_counter() - before
        for worker in sorted(self.waiting):
            episode = self.playing[worker]
            at, began = self.at[episode], self.begins[worker]
            self.begins[worker] = False
            if decision.full is not None and decision.full[worker].any():
                self._stop_full(worker, episode, at)
                continue
            one = jax.tree.map(lambda x, row=worker: x[row], decision)
            self.record.decided(at, episode, one, self.agent[worker], self.acting[worker], began)
            self.pool.ask(worker, {"op": "step", "action": self._action(worker, decision, said)})
        self.waiting.clear()

    def _stop_full(self, worker: int, episode: int, at: int) -> None:
        """The context is full: the turn does not take place, and the one before is the last."""
        self.record.outcome.truncated[at - 1, episode] = True
        self._bootstrap(worker, episode)
        self._finish(worker, episode)

    def _action(self, worker: int, decision: Decision, said: Said | None) -> Any:
        """The action of the agent that acts, or one per agent where all act at once."""
        out: list[Any] = [None] * self.shown
        for place in np.flatnonzero(self.acting[worker]):
            if said is None:
                out[place] = decision.action[worker, place].tolist()
            else:
                start, end = said.start[worker, place], said.end[worker, place]
                data = said.text[worker, place, start:end].tobytes()
                out[place] = data.decode("utf-8", errors="replace").strip()
        return out if self.env.simultaneous else out[0]

    def _bootstrap(self, worker: int, episode: int) -> None:
        """The critic's value of the agents' views in a process, if they are available.

        In turn-based games only the next agent has a view, so a truncated match has value 0.
        """
        if self.actor.value is None or self.env.in_turns:
            return
        value = self.actor.value(self.params, self.memory, self._shown({worker}))
        here = (self.at[episode] - 1, episode) if self.restart else episode
        self.record.bootstrap[here] = np.asarray(value)[worker]

    def _finish(self, worker: int, episode: int) -> None:
        """The episode, or the segment, is done."""
        del self.playing[worker]
        if self.final is not None:
            memory = self.memory.replace(cache=None)
            for array, row in zip(
                jax.tree.leaves(self.final), jax.tree.leaves(memory), strict=True
            ):
                array[episode] = np.asarray(row[worker])

    def _discard(self, episode: int, failure: str) -> bool:
        """Forgets an episode that was lost; whether to play it again."""
        at, first = self.at[episode], self.first[episode]
        self.failure = f"seed {self.seeds[episode]}, turn {at + 1}: {failure}"
        self.record.forget(episode, first)
        self.lost[episode] += 1
        self.lost_in_a_row[episode] += 1
        if self.restart:
            if self.lost_in_a_row[episode] > _LOST_IN_A_ROW:
                raise HostError(f"{_LOST_IN_A_ROW} episodes in a row were lost; {self.failure}")
            self.at[episode] = first
            return True
        self.at[episode] = 0
        return self.lost[episode] <= self.host.retries
