"""A small team whose validator is trained, as a config that a launcher reads."""

from agentrl import losses, policies, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.methods.verifier import verifier


def get_config():
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 1, 1
    config.env = env_section("Queries-v1", turns=1, rows=3, highest=3)
    # Drawn by a grammar, so that attempts are finished and judged.
    config.policy = section(
        policies.transformer, width=16, layers=1, heads=2, kv_heads=1, hidden=16, constrained=True
    )
    config.rollout = section(rollout.episodes, num_groups=2, group_size=4)
    config.context = section(rollout.contexts.window, history=0)
    config.warm_start.updates = 0
    config.objective.policy.weight = 0.0
    config.components.verifier = section(verifier)
    config.objective.imitation = term(losses.behaviour_cloning, source="verifier", during="rl")
    config.learner.update(epochs=1, minibatches=1, normalize_advantage="none")
    config.evaluation.every = 0
    return config
