"""What a function of the mathematics states about itself, beside its definition.

Estimators, filters, reward terms and losses are called with arrays by the names of their
parameters. A binder reads from the signature which:

* positional parameters without a default are arrays that the function needs: fields of `Streams`
  or `Rows`, annotations, carried values;
* keyword-only parameters annotated `jax.Array | None` are arrays that it takes where there are any;
* `mask` is `Streams.mask` of an estimator, a filter or a reward term. Of a loss it is the array
  that the loss is averaged over (`over`, below);
* all other keyword-only parameters are options, which a config sets.

A signature does not say what the function assumes of those arrays, nor how its result is averaged.
The decorators of this module add that as attributes and return the function unchanged:

    @assumes("whole_episodes")
    def grpo(reward, mask, group, *, ...): ...

    @breaks("team")
    def step_penalty(reward, mask, *, ...): ...

    @averaged(over="turn_start")
    def value_loss(value, target, mask=None): ...
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable)

UNITS = ("position", "row", "pair")


class Property(NamedTuple):
    """A property that the streams of a rollout have or do not have.

    meaning: one sentence. remedy: what to do where a function assumes it and it does not hold.
    field: the array that the property is about; without that array there is nothing to assume.
    """

    meaning: str
    remedy: str
    field: str | None = None


PROPERTIES: Mapping[str, Property] = {
    "whole_episodes": Property(
        "A stream is one whole episode, from its first turn to its end or its limit.",
        "collect whole episodes (config.rollout.name='episodes'), or use an estimator that accepts "
        "several episodes per stream, such as 'gae'",
    ),
    "team": Property(
        "All streams of an episode carry the team's reward: the game is cooperative.",
        "use a cooperative environment, such as Foraging-v1, or an estimator that credits each "
        "agent with its own reward, such as 'gae'",
    ),
    "one_end": Property(
        "An episode ends for all of its agents at once, and each stream marks that end on its own "
        "last turn.",
        "use an environment with one `terminated` and one `truncated` per episode, or an estimator "
        "that reads each stream by itself, such as 'gae'",
    ),
    "one_row": Property(
        "All turns of a stream are in one row.",
        "use a context that keeps the whole episode in one row (config.context.name='whole')",
    ),
    "tokens_as_cost": Property(
        "`Streams.cost` counts the tokens of a turn's reply.",
        "leave `cost` empty, so that every turn counts once, or let the rollout count reply tokens",
        field="cost",
    ),
}


def assumes(*names: str) -> Callable[[Function], Function]:
    """States the properties of streams that a function relies on: sets `function.assumes`.

    Args:
      names: keys of `PROPERTIES`.

    Raises:
      ValueError: a name that is not one of them.
    """
    return _properties("assumes", names)


def breaks(*names: str) -> Callable[[Function], Function]:
    """States the properties of streams that a reward term takes away: sets `function.breaks`.

    Args:
      names: keys of `PROPERTIES`, which hold for the rewards that it gets and not for those that
        it returns.

    Raises:
      ValueError: a name that is not one of them.
    """
    return _properties("breaks", names)


def _properties(attribute: str, names: tuple[str, ...]) -> Callable[[Function], Function]:
    unknown = [name for name in names if name not in PROPERTIES]
    if unknown:
        raise ValueError(
            f"{attribute}{names}: {', '.join(unknown)} is unknown; expected some of "
            f"{', '.join(PROPERTIES)}"
        )

    def declare(function: Function) -> Function:
        setattr(function, attribute, frozenset(names))
        return function

    return declare


def moves_reward(function: Function) -> Function:
    """States that a reward term moves reward between turns: it applies after those that change
    it."""
    setattr(function, "moves_reward", True)  # noqa: B010
    return function


def averaged(*, over: str = "loss_mask", unit: str = "position") -> Callable[[Function], Function]:
    """States how a loss is averaged: sets `function.over` and `function.unit`.

    Args:
      over: the name of the array bool[R, L] of the positions that it is averaged over. `loss_mask`:
        positions that the policy produced; `turn_start`: the first of them in each turn, where a
        value is read; `asked`: questions about beliefs; or an annotation's name. The loss gets the
        array as `mask`.
      unit: the rows that a value of the loss depends on, and that stay together in a minibatch:
        "position" and "row", one; "pair", the two rows of a preference pair.

    Raises:
      ValueError: an unknown unit.
    """
    if unit not in UNITS:
        raise ValueError(f"averaged unit={unit!r}: expected one of {', '.join(UNITS)}")

    def declare(function: Function) -> Function:
        setattr(function, "over", over)  # noqa: B010
        setattr(function, "unit", unit)  # noqa: B010
        return function

    return declare


def assumptions_of(function: Callable) -> frozenset[str]:
    """The properties of streams that a function relies on."""
    return getattr(function, "assumes", frozenset())


def broken_by(function: Callable) -> frozenset[str]:
    """The properties of streams that a reward term takes away."""
    return getattr(function, "breaks", frozenset())


def is_moving_reward(function: Callable) -> bool:
    """Whether a reward term moves reward between turns."""
    return getattr(function, "moves_reward", False)


def over_of(function: Callable) -> str:
    """The name of the array bool[R, L] that a loss is averaged over."""
    return getattr(function, "over", "loss_mask")


def unit_of(function: Callable) -> str:
    """What a loss returns one value for, one of `UNITS`; declared by `averaged`."""
    return getattr(function, "unit", "position")


def check_assumptions(
    label: str, function: Callable, properties: Collection[str], fields: Collection[str]
) -> None:
    """Refuses a function for streams that lack a property which the function relies on.

    Args:
      label: names the function in the error, for example "config.advantage.name='marft_by_turn'".
      properties: properties that the streams have.
      fields: fields that the streams have. A property of another field is not asked for.

    Raises:
      ValueError: names the property, its meaning and the remedy.
    """
    assumed = assumptions_of(function)
    for name, known in PROPERTIES.items():
        absent = known.field is not None and known.field not in fields
        if name in assumed and name not in properties and not absent:
            raise ValueError(
                f"{label} assumes {name!r} of its streams, which does not hold here. "
                f"{known.meaning} To do: {known.remedy}"
            )
