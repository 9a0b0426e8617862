"""Plays every pair of players on all seats of a game, with ratings and intervals.

    python -m launchers.arena --game=TicTacToe-v1 --players=random,expert,minimax,mcts:100,runs/a
    python -m launchers.arena --game=TicTacToe-v1 --players=runs/tictactoe#all --exhaustive

Players: random (legal play), expert (the environment's), minimax (exact; minimax:4 searches four
moves deep), mcts:100 (tree search with 100 simulations per move), or a run: runs/a (its newest
checkpoint and first seed), runs/a@200 (of update 200), runs/a#3 (of seed 3), runs/a#all (each
seed). Policies over arrays and over words can play each other. --out writes arena.json and
arena.html into a directory; in the directory of a run, its report shows them.

--exhaustive plays each player greedily against every line of play of the other seat instead, in
games without chance: the result is exact, not estimated.
"""

import os
import pathlib
import shlex
import sys

from absl import flags

from launchers import cli

_GAME = flags.DEFINE_string("game", None, "Name of the game, for example TicTacToe-v1.")
_PLAYERS = flags.DEFINE_list("players", [], "Players, separated by commas.")
_MATCHES = flags.DEFINE_integer("matches", 1000, "Matches of each pair, over all seats.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the tasks and of all randomness.")
_OUT = flags.DEFINE_string("out", None, "Directory for arena.json and arena.html.")
_OPTIONS = flags.DEFINE_string("options", "", "Options of the game: name=value, ...")
_GREEDY = flags.DEFINE_bool("greedy", False, "Checkpoints take their most likely actions.")
_EXHAUSTIVE = flags.DEFINE_bool("exhaustive", False, "Every line of play against each player.")


def main(argv: list[str]) -> None:
    """Checks, plays, prints, writes."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --game=... --players=...")
    if _GAME.value is None:
        cli.fail("--game is missing: name a game, for example --game=TicTacToe-v1")
    if not _PLAYERS.value:
        cli.fail("--players is missing: name some, for example --players=random,expert,mcts:100")
    cli.use_compilation_cache()
    import envs
    from agentrl.run import checkpoint, contestants, restored

    greedy = _GREEDY.value or _EXHAUSTIVE.value
    try:
        options = cli.parse_options(_OPTIONS.value)
        env, env_params = envs.make(_GAME.value, **options)
        players = contestants.named(_PLAYERS.value, env, env_params, greedy=greedy)
        if _EXHAUSTIVE.value:
            _walk(players, env, env_params)
        else:
            _meet(players, env, env_params, options)
    except (OSError, ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)


def _meet(players, env, env_params, options) -> None:
    import json

    from agentrl.evaluation import standings
    from agentrl.selfplay import arena

    played = arena.play_all(players, env, env_params, matches=_MATCHES.value, seed=_SEED.value)
    about = {
        "game": _GAME.value,
        "options": options,
        "seed": _SEED.value,
        "greedy": _GREEDY.value,
        "command": shlex.join([sys.executable, "-m", "launchers.arena", *sys.argv[1:]]),
    }
    print(standings.text(played, about))
    if _OUT.value is None:
        return
    out = pathlib.Path(_OUT.value)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "arena.json", json.dumps(standings.record(played, about)))
    _write(out / "arena.html", standings.document(played, about))


def _write(path: pathlib.Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
    print(f"written: {path}", file=sys.stderr)


def _walk(players, env, env_params) -> None:
    from agentrl.selfplay import lines

    for name, player in players.items():
        lines.check(name, player, env)
    print(f"{_GAME.value}: all lines of play of the other seat, against")
    for name, player in players.items():
        for seat in range(env.num_agents):
            found = lines.walk(player, env, env_params, seat)
            ends = ", ".join(f"{count} {end}" for end, count in found.ends.items() if count)
            verdict = f"beaten by {found.beaten}" if found.beaten else "never beaten"
            print(f"{name}, seat {seat}: {verdict} of {found.total} lines ({ends})", flush=True)


if __name__ == "__main__":
    cli.run(main)
