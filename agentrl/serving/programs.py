"""Programs that call the model themselves, as a rollout: any agent, in any framework, is trained.

    config.env = env_section("program:my_agent.py:agent", highest=7)
    config.context = section(contexts.whole, max_new_tokens=8, context_tokens=128)
    config.rollout = section(programs, num_groups=8, group_size=8, max_turns=4)

`agent(model, seed, **options) -> reward` (see `envs.hosted.programs.Program`) runs in a worker
process; `seed` is its task. It talks to `model.base_url` by the chat-completions protocol, and the
policy of the current update answers. Each run has an address of its own, by which its calls are
recorded with their tokens and log-probabilities (`sessions.Session`); `methods.calls.rows_of_calls`
makes rows of them. Members of a group have the same task.

The form is Agent Lightning's gateway: X. Luo et al. (2025), https://arxiv.org/abs/2508.03680; code
microsoft/agent-lightning c632d8dd (read).
"""

import collections
import contextlib
import dataclasses
import json
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.chat_template import left_out
from agentrl.actors.contexts import Context
from agentrl.checks import check_range
from agentrl.methods.calls import Call, rows_of_calls
from agentrl.methods.calls import Session as Recorded
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.sampling import Sampling
from agentrl.rollout.host import Host, processes
from agentrl.rollout.hosted import seeds_of
from agentrl.rollout.runner import IN_PYTHON
from agentrl.rollout.types import Outcomes, Rollout
from agentrl.serving.app import application, listening
from agentrl.serving.engine import Engine
from agentrl.serving.served import of_policy
from agentrl.serving.sessions import Session
from agentrl.streams import Rows, Streams
from envs.hosted import Hosted, HostError, Pool

_MODEL = "policy"
# Calls that may wait for a slot; programs may make several at the same time.
_WAITING = 4096


class Episode(NamedTuple):
    """A run of the program. calls: its model calls. cut: it ran out of calls or tokens. lost: it
    failed as often as it may, so that there is nothing of it. tries: how often it was run."""

    calls: list[Call]
    reward: float = 0.0
    success: bool = False
    cut: bool = False
    lost: bool = False
    tries: int = 1


def programs(
    policy: LanguagePolicy,
    env: Hosted,
    context: Context | None = None,
    host: Host | None = None,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    max_turns: int | None = None,
    merge: bool = True,
    rows_per_episode: int | None = None,
) -> Rollout:
    """Rollout of num_groups * group_size runs of a program that calls the model itself.

    A run is a stream and its calls are the turns; its reward is at the last one. Prompts are those
    of the context for the messages of a call. Whatever a program asks for, replies are sampled as
    in training. A program that raises, ends its process or takes longer than `host.timeout_s` is
    run again in a new process, up to `host.retries` times, and then left out (`failed_episodes`).
    One that ran out of calls or tokens, and has no reward for that, is truncated with reward 0.

    A run depends on its task and on the order of its calls, not on timing: a program that makes one
    call after the other, and draws its own random numbers by its seed, repeats.

    Metrics (Episodes):
      rows_per_episode: Rows of an episode [rows]; of programs that call the model.

    Args:
      host: `workers` run at the same time; observation_tokens is not used.
      max_turns: calls of a run; default: `host.max_turns`.
      merge: calls that continue the one before (their prompt begins with exactly its prompt and
        reply, in tokens) share its row; False: a row for each call.
      rows_per_episode: rows of a batch, per episode; default: one for each call, which is always
        enough. Fewer make a smaller batch where calls continue each other.

    Raises:
      ValueError: another environment, or a policy or context of which calls keep too little.
    """
    host = processes() if host is None else host
    turns = host.max_turns if max_turns is None else max_turns
    for name, value in (("num_groups", num_groups), ("group_size", group_size)):
        check_range(f"rollout {name}", value, 1)
    check_range("rollout max_turns", turns, 1)
    per_episode = turns if rows_per_episode is None else rows_per_episode
    check_range("rollout rows_per_episode", per_episode, 1, turns)
    _check(policy, env, context, host)
    runs = _Runs(policy, env, context, host, turns)

    def packed(episodes: Sequence[Episode], groups: Sequence[int]) -> tuple[Streams, Rows]:
        recorded = [
            Recorded(one.calls, one.reward, group)
            for one, group in zip(episodes, groups, strict=True)
        ]
        streams, rows = rows_of_calls(
            recorded,
            calls=turns,
            rows=len(episodes) * per_episode,
            row_tokens=context.context_tokens,
            merge=merge,
        )
        cut = np.array([one.cut for one in episodes])
        won = np.array([one.success for one in episodes])
        last = streams.terminated
        return streams.replace(
            terminated=last & ~cut[:, None],
            truncated=last & cut[:, None],
            success=last & won[:, None],
        ), rows

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        seeds = np.repeat(seeds_of(jax.random.split(task_key, num_groups)), group_size)
        episodes = runs.run(params, seeds, act_key, greedy=False)
        streams, rows = packed(episodes, np.repeat(np.arange(num_groups), group_size))
        return state, streams, rows, _metrics(episodes, rows, policy.codec.end)

    def play(params, task_keys, key, greedy):
        episodes = runs.run(params, seeds_of(task_keys), key, greedy=greedy)
        outcomes = Outcomes(
            np.array([[one.reward] for one in episodes], np.float32),
            np.array([[len(one.calls)] for one in episodes], np.int32),
            np.array([[one.success] for one in episodes]),
        )
        return outcomes, *packed(episodes, range(len(episodes)))

    count = num_groups * group_size
    filled = {"reward", "mask", "terminated", "truncated", "valid", "success", "cost"}
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=count,
        turns=turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(filled | {"group", "episode"}),
        num_rows=count * per_episode,
        play=play,
        runner=IN_PYTHON,
        close=runs.close,
        properties=frozenset({"whole_episodes", "one_end", "tokens_as_cost"}),
    )


