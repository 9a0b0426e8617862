r"""MARFT: agents that speak one after another within a round, with a critic of tokens.

Liao et al. (2025), MARFT, https://arxiv.org/abs/2504.16129. Relay-v1 in words: each of two agents
knows some of the numbers and hears who spoke before. "tokens": GAE over the tokens, from one agent
to the next; "turns": over their turns; "apart": each agent's own turns alone (`gae`). Huber's
clipped loss of the critic; minibatches above a KL of 0.001 are skipped.

    python -m launchers.train --config=configs/teams/marft.py:tokens --workdir=runs/marft

Three seeds, 2 to 5 minutes on two busy CPU cores: success on 256 tasks from 0.46 after SFT to 0.740
by tokens, 0.694 by turns, 0.630 apart (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.critic_first import critic_first
from agentrl.methods.token_values import token_values
from configs._shared import language

ESTIMATORS = {
    "tokens": advantages.marft_by_position,
    "turns": advantages.marft_by_turn,
    "apart": advantages.gae,
}
VARIANTS = tuple(ESTIMATORS)
WARM = 20


def get_config(variant: str = "tokens") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "ppo",
        env_section("Relay-v1", question="largest", modulus=9),
        section(rollout.episodes, num_groups=64, group_size=1),
        section(rollout.contexts.window, history=0),
        warm_updates=WARM,
        updates=140,
    )
    config.num_seeds, config.log_every = 3, 20
    config.advantage = section(ESTIMATORS[variant], gamma=0.99, lam=0.95)
    loss = losses.clipped_value_loss
    if variant == "tokens":
        config.components.token_values = section(token_values)
        loss = losses.clipped_token_value_loss
    config.objective.value = term(loss, weight=0.5, clip=0.2, delta=10.0)
    # From an untrained critic the policy unlearns what SFT has taught (README.md).
    config.components.critic_first = section(critic_first, updates=20)
    config.objective.entropy.weight = 0.0
    config.learner.update(epochs=2, minibatches=2, microbatch=None, lengths=1)
    config.learner.update(normalize_advantage="minibatch", max_kl=1e-3, over_max_kl="skip")
    config.optimizer.learning_rate = 1e-4
    return config
