"""Warm start: supervised updates on the expert's episodes, before reinforcement learning."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from agentrl.evaluation.play import task_keys
from agentrl.policies.scoring import join, split
from agentrl.rollout import Rollout
from agentrl.streams import Rows, trained_length
from agentrl.training.gradients import gradients
from agentrl.training.optimizer import optimizer


def warm_start(
    *,
    updates: int = 0,
    demonstrations: int = 0,
    episodes: int = 64,
    learning_rate: float = 1e-3,
    thoughts: bool = False,
    noise: float = 0.0,
) -> None:
    """Options of the warm start.

    Args:
      updates: how many of the run's updates are supervised, the first ones. To config.updates less
        these it is the ratio of SFT to RL.
      demonstrations: how many expert's episodes there are; 0 for new ones without end. They are
        played again in the graph whenever they are read, so nothing is stored.
      episodes: read in an update; the loss is measured on as many more, of tasks that training
        never meets, whenever metrics are written.
      thoughts: the expert's replies name the command in their thoughts, too, which are empty
        otherwise; for grammars that have thoughts.
      noise: chance that a turn ends otherwise than the expert says, by a random legal action: then
        it shows what to do elsewhere, too, than on its own way (Laskey et al. 2017, DART,
        https://arxiv.org/abs/1703.09327, written from the abstract; there the noise is fitted).
      learning_rate: of these updates; everything else of the optimizer is `config.optimizer`'s.
    """


def make_warm_start(
    policy: Any,
    rollout: Rollout,
    optimizer_options: Mapping[str, Any],
    log_every: int,
    *,
    microbatch: int | None,
    lengths: int,
    updates: int,
    demonstrations: int,
    episodes: int,
    learning_rate: float,
    thoughts: bool,
    noise: float,
) -> Callable[[Any], tuple[Any, dict[str, jax.Array]]] | None:
    """The supervised program: (TrainState) -> (TrainState, metrics), `log_every` updates.

    Loss: mean of -log pi(token) over the tokens of the expert's replies. Metrics, totals and
    weights: warm_start/loss, warm_start/held_out_loss (after the last update), grad_norm,
    rejected_updates: those that were not finite, after which everything stays as it was.
    """
    if updates < 0 or updates % log_every:
        raise ValueError(
            f"config.warm_start.updates={updates}: expected a multiple of "
            f"config.log_every={log_every}; updates are compiled in loops of log_every"
        )
    if episodes < 1:
        raise ValueError(f"config.warm_start.episodes={episodes}: expected at least 1")
    if demonstrations < 0:
        raise ValueError(f"config.warm_start.demonstrations={demonstrations}: expected 0 or more")
    if not 0 <= noise < 1:
        raise ValueError(f"config.warm_start.noise={noise}: expected at least 0, and less than 1")
    if updates == 0:
        return None
    if rollout.demonstrate is None:
        raise ValueError(
            f"config.warm_start.updates={updates}: this rollout has no expert's episodes; set it "
            "to 0, or use an environment that has an expert"
        )
    if thoughts:
        # Whether they fit is found before anything compiles.
        say = functools.partial(rollout.demonstrate, thoughts=True)
        jax.eval_shape(say, task_keys(0, episodes), jax.random.key(0))
    transform = optimizer(updates, **{**optimizer_options, "learning_rate": learning_rate})

    def loss_of(params, rows):
        """Sums, which add up over microbatches."""
        logp = policy.score(params, rows).logp
        return -jnp.sum(jnp.where(rows.loss_mask, logp, 0.0)), None

    def tokens_of(rows):
        return jnp.maximum(jnp.sum(rows.loss_mask, dtype=jnp.float32), 1)

    def passes(rows):
        """Rows in a pass: the learner's, if they divide these rows."""
        fits = microbatch is not None and rows.tokens.shape[0] % microbatch == 0
        return microbatch if fits else None

    def keys_of(key: chex.PRNGKey, seed_key: chex.PRNGKey) -> jax.Array:
        if demonstrations == 0:
            return jax.random.split(key, episodes)
        number = jax.random.randint(key, (episodes,), 0, demonstrations)
        return jax.vmap(lambda n: jax.random.fold_in(seed_key, n))(number)

    # Tasks from the stream of keys that evaluation uses, which training never draws from.
    held_out = task_keys(0, episodes)

    def one_pass(state, learns):
        """An update, or the loss on what is held out: one program for both compiles in half the
        time."""
        key, task_key, chance_key = jax.random.split(state.key, 3)
        # The list of demonstrations belongs to the seed, whose guard key never moves here.
        keys = keys_of(task_key, state.guard.key)
        keys, chance_key = jax.tree.map(
            lambda a, b: jnp.where(learns, a, b), (keys, chance_key), (held_out, jax.random.key(2))
        )
        _, rows = rollout.demonstrate(keys, chance_key, thoughts=thoughts, noise=noise)
        before, frozen = split(state.params, policy.frozen)
        loss, _, grads = gradients(
            lambda trained, rows: loss_of(join(trained, frozen), rows),
            before,
            rows,
            trained_length(rows),
            longest=rows.tokens.shape[1],
            microbatch=passes(rows),
            lengths=lengths,
            head=Rows.head,
        )
        count = tokens_of(rows)
        grads = jax.tree.map(lambda g: g / count, grads)
        norm = optax.tree.norm(grads)
        change, opt_state = transform.update(grads, state.opt_state, before)
        params = optax.apply_updates(before, change)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(params))
        moves = learns & finite
        metrics = {
            "warm_start/loss": moves * jnp.stack([loss, count]),
            "warm_start/held_out_loss": (~learns & finite) * jnp.stack([loss, count]),
            "grad_norm": moves * jnp.stack([norm, jnp.ones(())]),
            "rejected_updates": learns * jnp.stack([~finite * 1.0, jnp.ones(())]),
        }
        # A rejected update says nothing but that it was rejected.
        metrics = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0.0), metrics)
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(moves, new, old),
            (params, opt_state),
            (before, state.opt_state),
        )
        rejected = learns & ~finite
        guard = state.guard.replace(
            in_a_row=jnp.where(moves, 0, state.guard.in_a_row + rejected),
            total=state.guard.total + rejected,
        )
        key = jnp.where(learns, key, state.key)
        state = state.replace(
            params=join(params, frozen),
            opt_state=opt_state,
            key=key,
            update=state.update + learns,
            guard=guard,
        )
        return state, metrics

    def warm(state):
        state, metrics = jax.lax.scan(one_pass, state, jnp.arange(log_every + 1) < log_every)
        return state, jax.tree.map(lambda x: jnp.sum(x, axis=0), metrics)

    return warm
