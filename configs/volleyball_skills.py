"""Skills of volleyball drones, learnt over commands by body rates: PPO with GAE.

HCSP's first stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read), which trains eleven skills
for 6e9 frames. Here two conditioned ones, "goto" and "hit", are all of them (`skills.NAMED` of
envs/rules/volleyball_skills.py). Games: "plane", "1v1", "3v3".

    python -m launchers.train --config=configs/volleyball_skills.py:plane_hit --workdir=runs/hit
    python -m launchers.evaluate --workdir=runs/hit --greedy
    python -m launchers.evaluate --workdir=runs/hit --greedy --options=starts=matches

In the plane both are learnt from nothing, 3.3 million steps each, three minutes on a busy machine.
One seed, success on 1,024 tasks with Wilson's interval of 95 %, beside the scripted controllers on
the same: hit 0.837 [0.813, 0.858] beside 0.764 [0.737, 0.789]; of starts that matches of scripted
teams hand over, which it was not trained on, 1.000 [0.996, 1.000] beside 0.523 [0.493, 0.554].
goto 0.915 [0.896, 0.931] beside 1.000 [0.996, 1.000].

In three dimensions neither is learnt from nothing: after 300 updates (4.9 million steps) success is
0.00 at both. There the policy learns what to add to the scripted controllers (env.residual). Each
of HCSP's names in turn, of a run of 3v3: --options=only=receive.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

GAMES, SKILLS = ("plane", "1v1", "3v3"), ("goto", "hit")


def get_config(which: str = "plane_hit") -> ml_collections.ConfigDict:
    game, _, skill = which.partition("_")
    if game not in GAMES or skill not in SKILLS:
        raise ValueError(
            f"configs/volleyball_skills.py:{which}: expected GAME_SKILL, a game of "
            f"{', '.join(GAMES)} and a skill of {', '.join(SKILLS)}"
        )
    config = base_config()
    config.updates = 200
    config.log_every = 20
    residual, log_std = (0.0, -1.0) if game == "plane" else (0.3, -1.5)
    config.env = env_section("VolleyballSkill-v1", teams=game, skill=skill, residual=residual)
    config.policy = section(policies.mlp, log_std=log_std)
    config.rollout = section(rollout.segments, num_envs=256, length=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(epochs=4, minibatches=8, normalize_advantage="minibatch")
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(episodes=1024, greedy=True)
    return config
