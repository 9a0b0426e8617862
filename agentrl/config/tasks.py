"""Tasks: an environment, the policy as it acts there, the rollout, and its evaluation."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import ml_collections

import envs
from agentrl.actors.array import array_actor
from agentrl.actors.types import Actor
from agentrl.config.bind import bind, bound, check_keys
from agentrl.config.refused import CONTEXTS, check_environment, refuse
from agentrl.evaluation import play
from agentrl.learner.function import Function
from agentrl.players.scripted import opponent_named
from agentrl.policies import LANGUAGE_POLICIES
from agentrl.policies.actor_critic import Policy
from agentrl.policies.by_role import Network, by_role
from agentrl.policies.protocol import KINDS, EitherPolicy
from agentrl.rollout import Rollout, processes, starts
from agentrl.rollout.seating import check_side, first_of_teams
from envs.environment import AnyEnvironment

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context


class Task(NamedTuple):
    """An environment, and a policy that acts in it.

    evaluate: (params, task keys [E], key, greedy bool) -> Outcomes.
    """

    env: AnyEnvironment
    env_params: chex.ArrayTree
    policy: EitherPolicy
    rollout: Rollout
    evaluate: Callable[..., play.Outcomes]


def make_task(
    config: ml_collections.ConfigDict,
    policy: EitherPolicy,
    name: str,
    env: AnyEnvironment,
    env_params: chex.ArrayTree,
) -> Task:
    """Binds the policy and the rollout of a config to an environment.

    Raises:
      ValueError: they do not fit; for a language policy, above all, that it lacks the words.
    """
    try:
        policy = policy.within(env)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    refuse(config, CONTEXTS[policy.kind])
    check_environment(config, env)
    make_rollout, options = bound("rollout", config.rollout)
    parts = {"policy": policy, "env": env, "env_params": env_params, "context": context_of(config)}
    taken = inspect.signature(make_rollout).parameters
    parts |= {
        "host": processes(**bind("host", processes, config.host)),
        "sampler": _sampler_of(config, "sampler" in taken),
    }
    given = {key: value for key, value in parts.items() if key in taken}
    rollout = make_rollout(**given, **options)
    evaluate = _make_evaluate(policy, rollout, env, env_params, config)
    return Task(env, env_params, policy, rollout, evaluate)


def context_of(config: ml_collections.ConfigDict) -> "Context | None":
    """The context of a language policy, None for other policies."""
    if config.context.name == "none":
        check_keys("config.context", config.context, {"name": "none"})
        return None
    context = bound("context", config.context)
    return context.function(**context.options)


def _sampler_of(config: ml_collections.ConfigDict, taken: bool) -> starts.Sampler:
    """Which tasks are played: (key, count, given) -> (task keys, parameters or None).

    Raises:
      ValueError: the rollout does not take a sampler, and this is not the default.
    """
    sampler = bound("sampler", config.sampler)
    if not taken and sampler.function is not starts.independent:
        raise ValueError(
            f"config.sampler.name={config.sampler.name!r} is not used by anything: rollout "
            f"{config.rollout.name!r} has no parameter `sampler`; give it one, as in "
            "agentrl.rollout.episodes, or leave config.sampler.name='independent'"
        )
    return functools.partial(sampler.function, **sampler.options)


def _policy_by_role(
    config: ml_collections.ConfigDict,
    made: Mapping[str, tuple[AnyEnvironment, chex.ArrayTree]],
) -> Policy:
    """A network per role, from `roles_section`."""
    ((env, _),) = made.values()
    networks = {}
    for name, values in config.policy.roles.items():
        label = f"policy.roles.{name}"
        one = bound(label, values, beside={"agents": ()})
        agents = tuple(values["agents"])
        spans = {env.role_actions[agent] for agent in agents if agent < env.num_agents}
        if len(spans) != 1:
            raise ValueError(
                f"config.{label}.agents={agents} with {env.name}: expected agents below "
                f"{env.num_agents} that have the same actions"
            )
        (span,) = spans
        first, count = (0, env.num_actions) if span is None else span
        continuous = env.continuous and span is None
        arrays = env.observation_shape, env.num_codes, count, continuous
        networks[name] = Network(_made(label, one, "arrays", *arrays), agents, first, count)
    policy = by_role(networks, train=tuple(config.policy.train))
    if sum(len(network.agents) for network in networks.values()) != env.num_agents:
        raise ValueError(
            f"config.policy.roles: {env.name} has {env.num_agents} agents; name each in the "
            "agents of one role"
        )
    return policy


def _kind_of(function: Callable) -> str:
    """The kind of the policies that a function makes: if its first parameter is `view`, they are
    language policies."""
    first = next(iter(inspect.signature(function).parameters), "")
    return "language" if first == "view" else "arrays"


def _made(label: str, one: Function, kind: str, *given: Any) -> EitherPolicy:
    """The policy of a section, from what is given by position.

    Raises:
      ValueError: the function does not take that, or does not return a policy of this kind.
    """
    name, signature = one.function.__name__, inspect.signature(one.function)
    expected = (
        "(observation_shape, num_codes, num_actions, continuous, *, option) -> Policy, or for "
        "text (view, *others, *, option) -> LanguagePolicy; see agentrl/README.md"
    )
    try:
        signature.bind(*given, **one.options)
        fits = _kind_of(one.function) == kind
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"config.{label}.name: {name}({', '.join((*one.inputs, *one.optional))}) cannot be "
            f"called as {KINDS[kind]} with {len(given)} arguments by position; expected {expected}"
        )
    policy = one.function(*given, **one.options)
    if getattr(policy, "kind", None) != kind:
        raise ValueError(
            f"config.{label}.name: {name} gives {type(policy).__name__}; expected {expected}"
        )
    return policy


def make_policy(
    config: ml_collections.ConfigDict,
    made: Mapping[str, tuple[AnyEnvironment, chex.ArrayTree]],
) -> EitherPolicy:
    """The policy of the first environment, with the words of all."""
    if "roles" in config.policy:
        return _policy_by_role(config, made)
    one = bound("policy", config.policy)
    (env, _), *others = made.values()
    if _kind_of(one.function) == "language":
        further = [envs.make(name) for name in config.lexicon]
        views = (other.view for other, _ in [*others, *further])
        policy = _made("policy", one, "language", env.view, *views)
        if config.lexicon and policy.codec.encode is not None:
            raise ValueError(
                f"config.lexicon={config.lexicon} is used by nothing: it is for codec 'word'; "
                "this policy reads any text, leave it empty"
            )
        return policy
    if others or config.lexicon:
        raise ValueError(
            f"config.env.name={config.env.name}, config.lexicon={config.lexicon} with "
            f"config.policy.name={config.policy.name!r}: a policy over arrays plays one "
            f"environment; use a language policy ({', '.join(LANGUAGE_POLICIES)})"
        )
    # Before it is asked for what environments of another kind do not have.
    refuse(config, CONTEXTS["arrays"])
    arrays = env.observation_shape, env.num_codes, env.num_actions, env.continuous
    return _made("policy", one, "arrays", *arrays)


def evaluation_of(
    config: ml_collections.ConfigDict,
    env: AnyEnvironment,
    env_params: chex.ArrayTree,
    rollout: Rollout,
) -> tuple[Actor | None, str | None]:
    """Whom the policy meets when it is measured, and the side that it has then.

    Raises:
      ValueError: where it meets nobody, or its conversations' own opponent, and config.evaluation
        says otherwise.
    """
    name, side = config.evaluation.opponent, config.evaluation.side
    opponent = play.opponent_of(env)
    # A team plays alone, unless one of its sides is measured beside another player.
    if rollout.play is not None or (opponent is None and side == "none"):
        for key, value, default in (("opponent", name, "random"), ("side", side, "none")):
            if value != default:
                raise ValueError(
                    f"config.evaluation.{key}={value!r} is used by nothing: it is for policies "
                    "over arrays in games against each other, or on a side of a team; leave it out"
                )
        return opponent, None
    check_side(env, side, name)
    return opponent_named(name, env, env_params), None if side == "none" else side


def _make_evaluate(
    policy: EitherPolicy,
    rollout: Rollout,
    env: AnyEnvironment,
    env_params: chex.ArrayTree,
    config: ml_collections.ConfigDict,
) -> Callable[..., play.Outcomes]:
    opponent, side = evaluation_of(config, env, env_params, rollout)

    at_once = config.evaluation.at_once
    if at_once is not None and at_once % env.num_agents:
        raise ValueError(
            f"config.evaluation.at_once={at_once} in {env.name}: expected a multiple of its "
            f"{env.num_agents} agents, so that the policy has each seat as often"
        )

    def evaluate(params, keys, key, greedy: bool) -> play.Outcomes:
        def play_some(keys, key):
            if rollout.play is not None:
                outcomes, _, _ = rollout.play(params, keys, key, greedy)
                return play.of_teams(outcomes, first_of_teams(env))
            mask = config.rollout.mask_illegal
            player = array_actor(policy, params, greedy=greedy, mask_illegal=mask)
            return play.play(player, env, env_params, keys, key, opponent, side)

        return play.in_turn(play_some, keys, key, at_once)

    return evaluate
