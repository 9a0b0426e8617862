r"""Dr. MAS: advantages by each agent's own mean and deviation, or by those of all agents.

Feng et al. (2026), Dr. MAS, https://arxiv.org/abs/2602.08847. "kuhn": eight hands with the same
cards. "foraging": eight fields that begin alike. "solver": a solver and a verifier that is called
only if there is something to decide, a network and an optimizer each; "solver_words": an adapter
and an optimizer each, --config.init_from of "solver_sft". Others: --config.advantage.statistics=
all_turns (or episode_means), --config.advantage.normalize=mean (no division).

    python -m launchers.train --config=configs/teams/dr_mas.py:kuhn --workdir=runs/dr_mas

One CPU core, 17 to 80 s for five seeds. Expected mean gradient norm in Kuhn's poker: 0.129 per
agent, 0.139 over all agents; not divided 0.126 and 0.194. Details: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, roles_section, section
from configs._shared import language

GAMES = {
    "kuhn": ("KuhnPoker-v1", {"max_steps_in_episode": 3}),
    "foraging": (
        "Foraging-v1",
        {"size": 6, "max_player_level": 3, "max_steps_in_episode": 25},
    ),
}
SOLVER = ("CheckedSum-v1", {})
WORDS = ("solver_sft", "solver_words")
VARIANTS = (*GAMES, "solver", *WORDS)


def get_config(variant: str = "kuhn") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant in WORDS:
        return _in_words(adapted=variant == "solver_words")
    name, options = GAMES.get(variant, SOLVER)
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    # Logs the norm of every update, to show spikes.
    config.log_every = 1
    config.env = env_section(name, **options)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, mask_illegal=True)
    config.advantage = section(advantages.dr_mas, statistics="agent_turns", normalize="std")
    config.objective.entropy.weight = 0.02
    config.optimizer.learning_rate = 1e-3
    if variant == "solver":
        network = config.policy
        config.policy = roles_section(("solver", "verifier"), solver=network, verifier=network)
        config.optimizers = {"solver": {"learning_rate": 3e-3}, "verifier": {"learning_rate": 3e-3}}
        config.update(updates=600, log_every=20)
    return config


def _in_words(*, adapted: bool) -> ml_collections.ConfigDict:
    """A little SFT, or an adapter and an optimizer per agent on what it gave."""
    config = language.config_of(
        "grpo" if adapted else "sft",
        env_section(SOLVER[0], question="largest", terms=4, modulus=9),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=0 if adapted else 40,
        updates=120 if adapted else 0,
    )
    config.num_seeds = 3
    config.learner.update(minibatches=1, microbatch=None, lengths=1)
    if adapted:
        config.advantage = section(advantages.dr_mas, statistics="agent_turns", normalize="std")
        config.learner.normalize_advantage = "none"
        config.policy.update(lora_rank=8, lora_roles=2)
        # The malformed reply's own row pays.
        config.reward.invalid_action_penalty = {"coefficient": 0.1}
        config.optimizers = {"lora_0": {"learning_rate": 3e-3}, "lora_1": {"learning_rate": 6e-3}}
    return config
