"""Evaluates a run's checkpoint on a fixed set of tasks, beside the expert and random play.

    python -m launchers.evaluate --workdir=runs/coin_gigpo --episodes=1024

A run with several environments is evaluated in each. --env=Nim-v1 evaluates a language policy in
that environment instead, with its default options, if the policy has its words (config.lexicon).
--options=follow=0.7,precise=0.8 changes options of the run's own environment. The tasks depend on
--seed alone, so every checkpoint, method and run gets the same ones. Prints a table, also of
success per kind of task if the environment has kinds, and writes eval/update_N.json into the run's
directory, or eval/ENV/update_N.json if ENV is not the run's only environment or has other options.
--policy=temperature=0.5 changes an option of how the run's policy acts, and may be given several
times (--policy="head_weights=[1,0]"); then the record is in a folder of its own, too. --turns=5,10
also prints what would be left of the success had the policy's episodes been cut after so many
turns. --attempts=4 plays each task four times and prints pass^k, the share of tasks that k attempts
of k solve (tau2-bench), and the share that any of k does.
"""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_ENV = flags.DEFINE_string("env", None, "Another environment than the run's own.")
_OPTIONS = flags.DEFINE_list("options", [], "KEY=VALUE of the environment, to override the run's.")
_POLICY = flags.DEFINE_multi_string(
    "policy", [], "KEY=VALUE of the policy, to override the run's; with the same parameters."
)
_EPISODES = flags.DEFINE_integer(
    "episodes", 1024, "Number of tasks.", lower_bound=2, upper_bound=cli.MOST_TASKS
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Seed of the set of tasks.", lower_bound=0, upper_bound=cli.LARGEST_SEED
)
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint to evaluate; the newest by default.")
_GREEDY = flags.DEFINE_bool("greedy", False, "Take the most likely action instead of sampling.")
_TURNS = flags.DEFINE_list("turns", [], "Limits on turns, to print what each saves and loses.")
_ATTEMPTS = flags.DEFINE_integer(
    "attempts",
    1,
    "Times that the policy plays each task, for pass^k.",
    lower_bound=1,
    upper_bound=1024,
)
_SEARCH = flags.DEFINE_list(
    "search", [], "KEY=VALUE of a search for solutions: nodes, width, power, per_subgoal, stride."
)
_EXPERT = flags.DEFINE_bool("expert", True, "Play the environment's expert too, for the regret.")

# Means of the table of --search.
_TOOK = ("replies", "plans", "shared")


