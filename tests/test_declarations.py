"""What functions state about themselves, and that every public one does."""

import inspect
import typing

import jax
import jax.numpy as jnp
import pytest

from agentrl import advantages, losses, rewards
from agentrl.declarations import (
    PROPERTIES,
    assumes,
    assumptions_of,
    averaged,
    breaks,
    broken_by,
    check_assumptions,
    over_of,
    unit_of,
)
from agentrl.streams import Rows, Streams
from launchers.methods_page import listed


def functions():
    return listed("agentrl.advantages") + listed("agentrl.rewards")


def optional(parameter):
    return jax.Array in typing.get_args(parameter.annotation)


def test_attributes_are_set_and_the_function_is_the_same():
    def plain(x, *, rate: float = 1.0):
        return x * rate

    one = averaged(over="asked", unit="row")(assumes("team", "one_end")(plain))
    assert one is plain and list(inspect.signature(one).parameters) == ["x", "rate"]
    assert assumptions_of(one) == {"team", "one_end"} == one.assumes
    assert (over_of(one), unit_of(one)) == ("asked", "row")
    # Without declarations.
    assert assumptions_of(len) == frozenset()
    assert (over_of(len), unit_of(len)) == ("loss_mask", "position")


def test_unknown_declarations_are_refused():
    with pytest.raises(ValueError, match="whole_episode is unknown; expected some of whole_ep"):
        assumes("whole_episode")
    with pytest.raises(ValueError, match="breaks.*teams is unknown; expected some of whole_ep"):
        breaks("teams")
    with pytest.raises(ValueError, match="unit='token': expected one of position, row, pair"):
        averaged(unit="token")


def test_a_property_that_does_not_hold_is_refused_with_its_remedy():
    check_assumptions("it", advantages.grpo, {"whole_episodes"}, {"reward"})
    with pytest.raises(ValueError) as error:
        check_assumptions("config.x", advantages.marft_by_turn, {"whole_episodes", "one_end"}, ())
    for part in ("config.x assumes 'team'", PROPERTIES["team"].meaning, PROPERTIES["team"].remedy):
        assert part in str(error.value)
    # A property of an array that is not there is not asked for.
    check_assumptions("it", advantages.reinforce_pp, {"whole_episodes"}, {"reward", "mask"})
    with pytest.raises(ValueError, match="assumes 'tokens_as_cost'.*leave `cost` empty"):
        check_assumptions("it", advantages.reinforce_pp, {"whole_episodes"}, {"reward", "cost"})


@pytest.mark.parametrize("function", list(functions()), ids=lambda f: f.__name__)
def test_arrays_are_routed_by_name(function):
    """Positional parameters are needed; keyword-only ones are optional arrays, or options whose
    names are not those of fields."""
    fields = set(Streams.__dataclass_fields__) | set(Rows.__dataclass_fields__)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not optional(parameter):
            assert name not in fields, f"{name} is an option and an array"
        else:
            required = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            assert required == (parameter.default is inspect.Parameter.empty)


def test_functions_that_read_costs_say_what_these_are():
    reading = {f.__name__ for f in functions() if "cost" in inspect.signature(f).parameters}
    assert reading == {f.__name__ for f in functions() if "tokens_as_cost" in assumptions_of(f)}


def test_terms_that_give_each_agent_its_own_reward_break_the_team():
    """Two agents that act in turns, the team's reward 1 in each stream: the sums then differ."""
    reward, mask = jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.array([[True, True], [True, False]])
    given = {"persuasion": reward / 2, "novelty": reward / 4 + mask}
    options = {"step_penalty": {"amount": 0.5}, "at_end": {"share": 1.0}}
    for name, team in {
        "step_penalty": False,
        "persuasion_reward": False,
        "novelty_bonus": False,
        "at_end": True,
    }.items():
        term = getattr(rewards, name)
        taken = inspect.signature(term).parameters
        arrays = {key: x for key, x in given.items() if key in taken}
        if name == "persuasion_reward":
            arrays["persuasion"] = jnp.array([[1.0, 0.0], [0.0, 0.0]])
        total = term(reward, mask, **arrays, **options.get(name, {})).sum(axis=1)
        assert (float(total[0]) == float(total[1])) == team
        assert broken_by(term) == (set() if team else {"team"})


def test_functions_that_group_streams_compare_roles_apart():
    for function in functions():
        taken = inspect.signature(function).parameters
        if "group" in taken:
            assert "role" in taken, function.__name__


@pytest.mark.parametrize("package", [advantages, losses, rewards])
def test_public_functions_document_arguments_and_results(package):
    for name in dir(package):
        function = getattr(package, name)
        if not inspect.isfunction(function):
            continue
        text = inspect.getdoc(function)
        assert "Args:" in text and "Returns:" in text, name
        if "check_" in inspect.getsource(function):
            assert "Raises:" in text, name


def test_losses_state_what_they_are_averaged_over():
    assert over_of(losses.value_loss) == over_of(losses.clipped_value_loss) == "turn_start"
    assert over_of(losses.listening_loss) == "asked"
    assert over_of(losses.corrected_behaviour_cloning) == "correct"
    assert over_of(losses.clipped_surrogate) == over_of(losses.kl) == "loss_mask"
