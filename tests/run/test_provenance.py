"""What a run says of its origin, apart from the run."""

import json

import jax.numpy as jnp
import numpy as np

from agentrl.run import provenance


def test_equal_parameters_have_equal_checksums():
    params = {"a": jnp.arange(3.0), "b": {"c": jnp.ones((2, 2), jnp.bfloat16)}}
    same = {"b": {"c": np.asarray(params["b"]["c"])}, "a": np.arange(3, dtype=np.float32)}
    found = provenance.checksum(params)
    assert found == provenance.checksum(same)
    changed = (
        params | {"a": jnp.arange(3.0).at[0].set(-0.0)},  # another bit
        params | {"a": jnp.arange(3)},
        params | {"a": jnp.arange(3.0)[None]},
        {"d": params["a"], "b": params["b"]},
    )
    assert len({found, *map(provenance.checksum, changed)}) == 5


def test_a_run_that_goes_on_keeps_what_it_began_from(tmp_path):
    began = provenance.start_of(tmp_path, {"a": jnp.ones(2)})
    assert provenance.start_of(tmp_path, None) is None
    (tmp_path / "provenance.json").write_text(json.dumps({"command": "x", "start": began}))
    assert provenance.start_of(tmp_path, None) == began
    # Of a version that did not write it.
    (tmp_path / "provenance.json").write_text(json.dumps({"command": "x"}))
    assert provenance.start_of(tmp_path, None) is None


def test_it_says_what_results_depend_on():
    found = provenance.provenance("python -m launchers.train")
    assert found["cores"] >= 1 and found["devices"] and found["packages"]["jax"]
