"""Episodes of the environment's expert as a source of rows: supervised fine-tuning, imitation."""

import functools

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.passes import log_probs
from agentrl.rollout.starts import task_keys


def expert(
    setup: Setup,
    *,
    episodes: int = 64,
    demonstrations: int = 0,
    thoughts: bool = False,
    noise: float = 0.0,
    held_out: bool = True,
) -> Component:
    """Source "expert": (Streams, Rows) of episodes that the environment's expert plays.

    Episodes are replayed in the graph whenever they are read, so none are stored.

    Metrics (Critic and models):
      held_out_loss: Held-out loss [nats]; negative log-likelihood per token of an expert's episodes
        that are not learnt from.

    Args:
      episodes: read per update.
      demonstrations: number of different episodes; 0: unlimited new ones.
      thoughts: the expert's replies have thoughts, which are empty otherwise: those of the
        environment's view (`envs.text.View.thought`, such as what it has found out), or the command
        once more; for grammars that have thoughts.
      noise: probability that a random legal action is taken instead of the one in the row, so that
        rows also cover states off the expert's own path (Laskey et al. 2017, DART,
        https://arxiv.org/abs/1703.09327, written from the abstract; there the noise is fitted).
      held_out: once per program, measure the loss on as many episodes of tasks that training never
        uses: metric held_out_loss, nats per token. A forward pass, no gradients.
    """
    check_range("config.expert.episodes", episodes, 1)
    check_range("config.expert.demonstrations", demonstrations, 0)
    check_range("config.expert.noise", noise, 0, 1, below=True)
    if setup.rollout.demonstrate is None:
        raise ValueError(
            'source "expert": this rollout has no episodes of an expert; set '
            "config.warm_start.updates=0 and leave out terms with source='expert', or use an "
            "environment with an expert"
        )
    demonstrate = functools.partial(setup.rollout.demonstrate, thoughts=thoughts)
    if thoughts:
        # Whether they fit is found before anything compiles.
        jax.eval_shape(demonstrate, task_keys(0, episodes), jax.random.key(0))

    def make(context, sources):
        task_key, chance_key = jax.random.split(context.key)
        if demonstrations == 0:
            keys = jax.random.split(task_key, episodes)
        else:
            number = jax.random.randint(task_key, (episodes,), 0, demonstrations)
            keys = jax.vmap(lambda n: jax.random.fold_in(context.value, n))(number)
        return demonstrate(keys, chance_key, noise=noise)

    def report(params):
        # Tasks from the stream of keys that evaluation uses, which training never draws from.
        _, rows = demonstrate(task_keys(0, episodes), jax.random.key(2), noise=noise)
        logp = log_probs(setup.policy, params, rows, setup.microbatch, setup.lengths)
        loss = -jnp.sum(jnp.where(rows.loss_mask, logp, 0.0))
        count = jnp.sum(rows.loss_mask, dtype=jnp.float32)
        finite = jnp.isfinite(loss)
        return {"held_out_loss": jnp.where(finite, jnp.stack([loss, count]), 0.0)}

    return Component(
        # The list of demonstrations belongs to the seed.
        init=lambda start: start.key,
        source=Source(make),
        report=report if held_out else None,
        in_warm_start=True,
    )
