"""RAGEN's StarPO and StarPO-S on FrozenLake-v1 in words, by a transformer from scratch.

Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073. "starpo": GRPO on whole conversations
with a pull to the reference and a symmetric clip. "starpo_s": only the quarter of groups whose
returns spread most, a critic, no pull, and a clip that is wider upwards. "starpo_filter": StarPO-S
without the critic, so that what is left of it is the filter. All, as there, take 8 groups of 16
episodes in 4 minibatches; what there is a language model is here warmed up on a few expert's
episodes. Their sign of an echo trap: `group_return_std` falls, `grad_norm` jumps.

With "_trap" behind the name, the setting in which StarPO first learns and then falls: ice that does
not slip, so that members of a group who act alike end alike; each turn read by itself; groups of 8;
4 epochs on every batch, at three times the learning rate.

"household_trap" is what does fall in our hands: GiGPO divided by the standard deviation on
Household-v1 after a warm start. Against it "household_filter_trap" learns from the quarter of
groups whose returns spread most, "household_clip_trap" clips wider upwards, "household_s_trap" does
both. There is no pull in any of them, and GiGPO takes the place of the critic.

    python -m launchers.train --config=configs/ragen.py:starpo_s --workdir=runs/starpo_s
    python -m launchers.train --config=configs/ragen.py:starpo_trap --workdir=runs/starpo_trap
    python -m launchers.train --config=configs/ragen.py:household_s_trap --workdir=runs/household_s

On the lake that does not slip, three seeds (two busy cores, 5 to 15 minutes a method; success in
training, mean of ten updates): StarPO rises from 0.21, 0.32, 0.35 to 0.31, 0.70, 0.72 and ends at
0.20, 0.70, 0.53; from update 180 the first seed writes hardly a reply that names a command.
StarPO-S ends at 0.17, 0.36, 0.35. Without the critic the best of a seed is 0.31, the first seed
comes to write one reply that is no command, with certainty, and all are at 0.13 to 0.17 after 240
updates, where it was stopped. Filtered batches are four times smaller and are learnt from in as
many steps; in a quarter of the steps (--config.learner.minibatches=1) no seed of the filter loses
its replies, and it ends at 0.19, 0.42, 0.15, the last one after 0.48. No gain either way.

On Household, three seeds from a common warm start and 60 updates (on two cores shared by many, 12
minutes a method with the filter, 25 without): without the filter two seeds fall from 0.49 and 0.43
to 0.30 and 0.38 in training; in all three entropy (0.32 to 0.20) and `group_return_std` (0.25 to
0.16) fall by steps too even to be a cliff, and `grad_norm` jumps once, in the seed that does not
fall. With the filter none falls, and entropy and spread stay at 0.28 and 0.23; the wider clip adds
nothing to it. The wider clip by itself has not been run.

The trap itself takes three times the rate and two epochs (`--config.optimizer.learning_rate=1e-3
--config.learner.epochs=2 --config.updates=60 --config.log_every=2`, the same warm start and seeds):
entropy falls from 0.31 to 0.12, `group_return_std` from 0.24 to 0.07, and one seed goes over the
cliff: success 0.38, 0.19, 0.09 within four updates, nothing after update 42, when no group has any
spread left, entropy is 0.04, and the replies are legal and lead nowhere. It does not come back.
Evaluated: 0.25, 0.11, 0.00 after 0.60, 0.49, 0.43 taught. With the filter entropy stays at 0.31 and
the spread at 0.17, so that what RAGEN says it preserves is preserved, and success falls all the
same, to 0.21, 0.24, 0.02: at this rate an update of a quarter of the batch is noise. Gradients
do not spike in either: advantages are normalised over the batch, which bounds them.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section
from configs import household, language

NAMES = ("starpo", "starpo_filter", "starpo_s")
# Without a critic: GiGPO's advantage stays.
HOUSEHOLD = ("household", "household_filter", "household_clip", "household_s")
METHODS = (*NAMES, *(f"{name}_trap" for name in (*NAMES, *HOUSEHOLD)))


def get_config(method: str = "starpo_s") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/ragen.py:{method}: expected one of {', '.join(METHODS)}")
    name, trap = method.removesuffix("_trap"), method.endswith("_trap")
    if name in HOUSEHOLD:
        return _household(name)
    critic = name == "starpo_s"
    config = base_config()
    config.updates = 440
    config.log_every = 10
    config.env = env_section("FrozenLake-v1")
    config.policy = language.policy(critic="shared" if critic else "none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=16)
    config.context = section(rollout.contexts.whole)
    config.reward.format_penalty = {"coefficient": 0.1}
    config.warm_start.update(updates=40, episodes=32, learning_rate=3e-3)
    config.learner.minibatches = 4
    config.learner.entropy_coefficient = 0.001
    config.optimizer.learning_rate = 3e-4
    if name == "starpo":
        config.learner.kl_coefficient = 0.001
    else:
        config.filter = section(advantages.top_variance, fraction=0.25)
        config.loss = section(losses.clipped_surrogate, clip_high=0.28)
    if critic:
        config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
        config.learner.normalize_advantage = "batch"
        # The value head shares the decoder, and starts from nothing after the warm start.
        config.learner.value_coefficient = 0.1
    else:
        config.advantage = section(advantages.grpo)
    config.evaluation.every = 40
    if trap:
        config.update(num_seeds=3, seed=100, updates=300)
        config.env.slippery = False
        config.rollout.group_size = 8
        config.context = section(rollout.contexts.window, history=0)
        config.warm_start.updates = 100
        config.learner.update(epochs=4, microbatch=16)
        config.optimizer.learning_rate = 1e-3
        config.evaluation.every = 0
    return config


def _household(name: str) -> ml_collections.ConfigDict:
    config = household.get_config("gigpo")
    config.update(num_seeds=3, seed=100, log_every=4)
    config.advantage.normalize = "std"
    if name in ("household_filter", "household_s"):
        config.filter = section(advantages.top_variance, fraction=0.25)
    if name in ("household_clip", "household_s"):
        config.loss.clip_high = 0.28
    return config
