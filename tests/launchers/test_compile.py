"""Compiling for machines that are not here.

Those parts that need XLA's compilers for CUDA or TPU run where these are installed.
"""

import dataclasses
import importlib.util
import pathlib

import chex
import jax
import jax.numpy as jnp
import pytest
from commands import call
from in_process import call_here

import configs
from agentrl.config.build import build
from agentrl.devices import targets
from agentrl.policies import decoder
from agentrl.policies.decoder import DecoderConfig
from agentrl.run import mesh
from configs.start import frozen_lake
from launchers import compile as compiling

CONFIGS = pathlib.Path(configs.__file__).parent
LAKE = f"--config={CONFIGS / 'start/frozen_lake.py'}"
TINY = ["--config.num_seeds=1", "--config.policy.hidden=(8,)", "--config.learner.minibatches=1"]
TINY += ["--config.env.max_steps_in_episode=6", "--config.rollout.num_groups=2"]
SMALL = DecoderConfig(
    vocab_size=64, width=128, layers=2, heads=4, kv_heads=2, head_dim=32, dtype="bfloat16"
)


def installed(*modules):
    try:
        return any(importlib.util.find_spec(name) for name in modules)
    except ModuleNotFoundError:  # the package that holds them
        return False


cuda = pytest.mark.skipif(
    not installed("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"),
    reason="needs XLA's compiler for CUDA: pip install 'jax[cuda12]'",
)
tpu = pytest.mark.skipif(
    not installed("libtpu"), reason="needs XLA's compiler for TPU: pip install 'jax[tpu]'"
)


def lake():
    config = frozen_lake.get_config()
    config.rollout.update(num_groups=8, group_size=2)
    return config


def test_programs_of_this_machine():
    config = lake()
    config.mesh.data = 1
    rows = {row["program"]: row for row in compiling.measure(config, ["init", "train"])}
    state = jax.eval_shape(build(config).init, jnp.int32(0))
    mib = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state)) / 2**20
    # The state goes in and comes back in its place; the alignment of arrays is the compiler's.
    assert rows["train"]["given_mib"] == pytest.approx(mib, rel=0.05)
    assert rows["train"]["returned_mib"] < 0.05 * mib + 0.01
    assert rows["train"]["between_mib"] > 0
    assert rows["init"]["returned_mib"] == pytest.approx(mib, rel=0.05)
    for row in rows.values():
        parts = [row[f"{name}_mib"] for name in ("given", "returned", "between")]
        assert row["sum_mib"] == pytest.approx(sum(parts))


def test_a_target_has_the_devices_of_the_mesh():
    config = lake()
    bound = build(config)
    here = targets.Target("two", jax.devices()[:2], 2**30)
    chex.assert_equal(mesh.make_mesh(config, bound, here).shape["data"], 2)
    one = targets.Target("one", jax.devices()[:1], 2**30)
    assert mesh.make_mesh(config, bound, one).size == 1
    config.mesh.fsdp = 4
    with pytest.raises(ValueError, match="4 devices, but there are 2.*name a target of more"):
        mesh.make_mesh(config, bound, here)


def test_the_command_says_what_fits():
    done = call("compile", LAKE, *TINY)
    assert done.returncode == 0, done.stderr
    title, columns, row = done.stdout.splitlines()
    assert title == "Memory of one device of this machine"
    assert columns.split()[0] == "program" and row.split()[0] == "train"


def test_what_does_not_fit_is_an_error():
    rows = [{"program": "train", "sum_mib": 3.0}, {"program": "evaluate", "sum_mib": 1.0}]
    assert compiling.too_large(rows, 3 * 2**20) is None
    assert "train does not fit: raise config.mesh.fsdp" in compiling.too_large(rows, 2**21)


BAD = {
    "no config": (["--target=h100"], "--config is missing"),
    "no such machine": ([LAKE, "--target=h300"], "'h300': expected one of a100, h100, h200"),
    "no such slice": ([LAKE, "--target=v5e"], "or a slice of v4, v5e"),
    "no such number": ([LAKE, "--target=h100:0"], "'h100:0'"),
    "half a host": ([LAKE, "--target=h100:12"], "more than 8 come in eights"),
    "no such program": ([LAKE, "--programs=trian"], "--programs=trian: expected some of init"),
    "no warm start": ([LAKE, "--programs=warm_start"], "has no warm start"),
    "stray word": ([LAKE, "h100"], "'h100' is not a flag"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_commands(case):
    flags, words = BAD[case]
    done = call_here("compile", *flags)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("name", ["h100", "v5e:2x2"])
def test_a_compiler_that_is_missing_is_named(name, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr(targets.topologies, "get_topology_desc", refuse)
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match="is not installed.*pip install 'jax"):
        targets.find(name)


def _text(name, function, *args):
    """What a machine's compiler makes of a function."""
    device = targets.find(name).devices[0]
    target = targets.Target(name, [device], 0)
    with mesh.use(mesh.make_mesh(lake(), build(lake()), target)):
        return jax.jit(function).lower(*args).compile().as_text()


def _gradient(config):
    params = jax.eval_shape(lambda: decoder.init(jax.random.key(0), config))
    tokens = jax.ShapeDtypeStruct((2, 256), jnp.int32)
    return jax.grad(lambda p, x: jnp.sum(decoder.hidden(p, config, x))), params, tokens


@cuda
def test_attention_on_a_gpu():
    forward = "__cudnn$fmhaSoftmax"
    plain, params, tokens = _gradient(SMALL)
    assert forward not in _text("h100", plain, params, tokens)
    flash, params, tokens = _gradient(dataclasses.replace(SMALL, attention="cudnn", remat=True))
    text = _text("h100", flash, params, tokens)
    # A layer once forwards, once again for its gradient, and once backwards.
    assert text.count(f'custom_call_target="{forward}"') == 2 * SMALL.layers
    assert text.count('custom_call_target="__cudnn$fmhaSoftmaxBackward"') == SMALL.layers


@cuda
@pytest.mark.parametrize("name", ["a100", "h200:2"])
def test_a_run_compiles_for_a_gpu(name):
    (row,) = compiling.measure(lake(), ["train"], targets.find(name))
    assert row["between_mib"] > 0


@tpu
def test_a_run_compiles_for_a_tpu():
    (row,) = compiling.measure(lake(), ["train"], targets.find("v5e:2x2"))
    assert row["given_mib"] > 0
