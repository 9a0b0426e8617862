"""Success of one of several attempts at each task, chosen at random, by self-consistency, or by a
generative verifier.

    python -m launchers.select --workdir=runs/mars_verifier --tasks=256 --attempts=8

The run's policy plays each task several times, in all roles; as the validator it is also asked for
its probability of yes after each finished attempt, with each seed of --verifier (the run itself by
default) in turn, and the mean counts. "random" is the expected success of any attempt, "oracle"
that of a right one if there is any. With 95 % intervals over tasks, of each seed of the run. The
first seed's are written into attempts.json of the run's directory, with the texts of some attempts,
which launchers.report shows side by side.
"""

import pathlib

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run that plays.")
_VERIFIER = flags.DEFINE_string("verifier", None, "Directory of the run that judges.")
_TASKS = flags.DEFINE_integer("tasks", 256, "Number of tasks.", lower_bound=2, upper_bound=100_000)
_ATTEMPTS = flags.DEFINE_integer(
    "attempts", 8, "Attempts at each task.", lower_bound=2, upper_bound=1024
)
_AT_ONCE = flags.DEFINE_integer("at_once", 32, "Tasks that are played at once.", lower_bound=1)
_OVER = flags.DEFINE_enum(
    "over", "pair", ["pair", "all"], "What p(yes) is of: yes and no alone, or the vocabulary."
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Seed of tasks and attempts.", lower_bound=0, upper_bound=cli.LARGEST_SEED
)
# Tasks whose attempts are written with their texts.
_SHOWN = 16


def main(argv: list[str]) -> None:
    """Restores, plays, judges, prints."""
    if len(argv) > 1 or _WORKDIR.value is None:
        cli.fail("name the directory of a run of a team with a validator: --workdir=runs/verifier")
    if _TASKS.value % _AT_ONCE.value:
        cli.fail(f"--at_once={_AT_ONCE.value} does not divide --tasks={_TASKS.value}")
    cli.use_compilation_cache()
    from agentrl.evaluation import selection, statistics
    from agentrl.run import checkpoint, restored

    try:
        run = restored.load(pathlib.Path(_WORKDIR.value))
        judge = run if _VERIFIER.value is None else restored.load(pathlib.Path(_VERIFIER.value))
        attempts, texts = _attempts(run, judge)
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    for seed in range(run.config.num_seeds):
        right, result, valid, p_yes = attempts(seed)
        shares = selection.selections(right, result, valid, p_yes)
        if seed == 0:
            first = shares, _sheets(texts(), right, result, valid, p_yes.mean(axis=2))
        accuracy = ((p_yes.mean(axis=2) > 0.5) == right)[valid].mean()
        print(
            f"seed {run.config.seed + seed}: {_TASKS.value} tasks, {_ATTEMPTS.value} attempts "
            f"each, {valid.mean():.3f} with a result, verdicts {accuracy:.3f} right"
        )
        for name, share in shares.items():
            low, high = statistics.mean_interval(share)
            print(f"  {name:18}{share.mean():.3f} [{low:.3f}, {high:.3f}]")
    _write(run, *first)


def _write(run, shares, sheets):
    from agentrl.evaluation import sheets as records
    from agentrl.evaluation.statistics import mean_interval

    told = {}
    for name, share in shares.items():
        low, high = mean_interval(share)
        told[name] = {"mean": float(share.mean()), "low": float(low), "high": float(high)}
    about = {"update": run.update, "tasks": _TASKS.value, "task_seed": _SEED.value, "shares": told}
    path = pathlib.Path(_WORKDIR.value) / "attempts.json"
    records.write(path, about, sheets)
    print(f"written: {path}")


def _sheets(texts, right, result, valid, score):
    """The attempts of the first tasks beside each other; texts: of each attempt, with its task's
    first."""
    from agentrl.evaluation import selection
    from agentrl.evaluation.sheets import Sheet
    from envs.agents import Draft

    chosen = {
        "self-consistency": selection.self_consistency(result, valid),
        "verifier": selection.select_best(score, valid),
    }
    sheets = []
    for g, (task, attempts) in enumerate(texts[:_SHOWN]):
        drafts = tuple(
            Draft(f"attempt {n + 1}", text, (), bool(valid[g, n]), bool(right[g, n] & valid[g, n]))
            for n, text in enumerate(attempts)
        )
        choices = {name: int(at[g]) for name, at in chosen.items()}
        sheets.append(Sheet(f"task {g}", drafts, tuple(score[g].tolist()), choices, task))
    return sheets


