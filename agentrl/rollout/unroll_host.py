"""The acting loop of environments in Python: the only one outside the graph.

Each process plays one episode; whenever some of them wait for a decision, the policy makes one for
each of these together. The result does not depend on timing: a decision is drawn by the key of its
episode and turn in a program of one fixed shape (`agentrl.rollout.host_actors`), and everything is
recorded at the episode's place. So the same key gives the same trajectory if the environment is
deterministic given its seed.
"""

import collections
import itertools
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Decision
from agentrl.rollout.host import Host
from agentrl.rollout.host_actors import HostActor, HostView, ReplyBytes
from agentrl.rollout.host_record import HostCollection, HostRecord
from agentrl.rollout.host_workers import Workers
from agentrl.rollout.types import Start, Trajectory
from envs.hosted import Hosted, HostError

# Seconds to wait for more processes that want a decision, once there is one.
_LINGER = 0.002
# Episodes that one process may lose in a row before a collection of segments stops.
_LOST_IN_A_ROW = 10


class Setup(NamedTuple):
    """What all collections of a loop have in common.

    length: the most turns of an episode, or the turns of a segment. restart: segments: an episode
    that ends is followed by another one in the same process, and a collection goes on where the
    previous one stopped.
    """

    env: Hosted
    actor: HostActor
    host: Host
    length: int
    restart: bool

    @property
    def max_turns(self) -> int | None:
        """Turns after which an episode of segments is truncated."""
        return self.host.max_turns if self.restart else None


class Request(NamedTuple):
    """What one collection is asked for. seeds: of each episode, or of each process's segment.
    continues: segments go on from the collection before."""

    params: chex.ArrayTree
    seeds: list[int]
    key: jax.Array
    greedy: bool
    continues: bool


