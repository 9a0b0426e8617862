"""Our environments of one agent, in words, as environments of the package verifiers.

    env = verifiers_bridge.load_environment("FrozenLake-v1", episodes=64)
    env.evaluate_sync(client, model="...")
    vf.load_environment("envs.verifiers_bridge", name="FrozenLake-v1", size=4)  # by its own way

A row of its data set is the task of one seed. The prompt is what a language policy reads, and the
commands that there are; a reply is a command, whose case does not matter, and any other text an
illegal action. What an illegal action costs is the environment's rule. The reward is the sum of the
episode's rewards; `valid_share` and, where the environment has it, `success` are metrics. A limit
of steps sets `is_truncated`.

The same seed gives the same episode as `envs.gymnasium_bridge` gives. Needs verifiers below 0.4.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from envs.played import Played

_ASKED = "Reply with one command, and nothing else."


async def episode_return(state) -> float:
    """The sum of the rewards of an episode."""
    return state["episode_return"]


async def success(state) -> float:
    """1 if the task was solved, else 0."""
    return float(state["success"])


async def valid_share(state) -> float:
    """The share of replies that were legal actions."""
    return state["valid"] / max(len(state["trajectory"]), 1)


def _begun(played: Played, seed: int) -> Played:
    """An episode of its own, of the same compiled programs."""
    played = copy.copy(played)
    played.begin(seed)
    return played


def _environment(played: Played, shown: Callable[[Played], str], about: dict[str, Any]) -> Any:
    """The environment of verifiers. shown: what is read of the current state of an episode."""
    import verifiers as vf

    class Ours(vf.MultiTurnEnv):
        async def setup_state(self, state):
            state["played"] = _begun(played, int(state["info"]["seed"]))
            state["episode_return"], state["valid"], state["success"] = 0.0, 0, False
            return state

        async def env_response(self, messages, state, **kwargs):
            now = state["played"]
            action = now.read(self.parser.parse_answer(messages[-1:]) or "")
            reward, terminated, truncated, outcome = now.advance(np.asarray([action]))
            state["episode_return"] += float(reward[0])
            state["valid"] += bool(outcome.valid[0])
            state["success"] |= bool(outcome.success[0])
            said = [{"role": "user", "content": shown(now)}]
            if terminated or truncated:
                state["final_env_response"] = said
                state["is_truncated"] = state["is_truncated"] or truncated
            return said

    return Ours(**about)


def load_environment(
    name: str,
    *,
    episodes: int = 256,
    seed: int = 0,
    commands: bool = True,
    system_prompt: str | None = _ASKED,
    parser: Any = None,
    **options: Any,
) -> Any:
    """An environment of one agent by its name (`envs.make`) as a `verifiers.MultiTurnEnv`.

    episodes, seed: the data set has the seeds `seed`, `seed` + 1, ... . commands: the ones that an
    action stands for are listed below each observation. parser: takes the command out of a reply,
    for example `verifiers.XMLParser(["think", "answer"], "answer")`. options: the environment's.

    Raises:
      ValueError: several agents, an environment in Python or without words, options that it does
        not have, or fewer than one episode.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes}: expected at least 1")
    played = Played(name, True, options)
    if played.env.num_agents > 1:
        raise ValueError(f"{name} has {played.env.num_agents} agents: expected one")

    import datasets
    import verifiers as vf

    def shown(now: Played) -> str:
        listed = ", ".join(filter(None, now.commands(0)))
        return f"{now.text(0)}\nCommands: {listed}" if commands else now.text(0)

    def rows() -> datasets.Dataset:
        seeds = range(seed, seed + episodes)
        found = [{"question": shown(_begun(played, s)), "info": {"seed": s}} for s in seeds]
        return datasets.Dataset.from_list(found)

    rubric = vf.Rubric(funcs=[episode_return], parser=parser)
    rubric.add_metric(valid_share)
    if played.env.has_success:
        rubric.add_metric(success)
    about = {"rubric": rubric, "parser": parser, "system_prompt": system_prompt}
    return _environment(played, shown, about | {"dataset": rows})
