"""Plays an episode in the terminal, with an agent's observations, commands and rewards.

    python -m launchers.play --env=Coin-v1 --wording=faithful --options=quest_length=6
    python -m launchers.play --env=Sokoban-v1 --players=expert --options="size=(7, 7), boxes=2"
    python -m launchers.play --env=TicTacToe-v1 --players=human,minimax
    python -m launchers.play --run=runs/household

--players names the player in each seat, as for launchers.arena: human, random, expert, minimax,
mcts:100, a run (runs/a, runs/a@200, runs/a#3), "program:COMMAND", or "served:URL#MODEL". --run
shows a conversation of a language policy with each environment that it was trained on.

A person types commands, ? to list the legal ones, control-D to leave. Input that is not understood
is an illegal action, as for a policy.
"""

import pathlib
from collections.abc import Callable
from typing import Any

from absl import flags

from launchers import cli

_ENV = flags.DEFINE_string("env", None, "Name of the environment, for example Coin-v1.")
_PLAYERS = flags.DEFINE_list("players", ["human"], "Player in each seat, separated by commas.")
_GREEDY = flags.DEFINE_bool("greedy", False, "Checkpoints take their most likely actions.")
_WORDING = flags.DEFINE_string("wording", None, "Wording of the environment.")
_RUN = flags.DEFINE_string("run", None, "A run whose newest checkpoint plays its own game.")
_OPTIONS = flags.DEFINE_string("options", "", "Options of the environment: name=value, ...")
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of the task and of all randomness.",
    lower_bound=0,
    upper_bound=cli.LARGEST_SEED,
)
_TIMEOUT = flags.DEFINE_float("timeout_s", 10.0, "Seconds for each answer of a program or server.")


def main(argv: list[str]) -> None:
    """Makes the environment, plays one episode."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --env=...")
    if (_ENV.value is None) == (_RUN.value is None):
        cli.fail("name an environment (--env=Coin-v1) or the directory of a run (--run=runs/x)")
    cli.use_compilation_cache()
    import jax

    key = jax.random.key(_SEED.value)
    if _RUN.value is not None:
        _play_run(pathlib.Path(_RUN.value), key)
        return
    import envs
    from agentrl.evaluation import terminal
    from agentrl.run import checkpoint, restored
    from agentrl.trained import contestants

    try:
        options = cli.parse_options(_OPTIONS.value)
        if _WORDING.value is not None:
            options["wording"] = _WORDING.value
        env, params = envs.make(_ENV.value, **options)
        names, greedy = _PLAYERS.value, _GREEDY.value
        with contestants.asked(names, env, timeout_s=_TIMEOUT.value) as started:
            seats = contestants.seated(names, env, params, greedy=greedy, started=started)
            terminal.play(env, params, seats, key)
            for player in started.values():
                if player.summary():
                    print(player.summary())
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)


def _play_run(workdir: pathlib.Path, key: Any) -> None:
    from agentrl.run import checkpoint, restored
    from envs.hosted import HostError

    try:
        run = restored.load(workdir)
        if any(task.rollout.play is None for task in run.experiment.tasks.values()):
            raise ValueError(
                f"{workdir} holds a policy over arrays, which writes no text; name it as a player "
                f"(--env=... --players={workdir}), or see its episodes in the report "
                "(launchers.report)"
            )
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    names = list(run.experiment.tasks)
    try:
        for name in names:
            if len(names) > 1:
                print(f"\n== {name}")
            show_conversation(run, name, key)
    except HostError as error:
        cli.fail(error)


def show_conversation(
    run: Any, name: str, key: Any, *, tell: Callable[[str], None] = print
) -> float:
    """Shows one conversation of a run's first seed with that environment; returns its return.

    key: for the task and all randomness.
    """
    import jax
    import numpy as np

    from agentrl.evaluation.transcripts import find_turn
    from agentrl.policies.codec import decode

    task_key, chance_key = jax.random.split(key)
    params = jax.tree.map(lambda x: x[0], run.state.params)
    task = run.experiment.tasks[name]
    play_ = run.experiment.maybe_jit(task.rollout.play, static_argnums=3)
    _, streams, rows = jax.device_get(play_(params, task_key[None], chance_key, False))
    codec, total = run.experiment.policy.codec, 0.0
    for t in np.flatnonzero(streams.mask[0]):
        row, read, written = find_turn(rows, 0, t)
        tell(f"\n{decode(codec, rows.tokens[row, read])}")
        chance = np.exp(rows.behaviour_logp[row, written].sum())
        invalid = "" if streams.valid[0, t] else ", invalid"
        reward = float(streams.reward[0, t])
        reply = decode(codec, rows.tokens[row, written])
        who = "" if rows.speaker is None else f", role {rows.speaker[row, written[0]]}"
        tell(f"> {reply}   (p {chance:.2f}, reward {reward:g}{invalid}{who})")
        total += reward
    # In games the policy has seat 0 of the first match, or all seats: the first stream is seat
    # 0's.
    won = "success" if streams.success[0].any() else "no success"
    cut = ", at a limit of turns or tokens" if streams.truncated[0].any() else ""
    tell(f"\n{won} after {int(streams.mask[0].sum())} turns{cut}")
    return total


if __name__ == "__main__":
    cli.run(main)
