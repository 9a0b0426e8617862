"""Host rollouts: a language policy acts in environments outside JAX, each in its own process."""

import collections
import hashlib
import time
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import codec as codecs
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.contexts import OBSERVED, REPLIED, Layout, Transcript
from agentrl.rollout.episodes import check_groups
from agentrl.rollout.replies import Asked, Replies, Reply
from agentrl.rollout.talk import check_roles
from agentrl.rollout.turns import Turns, metrics_of, rows_of, streams_of
from agentrl.rollout.types import Rollout
from envs.hosted import Hosted, HostError, Pool

# Seconds to wait for more who want a reply, once there is one.
_LINGER = 0.002


def host(
    policy: LanguagePolicy,
    env: Hosted,
    env_params: None,
    *,
    num_groups: int = 8,
    group_size: int = 4,
    max_turns: int = 16,
    max_new_tokens: int = 16,
    observation_tokens: int = 1024,
    context: str = "window",
    history: int | None = 0,
    keep_first: bool = False,
    context_tokens: int | None = None,
    workers: int = 4,
    timeout_s: float = 60.0,
    retries: int = 1,
) -> Rollout:
    """Rollout of num_groups * group_size episodes of an environment in Python.

    `workers` processes play an episode each, and then the next; whenever some of them wait for a
    reply, the policy writes one for each of these together. What is learnt from does not depend on
    who answers when: a reply is drawn by the key of its episode and turn, in a program of one fixed
    shape, and everything stands at its episode's place. So the same key gives the same streams as
    far as the environment, given its seed, does the same.

    Members of a group share the environment's seed, and so its chance too as long as they act
    alike; they differ in the keys of their replies.

    An episode is lost if its environment raises, ends its process, sends nonsense or takes longer
    than `timeout_s` for an answer. It is then played again from its start, up to `retries` times,
    in a new process. If that does not help it is left out: its streams have no turn, metric
    `failed_episodes` counts it, and in an evaluation its return and length are 0. Episodes that
    fail for a reason are missing for a reason: what leads an environment to fail is never punished.

    Args:
      max_turns: turns T of an episode, of all seats together; longer ones are truncated.
      max_new_tokens: tokens G of a reply. What it says so far is done where it is cut there, but
        it is not valid, as in `conversation`.
      observation_tokens: tokens O of an observation; a longer one loses its beginning.
      context, history, keep_first, context_tokens: as in `conversation`. By default each turn is
        read by itself, as fits environments whose observations say everything; of games it must be.
      workers: processes, and rows W of the compiled programs.
      timeout_s: seconds for an answer; retries: see above.

    The rollout runs on the host: `collect` and `play` are not for `jax.jit`. `close` ends the
    processes. Streams: N = num_groups * group_size for each seat, T = max_turns, as `conversation`;
    GiGPO's anchor is the observation. A game is played by the policy on all seats, for evaluation
    too.

    Raises:
      ValueError: options that do not fit. `collect` and `play` raise HostError where every episode
        was lost, or the environment does not start any more.
    """
    check_groups(num_groups, group_size)
    for name, given, least in (
        ("max_turns", max_turns, 1),
        ("max_new_tokens", max_new_tokens, 1),
        ("workers", workers, 1),
        ("retries", retries, 0),
    ):
        if given < least:
            raise ValueError(f"rollout {name}={given}: expected at least {least}")
    if timeout_s <= 0:
        raise ValueError(f"rollout timeout_s={timeout_s}: expected more than 0 seconds")
    codec, seats = policy.codec, env.num_agents
    check_roles(policy, env, seats)
    if codec.encode is None:
        raise ValueError(
            f"policy codec={codec.name!r} with {env.name}, whose text may be anything: use 'byte'"
        )
    if policy.constrained:
        raise ValueError(
            f"policy constrained=True with {env.name}, whose legal commands are not known: set "
            "False"
        )
    if policy.grammar.max_actions > 1:
        raise ValueError(
            f"policy grammar={policy.grammar.name!r} with {env.name}: it takes one action a turn; "
            "set policy.max_actions=1"
        )
    if seats > 1 and (context != "window" or history != 0):
        raise ValueError(
            f"rollout context={context!r}, history={history} with {env.name}: of games each turn "
            "is read by itself; use context='window' and history=0"
        )
    least = len(codec.before) + len(codec.after) + 1
    if observation_tokens < least:
        raise ValueError(
            f"rollout observation_tokens={observation_tokens}: expected at least {least}"
        )
    layout = Layout(
        context,
        turns=max_turns,
        history=history,
        keep_first=keep_first,
        observation_tokens=observation_tokens,
        reply_tokens=max_new_tokens,
        omitted=(*codec.before, *codec.after),
        opening=codec.opening,
        before=codec.before,
    )
    longest = layout.longest()
    size = longest if context_tokens is None else min(context_tokens, longest)
    if size < observation_tokens + max_new_tokens:
        raise ValueError(
            f"rollout context_tokens={context_tokens}: one turn takes "
            f"{observation_tokens + max_new_tokens} ({observation_tokens} to read, "
            f"{max_new_tokens} to write)"
        )
    replies = Replies(policy, layout, rows=workers, context_tokens=size)
    open_pool: list[Pool] = []

    def close() -> None:
        while open_pool:
            open_pool.pop().close()

    def played(params, seeds, key, greedy):
        if not open_pool:
            open_pool.append(env.pool(workers, timeout_s))
        show = _Show(env, replies, open_pool[0], retries, [int(seed) for seed in seeds])
        try:
            show.run(params, key, greedy)
        except BaseException:
            # What the processes are doing is of no use to anybody any more.
            close()
            raise
        return show

    @jax.jit
    def settle(transcript, turns, group, bootstrap):
        streams = streams_of(turns, group, bootstrap)
        return (
            streams,
            rows_of(layout, transcript, turns, size),
            metrics_of(streams, turns, env.has_success),
        )

    def outcome(show: "_Show", group):
        transcript = Transcript(show.tokens, show.lengths)
        bootstrap = show.bootstrap if policy.has_critic else None
        turns = Turns(replied=show.turns["running"], **show.turns)
        if policy.grammar.think == "none":
            turns = turns.replace(thinks=None)
        return settle(transcript, turns, group, bootstrap)

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        seeds = np.repeat(_seeds(jax.random.split(task_key, num_groups)), group_size)
        show = played(params, seeds, act_key, False)
        group = np.repeat(np.arange(num_groups, dtype=np.int32), group_size)
        streams, rows, metrics = outcome(show, group)
        return state, streams, rows, metrics | show.metrics()

    def play(params, task_keys, key, greedy):
        show = played(params, _seeds(task_keys), key, greedy)
        streams, rows, _ = outcome(show, None)
        return streams, rows

    provides = {"reward", "mask", "group", "episode", "anchor", "cost", "well_formed"}
    provides |= {"terminated", "truncated", "valid", "success"}
    if seats > 1:
        provides |= {"role", "task"}
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    count = num_groups * group_size
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=count * seats,
        turns=max_turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(provides),
        properties=frozenset(
            {"whole_episodes", "one_end", "tokens_as_cost"} | (set() if seats > 1 else {"team"})
        ),
        num_rows=count if context == "whole" else count * max_turns,
        roles=seats,
        play=play,
        on_host=True,
        close=close,
    )


