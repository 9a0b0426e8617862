"""Skills of volleyball drones, learnt over commands by body rates: PPO with GAE.

HCSP's first stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read), which trains eleven skills
for 6e9 frames. Here two conditioned ones, "goto" and "hit", are all of them (`skills.NAMED` of
envs/rules/volleyball_skills.py). Games: "plane", "1v1", "3v3".

    python -m launchers.train --config=configs/volleyball_skills.py:3v3_hit --workdir=runs/hit
    python -m launchers.evaluate --workdir=runs/hit --greedy --episodes=2048 --options=only=hcsp
    python -m launchers.evaluate --workdir=runs/hit --greedy

The second command prints success for each of HCSP's names, learnt and scripted side by side on the
same tasks, the third for each skill of the game. All below is one seed, greedy, Wilson's intervals
of 95 %.

In the plane both are learnt from nothing, 200 updates (3.3 million steps), 45 s of processor time
each; 1,024 tasks: hit 0.837 [0.813, 0.858] beside the scripted 0.764 [0.737, 0.789], and of starts
that matches of scripted teams hand over (--options=starts=matches), which it was not trained on,
0.994 [0.987, 0.997] beside 0.523 [0.493, 0.554]; goto 1.000 [0.996, 1.000] beside the same.

In three dimensions the policy learns what to add to the scripted controllers (env.residual), 400
updates (6.6 million steps), 2,048 tasks. 1v1: 0.766 [0.747, 0.784] beside 0.509 [0.487, 0.530], and
better at each of its six hits. 3v3: 0.429 [0.407, 0.450] beside 0.401 [0.380, 0.423], by name

               learnt                 scripted
    serve      0.090 [0.066, 0.121]   0.139 [0.110, 0.176]
    receive    0.486 [0.438, 0.535]   0.469 [0.421, 0.518]
    pass       0.467 [0.419, 0.514]   0.448 [0.401, 0.495]
    set        0.639 [0.591, 0.684]   0.555 [0.507, 0.603]
    attack     0.476 [0.427, 0.525]   0.404 [0.357, 0.453]

(starts are near the usual ones of a rally, not those of a serve).

Without the script in the command, it is imitated first, then PPO goes on: RUN being
    --config.env.residual=0.0 --config.policy.log_std=-2.0 --config.warm_start.updates=200
    --config.expert.episodes=128 --config.warm_start.learning_rate=3e-3
    --config.expert.noise=0.03 --config.learner.microbatch=2048
3v3_goto RUN --config.updates=600 (6.6 million steps of PPO): goto 0.880 [0.841, 0.910], serve_hover
0.913, receive_hover 0.923, pass_hover 0.917, set_hover 0.808, attack_hover 0.833, in all 0.878
[0.863, 0.891] beside 1.000; 3v3_hit RUN --config.updates=1400 (20 million): 0.167 [0.151, 0.183],
after 300 updates of PPO (of a reward without the 1 for success) 0.014.

From nothing, --config.env.residual=0.0 --config.policy.log_std=-2.0, 1v1_goto learns with
--config.updates=800 (13 million steps, 2 min 24 s of processor time): 0.989 [0.983, 0.993]; with
200 it stays in the air but does not arrive: 0.021 [0.013, 0.031]. The
reward used to charge for being away from the place, which made an early fall cheaper than the way
there (0.00 after 4.9 million steps); now it pays what the drone came nearer. How much of it is the
reward, how much more steps and less noise, was not told apart. The hit was not tried again.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

GAMES, SKILLS = ("plane", "1v1", "3v3"), ("goto", "hit")


def get_config(which: str = "plane_hit") -> ml_collections.ConfigDict:
    game, _, skill = which.partition("_")
    if game not in GAMES or skill not in SKILLS:
        raise ValueError(
            f"configs/volleyball_skills.py:{which}: expected GAME_SKILL, a game of "
            f"{', '.join(GAMES)} and a skill of {', '.join(SKILLS)}"
        )
    config = base_config()
    config.updates = 200 if game == "plane" else 400
    config.log_every = 20
    residual, log_std = (0.0, -1.0) if game == "plane" else (0.3, -1.5)
    config.env = env_section("VolleyballSkill-v1", teams=game, skill=skill, residual=residual)
    config.policy = section(policies.mlp, log_std=log_std)
    config.rollout = section(rollout.segments, num_envs=256, length=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=4, minibatches=8, normalize_advantage="minibatch")
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(episodes=1024, greedy=True)
    return config
