"""Meshes that a config asks for: which are refused, and what is said."""

import pytest
import tiny

from agentrl.config.build import build
from agentrl.run import mesh


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (tiny.groups_config, {"mesh__data": 16}, "16 devices, but there are 8; lower it"),
        (tiny.groups_config, {"mesh__data": 4, "mesh__fsdp": 4}, "mesh.data=4, config.mesh.fsdp=4"),
        (tiny.groups_config, {"mesh__fsdp": 0}, "config.mesh.fsdp=0: expected at least 1"),
        (tiny.groups_config, {"mesh__data": -1}, "config.mesh.data=-1"),
        (tiny.groups_config, {"mesh__data": 3}, "num_groups=8 does not divide over 3 devices"),
        (tiny.groups_config, {"mesh__tensor": 2}, "tensor parallelism needs a decoder policy"),
        (tiny.talk_config, {"mesh__tensor": 2}, "does not divide the decoder's kv_heads=1"),
        (
            tiny.talk_config,
            {"mesh__data": 8, "learner__microbatch": 4},
            "microbatch=4 does not divide over 8 devices",
        ),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(make, changes, message):
    config = make(**changes)
    with pytest.raises(ValueError, match=message):
        mesh.make_mesh(config, build(config))


def test_data_takes_what_the_others_leave():
    config = tiny.talk_config(mesh__data=0, mesh__fsdp=4)
    assert dict(mesh.make_mesh(config, build(config)).shape) == {"data": 2, "fsdp": 4, "tensor": 1}
    config.mesh.fsdp = 1
    config.mesh.data = 1
    assert mesh.make_mesh(config, build(config)) is None