def main(argv: list[str]) -> None:
    """Restores, plays, prints, writes."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=...")
    if _WORKDIR.value is None:
        cli.fail("--workdir is missing: name a run's directory, for example --workdir=runs/coin")
    workdir = pathlib.Path(_WORKDIR.value)
    cli.use_compilation_cache()
    from agentrl.run import checkpoint, files, restored
    from envs.hosted import HostError

    try:
        files.check(workdir)  # before minutes of play
        run = restored.load(workdir, _UPDATE.value)
        if sum(map(bool, (_ENV.value is not None, _OPTIONS.value, _POLICY.value))) > 1:
            raise ValueError(
                "--options and --policy change the run's own environment or policy: of --env, "
                "--options and --policy give one"
            )
        tasks = run.experiment.tasks if _ENV.value is None else restored.elsewhere(run, _ENV.value)
        if _OPTIONS.value:
            tasks = restored.otherwise(run, _OPTIONS.value)
        if _POLICY.value:
            tasks = restored.acting(run, _POLICY.value)
        _check_turns(tasks)
        searches = {name: _searches(run, task) for name, task in tasks.items()}
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    try:
        for name, task in tasks.items():
            _evaluate(workdir, run, name, task)
            if searches[name] is not None:
                _print_search(run, searches[name])
    except (HostError, ValueError, OSError) as error:
        cli.fail(error)


def _evaluate(workdir: pathlib.Path, run: Any, name: str, task: Any) -> None:
    """Prints the tables of one environment and writes the record."""
    from agentrl.config.tasks import evaluation_of
    from agentrl.evaluation import play
    from agentrl.run.evaluations import path_of

    config, env = run.config, task.env
    opponent, side = evaluation_of(config, env, task.env_params, task.rollout)
    keys = play.task_keys(_SEED.value, _EPISODES.value)
    rows = _rows(run, task, keys, opponent, side)
    expert = dict(rows).get("expert")
    against = ""
    if not task.rollout.runner.traced:
        against = ", against itself" if task.rollout.roles > 1 else ""
    elif opponent is not None:
        seats = f"all seats of the {side}" if side else "seats in turn"
        against = f", {seats}, against {config.evaluation.opponent} play"
    print(f"{name}, update {run.update}, {_EPISODES.value} tasks of seed {_SEED.value}{against}")
    columns = _columns(env.has_success, expert)
    print(f"{'':10}" + "".join(f"{title:>28}" for title in columns))
    for player, played in rows:
        print(f"{player:10}" + "".join(f"{show(played):>28}" for show in columns.values()))
    if _TURNS.value:
        _print_budgets([played for player, played in rows if player.startswith("seed ")])
    if _ATTEMPTS.value > 1:
        _print_attempts(run, task, keys)
    by_kind = None
    if env.has_success and env.kinds:
        by_kind = _by_kind(env, task.env_params, keys, rows)
    seeds = _seeds(config)
    record = {
        "update": run.update,
        "seeds": seeds,
        "episodes": _EPISODES.value,
        "task_seed": _SEED.value,
        "greedy": _GREEDY.value,
        "per_seed": {player.removeprefix("seed "): _lists(p) for player, p in rows[: len(seeds)]},
        "expert": None if expert is None else _lists(expert),
        "kinds": by_kind,
    }
    path = path_of(workdir, config, name, run.update)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(record))
    os.replace(temporary, path)
    print(f"written: {path}")


def _check_turns(tasks: dict[str, Any]) -> None:
    """ValueError for limits on turns that are no numbers, or where there is no success."""
    if not all(text.strip().isdigit() and int(text) > 0 for text in _TURNS.value):
        raise ValueError(f"--turns={','.join(_TURNS.value)}: expected numbers of turns, as 5,10")
    without = [name for name, task in tasks.items() if not task.env.has_success]
    for flag, given in {"--turns": _TURNS.value, "--attempts": _ATTEMPTS.value > 1}.items():
        if given and without:
            raise ValueError(f"{flag}: {', '.join(without)} has no success to count; leave it out")


def _print_budgets(played: list[Any]) -> None:
    """Success and turns under each limit of --turns, means over seeds."""
    from agentrl.evaluation.budgets import budget_curve

    limits = [int(text) for text in _TURNS.value]
    curves = [budget_curve(x["length"], x["success"], limits) for x in map(_lists, played)]
    print(f"{'turns':10}{'success':>28}{'turns taken':>28}")
    for limit, *budgets in zip(limits, *curves, strict=True):
        solved, cost = (sum(x) / len(budgets) for x in list(zip(*budgets, strict=True))[1:])
        print(f"{limit:<10}{solved:28.3f}{cost:28.1f}")


def _print_attempts(run: Any, task: Any, keys: Any) -> None:
    """Shares of tasks that all and that any of k attempts solve, means over seeds."""
    import jax
    import numpy as np

    from agentrl.evaluation.selection import all_of, any_of

    def of_all_seeds(params, key):
        def of_one(params):
            return task.evaluate(params, keys, key, _GREEDY.value)

        return run.experiment.over_seeds(of_one)(params)

    play = run.experiment.maybe_jit(of_all_seeds)
    first = jax.random.key(_SEED.value + 1)
    others = [jax.random.fold_in(first, number) for number in range(1, _ATTEMPTS.value)]
    outcomes = [play(run.state.params, key).success for key in (first, *others)]
    right = np.stack(jax.device_get(outcomes), axis=-1).reshape(-1, _ATTEMPTS.value)
    print(f"{'attempts':10}{'all right (pass^k)':>28}{'any right':>28}")
    for k in range(1, _ATTEMPTS.value + 1):
        print(f"{k:<10}{all_of(right, k).mean():28.3f}{any_of(right, k).mean():28.3f}")


def _searches(run: Any, task: Any) -> Any:
    """The searches of --search, None without. ValueError where the task cannot be searched."""
    if not _SEARCH.value:
        return None
    from agentrl.trained.searches import search_options, searches

    return searches(run.config, task, search_options(_SEARCH.value))


def _print_search(run: Any, searches: Any) -> None:
    """What sampling, a search and a planner solve with the same number of replies, by seed."""
    import jax
    import numpy as np

    from agentrl.evaluation import play

    keys, key = play.task_keys(_SEED.value, _EPISODES.value), jax.random.key(_SEED.value + 1)
    found = []
    for seed in range(run.config.num_seeds):
        params = jax.tree.map(lambda x, i=seed: x[i], run.state.params)
        found.append(searches.ways(params, keys, key, _GREEDY.value))
    budgets = sorted({max(searches.replies // part, 1) for part in (8, 4, 2, 1)})
    heads = [f"solved in {budget}" for budget in budgets]
    print(f"replies of the policy per task; {searches.options}")
    print(f"{'':10}" + "".join(f"{x:>16}" for x in (*heads, "replies", "plans", "shared")))
    for name in found[0]:
        ways = [one[name] for one in found]
        shares = [np.mean([way.within(budget) for way in ways]) for budget in budgets]
        took = [np.mean([getattr(way, part) for way in ways]) for part in _TOOK]
        each = " ".join(f"{way.solved.mean():.3f}" for way in ways)
        numbers = [*(f"{x:.3f}" for x in shares), *(f"{x:.1f}" for x in took)]
        print(f"{name:10}" + "".join(f"{x:>16}" for x in numbers) + f"   {each}")


def _seeds(config: Any) -> list[int]:
    return [config.seed + i for i in range(config.num_seeds)]


def _rows(run: Any, task: Any, keys: Any, opponent: Any, side: Any) -> list[tuple[str, Any]]:
    """(player, outcomes) of each seed's policy, then of random play and of the expert."""
    import jax
    import numpy as np

    from agentrl.evaluation import play
    from agentrl.players.scripted import expert_actor, random_actor
    from envs.vector import World

    env, env_params = task.env, task.env_params
    chance = jax.random.key(_SEED.value + 1)

    def outcomes(player):
        return jax.tree.map(
            np.asarray,
            jax.jit(play.play, static_argnums=(0, 1, 5, 6))(
                player, env, env_params, keys, chance, opponent, side
            ),
        )

    def policy_outcomes(params):
        return task.evaluate(params, keys, chance, _GREEDY.value)

    all_seeds = run.experiment.maybe_jit(run.experiment.over_seeds(policy_outcomes))
    per_seed = jax.tree.map(np.asarray, all_seeds(run.state.params))
    rows = [
        (f"seed {seed}", jax.tree.map(lambda x, i=i: x[i], per_seed))
        for i, seed in enumerate(_seeds(run.config))
    ]
    # Scripted players act in programs alone: games of an environment in Python are self-play.
    if not task.rollout.runner.traced:
        return rows
    rows.append(("random", outcomes(random_actor(env))))
    if _EXPERT.value:
        try:
            rows.append(("expert", outcomes(expert_actor(World(env, env_params)))))
        except NotImplementedError:
            pass  # then the table has no regret
    return rows