def _seeds(task_keys: jax.Array) -> np.ndarray:
    """A seed of 31 bits for each task's key."""
    bits = jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(task_keys)
    return np.asarray(bits >> 1)


class _Show:
    """One collection: episodes, the workers that play them, and what happened so far.

    Everything is written at the episode's place, [B] or [T, B], as `Turns` and `Transcript` say.
    """

    def __init__(self, env: Hosted, replies: Replies, pool: Pool, retries: int, seeds: list[int]):
        layout, policy = replies.layout, replies.policy
        self.replies, self.pool, self.retries, self.seeds = replies, pool, retries, seeds
        batch, length, size = len(seeds), layout.turns, layout.reply_tokens
        self.seats, self.codec = env.num_agents, policy.codec
        empty = layout.empty(batch)
        self.tokens, self.lengths = (np.array(x) for x in (empty.tokens, empty.lengths))
        by_seat = () if self.seats == 1 else (self.seats,)

        def zeros(dtype, *shape):
            return np.zeros((length, batch, *shape), dtype)

        flags = ("running", "ended", "cut", "well_formed", "known", "valid", "thinks")
        self.turns = {name: zeros(bool) for name in (*flags, "terminated", "truncated")}
        self.turns |= {"seat": zeros(np.int32), "length": zeros(np.int32)}
        self.turns |= {"logp": zeros(np.float32, size), "entropy": zeros(np.float32, size)}
        self.turns |= {"value": zeros(np.float32), "anchor": zeros(np.uint32, 2)}
        self.turns |= {"reward": zeros(np.float32, *by_seat), "success": zeros(bool, *by_seat)}
        self.turns["offender"] = np.full((length, batch), -1, np.int32)
        self.turns["kept"] = None
        if policy.cuts:
            self.turns["kept"] = zeros(bool, size, policy.config.vocab_size) | True
        # In games only the next seat to move is told anything: a match that a limit cuts is worth 0
        # to all from there.
        self.bootstrap = np.zeros((batch, *by_seat), np.float32)
        self.at = np.zeros(batch, np.int32)
        self.lost = np.zeros(batch, np.int32)
        self.failure = ""
        self.playing: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.seconds = {"time/generation": 0.0, "time/environment": 0.0}

    def run(self, params: chex.ArrayTree, key: jax.Array, greedy: bool) -> None:
        """Plays all episodes to their end."""
        memory = self.replies.memory()
        to_play = collections.deque(range(len(self.seeds)))
        while to_play or self.playing:
            for worker in self.pool.idle():
                if to_play and worker not in self.playing:
                    self.playing[worker] = to_play.popleft()
                    seed = self.seeds[self.playing[worker]]
                    self.pool.ask(worker, {"op": "reset", "seed": seed})
            answers = self._answers()
            for worker, reply, failure in answers:
                episode = self.playing[worker]
                if reply is None:
                    del self.playing[worker]
                    if self._lose(episode, failure):
                        to_play.append(episode)
                elif self._hear(episode, reply):
                    self.waiting.add(worker)
                else:
                    self._finish(params, memory, worker)
            if self.waiting and not answers:
                memory = self._reply(params, memory, key, greedy)
        if (self.lost > self.retries).all():
            raise HostError(f"all {len(self.seeds)} episodes were lost; the last: {self.failure}")

    def metrics(self) -> dict[str, jax.Array]:
        """Totals and weights: episodes that are left out, and that were played again; seconds."""
        counts = {
            "failed_episodes": np.sum(self.lost > self.retries),
            "retried_episodes": np.sum((self.lost > 0) & (self.lost <= self.retries)),
            **self.seconds,
        }
        return {name: jnp.array([count, 1], jnp.float32) for name, count in counts.items()}

    def _answers(self):
        """Answers of the environments; waits for them only as long as nobody waits for us."""
        busy = len(self.playing) > len(self.waiting)
        if self.waiting and not busy:
            return []
        before = time.perf_counter()
        answers = self.pool.wait(_LINGER if self.waiting else None)
        self.seconds["time/environment"] += time.perf_counter() - before
        return answers

    def _hear(self, episode: int, answer: dict[str, Any]) -> bool:
        """Writes down what the environment says; whether the episode goes on."""
        at = self.at[episode]
        ended = False
        if "reward" in answer:
            turns, here = self.turns, (at, episode)
            turns["known"][here] = answer["valid"]
            turns["valid"][here] &= answer["valid"]
            turns["reward"][here] = answer["reward"] if self.seats > 1 else answer["reward"][0]
            turns["success"][here] = answer["success"] if self.seats > 1 else answer["success"][0]
            turns["terminated"][here] = answer["terminated"]
            turns["truncated"][here] = answer["truncated"] and not answer["terminated"]
            turns["offender"][here] = answer["offender"]
            ended = answer["terminated"] or answer["truncated"]
            at += 1
            self.at[episode] = at
        # There is a place for what follows the last turn.
        text = answer["observation"]
        observed = codecs.render_text(self.codec, text, self.replies.layout.observation_tokens)
        self.tokens[episode, at, : len(observed.tokens)] = observed.tokens
        self.lengths[episode, at, OBSERVED] = observed.length
        limit = len(self.turns["running"])
        if at < limit:
            self.turns["cut"][at, episode] = observed.cut
            self.turns["seat"][at, episode] = answer["seat"]
            digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
            self.turns["anchor"][at, episode] = np.frombuffer(digest, "<u4")
        elif not ended:
            self.turns["truncated"][at - 1, episode] = True
        return at < limit and not ended

    def _reply(self, params, memory, key, greedy):
        """Replies to all that wait, and passes their actions on."""
        before = time.perf_counter()
        memory, reply = self.replies.reply(params, memory, self._asked(self.waiting), key, greedy)
        self.seconds["time/generation"] += time.perf_counter() - before
        for worker in sorted(self.waiting):
            episode = self.playing[worker]
            at = self.at[episode]
            if not reply.fits[worker]:
                # The context is full: the turn does not take place, and the one before is the last.
                self.turns["truncated"][at - 1, episode] = True
                self._finish(params, memory, worker)
                continue
            self._note(episode, at, worker, reply)
            action = reply.text[worker, reply.start[worker] : reply.end[worker]].tobytes()
            action = action.decode("utf-8", errors="replace").strip()
            self.pool.ask(worker, {"op": "step", "action": action})
        self.waiting.clear()
        return memory

    def _note(self, episode: int, at: int, worker: int, reply: Reply) -> None:
        here, turns = (at, episode), self.turns
        turns["running"][here] = True
        for name in ("length", "ended", "logp", "entropy", "value"):
            turns[name][here] = getattr(reply, name)[worker]
        # An action that was cut is taken all the same, as in `conversation`.
        well_formed = reply.well_formed[worker] & reply.ended[worker]
        turns["well_formed"][here] = turns["valid"][here] = well_formed
        turns["thinks"][here] = reply.thinks[worker]
        if reply.kept is not None:
            turns["kept"][here] = reply.kept[worker]
        base = int(self.replies.layout.bases[REPLIED])
        length = reply.length[worker]
        self.tokens[episode, at, base : base + length] = reply.tokens[worker, :length]
        self.lengths[episode, at, REPLIED] = length

    def _finish(self, params, memory, worker: int) -> None:
        episode = self.playing[worker]
        last = self.at[episode] - 1
        cut = self.turns["truncated"][last, episode]
        if self.replies.policy.has_critic and self.seats == 1 and cut:
            value = self.replies.value(params, memory, self._asked({worker}))
            self.bootstrap[episode] = value[worker]
        del self.playing[worker]

    def _lose(self, episode: int, failure: str) -> bool:
        """Forgets all of an episode; whether to play it again."""
        self.failure = f"seed {self.seeds[episode]}, turn {self.at[episode] + 1}: {failure}"
        for name, values in self.turns.items():
            if values is not None:
                values[:, episode] = {"kept": True, "offender": -1}.get(name, 0)
        self.lengths[episode, :, [OBSERVED, REPLIED]] = 0
        self.at[episode] = 0
        self.lost[episode] += 1
        return self.lost[episode] <= self.retries

    def _asked(self, workers: set[int]) -> Asked:
        rows = range(self.replies.rows)
        # A row without an episode shows the first one, and is not looked at.
        episodes = np.array([self.playing.get(row, 0) for row in rows], np.int32)
        waits = np.array([row in workers for row in rows])
        turn = self.at[episodes]
        transcript = Transcript(self.tokens[episodes], self.lengths[episodes])
        seat = self.turns["seat"][np.minimum(turn, len(self.turns["seat"]) - 1), episodes]
        return Asked(transcript, turn, waits & (turn == 0), waits, episodes, seat)
