"""Self-play in words with a baseline per game and seat: SPIRAL at a small scale, from scratch.

Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119. Variants: below. Without role baselines
with --config.advantage.decay=1.0.

    python -m launchers.train --config=configs/games/spiral.py:TicTacToe-v1 --workdir=runs/spiral

One CPU core, two to six minutes. Expected: smaller gradients with role baselines
(thoughts_TicTacToe-v1: norms 0.060, 0.050, 0.024; without 0.112, 0.063, 0.027), no transfer to new
games, drift into illegal moves unless the policy is constrained; kuhn: exploitability 0.05 to 0.10
from 0.46, level with and without role baselines; leduc: 0.71 to 0.94 from 2.37. More: README.md.
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import base_config, env_section, env_sections, section
from agentrl.methods.lots import lots
from configs._shared import language

# SPIRAL's games with its rules and limits for the longest game without illegal moves; held-out
# games.
THREE = {
    "TicTacToe-v1": {"max_steps_in_episode": 9},
    "KuhnPoker-v1": {
        "rounds": 5,
        "opener": 1,
        "pot_grows": False,
        "reward": "last_round",
        "max_steps_in_episode": 15,
    },
    "SimpleNegotiation-v1": {"rules": "spiral", "max_steps_in_episode": 10},
}
# Replies in TextArena's forms. Kuhn's poker has one wording, whose commands are among them.
FAITHFUL = {
    "TicTacToe-v1": THREE["TicTacToe-v1"],
    "KuhnPoker-v1": THREE["KuhnPoker-v1"] | {"wording": "compact"},
    "SimpleNegotiation-v1": {"rules": "textarena", "max_steps_in_episode": 11},
}
HELD_OUT = ("Nim-v1", "LiarsDice-v1", "PigDice-v1")
ILLEGAL = {"illegal_allowance": 0, "illegal_reward": -1.5, "illegal_other_reward": 0.5}
# Names in capitals stand for any of their kind.
VARIANTS = {
    "GAME": "one game in compact words, such as TicTacToe-v1 or KuhnPoker-v1",
    "three": "SPIRAL's three games at once, replies constrained to commands",
    "thoughts_GAME": "SFT of the expert with thoughts, then self-play",
    "faithful_GAME": "replies in TextArena's forms, byte by byte",
    "release_TicTacToe-v1": "the whole game in context, 16 of the turns with an advantage",
    "release_KuhnPoker-v1": "the same, as of any other game",
    "release_three": "the three games at once in this way",
    "kuhn": "Kuhn's poker with the whole hand in context, scored by exact exploitability",
    "leduc": "Leduc's poker in the same way",
}


def get_config(variant: str = "TicTacToe-v1") -> ml_collections.ConfigDict:
    if variant.startswith("thoughts_"):
        return thoughts(variant.removeprefix("thoughts_"))
    if variant.startswith("faithful_"):
        return faithful(variant.removeprefix("faithful_"))
    if variant.startswith("release_"):
        return release(variant.removeprefix("release_"))
    if variant in ("kuhn", "leduc"):
        return solved(f"{variant.title()}Poker-v1")
    config = base_config()
    config.updates = 400
    config.log_every = 20
    if variant == "three":
        config.env = env_sections(
            *(env_section(name, **ILLEGAL, **rules) for name, rules in THREE.items())
        )
        config.lexicon = HELD_OUT
    else:
        config.env = env_section(variant, **ILLEGAL, **THREE.get(variant, {}))
    config.policy = language.policy()
    config.rollout = section(rollout.episodes, num_groups=128, group_size=1)
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(advantages.rae_by_turn)
    config.reward.invalid_action_penalty = {"coefficient": 0.0}
    config.learner.update(minibatches=2, microbatch=64, aggregation="constant")
    config.objective.entropy.weight = 0.003
    if variant == "three":
        # Of 350 words hardly any reply is a command by chance: unconstrained, all but one
        # in a thousand were still illegal after 40 updates, and if all lose alike there is
        # no signal.
        config.policy.constrained = True
        # An offer is longer than the rows of the other games.
        config.learner.lengths = 3
    config.optimizer.learning_rate = 1e-3
    config.evaluation.every = 100
    return config


def thoughts(game: str) -> ml_collections.ConfigDict:
    config = get_config(game)
    config.policy.grammar = "action"
    config.rollout.num_groups, config.context.max_new_tokens = 64, 16
    config.learner.update(microbatch=32)
    config.objective.entropy.weight = 0.0
    config.warm_start.update(updates=60, learning_rate=3e-3)
    config.expert.update(episodes=32, thoughts=True)
    if game == "TicTacToe-v1":
        # The expert's play against itself is a single line; noise adds other boards.
        config.warm_start.update(updates=200)
        config.expert.update(noise=0.3)
    config.updates = config.warm_start.updates + 300
    config.log_every = 20
    config.optimizer.learning_rate = 3e-4
    config.evaluation.every = 0
    return config


def faithful(game: str) -> ml_collections.ConfigDict:
    config = get_config(game)
    config.env = env_section(game, **ILLEGAL, **{"wording": "faithful"} | FAITHFUL.get(game, {}))
    config.policy.update(codec="byte", grammar="faithful")
    # Offers are long.
    config.context.max_new_tokens = 48 if game == "SimpleNegotiation-v1" else 16
    config.warm_start.update(updates=100, learning_rate=3e-3)
    config.expert.update(episodes=16, noise=0.3)
    return config


def release(game: str) -> ml_collections.ConfigDict:
    """The conversation of a whole game as one row; of four games 16 turns with an advantage."""
    config = get_config(game)
    config.lexicon = HELD_OUT
    config.num_seeds = 5 if game == "three" else 1
    config.policy.constrained = True
    config.context = section(rollout.contexts.whole)
    config.rollout.num_groups = 32
    config.components.lots = section(lots)
    config.filters.nonzero = section(advantages.nonzero_turns)
    config.filters.sampled = section(advantages.sampled_turns, turns=16, episodes=4)
    config.learner.update(minibatches=1, microbatch=32)
    config.updates = 200 if game == "three" else 300
    config.evaluation.every = 0
    return config


def solved(game: str) -> ml_collections.ConfigDict:
    """Single hands, whose equilibrium is known: the policy's exploitability is measured exactly."""
    config = get_config(game)
    config.num_seeds = 5
    config.env = env_section(game, **ILLEGAL, max_steps_in_episode=3 if "Kuhn" in game else 8)
    config.policy.constrained = True
    config.context = section(rollout.contexts.whole)
    config.rollout.num_groups = 128
    # As configs/games/poker.py: a KL to recent parameters, less entropy with time, no momentum.
    config.reference.every = 25
    config.objective.kl.update(weight=1.0, estimator="k2")
    config.objective.entropy.update(weight=0.1, final_weight=0.01)
    config.optimizer.update(schedule="linear", b1=0.0)
    config.learner.update(minibatches=1, microbatch=64)
    config.updates = 400
    config.log_every = 25
    config.evaluation.every = 0
    return config