def _attempts(run, judge):
    """((seed) -> (right, result, valid [G, N], p_yes [G, N, S]) of a run's attempts, () -> texts
    of the first seed's first ones, see `_texts`)."""
    import jax
    import numpy as np

    from agentrl.config.tasks import make_task
    from agentrl.methods.verifier import verdict_tokens

    (name,) = run.experiment.tasks
    (theirs,) = judge.experiment.tasks
    played, config = run.experiment.tasks[name], run.config.copy_and_resolve_references()
    with config.unlocked():
        config.rollout.update(num_groups=_AT_ONCE.value, group_size=_ATTEMPTS.value)
    task = make_task(config, played.policy, name, played.env, played.env_params)
    judging = judge.experiment.tasks[theirs].policy
    tokens = verdict_tokens(task.policy, task.env)
    if verdict_tokens(judging, judge.experiment.tasks[theirs].env) != tokens:
        raise ValueError(f"--verifier={_VERIFIER.value} reads other words than {_WORKDIR.value}")
    batch = jax.jit(lambda params, judges, key: _batch(task, judging, tokens, params, judges, key))

    def of_seed(seed):
        params = jax.tree.map(lambda x: x[seed], run.state.params)
        keys = jax.random.split(jax.random.key(_SEED.value), _TASKS.value // _AT_ONCE.value)
        parts = [jax.device_get(batch(params, judge.state.params, key)) for key in keys]
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return [x.reshape(_TASKS.value, _ATTEMPTS.value, *x.shape[1:]) for x in joined]

    def texts():
        params = jax.tree.map(lambda x: x[0], run.state.params)
        key = jax.random.split(jax.random.key(_SEED.value), _TASKS.value // _AT_ONCE.value)[0]
        carried = task.rollout.init(key)
        _, streams, rows, _ = jax.device_get(jax.jit(task.rollout.collect)(params, carried, key))
        return _texts(task.policy.codec, streams, rows)

    return of_seed, texts


def _texts(codec, streams, rows):
    """(what the first agent reads of the task, texts of its attempts), task by task."""
    import numpy as np

    from agentrl.evaluation.transcripts import find_turn
    from agentrl.policies.codec import decode

    found = {}
    for episode in np.unique(streams.episode):
        own = np.flatnonzero(streams.episode == episode)
        turns = sorted((t, i) for i in own for t in np.flatnonzero(streams.mask[i]))
        lines, task = [], ""
        for t, i in turns:
            row, read, written = find_turn(rows, i, t)
            task = task or decode(codec, rows.tokens[row][read]).strip()
            lines.append(f"{streams.role[i]}: {decode(codec, rows.tokens[row][written]).strip()}")
        first, attempts = found.setdefault(streams.group[own[0]], (task, []))
        attempts.append("\n".join(lines))
    return list(found.values())


def _batch(task, judging, tokens, params, judges, key):
    """(right [B], result [B], valid [B], p_yes [B, S]) of B attempts."""
    import jax
    import jax.numpy as jnp

    from agentrl.methods.verifier import p_yes, verdict_rows

    env, rollout = task.env, task.rollout
    carried = rollout.init(key)
    _, streams, rows, _ = rollout.collect(params, carried, key)
    ends = jax.tree.map(lambda x: x[-1], rollout.states(params, carried, key))
    result, valid = jax.vmap(env.result_of, in_axes=(0, None))(ends, task.env_params)
    # The validator's row of each attempt; of those without one any row, which is not valid.
    rows, count = verdict_rows(rows, streams, env.validator), valid.shape[0]
    asked = jnp.any(rows.loss_mask, axis=1)
    episode = jnp.where(asked, rows.stream // env.num_agents, count)
    at = jnp.zeros(count, jnp.int32).at[episode].set(jnp.arange(asked.shape[0]), mode="drop")
    rows = jax.tree.map(lambda x: x[at], rows)
    scores = jax.vmap(lambda one: p_yes(judging, one, rows, tokens, over=_OVER.value))(judges)
    right = jnp.any(streams.success & streams.mask, axis=1)
    right = jnp.any(right.reshape(count, env.num_agents), axis=1)
    return right, result, valid, scores.T


if __name__ == "__main__":
    cli.run(main)
