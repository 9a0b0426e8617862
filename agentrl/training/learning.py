"""One update after the other: collect, credit, learn, and what the state carries on."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.scoring import join, split
from agentrl.rollout import Rollout
from agentrl.training.credit import Credit, group_metrics
from agentrl.training.pool import Rules
from agentrl.training.state import Guard, TrainState


def _make_collect(rollout: Rollout, rules: Rules | None) -> Callable:
    def collect(params, state, key, pool):
        """As `Rollout.collect`, besides with what was drawn from the pool, if there is one."""
        if rules is None:
            return *rollout.collect(params, state, key), None
        key, draw_key = jax.random.split(key)
        drawn = rules.draw(pool, draw_key)
        opponents = jax.tree.map(lambda x: x[drawn], pool.members)
        return *rollout.collect(params, state, key, opponents=opponents), drawn

    return collect


def _options(member: Any) -> dict[str, jax.Array]:
    """What a member of a population has in the place of the config's numbers."""
    return {} if member is None else member.options


def make_batch(rollout: Rollout, rules: Rules | None, learner: Callable) -> Callable:
    """(params, rollout state, key, baseline, pool, member) -> (Streams, Rows, Credit) of an update.

    learner: as for `make_train`.
    """
    collect = _make_collect(rollout, rules)

    def batch(params, rollout_state, key, baseline=None, pool=None, member=None):
        credit, _ = learner(_options(member))
        _, streams, rows, _, _ = collect(params, rollout_state, key, pool)
        return streams, rows, credit(streams, baseline)

    return batch


def make_train(
    rollout: Rollout,
    learner: Callable[[dict[str, jax.Array]], tuple[Callable[..., Credit], Callable]],
    *,
    frozen: tuple[str, ...],
    rules: Rules | None,
    log_every: int,
    between: tuple[int, int],
    exploitability: Callable | None,
    reference_every: int,
    staleness: int,
) -> Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]]:
    """(state) -> (state, metrics): `log_every` updates.

    learner: (options by path, in the place of the config's) -> (credit, update).
    frozen: entries of the parameters that are not trained.
    between: the first update and the one after the last, for what changes on the way. For a rollout
    on the host it is a function in Python that runs programs, else one to be compiled as a whole.
    """
    collect = _make_collect(rollout, rules)
    first, end = between

    def learnt(params: chex.ArrayTree) -> chex.ArrayTree:
        return split(params, frozen)[0]

    def whole(part: chex.ArrayTree | None, params: chex.ArrayTree) -> chex.ArrayTree | None:
        """Earlier parameters, of which the state keeps what is trained."""
        return None if part is None else join(part, split(params, frozen)[1])

    def learn(state: TrainState, collected):
        """One update from what was collected with the state's second key."""
        credit, update = learner(_options(state.member))
        key, collect_key, update_key = jax.random.split(state.key, 3)
        rollout_state, streams, rows, metrics, drawn = collected
        given = credit(streams, state.baseline)
        params, opt_state, learning, finite = update(
            state.params,
            state.opt_state,
            streams,
            rows,
            given,
            update_key,
            whole(state.reference, state.params),
            (state.update - first) / max(end - first, 1),
        )
        metrics = metrics | learning
        if streams.group is not None:
            metrics |= group_metrics(streams)
        rejected = ~finite
        baseline = state.baseline
        if baseline is not None:
            baseline = jnp.where(finite, given.baseline, baseline)
            for task, role in np.ndindex(baseline.shape):
                metrics[f"rae_baseline/{rollout.tasks[task]}/{role}"] = jnp.stack(
                    [baseline[task, role], jnp.ones(())]
                )
        pool = state.pool
        if pool is not None:
            pool, of_pool = rules.after(pool, learnt(params), drawn, streams, state.update, finite)
            metrics |= of_pool
        metrics["rejected_updates"] = jnp.stack([rejected * 1.0, jnp.ones(())])
        guard = Guard(
            in_a_row=jnp.where(rejected, state.guard.in_a_row + 1, 0),
            total=state.guard.total + rejected,
            rollout=jax.tree.map(
                lambda new, old: jnp.where(rejected, new, old), state.rollout, state.guard.rollout
            ),
            key=jnp.where(rejected, collect_key, state.guard.key),
        )
        acted = jnp.sum(streams.mask, dtype=jnp.uint32)
        low = state.env_steps[1] + acted
        high = state.env_steps[0] + (low < acted)
        reference = state.reference
        if reference_every:
            moves = (state.update + 1) % reference_every == 0
            reference = jax.tree.map(
                lambda new, old: jnp.where(moves, new, old), learnt(params), reference
            )
        state = state.replace(
            params=params,
            opt_state=opt_state,
            rollout=rollout_state,
            key=key,
            update=state.update + 1,
            reference=reference,
            env_steps=jnp.stack([high, low]),
            guard=guard,
            baseline=baseline,
            pool=pool,
            sampler=(*state.sampler[1:], learnt(state.params)) if staleness else None,
        )
        return state, metrics

    def one_update(state: TrainState, _):
        collect_key = jax.random.split(state.key, 3)[1]
        sampler = whole(state.sampler[0], state.params) if staleness else state.params
        return learn(state, collect(sampler, state.rollout, collect_key, state.pool))

    if rollout.on_host:
        return _train_on_host(collect, learn, learnt, whole, log_every, staleness)

    def train(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        state, metrics = jax.lax.scan(one_update, state, length=log_every)
        metrics = jax.tree.map(lambda x: jnp.sum(x, axis=0), metrics)
        if exploitability is not None:
            metrics["exploitability"] = jnp.stack([exploitability(state.params), jnp.ones(())])
        return state, metrics

    return train


def _train_on_host(
    collect: Callable,
    learn: Callable,
    learnt: Callable,
    whole: Callable,
    log_every: int,
    staleness: int,
) -> Callable:
    """`log_every` updates, collecting in Python and learning in a program.

    A program is started and not waited for; where the sampler lags behind, its parameters are known
    by then, and so the next batch is collected while the learner works.
    """
    # What is donated cannot be sampled with while the program runs.
    program = jax.jit(learn, donate_argnums=() if staleness else 0)
    split = jax.jit(lambda key: jax.random.split(key, 3)[:2])

    def train(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        sampler, key, totals = state.sampler, jnp.copy(state.key), None
        for _ in range(log_every):
            key, collect_key = split(key)
            params = whole(sampler[0], state.params) if staleness else state.params
            collected = collect(params, state.rollout, collect_key, None)
            if staleness:
                sampler = (*sampler[1:], learnt(state.params))
            state, metrics = program(state, collected)
            totals = metrics if totals is None else jax.tree.map(jnp.add, totals, metrics)
        return state, totals

    return train
