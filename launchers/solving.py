"""Solves tabular games by config: see `launchers.solve`."""

from typing import Any

import ml_collections

from agentrl import selfplay
from agentrl.checks import LARGEST, check_range
from agentrl.config import bind as configs

KEYS = ("game", "iterations", "method")


def solve(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """The fields of `selfplay.psro.Result`, `infostates`, and `nash_conv` of the last policy.

    Raises:
      ValueError: an unused key, a game that is not tabular, or an unknown method.
    """
    configs.check_keys("config", config, dict.fromkeys(KEYS))
    function, options = configs.bound("method", config.method)
    game = {key: value for key, value in config.game.items() if key != "name"}
    check_range("config.iterations", config.iterations, 1, LARGEST)
    result = function(config.game.name, config.iterations, **options, **game)
    return result._asdict() | {
        "infostates": selfplay.infostates(config.game.name, **game),
        "nash_conv": selfplay.nash_conv(config.game.name, result.policy, **game),
    }
