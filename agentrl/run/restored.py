"""A run read back from its directory: config, experiment and state."""

import json
import os
import pathlib
import re
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

import envs
from agentrl.config import bind as configs
from agentrl.config.build import Experiment, build
from agentrl.config.environments import environments
from agentrl.config.tasks import Task, make_task
from agentrl.devices.placement import parameter_sharding
from agentrl.learner.state import TrainState
from agentrl.policies import lora, output_heads
from agentrl.run import checkpoint, mesh
from agentrl.run.files import RunError, read_json
from agentrl.run.programs import compile_programs

# Entries of a language policy that a run it starts from may lack: adapters, further heads.
_BEGIN_ANEW = (*lora.ENTRIES, output_heads.ENTRY, "value_head")


class Run(NamedTuple):
    """Content of a run directory; the state has a leading axis of seeds."""

    config: ml_collections.ConfigDict
    experiment: Experiment
    update: int
    state: TrainState


def load(workdir: pathlib.Path, update: int | None = None) -> Run:
    """Reads a run, at its newest checkpoint unless `update` is given.

    Raises:
      RunError: no run there, an unreadable config, or one that does not fit this version of the
        code. CheckpointError: no usable checkpoint.
    """
    path = workdir / "config.json"
    if not os.path.lexists(path):
        raise RunError(f"{workdir} holds no run (no config.json); name the directory of a run")
    try:
        config = ml_collections.ConfigDict(read_json(path))
    except TypeError as error:
        raise RunError(f"{path} is not a readable config ({error})") from None
    checkpoint.check(workdir / "checkpoints")
    try:
        experiment = build(config)
    except ValueError as error:
        raise RunError(
            f"{path}: {error}. If agentrl has changed since the run, {_origin(workdir)}"
        ) from None
    shapes = compile_programs(experiment, config, None).shapes
    found, state = checkpoint.restore(workdir / "checkpoints", shapes, update)
    return Run(config, experiment, found, state)


def _origin(workdir: pathlib.Path) -> str:
    """Where to find the code that can read a run."""
    try:
        commit = read_json(workdir / "provenance.json")["git"]["commit"]
    except (RunError, KeyError, TypeError):
        return "read it with the version that wrote it"
    return f"read it with the version that wrote it: git checkout {commit}"


def beginning(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    device_mesh: jax.sharding.Mesh | None = None,
) -> chex.ArrayTree | None:
    """Initial parameters [seeds, ...] of training: of other runs (config.init_from), or published
    weights, which have no value heads. None: random ones.

    Published weights are read into their shards on the mesh: no device holds the whole model.

    Raises:
      As `parameters`; ValueError: weights that cannot be read.
    """
    # Cells of sweeps have "=" in the names of their directories.
    if (pathlib.Path(config.init_from) / "config.json").exists():
        return parameters(pathlib.Path(config.init_from), config, experiment)
    if re.match(r"[^/]+=", config.init_from):
        return parts(config, experiment)
    if "*" in config.init_from:
        return average(config, experiment)
    if config.init_from:
        return parameters(pathlib.Path(config.init_from), config, experiment)
    read = experiment.policy.load
    if read is None:
        return None
    weights = read(parameter_sharding(device_mesh))

    def for_seeds(x):
        return jnp.repeat(x[None], config.num_seeds, axis=0)

    shapes = jax.eval_shape(lambda tree: jax.tree.map(for_seeds, tree), weights)
    placed = mesh.parameter_shardings(device_mesh, shapes)
    program = jax.jit(for_seeds)
    leaves, tree = jax.tree.flatten(weights)
    where = [None] * len(leaves) if placed is None else jax.tree.leaves(placed)
    del weights
    # Each is deleted once it is placed: the devices hold one array twice, not the model.
    out = []
    for at in where:
        one = program(leaves.pop(0))
        out.append(one if at is None else jax.device_put(one, at))
    return tree.unflatten(out)


