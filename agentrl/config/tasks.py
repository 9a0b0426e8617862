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
from agentrl.config.bind import bind, bound, check_keys, check_unused
from agentrl.evaluation import play
from agentrl.learner.function import Function
from agentrl.players.scripted import opponent_named
from agentrl.policies import LANGUAGE_POLICIES, POLICIES
from agentrl.policies.actor_critic import Policy
from agentrl.policies.by_role import Network, by_role
from agentrl.rollout import Rollout, processes, starts
from agentrl.rollout.host import Host
from agentrl.rollout.seating import check_side, first_of_teams

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context
    from agentrl.policies.language import LanguagePolicy
    from envs.environment import Environment
    from envs.hosted import Hosted


class Task(NamedTuple):
    """An environment, and a policy that acts in it.

    evaluate: (params, task keys [E], key, greedy bool) -> Outcomes.
    """

    env: "Environment | Hosted"
    env_params: chex.ArrayTree
    policy: "Policy | LanguagePolicy"
    rollout: Rollout
    evaluate: Callable[..., play.Outcomes]


def make_task(
    config: ml_collections.ConfigDict,
    policy: "Policy | LanguagePolicy",
    name: str,
    env: "Environment | Hosted",
    env_params: chex.ArrayTree,
) -> Task:
    """Binds the policy and the rollout of a config to an environment.

    Raises:
      ValueError: they do not fit; for a language policy, above all, that it lacks the words.
    """
    if policy.reads_text:
        try:
            policy = policy.on(env.view)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    _check_fit(config, name, env, policy.reads_text)
    make_rollout, options = bound("rollout", config.rollout)
    parts = {"policy": policy, "env": env, "env_params": env_params, "context": context_of(config)}
    taken = inspect.signature(make_rollout).parameters
    parts |= {"host": _host_of(config, env), "sampler": _sampler_of(config, "sampler" in taken)}
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


def _host_of(config: ml_collections.ConfigDict, env: "Environment | Hosted") -> Host | None:
    """The options of environments in Python, None for others."""
    options = bind("host", processes, config.host)
    if env.in_python:
        return processes(**options)
    check_unused("host", processes, options, "use an environment in Python")
    return None


def _sampler_of(config: ml_collections.ConfigDict, taken: bool) -> Callable[..., Any]:
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
    config: ml_collections.ConfigDict, made: Mapping[str, tuple[Any, Any]]
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
        networks[name] = Network(_made(label, one, False, *arrays), agents, first, count)
    policy = by_role(networks, train=tuple(config.policy.train))
    if sum(len(network.agents) for network in networks.values()) != env.num_agents:
        raise ValueError(
            f"config.policy.roles: {env.name} has {env.num_agents} agents; name each in the "
            "agents of one role"
        )
    return policy


def _takes_view(function: Callable) -> bool:
    """Whether a function makes a language policy: its first parameter is `view`."""
    return next(iter(inspect.signature(function).parameters), "") == "view"


def _made(label: str, one: Function, reads_text: bool, *given: Any) -> Any:
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
        fits = _takes_view(one.function) == reads_text
    except TypeError:
        fits = False
    if not fits:
        kind = "language policy" if reads_text else "policy over arrays"
        raise ValueError(
            f"config.{label}.name: {name}({', '.join((*one.inputs, *one.optional))}) cannot be "
            f"called as a {kind} with {len(given)} arguments by position; expected {expected}"
        )
    policy = one.function(*given, **one.options)
    if getattr(policy, "reads_text", None) != reads_text:
        raise ValueError(
            f"config.{label}.name: {name} gives {type(policy).__name__}; expected {expected}"
        )
    return policy


def _check_fit(
    config: ml_collections.ConfigDict, name: str, env: "Environment | Hosted", reads_text: bool
) -> None:
    """ValueError unless policy and context of a config are for this kind of environment."""
    if reads_text != (config.context.name != "none"):
        raise ValueError(
            f"config.context.name={config.context.name!r} with config.policy.name="
            f"{config.policy.name!r}: language policies ({', '.join(LANGUAGE_POLICIES)}, and "
            "functions of yours whose first parameter is `view`) need a context, such as 'window', "
            f"the others ({', '.join(POLICIES)}) 'none'"
        )
    if reads_text and not env.in_python and env.continuous:
        raise ValueError(
            f"{name} with these options has continuous actions, which have no words: use one of "
            f"{', '.join(POLICIES)}"
        )


def make_policy(config: ml_collections.ConfigDict, made: Mapping[str, tuple[Any, Any]]) -> Any:
    """The policy of the first environment, with the words of all."""
    if "roles" in config.policy:
        return _policy_by_role(config, made)
    one = bound("policy", config.policy)
    (env, _), *others = made.values()
    if _takes_view(one.function):
        further = [envs.make(name) for name in config.lexicon]
        views = (other.view for other, _ in [*others, *further])
        policy = _made("policy", one, True, env.view, *views)
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
    (label,) = made
    _check_fit(config, label, env, False)
    arrays = env.observation_shape, env.num_codes, env.num_actions, env.continuous
    return _made("policy", one, False, *arrays)


def evaluation_of(
    config: ml_collections.ConfigDict,
    env: "Environment | Hosted",
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


def _make_evaluate(policy, rollout, env, env_params, config) -> Callable[..., play.Outcomes]:
    opponent, side = evaluation_of(config, env, env_params, rollout)

    at_once = config.evaluation.at_once
    if at_once is not None and rollout.on_host:
        raise ValueError(
            f"config.evaluation.at_once={at_once} is used by nothing: environments in Python are "
            "played by config.host.workers at the same time; leave it out"
        )
    if at_once is not None and not env.in_python and at_once % env.num_agents:
        raise ValueError(
            f"config.evaluation.at_once={at_once} in {env.name}: expected a multiple of its "
            f"{env.num_agents} agents, so that the policy has each seat as often"
        )

    def evaluate(params, keys, key, greedy: bool) -> play.Outcomes:
        def play_some(keys, key):
            if rollout.play is not None:
                streams, _ = rollout.play(params, keys, key, greedy)
                return play.of_streams(streams, first_of_teams(env), rollout.agents)
            mask = config.rollout.mask_illegal
            player = array_actor(policy, params, greedy=greedy, mask_illegal=mask)
            return play.play(player, env, env_params, keys, key, opponent, side)

        return play.in_turn(play_some, keys, key, at_once)

    return evaluate
