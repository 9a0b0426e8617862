"""Options of the update and of its optimizer, as configs give them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from agentrl.checks import check_choice, check_range

if TYPE_CHECKING:
    from agentrl.losses.aggregation import Aggregation

AUTO = "auto"  # microbatch
OVER_MAX_KL = ("stop", "skip", "reject")
BY_TURNS = ("even", "odd")
SCHEDULES = ("constant", "linear", *BY_TURNS)
NORMALIZATIONS = ("none", "batch", "minibatch", "role")


def optimizer(
    total_steps: int,
    *,
    learning_rate: float = 2.5e-4,
    schedule: str = "constant",
    max_grad_norm: float = 0.5,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-5,
    weight_decay: float = 0.0,
    period: int = 100,
) -> optax.GradientTransformation:
    """AdamW on gradients clipped to a global norm.

    schedule: "constant"; "linear" to 0 over `total_steps` gradient steps; "even" or "odd", constant
    in every second `period` of gradient steps, from the first or from the second one on, and 0 in
    the others: entries of the parameters (config.optimizers) of which one is "even" and another one
    "odd" learn by turns, and the one that does not learn stays exactly as it is.
    """
    check_choice("config.optimizer.schedule", schedule, SCHEDULES)
    rate: float | optax.Schedule = learning_rate
    if schedule == "linear":
        rate = optax.linear_schedule(learning_rate, 0.0, total_steps)
    elif schedule in BY_TURNS:
        own = BY_TURNS.index(schedule)

        def by_turns(count):
            return jnp.where(count // period % 2 == own, learning_rate, 0.0)

        rate = by_turns
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.adamw(rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay),
    )


def check_options(section: str, options: Mapping[str, Any]) -> None:
    """ValueError for numbers of `optimizer` with which nothing can be learnt.

    section: where they are, for the message.
    """
    for name in ("learning_rate", "eps", "weight_decay"):
        check_range(f"{section}.{name}", options.get(name), 0.0, below=True)
    for name in ("b1", "b2"):
        check_range(f"{section}.{name}", options.get(name), 0.0, 1.0, below=True)
    check_range(f"{section}.period", options.get("period"), 1)
    # Gradients of a norm below infinity are not clipped.
    check_range(f"{section}.max_grad_norm", options.get("max_grad_norm"), 0.0, above=True)


class Optimizer(NamedTuple):
    """The optimizer of the trained parameters over `total_steps` gradient steps.

    options: of `optimizer`. entries: {entry of the parameters: options that differ from these}; the
    gradients of each such entry are clipped to a norm of their own. roles: of entry "lora", whose
    adapters have the role as second axis, each role's part is an entry "lora_ROLE"; 1: it has none.
    as_vector: all parameters are one vector in its steps and in its state, in place of an array
    each, unless entries have options of their own. For small networks that is less to compile and
    to start: PPO on CartPole is 404 kernels and not 522.
    """

    total_steps: int
    options: Mapping[str, Any]
    entries: Mapping[str, Mapping[str, Any]] = {}
    roles: int = 1
    as_vector: bool = False

    def init(self, params: chex.ArrayTree) -> chex.ArrayTree:
        """Its state before the first step."""
        return self.transform().init(self.stepped(params)[0])

    def stepped(
        self, params: chex.ArrayTree
    ) -> tuple[chex.ArrayTree, Callable[[chex.ArrayTree], chex.ArrayTree]]:
        """(what a step changes: the parameters or the vector of all of them; the way back)."""
        if self.as_vector and not self.entries:
            return ravel_pytree(params)
        return params, lambda same: same

    def transform(self) -> optax.GradientTransformation:
        """It, as a transformation of gradients."""
        common = optimizer(self.total_steps, **self.options)
        if not self.entries:
            return common
        own = {
            name: optimizer(self.total_steps, **{**self.options, **options})
            for name, options in self.entries.items()
        }

        def labels(params):
            return {name: name if name in own else "" for name in params}

        apart = optax.multi_transform({"": common, **own}, labels)
        if self.roles == 1:
            return apart
        by_role = _ByRole(apart, adapters_of_roles(self.roles))
        return optax.GradientTransformation(by_role.init, by_role.update)


def adapters_of_roles(roles: int) -> tuple[str, ...]:
    """Names of the parts of entry "lora" that are the roles' own."""
    return tuple(f"lora_{role}" for role in range(roles))


class _ByRole(NamedTuple):
    """A transformation of entries "lora_ROLE" in place of "lora", [layers, roles, ...].

    names: of these entries, by role.
    """

    transform: optax.GradientTransformation
    names: tuple[str, ...]

    def init(self, params):
        return self.transform.init(self.apart(params))

    def update(self, grads, state, params=None):
        params = None if params is None else self.apart(params)
        updates, state = self.transform.update(self.apart(grads), state, params)
        return self.together(updates), state

    def apart(self, tree):
        own = {
            name: jax.tree.map(lambda x, i=i: x[:, i], tree["lora"])
            for i, name in enumerate(self.names)
        }
        return {name: part for name, part in tree.items() if name != "lora"} | own

    def together(self, tree):
        own = jax.tree.map(lambda *x: jnp.stack(x, axis=1), *(tree[name] for name in self.names))
        return {name: part for name, part in tree.items() if name not in self.names} | {"lora": own}


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """Options of the update, by name.

    Attributes:
      epochs, minibatches: passes over the rows, and optimizer steps per pass; rows are shuffled
        before each pass. With microbatches every minibatch gets the same number of trained rows;
        without, rows are assigned at random, and the weight of a position in a mean depends on the
        number in its minibatch, as in PPO's own code.
      microbatch: rows per forward and backward pass, a divisor of a minibatch's rows; gradients are
        summed, and rows without anything to learn from skipped. None: the whole minibatch. "auto":
        the largest whose programs fit the device's memory, by the compiler's analysis. On a CPU a
        pass is fastest if its activations fit the caches.
      lengths: rows go through in order of their length, each pass cut to the shortest of this many
        lengths that holds it, see `agentrl.learner.passes.compiled_lengths`. Each is compiled. With
        8 a pass is on average a seventh too long, with 4 two fifths. 1: all at full length.
      aggregation: one of `losses.AGGREGATIONS`; "constant" divides by the minibatch's number of
        positions, trained or not. Terms over other positions than replies (questions) are means.
      normalize_advantage: shift and scale to mean 0 and variance 1 over the "batch" (of trained
        turns), over each "minibatch" (of trained positions), over the batch per "role" (HiPER's
        levels), or "none".
      max_kl: bound of a step's `approx_kl`, the KL of the learner from the policy that collected,
        on the step's own rows and before the step is taken. None: no bound.
      over_max_kl: "stop" takes neither the step above the bound nor those after it, which are not
        computed either (LOOP's early stop; metric stopped_steps, their share); "skip" takes those
        after it that are below the bound (MARFT's rule; the same metric); "reject" takes none of
        the update's steps at all (metric kl_rejected).
    """

    epochs: int = 1
    minibatches: int = 1
    microbatch: int | str | None = None
    lengths: int = 1
    aggregation: "Aggregation" = "token_mean"
    normalize_advantage: str = "none"
    max_kl: float | None = None
    over_max_kl: str = "stop"

    @property
    def pass_rows(self) -> int | None:
        """Rows per pass, None for the whole minibatch; 1 in a program that no run has sized."""
        return 1 if isinstance(self.microbatch, str) else self.microbatch
