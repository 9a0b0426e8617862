r"""Writes trajectories of tasks for tools that a function of yours solves.

    python -m launchers.demonstrate --env=configs._shared.price_desk:make \
        --solve=configs._shared.price_desk:solve --episodes=512 --out=prices_adp.jsonl
    python -m launchers.trajectories --from_adp=prices_adp.jsonl --to=prices.jsonl \
        --config=configs/words/tools.py

--env and --solve are module:function or path/to/file.py:function. --env makes an
`agentrl.tools.ToolEnvironment`, --solve is (episode, text that was read) -> reply. Lines are of the
Agent Data Protocol, one per episode, as other programs write them; the second command makes them
the tokens of a policy.
"""

import json

from absl import flags

from launchers import cli

_ENV = flags.DEFINE_string("env", None, "What makes the environment.", required=True)
_SOLVE = flags.DEFINE_string("solve", None, "What plays it.", required=True)
_EPISODES = flags.DEFINE_integer("episodes", 512, "How many.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the first episode's task; others follow.")
_OUT = flags.DEFINE_string("out", None, "File to write.", required=True)


def main(argv: list[str]) -> None:
    """Plays the episodes and writes one line of JSON for each."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --env=, --solve= and --out=")
    from agentrl.tools import ToolEnvironment, demonstrations
    from envs.hosted import worker

    out = cli.output("out", _OUT.value)
    try:
        env = worker.make(_ENV.value, {})
        solve = worker.named(_SOLVE.value)
    except (ValueError, worker.Missing) as error:
        cli.fail(error)
    if not isinstance(env, ToolEnvironment):
        cli.fail(f"--env={_ENV.value} makes {type(env).__name__}; expected a ToolEnvironment")
    seeds = range(_SEED.value, _SEED.value + _EPISODES.value)
    lines = [json.dumps(line) + "\n" for line in demonstrations(env, solve, seeds)]
    out.write_text("".join(lines), encoding="utf-8")
    print(f"{out}: {len(lines)} episodes")


if __name__ == "__main__":
    cli.run(main)
