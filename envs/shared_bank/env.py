"""SharedBank-v1: which results of parallel teams are written to a memory that all of them read."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

ACTIONS = ("skip", "admit")


class BankFacts(NamedTuple):
    """What the entries of a bank were worth. used: bool[T], another team recalled the result.
    gain: f32[T], the teams' outcome less that without this entry, 0 of results that are not in the
    bank. outcome: f32[], the share of the teams that succeeded."""

    used: jax.Array
    gain: jax.Array
    outcome: jax.Array


@struct.dataclass
class SharedBankState(EnvState):
    """topic: i32[T], of each result. good: bool[T], it is right. checked: bool[T], a check says so.
    needs: bool[M, K], topics that each team needs. luck: f32[M], a team with less of it than the
    bank's clutter is lost. admitted: bool[T], the bank."""

    topic: jax.Array
    good: jax.Array
    checked: jax.Array
    needs: jax.Array
    luck: jax.Array
    admitted: jax.Array


@struct.dataclass
class SharedBankParams(EnvParams):
    """right: chance that a result is right. checker: chance that a check is. clutter: chance per
    entry that a team is lost among them. fixed: the only legal action, of all results; -1: both
    are."""

    max_steps_in_episode: int = 9
    right: float = 0.6
    checker: float = 0.9
    clutter: float = 0.04
    fixed: int = -1