def _check(policy: LanguagePolicy, env: Hosted, context: Context | None, host: Host) -> None:
    """ValueError for what cannot be recorded."""
    if not getattr(env, "calls_model", False):
        raise ValueError(
            f"rollout programs with {env.name}: expected a program that calls the model, "
            "env_section('program:my_agent.py:agent'); for others use rollout.episodes"
        )
    if policy.codec is None or policy.has_critic or policy.cuts or policy.config.lora_roles > 1:
        raise ValueError(
            "rollout programs: calls record tokens and log-probabilities, no values, sampling "
            "masks or roles: use a language policy with critic='none', top_k=0, top_p=1, min_p=0, "
            "constrained=False and lora_roles=1"
        )
    missing = "context" if context is None else left_out(context)
    if missing:
        raise ValueError(f"rollout programs: {missing}; use contexts.whole, window or sliding")
    assert context is not None  # or it is missing
    if context.max_new_tokens is None or context.context_tokens is None:
        raise ValueError(
            "rollout programs: a program's texts have no bounds: set config.context.max_new_tokens "
            "(of a reply) and config.context.context_tokens (of a prompt and its reply)"
        )
    default = processes().observation_tokens
    if host.observation_tokens != default:
        raise ValueError(
            f"config.host.observation_tokens={host.observation_tokens} is used by nothing: a "
            f"program's prompts are bounded by config.context.context_tokens; leave it at {default}"
        )


