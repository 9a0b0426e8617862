"""Plays every pair of players on all seats of a game, with ratings and intervals.

    python -m launchers.arena --game=TicTacToe-v1 --players=random,expert,minimax,mcts:100,runs/a
    python -m launchers.arena --game=TicTacToe-v1 --players=runs/tictactoe#all --exhaustive
    python -m launchers.arena --game=Foraging-v1 --options=players=3 --players=expert,random \
      --lineups=aab,bab,bbb

Players: random (legal play), expert (the environment's), minimax (exact; minimax:4 searches four
moves deep), mcts:100 (tree search with 100 simulations per move), or a run: runs/a (its newest
checkpoint and first seed), runs/a@200 (of update 200), runs/a#3 (of seed 3), runs/a#all (each
seed). Policies over arrays and over words can play each other. "program:python my_player.py" is a
program that answers in lines of JSON, in games with words (agentrl/players/program.py says how);
one that fails abstains. "served:http://127.0.0.1:8000/v1#MODEL" is a model behind a server of the
chat-completions protocol (agentrl/players/served.py has its options). --out writes arena.json and
arena.html into a directory; in the directory of a run, its report shows them.

--lineups names line-ups instead of pairs, a letter per seat (a is the first player), or all. They
play the same tasks, --matches each, and are compared task by task; --out writes lineups.json.

--exhaustive plays each player greedily against every line of play of the other seat instead, in
games without chance: the result is exact, not estimated.
"""

import os
import shlex
import sys

from absl import flags

from launchers import cli

_GAME = flags.DEFINE_string("game", None, "Name of the game, for example TicTacToe-v1.")
_PLAYERS = flags.DEFINE_list("players", [], "Players, separated by commas.")
_MATCHES = flags.DEFINE_integer(
    "matches", 1000, "Matches of each pair, over all seats.", upper_bound=cli.MOST_TASKS
)
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of the tasks and of all randomness.",
    lower_bound=0,
    upper_bound=cli.LARGEST_SEED,
)
_OUT = flags.DEFINE_string("out", None, "Directory for arena.json and arena.html, or lineups.json.")
_OPTIONS = flags.DEFINE_string("options", "", "Options of the game: name=value, ...")
_GREEDY = flags.DEFINE_bool("greedy", False, "Checkpoints take their most likely actions.")
_EXHAUSTIVE = flags.DEFINE_bool("exhaustive", False, "Every line of play against each player.")
_LINEUPS = flags.DEFINE_string("lineups", None, "Players by letter, per seat: aab,aba; or all.")
_TIMEOUT = flags.DEFINE_float("timeout_s", 10.0, "Seconds for each answer of a program or server.")


def main(argv: list[str]) -> None:
    """Checks, plays, prints, writes."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --game=... --players=...")
    if _GAME.value is None:
        cli.fail("--game is missing: name a game, for example --game=TicTacToe-v1")
    if not _PLAYERS.value:
        cli.fail("--players is missing: name some, for example --players=random,expert,mcts:100")
    if _EXHAUSTIVE.value and _LINEUPS.value is not None:
        cli.fail("--exhaustive plays one player at a time; leave out --lineups")
    out = None if _OUT.value is None else cli.output("out", _OUT.value, folder=True)
    cli.use_compilation_cache()
    import envs
    from agentrl.run import checkpoint, restored
    from agentrl.trained import contestants

    names, greedy = _PLAYERS.value, _GREEDY.value or _EXHAUSTIVE.value
    try:
        options = cli.parse_options(_OPTIONS.value)
        env, env_params = envs.make(_GAME.value, **options)
        with contestants.asked(names, env, timeout_s=_TIMEOUT.value) as started:
            players = contestants.named(names, env, env_params, greedy=greedy, started=started)
            if _EXHAUSTIVE.value:
                _walk(players, env, env_params)
                return
            about = {
                "game": _GAME.value,
                "options": options,
                "seed": _SEED.value,
                "greedy": greedy,
                "command": shlex.join([sys.executable, "-m", "launchers.arena", *sys.argv[1:]]),
            }
            play = _meet if _LINEUPS.value is None else _line_up
            shown, files = play(players, env, env_params, about, started)
    except (OSError, ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    print(shown)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            temporary = (out / name).with_suffix(".tmp")
            temporary.write_text(content, encoding="utf-8")
            os.replace(temporary, out / name)
            print(f"written: {out / name}", file=sys.stderr)


def _failures(about, started) -> str:
    """Adds what went wrong with programs and servers to `about`; the same as text behind an empty
    line."""
    failed = {name: player.summary() for name, player in started.items() if player.summary()}
    if failed:
        about["programs"] = failed
    return "".join(f"\n\n{summary}" for summary in failed.values())


def _meet(players, env, env_params, about, started) -> tuple[str, dict[str, str]]:
    """Every pair: (text, {file name: content})."""
    import json

    from agentrl.evaluation import standings
    from agentrl.selfplay import arena

    if len(players) < 2:
        raise ValueError(
            f"--players={','.join(players)}: expected two or more, as random,expert; --exhaustive "
            "and --lineups take one"
        )
    played = arena.play_all(players, env, env_params, matches=_MATCHES.value, seed=_SEED.value)
    failures = _failures(about, started)
    return standings.text(played, about) + failures, {
        "arena.json": json.dumps(standings.record(played, about)),
        "arena.html": standings.document(played, about),
    }


def _line_up(players, env, env_params, about, started) -> tuple[str, dict[str, str]]:
    """The line-ups that are named: (text, {file name: content})."""
    import json

    from agentrl.evaluation import lineups as report
    from agentrl.rollout.seating import first_of_teams
    from agentrl.selfplay import lineups

    named = lineups.parse(_LINEUPS.value, len(players), len(first_of_teams(env)))
    options = {"matches": _MATCHES.value, "seed": _SEED.value}
    played = lineups.play_lineups(players, env, env_params, named, **options)
    failures = _failures(about, started)
    count = f"{len(named)} line-ups, {_MATCHES.value} matches each"
    lead = f"{about['game']}: {count}, seed {about['seed']}"
    return report.text(played, lead) + failures, {
        "lineups.json": json.dumps(report.record(played, about | options))
    }


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