def _columns(has_success: bool, expert: Any | None) -> dict[str, Callable[[Any], str]]:
    """Titles of the table's columns, and what each shows of a player's outcomes."""
    columns = {"return (95 %)": lambda played: _mean(played.episode_return)}
    columns["length"] = lambda played: f"{played.length.mean():.2f}"
    if has_success:
        columns["success (95 %)"] = lambda played: _share(played.success)
    if expert is not None:
        columns["regret (95 %)"] = lambda played: _mean(
            expert.episode_return - played.episode_return
        )
    return columns


def _by_kind(env, env_params, keys, rows) -> list[str | None]:
    """Prints the success per kind of task; returns the kind of every task."""
    import numpy as np

    from agentrl.evaluation import play

    kind = np.asarray(play.kinds(env, env_params, keys))
    width = 2 + max(len(name) for name in (*env.kinds, "success by kind"))
    print(f"{'success by kind':{width}}{'tasks':>6}" + "".join(f"{who:>24}" for who, _ in rows))
    for number, name in enumerate(env.kinds):
        mine = kind == number
        if mine.any():
            shares = "".join(f"{_share(played.success[mine]):>24}" for _, played in rows)
            print(f"{name:{width}}{mine.sum():6}{shares}")
    return [env.kinds[number] if number >= 0 else None for number in kind]


def _mean(values) -> str:
    from agentrl.evaluation import statistics

    low, high = statistics.mean_interval(values)
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def _share(successes) -> str:
    from agentrl.evaluation import statistics

    low, high = statistics.wilson(int(successes.sum()), len(successes))
    return f"{successes.mean():.3f} [{low:.3f}, {high:.3f}]"


def _lists(outcomes) -> dict[str, list]:
    return {name: column.tolist() for name, column in outcomes._asdict().items()}


if __name__ == "__main__":
    cli.run(main)
