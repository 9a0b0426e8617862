"""Packages whose names are imported at first use."""

import inspect
import subprocess
import sys

import pytest

from agentrl import advantages, losses, policies, rewards, rollout, selfplay

PACKAGES = (advantages, losses, policies, rewards, rollout, selfplay)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_and_is_no_module_in_its_place(package):
    for name in dir(package):
        found = getattr(package, name)
        assert getattr(package, name) is found
        assert not inspect.ismodule(found) or name == "contexts", name


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_error(package):
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'gigpoo'"):
        package.gigpoo  # noqa: B018


def test_a_config_loads_what_it_names():
    code = (
        "import sys, configs.start.cartpole_ppo as c\n"
        "c.get_config()\n"
        "print(*(m for m in sys.modules if m.split('.')[0] in ('agentrl', 'envs')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = out.stdout.split()
    assert "agentrl.advantages.temporal" in loaded and "agentrl.advantages.surprisal" not in loaded
    assert not {"agentrl.policies.decoder", "agentrl.selfplay.tabular"} & set(loaded)
    assert len(loaded) <= 70
