"""The one-file programs are the library's updates, number for number."""

import importlib.util
import pathlib

import jax
import numpy as np
import pytest

from agentrl.config.build import build
from configs.start import cartpole_ppo
from configs.words import coin_talk

COLAB = pathlib.Path(__file__).parents[2] / "colab"


def program(name):
    spec = importlib.util.spec_from_file_location(name, COLAB / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len((COLAB / f"{name}.py").read_text().splitlines()) <= 150
    return module


def close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), ours, theirs)


def test_ppo_is_the_librarys():
    one_file = program("ppo_in_one_file")
    config = cartpole_ppo.get_config()
    config.log_every, config.mesh.data = 2, 1
    experiment = build(config)
    ((_, train),) = experiment.phases
    ours, _ = jax.jit(lambda s: jax.lax.scan(one_file.update, s, length=2))(one_file.init(3))
    theirs, _ = jax.jit(train)(jax.jit(experiment.init)(3))
    close(ours.params, theirs.params)
    np.testing.assert_array_equal(jax.random.key_data(ours.key), jax.random.key_data(theirs.key))


@pytest.mark.long
def test_gigpo_in_words_is_the_librarys():
    one_file = program("gigpo_in_words_in_one_file")
    config = coin_talk.get_config("gigpo")
    config.mesh.data, config.log_every, config.updates = 1, 1, 4
    config.evaluation.every = config.warm_start.updates = 0
    config.learner.update(microbatch=None, lengths=1)
    experiment = build(config)
    ((_, train),) = experiment.phases
    ours, _ = jax.jit(lambda s: one_file.update(s, None))(one_file.init(3))
    theirs, _ = jax.jit(train)(jax.jit(experiment.init)(3))
    close(ours.params, theirs.params)
    np.testing.assert_array_equal(jax.random.key_data(ours.key), jax.random.key_data(theirs.key))
