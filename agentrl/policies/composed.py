"""Policies of several choices: at once, or by a planner above skills that give commands."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range
from agentrl.losses import chosen_logits
from agentrl.policies.actor_critic import Policy, mlp
from agentrl.policies.heads import CATEGORICAL, GAUSSIAN, Head, Normal
from envs.game import bin_centre, bin_index


def factored(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    choices: Sequence[int] = (),
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    critic: str = "separate",
) -> Policy:
    """`mlp` whose action is a tuple of independent choices; the last one's index runs fastest.

    Logits of an action are the sum of those of its parts, so that

        pi(a_1, .., a_P | s) = prod_i softmax(head_i(s))_{a_i}

    exactly: sum(choices) outputs for prod(choices) actions, and each part learns independently of
    the others' choices. Log-probabilities and entropies add up. HCSP's planner has this form, one
    skill for each of three drones: (6, 3, 4) for its 72 joint actions.

    choices: number of options of each part. Other options as for `mlp`.

    Raises:
      ValueError: the product of choices is not the number of actions, or actions are continuous.
    """
    choices = tuple(int(n) for n in choices)
    if continuous or min(choices, default=0) < 1 or int(np.prod(choices)) != num_actions:
        kind = "continuous" if continuous else f"{num_actions}"
        raise ValueError(
            f"policy option choices={choices} with {kind} actions: expected choices "
            "whose product is the number of actions; or use policy 'mlp'"
        )
    first = np.cumsum((0, *choices[:-1]))
    # The output of each part for each action, [P, A].
    parts = np.indices(choices).reshape(len(choices), -1) + first[:, None]
    # As a product with zeros and ones, which is faster on a CPU than a gather.
    spread = np.float32(parts[..., None] == np.arange(sum(choices))).sum(axis=0).T
    options = {"hidden": hidden, "activation": activation, "critic": critic}
    inner = mlp(observation_shape, num_codes, sum(choices), **options)

    def step(params, memory, observation, role=None):
        del role
        logits, value, memory = inner.step(params, memory, observation)
        return logits @ spread, value, memory

    def unroll(params, memory, observation, start, role=None) -> tuple[jax.Array, jax.Array]:
        logits, value = inner.unroll(params, memory, observation, start)
        return logits @ spread, value

    return inner._replace(step=step, unroll=unroll)


def scored_mlp(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    candidates: int = 20,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    critic: str = "none",
) -> Policy:
    """`mlp` whose action is the best-scored of several draws, where a component gives a score.

    A component's `Inputs.params` may have an entry "score", a `jax.tree_util.Partial` (observation
    [B, ...]) -> f32[B, A]; actions are then drawn from `losses.chosen_logits`, and the recorded
    log-probabilities are those. In the learner and in evaluation it is the `mlp`.

    candidates: draws of which the best is taken. Other options as for `mlp`.

    Raises:
      ValueError: less than one candidate, or continuous actions.
    """
    check_range("policy candidates", candidates, 1)
    if continuous:
        raise ValueError("policy 'scored_mlp' compares discrete actions: use policy 'mlp'")
    options = {"hidden": hidden, "activation": activation, "critic": critic}
    inner = mlp(observation_shape, num_codes, num_actions, **options)

    def step(params, memory, observation, role=None):
        del role
        own = {name: value for name, value in params.items() if name != "score"}
        logits, value, memory = inner.step(own, memory, observation)
        if "score" in params:
            logits = chosen_logits(logits, params["score"](observation), candidates)
        return logits, value, memory

    return inner._replace(step=step, candidates=candidates)


class Levels(NamedTuple):
    """Outputs: plans bool[...], logits [..., choices] of planners, and a `Normal` of skills."""

    plans: jax.Array
    logits: jax.Array
    command: Normal


def two_levels(choices: int, *, tied: bool) -> Head:
    """Head of both levels, with actions f32[..., K].

    A planner's first component encodes the index of its choice; a skill's action is a command.
    choices: number of the planner's choices. tied: whether `kl` includes planners; otherwise it is
    0 for them.
    """
    levels = _TwoLevels(choices, tied)
    return Head(False, levels.draw, levels.best, levels.log_prob, levels.entropy, levels.kl)


class _TwoLevels(NamedTuple):
    """The options of `two_levels`."""

    choices: int
    tied: bool

    def draw(self, outputs: Levels, legal, key):
        plan_key, key = jax.random.split(key)
        number = CATEGORICAL.draw(outputs.logits, None, plan_key)
        return self.joined(outputs, number, GAUSSIAN.draw(outputs.command, None, key))

    def best(self, outputs: Levels, legal):
        number = CATEGORICAL.best(outputs.logits, None)
        return self.joined(outputs, number, outputs.command.mean)

    def joined(self, outputs, number, command):
        plan = jnp.zeros_like(command).at[..., 0].set(bin_centre(number, self.choices))
        return jnp.where(outputs.plans[..., None], plan, command)

    def log_prob(self, outputs: Levels, legal, action):
        number = bin_index(action[..., 0], self.choices)
        return jnp.where(
            outputs.plans,
            CATEGORICAL.log_prob(outputs.logits, None, number),
            GAUSSIAN.log_prob(outputs.command, None, action),
        )

    def entropy(self, outputs: Levels, legal):
        plans = CATEGORICAL.entropy(outputs.logits, None)
        return jnp.where(outputs.plans, plans, GAUSSIAN.entropy(outputs.command, None))

    def kl(self, outputs: Levels, reference: Levels, legal):
        plans = jnp.zeros(outputs.plans.shape)
        if self.tied:
            plans = CATEGORICAL.kl(outputs.logits, reference.logits, None)
        return jnp.where(
            outputs.plans, plans, GAUSSIAN.kl(outputs.command, reference.command, None)
        )


def hierarchy(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    skills: tuple[str, ...],
    choices: tuple[int, ...],
    planner_features: int,
    skill_features: int,
    train: tuple[str, ...],
    tied: tuple[str, ...] = (),
    planner_hidden: tuple[int, ...] = (64, 64),
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    log_std: float = -1.0,
) -> Policy:
    """One MLP for the planner, one per skill, and one critic per level.

    Observations are f32[1 + S + F]: 1 for planners; which of the S skills is in use, one-hot; then
    `planner_features` numbers or `skill_features`, padded with zeros. Unused modules do not
    contribute to an action, its probability or its gradient. The environment defines the layout:
    `env.layout`.

    Args:
      skills: their names, in order.
      choices: number of the planner's choices; a tuple for independent choices per agent, as in
        policy `factored`.
      train: trained modules among "planner" and the skills; the others are frozen, except the
        critics.
      tied: modules that a term `losses.exact_kl` ties to the reference
        besides the skills: "planner", or none.
      planner_hidden, hidden: widths of the planner, and of each skill, and of their critics.
      log_std: initial value for all skills' commands.

    Params: "planner" and each skill, as the actors of `mlp` or `factored` with these widths (so
    config.init_from can take them from runs of those), "planner critic", "critic". Standard
    deviations are parameters of each skill. The last layers have a small initial gain (0.01), so
    untrained skills command nearly 0.
    """
    parts = ("planner", *skills)
    width = 1 + len(skills) + max(planner_features, skill_features)
    if not continuous or num_codes is not None or tuple(observation_shape) != (width,):
        raise ValueError(
            f"policy 'hierarchy' reads observations of {width} numbers and has continuous actions, "
            f"the environment's have shape {tuple(observation_shape)}: use one on two levels, such "
            "as PlannedVolleyball-v1, and its env.layout"
        )
    _check_parts("train", train, parts)
    _check_parts("tied", tied, ("planner",))
    options = {"activation": activation, "critic": "none"}
    count = int(np.prod(choices))
    planner = factored(
        (planner_features,), None, count, choices=choices, hidden=planner_hidden, **options
    )
    skill = mlp(
        (skill_features,), None, num_actions, True, hidden=hidden, log_std=log_std, **options
    )
    networks = {"planner": planner} | dict.fromkeys(skills, skill)
    networks["planner critic"] = mlp((planner_features,), None, 1, hidden=planner_hidden, **options)
    # The value depends on the skill in use.
    seen = len(skills) + skill_features
    networks["critic"] = mlp((seen,), None, 1, hidden=hidden, **options)

    init, step, unroll = _functions(networks, skills, planner_features, skill_features)
    return Policy(
        init,
        lambda batch: None,
        step,
        unroll,
        True,
        two_levels(count, tied="planner" in tied),
        frozen=tuple(name for name in parts if name not in train),
    )


def _check_parts(name: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """ValueError if a module given in option `name` is unknown."""
    for part in given:
        if part not in known:
            raise ValueError(
                f"policy option {name}={tuple(given)}: {part!r} is not among {', '.join(known)}"
            )


def _functions(
    networks: dict[str, Policy],
    skills: tuple[str, ...],
    planner_features: int,
    skill_features: int,
) -> tuple[Callable, Callable, Callable]:
    """init, step and unroll of the whole policy, see `Policy`, from its modules."""
    start = 1 + len(skills)

    def init(key: jax.Array) -> chex.ArrayTree:
        keys = jax.random.split(key, len(networks))
        return {name: net.init(k) for (name, net), k in zip(networks.items(), keys, strict=True)}

    def unroll(params, memory, observation, begins, role=None):
        del memory, begins, role

        def outputs(name, x):
            return networks[name].unroll(params[name], None, x, None)[0]

        plans = observation[..., 0] > 0.5
        team = observation[..., start : start + planner_features]
        own = observation[..., start : start + skill_features]
        command = outputs(skills[0], own)
        for i, name in enumerate(skills[1:], 2):
            used = observation[..., i, None] > 0.5
            command = jax.tree.map(
                lambda new, old, used=used: jnp.where(used, new, old), outputs(name, own), command
            )
        value = jnp.where(
            plans,
            outputs("planner critic", team)[..., 0],
            outputs("critic", observation[..., 1 : start + skill_features])[..., 0],
        )
        return Levels(plans, outputs("planner", team), command), value

    def step(params, memory, observation, role=None):
        del role
        out = unroll(params, None, observation[:, None], None)
        return *jax.tree.map(lambda x: x[:, 0], out), memory

    return init, step, unroll
