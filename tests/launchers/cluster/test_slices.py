import pytest

from launchers.cluster import slices


@pytest.mark.parametrize(
    ("device", "label", "hosts", "chips"),
    [
        ("v5e:1x1", "tpu-v5-lite-podslice", 1, 1),
        ("v5e:2x2", "tpu-v5-lite-podslice", 1, 4),
        ("v5e:2x4", "tpu-v5-lite-podslice", 1, 8),
        ("v5e:4x4", "tpu-v5-lite-podslice", 4, 4),
        ("v6e:16x16", "tpu-v6e-slice", 64, 4),
        ("v4:2x2x1", "tpu-v4-podslice", 1, 4),
        ("v5p:4x4x8", "tpu-v5p-slice", 32, 4),
    ],
)
def test_hosts_of_a_slice_and_their_chips(device, label, hosts, chips):
    found = slices.find(device)
    assert (found.label, found.hosts, found.chips) == (label, hosts, chips)


@pytest.mark.parametrize("device", ["v5e:3x3", "v5e:4x2", "v6e:2x2x1", "v5p:2x4", "v4:4x4x6"])
def test_slices_that_do_not_exist_are_errors_that_name_those_that_do(device):
    kind = device.partition(":")[0]
    with pytest.raises(ValueError, match=rf"device='{device}': expected one of .* after {kind}:"):
        slices.find(device)