def initial(run: Run) -> chex.ArrayTree:
    """The parameters [seeds, ...] that a run began from, made or read again.

    Raises:
      As `beginning`: what it began from is no longer there.
    """
    seeds = jnp.arange(run.config.num_seeds, dtype=jnp.int32) + run.config.seed
    drawn = jax.jit(jax.vmap(lambda seed: run.experiment.init(seed).params))(seeds)
    return {**drawn, **(beginning(run.config, run.experiment) or {})}


def _of_seeds(run: Run, config: ml_collections.ConfigDict, where: str) -> chex.ArrayTree:
    """A run's parameters of this config's seeds. RunError if some are missing."""
    theirs = range(run.config.seed, run.config.seed + run.config.num_seeds)
    ours = range(config.seed, config.seed + config.num_seeds)
    if ours[0] not in theirs or ours[-1] not in theirs:
        raise RunError(
            f"{where} has seeds {theirs[0]} to {theirs[-1]}, this config {ours[0]} to {ours[-1]}; "
            "each starts from the parameters of its own seed: change config.seed or num_seeds"
        )
    return jax.tree.map(lambda x: x[ours[0] - theirs[0] :][: len(ours)], run.state.params)


def _shapes(params: chex.ArrayTree) -> chex.ArrayTree:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), params)


def parts(config: ml_collections.ConfigDict, experiment: Experiment) -> chex.ArrayTree:
    """Entries of the parameters from runs of their own, by config.init_from="NAME=DIR,...".

    A run's policy may have more than the entry needs, such as a critic, which is ignored.

    Raises:
      RunError: the policy, or a run's policy, has no such entry; or as in `load`.
    """
    wanted = jax.eval_shape(experiment.policy.init, jax.random.key(0))
    taken = {}
    for item in config.init_from.split(","):
        name, _, directory = item.partition("=")
        where = f"config.init_from: {item!r}"
        if name not in wanted:
            raise RunError(
                f"{where}: the policy has no {name!r}{configs.nearest(name, wanted)}; expected "
                f"NAME=DIR, ... of {', '.join(wanted)}"
            )
        params = _of_seeds(load(pathlib.Path(directory)), config, where)
        params = params.get(name, params)
        params = {key: params[key] for key in wanted[name] if key in params}
        if _shapes(params) != wanted[name]:
            raise RunError(f"{where} holds another policy; use its config.policy")
        taken[name] = params
    return taken


def average(config: ml_collections.ConfigDict, experiment: Experiment) -> chex.ArrayTree:
    """Weighted mean of runs' parameters, by config.init_from="WEIGHT*DIR,WEIGHT*DIR,...".

    theta = sum_k w_k theta_k, sum_k w_k = 1: specialists that began from the same parameters become
    one policy (UI-TARS-2, https://arxiv.org/abs/2509.02544, from notes). In float32.

    Raises:
      RunError: weights that are no numbers or do not add up to 1; or as in `parameters`.
    """
    total, weights = None, []
    for item in config.init_from.split(","):
        text, _, directory = item.partition("*")
        try:
            weights.append(float(text))
        except ValueError:
            raise RunError(
                f"config.init_from: {item!r}: expected WEIGHT*DIR with a number, as 0.5*runs/one"
            ) from None
        own = parameters(pathlib.Path(directory.strip()), config, experiment)
        own = jax.tree.map(lambda x, w=weights[-1]: w * x.astype(jnp.float32), own)
        total = own if total is None else jax.tree.map(jnp.add, total, own)
    if abs(sum(weights) - 1) > 1e-6:
        raise RunError(
            f"config.init_from={config.init_from!r}: the weights add up to {sum(weights):g}; "
            "expected 1"
        )
    wanted = jax.eval_shape(experiment.policy.init, jax.random.key(0))
    return {
        name: jax.tree.map(lambda x, like: x.astype(like.dtype), part, wanted[name])
        for name, part in total.items()
    }