@dataclasses.dataclass(frozen=True)
class SharedBank(Environment):
    """M `teams` work in parallel on tasks that overlap; a controller admits results to their bank.

    Each team needs `needed` of K `topics`, and has one result for each, right or wrong; T = M times
    `needed` results come in a fixed order, one team after another. The controller (the agent) reads
    what a result is about and what is in the bank, and writes it there or does not. At the end each
    team takes, for each topic that it needs, the earliest entry of another team in the bank, which
    it recalls in place of its own result, or else its own. It succeeds if all that it took is right
    and it was not lost among the entries, of which every one is read by every team.

    So a right entry helps the teams whose own result is wrong, a wrong one harms those whose own is
    right, and one that nobody needs costs attention. All chance is drawn at the start: outcomes
    with and without an entry, `bank_facts`, are of the same task and the same luck.

    Observation: float32, the topic one-hot, whether the check passed, the share of the other teams
    that need the topic, whether the bank has it already, the share of results that are in the bank,
    the share that has come. Actions: skip, admit; legal unless the other one is `fixed`. Reward: at
    the end, the share of the teams that succeeded. Success: all of them.

    Expert: admits what passed its check, another team needs, and the bank has not.

    Source: the setting of Learning to Share (2026), from notes on it: parallel teams, a bank of
    keys and values, a controller that says yes or no after every step. The tasks are ours.
    """

    teams: int = 3
    topics: int = 6
    needed: int = 3

    wordings: ClassVar[str] = "envs.shared_bank.words"
    costly_reset: ClassVar[bool] = False
    action_names: ClassVar[tuple[str, ...]] = ACTIONS

    def __post_init__(self):
        if not 2 <= self.teams <= 8 or not 1 <= self.needed <= self.topics <= 12:
            raise ValueError(
                f"teams {self.teams}, topics {self.topics}, needed {self.needed}: expected 2 to 8, "
                "1 to 12, and 1 to as many as there are topics"
            )

    @property
    def results(self) -> int:
        """T, the results of all teams, one per turn: as many of each as a task needs topics."""
        return self.teams * self.needed

    @property
    def owner(self) -> np.ndarray:
        """The team of each result, i32[T]."""
        return np.arange(self.results, dtype=np.int32) % self.teams

    @property
    def default_params(self) -> SharedBankParams:
        """A decision for each result."""
        return SharedBankParams(max_steps_in_episode=self.results)

    def initial(self, key: jax.Array, params: SharedBankParams) -> SharedBankState:
        needs_key, good_key, check_key, luck_key = jax.random.split(key, 4)
        order = jax.vmap(lambda k: jax.random.permutation(k, self.topics))(
            jax.random.split(needs_key, self.teams)
        )[:, : self.needed]
        good = jax.random.bernoulli(good_key, params.right, (self.results,))
        return SharedBankState(
            time=jnp.zeros((), jnp.int32),
            topic=order.T.reshape(-1).astype(jnp.int32),
            good=good,
            checked=good == jax.random.bernoulli(check_key, params.checker, good.shape),
            needs=jnp.any(order[:, :, None] == np.arange(self.topics), axis=1),
            luck=jax.random.uniform(luck_key, (self.teams,)),
            admitted=jnp.zeros(self.results, bool),
        )

    def _recalled(self, state: SharedBankState, admitted: jax.Array) -> jax.Array:
        """The results that each team recalls, bool[M, T]."""
        foreign = self.owner != np.arange(self.teams)[:, None]
        offered = admitted & foreign & state.needs[:, state.topic]
        same = state.topic[:, None] == state.topic
        earlier = same & (np.arange(self.results) < np.arange(self.results)[:, None])
        return offered & ~jnp.any(offered[:, None] & earlier, axis=2)

    def outcome(
        self, state: SharedBankState, admitted: jax.Array, params: SharedBankParams
    ) -> jax.Array:
        """The share of the teams that succeed with this bank bool[T], f32[]."""
        recalled = self._recalled(state, admitted)
        own = self.owner == np.arange(self.teams)[:, None]
        covered = jnp.any(
            recalled[:, None] & (state.topic[:, None] == state.topic), axis=2
        )  # [M, T]: the team recalls something on the topic of this result
        wrong = jnp.any((recalled | (own & ~covered)) & ~state.good, axis=1)
        lost = state.luck < params.clutter * jnp.sum(admitted)
        return jnp.mean(~wrong & ~lost)

    def bank_facts(
        self, state: SharedBankState, admitted: jax.Array, params: SharedBankParams
    ) -> BankFacts:
        """What each entry of a bank bool[T] was worth, of the task of a state."""
        whole = self.outcome(state, admitted, params)

        def without(number):
            return self.outcome(state, admitted & (np.arange(self.results) != number), params)

        gain = whole - jax.vmap(without)(jnp.arange(self.results))
        used = jnp.any(self._recalled(state, admitted), axis=0)
        return BankFacts(used, gain, whole)

    def transition(
        self, key: jax.Array, state: SharedBankState, action: jax.Array, params: SharedBankParams
    ) -> tuple[SharedBankState, jax.Array]:
        del key
        here = np.arange(self.results) == state.time
        state = state.replace(admitted=jnp.where(here, action == 1, state.admitted))
        last = state.time == self.results - 1
        return state, jnp.where(last, self.outcome(state, state.admitted, params), 0.0)

    def legal(self, state: SharedBankState, params: SharedBankParams) -> jax.Array:
        """Both, unless one is fixed."""
        return (params.fixed < 0) | (np.arange(len(ACTIONS)) == params.fixed)

    def seen(self, state: SharedBankState) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Of the result that has come: topic i32[], checked bool[], other teams that need it i32[],
        whether the bank has its topic bool[]."""
        here = jnp.minimum(state.time, self.results - 1)
        topic = state.topic[here]
        others = jnp.sum(state.needs[:, topic]) - 1
        return topic, state.checked[here], others, jnp.any(state.admitted & (state.topic == topic))

    def observe(self, state: SharedBankState, params: SharedBankParams) -> jax.Array:
        topic, checked, others, there = self.seen(state)
        shares = [checked, others / (self.teams - 1), there]
        shares += [jnp.mean(state.admitted), state.time / self.results]
        told = [np.arange(self.topics) == topic, jnp.stack([jnp.float32(x) for x in shares])]
        return jnp.concatenate(told).astype(jnp.float32)

    def is_terminated(self, state: SharedBankState, params: SharedBankParams) -> jax.Array:
        return state.time >= self.results

    def is_success(self, state: SharedBankState, params: SharedBankParams) -> jax.Array:
        """Every team succeeded, at the end."""
        return (state.time >= self.results) & (self.outcome(state, state.admitted, params) >= 1)

    def expert(self, state: SharedBankState, params: SharedBankParams) -> jax.Array:
        """Admits what passed, another team needs, and the bank has not."""
        _, checked, others, there = self.seen(state)
        return (checked & (others > 0) & ~there).astype(jnp.int32)

    def render(self, state: SharedBankState, params: SharedBankParams) -> str:
        """For example `topics 3 1 0 | admitted 0 2`."""
        topics = " ".join(map(str, np.asarray(state.topic)))
        kept = " ".join(map(str, np.flatnonzero(np.asarray(state.admitted)))) or "none"
        return f"topics {topics} | admitted {kept}"
