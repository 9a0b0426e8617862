r"""SmolLM2-135M-Instruct, or another published model, as an agent: SFT, then GiGPO and others.

Allal et al. (2025), https://arxiv.org/abs/2502.02737. METHOD,WORLD,DIRECTORY,SIZE, of the tables
below (SIZE: cpu; h100, batches for one such card; gpu, the GiGPO code base's for ALFWorld; _lora:
adapters alone); DIRECTORY: Hugging Face's files, of launchers.import_gguf. "rae": self-play, GAMES.

    python -m launchers.train --config=configs/published/smollm2.py:sft,ezpoints,models/smollm2 \
        --workdir=runs/smollm2_sft

The others start from it: --config.init_from=runs/smollm2_sft. Of 512 tasks: EZPoints 0.00, after
15 updates of SFT 0.38, 20 later 0.807 +-0.015 by GiGPO and 0.765 +-0.088 by GRPO (three seeds);
"lamp" 0.25 and 0.39 by either (three seeds); "wordle25" 0.50 and 0.73 by either (three seeds).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from configs._shared import methods
from configs.games import spiral
from envs.wordle.rules import WORDS

METHODS = ("sft", *methods.METHODS, "rae")
HOME = {"name": "Household-v1", "wording": "faithful", "expert_sees_all": False}
SMALL_HOME = {"receptacles": 5, "objects": 4, "max_steps_in_episode": 12}
LARGE_HOME = {"receptacles": 24, "objects": 32, "max_steps_in_episode": 50}
# Two kinds of tasks, which a few turns solve.
ROOM = {"receptacles": 4, "objects": 3, "max_steps_in_episode": 8, "tasks": ("put", "look")}
# One kind, without doors: find a thing and a lamp, hold the one and use the other.
LAMP = ROOM | {"tasks": ("look",), "openables": 0.0, "max_steps_in_episode": 6}
WHOLE = section(rollout.contexts.whole)
# Two turns back, as in the GiGPO code base's prompt, with one row per turn.
WINDOW = section(rollout.contexts.window, history=2)
# Rows of six turns fit, where the bound is 1,314 tokens; bfloat16 for CPUs with AMX.
LAMP_OPTIONS = {
    "policy.dtype": "bfloat16",
    "context.context_tokens": 608,
    "learner.lengths": 8,
    "rollout.group_size": 8,
    "optimizer.learning_rate": 1e-5,
}
# Few words, which the rules list: a model that was not trained here can read what it may guess.
WORDLE_25 = {
    "name": "Wordle-v1",
    "wording": "faithful",
    "letters": 4,
    "tries": 4,
    "vocabulary": WORDS[4][::4],
    "listed": True,
}
# A group shares its secret word, so what it teaches in a state may be wrong for the other words
# that look the same there: many small groups. SFT at 2e-5 had not learnt the expert's 25 games.
WORDLE_25_OPTIONS = {
    "policy.dtype": "bfloat16",
    "learner.lengths": 8,
    "warm_start.learning_rate": 1e-4,
    "rollout.num_groups": 32,
    "rollout.group_size": 2,
}
THINKS = {"policy.grammar": "action", "expert.thoughts": True}
# World: its size: environment, context, changes. EZPoints appends one token to the
# formula in each turn: the conversation is one row.
WORLDS = {
    "ezpoints": {
        "small": ({"name": "EZPoints-v1", "wording": "faithful"}, WHOLE, {}),
        "large": ({"name": "EZPoints-v1", "wording": "faithful"}, WHOLE, {}),
    },
    "household": {
        "small": (HOME | SMALL_HOME, WHOLE, {}),
        "large": (HOME | LARGE_HOME, WINDOW, {}),
    },
    "room": {
        "small": (HOME | ROOM, WHOLE, {}),
        "large": (HOME | ROOM, WHOLE, {}),
    },
    "lamp": {
        "small": (HOME | LAMP, WHOLE, LAMP_OPTIONS),
        "large": (HOME | LAMP, WHOLE, {}),
    },
    # ALFWorld's wording with <think>...</think><action>...</action>.
    "household_thoughts": {
        "small": (HOME | SMALL_HOME, WINDOW, THINKS | {"context.max_new_tokens": 96}),
        "large": (HOME | LARGE_HOME, WINDOW, THINKS | {"context.max_new_tokens": 512}),
    },
    "wordle25": {
        "small": (WORDLE_25, WHOLE, WORDLE_25_OPTIONS),
        "large": (WORDLE_25, WHOLE, {}),
    },
    "wordle": {
        "small": ({"name": "Wordle-v1", "wording": "faithful"}, WHOLE, {}),
        "large": ({"name": "Wordle-v1", "wording": "faithful"}, WHOLE, {}),
    },
}
# SPIRAL's games in TextArena's words, whose replies are read as TextArena reads them.
GAMES = {"tictactoe": "TicTacToe-v1", "kuhn": "KuhnPoker-v1", "negotiation": "SimpleNegotiation-v1"}
REPLY_TOKENS = {"cpu": 24, "h100": 24, "gpu": 256}
SIZES = {
    "cpu": {
        "rollout": {"num_groups": 4, "group_size": 4},
        "policy": {"dtype": "float32"},
        "learner": {"minibatches": 2, "microbatch": 4, "lengths": 3, "max_kl": 0.05},
        "optimizer": {"learning_rate": 5e-6, "max_grad_norm": 1.0},
        "warm_start": {"learning_rate": 2e-5},
        "expert": {"episodes": 16},
        "evaluation": {"every": 20, "episodes": 128, "at_once": 32},
    },
    "h100": {
        "rollout": {"num_groups": 16, "group_size": 8},
        "policy": {"dtype": "bfloat16", "remat": True},
        "learner": {"minibatches": 2, "microbatch": 32, "lengths": 1, "max_kl": 0.05},
        "optimizer": {"learning_rate": 1e-5, "max_grad_norm": 1.0},
        "warm_start": {"learning_rate": 2e-5},
        "expert": {"episodes": 64},
        "evaluation": {"every": 10, "episodes": 512, "at_once": 128},
        "checkpoint": {"every": 10},
    },
    "gpu": {
        "rollout": {"num_groups": 16, "group_size": 8},
        "policy": {"dtype": "bfloat16", "remat": True},
        "learner": {"microbatch": "auto", "lengths": 4, "max_kl": 0.05},
        "optimizer": {"learning_rate": 1e-6, "max_grad_norm": 1.0, "weight_decay": 0.01},
        "warm_start": {"learning_rate": 1e-5},
        "expert": {"episodes": 64},
        "evaluation": {"every": 10, "episodes": 256},
        "checkpoint": {"every": 25},
    },
}
UPDATES = {"cpu": 60, "h100": 40, "gpu": 150}
WORLD_SIZE = {"cpu": "small", "h100": "small", "gpu": "large"}
# The GiGPO code base, with adapters: rank and alpha 64, three times the learning rate, no KL.
LORA = {
    "cpu": {"policy.lora_rank": 16, "optimizer.learning_rate": 5e-5},
    "h100": {"policy.lora_rank": 16, "optimizer.learning_rate": 5e-5},
    "gpu": {"policy.lora_rank": 64, "policy.lora_alpha": 64.0, "optimizer.learning_rate": 3e-6},
}
# A WORLD of WORLDS, or of GAMES for "rae" and "sft"; a SIZE of SIZES, "_lora" for adapters alone.
VARIANTS = {f"{method},WORLD,DIRECTORY,SIZE": "" for method in METHODS}


def get_config(variant: str = "sft,ezpoints,") -> ml_collections.ConfigDict:
    method, world, directory, size, lora = _read(variant)
    config = base_config()
    config.policy = section(policies.pretrained, directory=directory, grammar="bare")
    config.policy.critic = "shared" if method == "ppo" else "none"
    config.rollout = section(rollout.episodes)
    for name, options in SIZES[size].items():
        config[name].update(options)
    config.updates, config.log_every = UPDATES[size], 1
    if size == "gpu":
        config.objective.policy.dual_clip = 3.0
        config.objective.entropy.weight = 0.001
        config.objective.kl.weight = 0.0 if lora else 0.01
    if world in GAMES:
        _game(config, GAMES[world], REPLY_TOKENS[size])
    else:
        env, config.context, changes = WORLDS[world][WORLD_SIZE[size]]
        config.env = env_section(**env)
        if size == "gpu":
            config.reward.invalid_action_penalty = {"coefficient": 0.01}
        methods.use(config, "grpo" if method == "sft" else method, "std")
        config.update_from_flattened_dict(changes)
        if world.startswith("household") and size == "gpu":
            config.learner.minibatches = 25  # 256 of 6,400 turns each
    if lora:
        config.update_from_flattened_dict(LORA[size])
    if method == "sft":
        config.warm_start.updates = config.updates
        config.evaluation.at_start = True
    return config


def _read(argument: str) -> tuple[str, str, str, str, bool]:
    """(method, world, directory, size of the machine, whether adapters alone are trained)."""
    method, world, directory, size = (*argument.split(",", 3), *[""] * 3)[:4]
    size, _, adapters = (size or "cpu").partition("_")
    fits = (method == "rae") == (world in GAMES) or method == "sft"
    known = method in METHODS and world in (*WORLDS, *GAMES) and size in SIZES
    if not (known and fits and adapters in ("", "lora")):
        raise ValueError(
            f"variant {argument!r}: expected METHOD,WORLD,DIRECTORY,SIZE with a method of "
            f"{', '.join(METHODS)}, a world of {', '.join(WORLDS)} or, for rae and sft, one of "
            f"{', '.join(GAMES)}, and a size of {', '.join(SIZES)}, with _lora for adapters alone"
        )
    return method, world, directory, size, bool(adapters)


def _game(config: ml_collections.ConfigDict, game: str, reply_tokens: int) -> None:
    """RAE self-play as in configs/games/spiral.py:faithful_GAME, with a published model."""
    rules = {"wording": "faithful"} | spiral.FAITHFUL[game]
    config.env = env_section(game, **spiral.ILLEGAL, **rules)
    config.policy.grammar = "faithful"
    config.rollout.update(num_groups=config.rollout.num_groups * 4, group_size=1)
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=reply_tokens)
    config.advantage = section(advantages.rae_by_turn)
    config.reward.invalid_action_penalty = {"coefficient": 0.0}
    config.learner.aggregation = "constant"
    config.expert.noise = 0.3