class HostLoop:
    """Collections of one setup, and the processes that they share; see `Setup` for the options."""

    def __init__(self, env: Hosted, actor: HostActor, host: Host, *, length: int, restart: bool):
        self.setup = Setup(env, actor, host, length, restart)
        self.workers: Workers | None = None

    def begin(
        self, params: chex.ArrayTree, seeds: Sequence[int], key: jax.Array, *, greedy: bool = False
    ) -> "Playing":
        """A collection of which nothing is played yet; starts the processes if there are none."""
        env, actor, host, _, restart = self.setup
        continues = restart and self.workers is not None
        if self.workers is None:
            self.workers = Workers(env, actor, host)
        if not continues:
            self.workers.memory = actor.init(params, host.workers)
        seeds = [int(seed) for seed in seeds]
        return Playing(self.setup, self.workers, Request(params, seeds, key, greedy, continues))

    def collect(
        self, params: chex.ArrayTree, seeds: Sequence[int], key: jax.Array, *, greedy: bool = False
    ) -> HostCollection:
        """Plays one episode per seed to its end, or with `restart` a segment per process, whose
        seeds of episodes follow from its own.

        The processes are started if there are none, and ended after an error.

        Raises:
          HostError: every episode was lost, or the environment does not start any more.
        """
        try:
            playing = self.begin(params, seeds, key, greedy=greedy)
            playing.run()
            return playing.collected()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes; the next collection starts new ones."""
        if self.workers is not None:
            self.workers.close()
        self.workers = None


class Playing:
    """One collection while it is played.

    playing: the episode of each process that has one. waiting: processes that wait for a decision.
    actions: the last of each process, by place among its views. By episode, i32[B]: at, turns
    taken; first, the turns before it are kept whatever happens (in a segment, those of episodes
    that ended); lost, how often it was lost, and in a row. seconds: spent in the policy and waiting
    for environments. before, final: the policy's memory at both ends, where it is kept. told: the
    environment's own metrics by episode and turn, of what is not discarded.

    Metrics (Episodes):
      failed_episodes: Failed episodes [share]; environments in Python: lost episodes.
      retried_episodes: Repeated episodes [share]; environments in Python: episodes that were played
        again.
    """

    def __init__(self, setup: Setup, workers: Workers, request: Request):
        self.setup, self.workers, self.request = setup, workers, request
        batch = len(request.seeds)
        self.at, self.first, self.lost, self.lost_in_a_row = np.zeros((4, batch), np.int32)
        self.failure, self.seconds = "", [0.0, 0.0]
        self.told: list[list[dict[str, float]]] = [[] for _ in range(batch)]
        self.playing: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.actions: dict[int, list[Any]] = {}
        env, actor, length = setup.env, setup.actor, setup.length
        given = request.params, workers.memory, self.view(()), request.key
        decision, *_ = jax.eval_shape(lambda *given: actor.act(*given, request.greedy), *given)
        self.record = HostRecord(
            decision, length, batch, env.num_agents, env.num_acting, restart=setup.restart
        )
        self.before, self.final = None, None
        if actor.text is None and workers.memory is not None:
            one_each = workers.memory if setup.restart else actor.init(request.params, batch)
            self.before = jax.device_get(one_each)
        if actor.text is not None and actor.text.one_row:
            one = jax.tree.map(lambda x: np.asarray(x[:1]), workers.memory.replace(cache=None))
            self.final = jax.tree.map(lambda x: np.repeat(x, batch, axis=0), one)

    def view(self, wanted: Collection[int]) -> HostView:
        """Views of these processes; the other rows have no acting agent."""
        rows = range(self.workers.number)
        episode = np.array([self.playing.get(row, 0) for row in rows], np.int32)
        return self.workers.view(wanted, episode, self.at[episode])

    def collected(self) -> HostCollection:
        """What was played. Raises HostError if all episodes were lost."""
        # Segments go on with another task instead of playing one again.
        failed, retried = self.lost.sum(), 0
        if not self.setup.restart:
            given_up = self.lost > self.setup.host.retries
            failed, retried = given_up.sum(), ((self.lost > 0) & ~given_up).sum()
            if given_up.all():
                raise HostError(f"all {len(self.at)} episodes were lost; the last: {self.failure}")
        metrics = {
            "failed_episodes": failed,
            "retried_episodes": retried,
            "time/generation": self.seconds[0],
            "time/environment": self.seconds[1],
        }
        metrics = {name: jnp.array([x, 1], jnp.float32) for name, x in metrics.items()}
        turns = list(itertools.chain.from_iterable(self.told))
        told = {n: [turn[n] for turn in turns if n in turn] for n in self.setup.env.metrics}
        metrics |= {f"env/{n}": jnp.array([sum(x), len(x)], jnp.float32) for n, x in told.items()}
        first, final = (Start(None, None, (memory,)) for memory in (self.before, self.final))
        trajectory = Trajectory(self.record.turns(), first, final)
        return HostCollection(trajectory, self.record.bootstrap, metrics, self.request.continues)

    def run(self) -> None:
        """Plays all episodes, or all segments, to their ends."""
        workers, pool, restart = self.workers, self.workers.pool, self.setup.restart
        to_play = collections.deque(range(len(self.at)))
        if restart:
            for worker in range(workers.number):
                self.playing[worker] = worker
            self.waiting = set(np.flatnonzero(workers.waits).tolist())
            to_play.clear()
        resets = set(self.playing) - self.waiting
        while to_play or self.playing:
            for worker in pool.idle():
                if to_play and worker not in self.playing:
                    self.playing[worker] = to_play.popleft()
                    resets.add(worker)
                if worker in resets:
                    resets.remove(worker)
                    pool.ask(worker, {"op": "reset", "seed": self._seed(worker)})
            answers = self._answers(resets)
            for worker, reply, failure in answers:
                episode = self.playing[worker]
                if reply is None:
                    again = self._discard(episode, failure)
                    if restart:
                        resets.add(worker)
                        continue
                    del self.playing[worker]
                    if again:
                        to_play.append(episode)
                elif self.record_step(worker, episode, reply):
                    self.waiting.add(worker)
                elif restart and self.at[episode] < self.setup.length:
                    resets.add(worker)
                else:
                    self._finish(worker, episode)
            if self.waiting and not answers:
                self.decide()

    def _seed(self, worker: int) -> int:
        """The seed of the episode that begins, 31 bits."""
        episode = self.playing[worker]
        if not self.setup.restart:
            return self.request.seeds[episode]
        parts = [self.request.seeds[episode], int(self.at[episode]), int(self.lost[episode])]
        return int(np.random.SeedSequence(parts).generate_state(1)[0] >> 1)

    def _answers(self, resets: set[int]) -> list[Any]:
        """Answers of the environments; waits only as long as no process waits for a decision."""
        busy = len(self.playing) > len(self.waiting) or resets
        if self.waiting and not busy:
            return []
        before = time.perf_counter()
        answers = self.workers.pool.wait(_LINGER if self.waiting else None)
        self.seconds[1] += time.perf_counter() - before
        return answers

    def record_step(self, worker: int, episode: int, answer: dict[str, Any]) -> bool:
        """Records an answer; whether the process waits for a decision now."""
        workers, outcome, ended = self.workers, self.record.outcome, False
        if "reward" in answer:
            at, in_words = self.at[episode], self.setup.actor.text is not None
            self.record.outcome_of(at, episode, answer, in_words=in_words)
            self.told[episode].append(answer.get("metrics", {}))
            workers.turns[worker] += 1
            if workers.turns[worker] == self.setup.max_turns and not answer["terminated"]:
                outcome.truncated[at, episode] = True
            ended = bool(outcome.terminated[at, episode] | outcome.truncated[at, episode])
            self.at[episode] += 1
            self.lost_in_a_row[episode] = 0
            self.first[episode] = self.at[episode] if ended else self.first[episode]
        else:
            workers.begins[worker], workers.turns[worker] = True, 0
        workers.observe(worker, answer)
        full = self.at[episode] == self.setup.length
        if full and not ended and not self.setup.restart:
            outcome.truncated[-1, episode] = True
        cut = ended and outcome.truncated[self.at[episode] - 1, episode]
        if (full and not ended) or cut:
            self._bootstrap(worker, episode)
        if self.setup.restart:
            workers.waits[worker] = not ended
        return not ended and not full

    def decide(self) -> None:
        """Decides for all processes that wait, and passes the actions on."""
        workers, request = self.workers, self.request
        before = time.perf_counter()
        decision, said, workers.memory = self.setup.actor.act(
            request.params, workers.memory, self.view(self.waiting), request.key, request.greedy
        )
        decision, said = jax.device_get((decision, said))
        self.seconds[0] += time.perf_counter() - before
        for worker in sorted(self.waiting):
            episode = self.playing[worker]
            at, began = self.at[episode], workers.begins[worker]
            workers.begins[worker] = False
            full = self.record.decision.full
            if full is not None and decision.full[worker].any():
                # The turn does not take place, and the one before it is the last.
                self.record.outcome.truncated[at - 1, episode] = True
                full[at - 1, episode] = decision.full[worker]
                self._bootstrap(worker, episode)
                self._finish(worker, episode)
                continue
            one = jax.tree.map(lambda x, row=worker: x[row], decision)
            agent, acting = workers.agent[worker], workers.acting[worker]
            self.record.decided(at, episode, one, agent, acting, began)
            actions = self.actions[worker] = self._actions(worker, decision, said)
            action = actions if self.setup.env.simultaneous else actions[0]
            workers.pool.ask(worker, {"op": "step", "action": action})
        self.waiting.clear()

    def _actions(self, worker: int, decision: Decision, said: ReplyBytes | None) -> list[Any]:
        """The actions of the agents that act, by place among the views; None for the others."""
        out: list[Any] = [None] * self.setup.env.num_acting
        for place in np.flatnonzero(self.workers.acting[worker]):
            if said is None:
                out[place] = decision.action[worker, place].tolist()
            else:
                start, end = said.start[worker, place], said.end[worker, place]
                data = said.text[worker, place, start:end].tobytes()
                out[place] = data.decode("utf-8", errors="replace").strip()
        return out

    def _bootstrap(self, worker: int, episode: int) -> None:
        """The critic's value of the agents' views in a process, if they are available.

        In turn-based games only the next agent has a view, so a truncated match has value 0.
        """
        actor, memory = self.setup.actor, self.workers.memory
        if actor.value is None or self.setup.env.in_turns:
            return
        value = actor.value(self.request.params, memory, self.view({worker}))
        here = (self.at[episode] - 1, episode) if self.setup.restart else episode
        self.record.bootstrap[here] = np.asarray(value)[worker]

    def _finish(self, worker: int, episode: int) -> None:
        """The episode, or the segment, is done."""
        del self.playing[worker]
        if self.final is not None:
            memory = self.workers.memory.replace(cache=None)
            for array, row in zip(
                jax.tree.leaves(self.final), jax.tree.leaves(memory), strict=True
            ):
                array[episode] = np.asarray(row[worker])

    def _discard(self, episode: int, failure: str) -> bool:
        """Forgets an episode that was lost; whether to play it again."""
        at, first = self.at[episode], self.first[episode]
        self.failure = f"seed {self.request.seeds[episode]}, turn {at + 1}: {failure}"
        self.record.forget(episode, first)
        del self.told[episode][first:]
        self.lost[episode] += 1
        self.lost_in_a_row[episode] += 1
        if self.setup.restart:
            if self.lost_in_a_row[episode] > _LOST_IN_A_ROW:
                raise HostError(f"{_LOST_IN_A_ROW} episodes in a row were lost; {self.failure}")
            self.at[episode] = first
            return True
        self.at[episode] = 0
        return self.lost[episode] <= self.setup.host.retries
