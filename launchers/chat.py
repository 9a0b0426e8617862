"""Watches a trained language policy turn by turn in the terminal, or replies in its place.

    python -m launchers.chat --workdir=runs/household
    python -m launchers.chat --workdir=runs/household --task=3 --greedy --update=40
    python -m launchers.chat --workdir=runs/spiral_three --env=KuhnPoker-v1 --seat=0

At every turn it shows what the agent reads and asks: Enter lets the agent reply, a line is your
reply in its place, which the agent reads as its own from then on; a command alone is written in the
agent's format. ? lists the legal commands, :auto plays to the end, :undo takes back a turn, :new
takes the next task, :quit or control-D ends. Replies are a function of --seed, task and turn, so
Enter after :undo repeats the agent's reply. In environments in Python ? lists nothing, and turns
cannot be taken back.

Tasks are those of launchers.evaluate with the same --seed. The policy is that of the run's first
seed. In games it has all seats; with --seat you are asked in that one alone.
"""

import pathlib

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_ENV = flags.DEFINE_string("env", None, "One of the run's environments, or another one.")
_TASK = flags.DEFINE_integer(
    "task", 0, "Number of the first task.", lower_bound=0, upper_bound=cli.MOST_TASKS
)
_GREEDY = flags.DEFINE_bool("greedy", False, "The agent writes the most likely tokens.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_SEAT = flags.DEFINE_integer("seat", None, "Seat in which you are asked; all by default.")
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of the tasks and of all randomness.",
    lower_bound=0,
    upper_bound=cli.LARGEST_SEED,
)


def main(argv: list[str]) -> None:
    """Restores the run, then talks."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=...")
    if _WORKDIR.value is None:
        cli.fail("--workdir is missing: name a run's directory, for example --workdir=runs/coin")
    cli.use_compilation_cache()
    from agentrl.evaluation import play
    from agentrl.evaluation.chat import chat
    from agentrl.run import checkpoint, restored
    from agentrl.trained.contestants import conversation_of
    from envs.hosted import HostError

    def key_of(task):
        return play.task_keys(_SEED.value, task + 1)[task]

    try:
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
        tasks = run.experiment.tasks if _ENV.value is None else restored.elsewhere(run, _ENV.value)
        conversation = conversation_of(run, next(iter(tasks.values())), _SEED.value, _GREEDY.value)
        try:
            chat(conversation, key_of, _TASK.value, seat=_SEAT.value)
        finally:
            conversation.close()
    except (ValueError, HostError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)


if __name__ == "__main__":
    cli.run(main)
