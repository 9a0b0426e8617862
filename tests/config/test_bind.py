"""Sections: functions by dotted path, with the options of their signatures."""

import importlib.util
import sys
from collections.abc import Callable

import numpy as np
import pytest

from agentrl import advantages, losses, rollout
from agentrl.config import base_config, section, term
from agentrl.config.bind import HOMES, bind, functions_of, lookup, path_of
from agentrl.learner import function
from agentrl.run import workdir


def test_sections_hold_every_option_with_its_default():
    assert section(advantages.gigpo, gamma=0.9).to_dict() == {
        "name": "agentrl.advantages.gigpo",
        "gamma": 0.9,
        "step_weight": 1.0,
        "normalize": "std",
        "statistics": "stream",
        "singleton": "zero",
        "epsilon": 1e-6,
    }


def test_terms_hold_the_options_of_the_loss_and_their_own():
    assert term(losses.kl, estimator="k3", weight=0.1, source="expert").to_dict() == {
        "name": "agentrl.losses.kl",
        "estimator": "k3",
        "weight": 0.1,
        "final_weight": None,
        "source": "expert",
        "during": "rl",
        "scale": None,
    }


def test_arrays_are_not_options():
    assert "penalty" not in function.options_of(advantages.gigpo)
    assert "truncated" not in function.options_of(advantages.gae)
    assert function.inputs_of(advantages.gigpo) == ("reward", "mask", "group", "anchor")
    assert function.inputs_of(losses.value_loss) == ("value", "target")
    assert "penalty" in function.optional_inputs(advantages.gigpo)


def test_none_can_become_a_number_on_the_command_line():
    made = section(rollout.episodes)
    assert made.max_turns is None
    made.max_turns = 5
    assert bind("rollout", rollout.episodes, made)["max_turns"] == 5
    kl = base_config().objective.kl
    assert kl.final_weight is None and kl.scale is None
    kl.final_weight, kl.scale = 0.1, "importance"
    assert (kl.final_weight, kl.scale) == (0.1, "importance")


@pytest.mark.parametrize("home", sorted(HOMES))
def test_a_function_is_found_by_its_path_and_by_its_short_name(home):
    for name in functions_of(HOMES[home]):
        function = lookup(home, name)
        assert lookup(f"{home}.any", path_of(function)) is function


def test_a_function_inside_another_has_no_path():
    def inner(reward, mask):
        return reward * mask

    with pytest.raises(ValueError, match="inner cannot be imported by that name: define it"):
        section(inner)


def test_a_function_of_an_editable_installation_has_a_path(tmp_path, monkeypatch):
    """Such an installation finds packages by a finder of its own, not by the path."""
    (tmp_path / "edited.py").write_text("def mine(reward, mask):\n    return reward\n")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "edited":
                return importlib.util.spec_from_file_location(name, tmp_path / "edited.py")
            return None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert section(importlib.import_module("edited").mine).name == "edited.mine"


def test_an_error_inside_a_users_module_is_shown_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("import a_package_that_is_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_installed"):
        lookup("advantage", "broken_module.estimator")
    with pytest.raises(ValueError, match="config.advantage.name='no_module.gigpo' does not exist"):
        lookup("advantage", "no_module.gigpo")


def test_a_function_as_an_option_is_its_path(tmp_path, monkeypatch):
    (tmp_path / "hints.py").write_text("def hint(state, agent, params):\n    return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    import hints

    filled = section(rollout.contexts.whole, inject=hints.hint)
    assert filled.inject == "@hints.hint"
    given = bind("context", rollout.contexts.whole, filled)
    assert given["inject"] is hints.hint
    with pytest.raises(ValueError, match="context.inject='@hints.none' does not exist"):
        bind("context", rollout.contexts.whole, {"inject": "@hints.none"})
    # A text stays one.
    assert bind("context", rollout.contexts.whole, {"inject": "@ home"})["inject"] == "@ home"
    # A function without a path can be built with, and a run says why it cannot be written.
    local = section(rollout.contexts.whole, inject=lambda state, agent, params: None)
    assert callable(local.inject)
    config = base_config()
    config.context = local
    with pytest.raises(workdir.RunError, match="config.context.inject=.* cannot be written"):
        workdir.store(tmp_path, config)


def typed(
    reward,
    mask,
    *,
    count: int = 1,
    share: float = 0.5,
    sizes: tuple[int, ...] = (4,),
    pair: tuple[int, float] | None = None,
    flag: bool = False,
    mode: "str" = "a",
    hint: Callable | None = None,
    free=None,
):
    """Options of several types."""


@pytest.mark.parametrize(
    ("option", "right", "wrong", "message"),
    [
        ("count", [1, np.int32(4), True], [0.5, "1", (1,), None], "expected int, such as 1"),
        ("share", [1, 0.5, np.float32(1), np.inf], ["1", None, (1.0,)], "expected float"),
        ("sizes", [(), (1, 2), [1, 2]], [1, (1, "a"), ("a",), None], r"tuple\[int, ...\], such as"),
        ("pair", [None, (1, 0.5)], [(1,), (0.5, 1), 3], r"tuple\[int, float\] \| None"),
        ("flag", [True, False], [1, "yes"], "expected bool, such as False"),
        ("mode", ["b", 3], [], ""),  # an annotation that is a text tells nothing
        ("hint", [None, len, np.ones(3)], [], ""),
        ("free", [None, 3, "a", (1,)], [], ""),
        ("share", [], [np.nan, (0.5, np.nan)], "which nan is not"),
        ("count", [2**31 - 1], [2**31, 10**30], "expected an integer from"),
    ],
)
def test_options_are_of_the_types_of_their_parameters(option, right, wrong, message):
    for value in right:
        assert option in bind("advantage", typed, {option: value})
    for value in wrong:
        with pytest.raises(ValueError, match=f"config.advantage.{option}=.*{message}"):
            bind("advantage", typed, {option: value})