def parameters(
    workdir: pathlib.Path, config: ml_collections.ConfigDict, experiment: Experiment
) -> chex.ArrayTree:
    """Parameters of another run's newest checkpoint, seed by seed, for this config to start from.

    Entries of `_BEGIN_ANEW` that the run lacks are missing in the result, too: they start from
    their random initialisation, on the parameters of that run.

    Raises:
      RunError: that run lacks some of this config's seeds, or has another policy; or as in `load`.
    """
    run = load(workdir)
    where = f"config.init_from={str(workdir)!r}"
    params = _of_seeds(run, config, where)
    wanted = jax.eval_shape(experiment.policy.init, jax.random.key(0))
    found = _shapes(params)
    new = [name for name in _BEGIN_ANEW if name not in found]
    wanted = {name: shapes for name, shapes in wanted.items() if name not in new}
    if found != wanted:
        raise RunError(
            f"{where} holds another policy; use its config.policy: of a language policy adapters, "
            "output heads and a critic can be added, nothing else"
        )
    if _vocabulary(run.experiment) != _vocabulary(experiment):
        raise RunError(f"{where} reads other words; use its codec, environment and wording")
    return params


def _vocabulary(experiment: Experiment) -> bytes | None:
    """The texts of a language policy's tokens."""
    codec = experiment.policy.codec
    return None if codec is None else np.asarray(codec.token_bytes).tobytes()


def elsewhere(run: Run, name: str) -> dict[str, Task]:
    """A run's policy in an environment of that name, by its name.

    Raises:
      ValueError: there is no such environment, or the policy cannot play it.
    """
    if name in run.experiment.tasks:
        return {name: run.experiment.tasks[name]}
    env, env_params = envs.make(name)
    try:
        policy = run.experiment.policy.elsewhere(env, run.experiment.tasks)
    except ValueError as error:
        raise ValueError(f"--env={name}: {error}") from None
    config = run.config.copy_and_resolve_references()
    if "opponent" in config.rollout:  # the opponent of training does not exist here
        config.rollout.update(opponent="self", members=None)
    return {name: make_task(config, policy, name, env, env_params)}


def otherwise(run: Run, options: list[str]) -> dict[str, Task]:
    """A run's policy in its own environment with other options, KEY=VALUE each.

    Raises:
      ValueError: there is no such option, or the value is invalid.
    """
    config = run.config.copy_and_resolve_references()
    if not isinstance(config.env.name, str):
        raise ValueError(f"--options are for one environment, not {', '.join(config.env.name)}")
    known = [key for key in config.env if key != "name"]
    # What an environment in Python takes is known to its own constructor alone.
    takes_any = not run.experiment.rollout.runner.traced
    for option in options:
        key, _, text = option.partition("=")
        if key not in known and not takes_any:
            raise ValueError(
                f"--options={option}{configs.nearest(key, known)}: expected KEY=VALUE of "
                f"{', '.join(known)}"
            )
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        try:
            with config.unlocked():
                config.env[key] = value
        except TypeError as error:
            raise ValueError(f"--options={option}: {error}") from None
    (made,) = environments(config.env).values()
    label = f"{config.env.name},{','.join(options)}"
    return {label: make_task(config, run.experiment.policy, label, *made)}


def acting(run: Run, options: list[str]) -> dict[str, Task]:
    """A run's parameters in its own environments, with other options of its policy, KEY=VALUE each:
    those that say how it acts, such as temperature or head_weights.

    Raises:
      ValueError: there is no such option, the value is invalid, or the parameters are not those of
        such a policy.
    """
    config = run.config.copy_and_resolve_references()
    for option in options:
        key, _, text = option.partition("=")
        if key not in config.policy:
            known = [name for name in config.policy if name != "name"]
            raise ValueError(
                f"--policy={option}{configs.nearest(key, known)}: expected KEY=VALUE of "
                f"{', '.join(known)}"
            )
        try:
            value = json.loads(text)
            config.policy[key] = tuple(value) if isinstance(value, list) else value
        except (json.JSONDecodeError, TypeError) as error:
            raise ValueError(f"--policy={option}: {error}") from None
    experiment = build(config)
    if jax.eval_shape(experiment.policy.init, jax.random.key(0)) != _shapes(run.state.params):
        raise ValueError(f"--policy={','.join(options)} has other parameters than the run's policy")
    label = ",".join(options).replace("/", "_")
    return {f"{name},{label}": task for name, task in experiment.tasks.items()}