class _Runs:
    """The engine, its server and the processes of the programs, from the first collection on."""

    def __init__(self, policy, env: Hosted, context: Context, host: Host, turns: int):
        self.policy, self.env, self.context, self.host = policy, env, context, host
        self.turns = turns
        self.sessions: dict[str, Session] = {}
        self.stack = contextlib.ExitStack()
        self.opened: tuple[Engine, str, Pool] | None = None

    def run(
        self, params: chex.ArrayTree, seeds: np.ndarray, key: jax.Array, *, greedy: bool
    ) -> list[Episode]:
        """One run of the program per seed. HostError: all of them were lost."""
        try:
            engine, url, pool = self._open(params)
            drawn = int(jax.random.bits(key, dtype=jnp.uint32))
            sampling = dataclasses.replace(self.policy.sampling, greedy=greedy)
            try:
                return self._run(engine, url, pool, [int(x) for x in seeds], drawn, sampling)
            finally:
                self.sessions.clear()
                engine.drain()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes and the server; the next collection starts new ones."""
        self.stack.close()
        self.opened = None

    def _open(self, params: chex.ArrayTree) -> tuple[Engine, str, Pool]:
        # A mesh of several devices has replicas; one of them answers.
        params = jax.device_put(params, jax.devices()[0])
        if self.opened is not None:
            self.opened[0].use(params)
            return self.opened
        context, workers = self.context, self.host.workers
        sizes = {"row_tokens": context.context_tokens, "reply_tokens": context.max_new_tokens}
        served = of_policy(self.policy, params, context, _MODEL, **sizes)
        engine = Engine(
            params,
            served.config,
            end_token=served.end,
            slots=workers,
            size=served.row_tokens,
            waiting=_WAITING,
        )
        engine.start()
        self.stack.callback(engine.close)
        app = application(served, engine, sessions=self.sessions)
        url = self.stack.enter_context(listening(app))
        pool = self.stack.enter_context(self.env.pool(workers, self.host.timeout_s))
        self.opened = engine, url, pool
        return self.opened

    def _run(
        self, engine: Engine, url: str, pool: Pool, seeds: list[int], drawn: int, sampling: Sampling
    ) -> list[Episode]:
        left, tries = collections.deque(range(len(seeds))), [0] * len(seeds)
        done: dict[int, Episode] = {}
        playing: dict[int, tuple[int, str]] = {}
        failure = ""
        while len(done) < len(seeds):
            for worker in pool.idle():
                if left and worker not in playing:
                    episode, name = left.popleft(), secrets.token_hex(8)
                    playing[worker], tries[episode] = (episode, name), tries[episode] + 1
                    how = {"calls": self.turns, "sampling": sampling, "seed": (drawn, episode)}
                    self.sessions[name] = Session(engine, **how)
                    pool.ask(worker, {"op": "reset", "seed": seeds[episode]})
            for worker, reply, why in pool.wait():
                episode, name = playing[worker]
                if reply is not None and "reward" not in reply:
                    where = {"base_url": f"{url}/{name}/v1", "api_key": "none", "name": _MODEL}
                    pool.ask(worker, {"op": "step", "action": json.dumps(where)})
                    continue
                del playing[worker]
                session = self.sessions.pop(name)
                session.close()
                ended = _ended(session, reply, tries[episode])
                if ended.lost and tries[episode] <= self.host.retries:
                    left.append(episode)
                else:
                    done[episode] = ended
                failure = why or failure
        if all(one.lost for one in done.values()):
            raise HostError(
                f"all {len(seeds)} runs of {self.env.name} were lost; the last: {failure}"
            )
        return [done[episode] for episode in range(len(seeds))]


def _ended(session: Session, reply: dict[str, Any] | None, tries: int) -> Episode:
    """What became of a run. reply: the worker's, None after a failure."""
    calls = session.calls()
    if reply is None:
        cut = bool(session.cut and calls)
        return Episode(calls if cut else [], cut=cut, lost=not cut, tries=tries)
    (reward,), (success,) = reply["reward"], reply["success"]
    return Episode(calls, float(reward), bool(success), tries=tries)


def _metrics(episodes: Sequence[Episode], rows: Rows, end: int) -> dict[str, jax.Array]:
    """(sum, weight) by name, of a collection; lost runs count as failed, and nowhere else."""
    whole = [one for one in episodes if not one.lost]
    replies = [call.reply for one in whole for call in one.calls]
    count, tokens = len(whole), sum(map(len, replies))
    used = int(np.asarray(rows.loss_mask).any(axis=1).sum())
    pairs = {
        "episode_return": (sum(one.reward for one in whole), count),
        "success_rate": (sum(one.success for one in whole), count),
        "episode_length": (len(replies), count),
        "truncation_rate": (sum(one.cut for one in whole), count),
        "episodes": (count, 1),
        "tokens": (tokens, 1),
        "response_length": (tokens, len(replies)),
        "response_cut_rate": (sum(reply[-1] != end for reply in replies), len(replies)),
        "rows_per_episode": (used, count),
        "failed_episodes": (len(episodes) - count, 1),
        "retried_episodes": (sum(one.tries > 1 for one in whole), 1),
    }
    return {name: jnp.array(pair, jnp.float32) for name, pair in pairs.items()}
