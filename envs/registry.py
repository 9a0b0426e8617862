"""Environments by name: ours, a user's own, gymnax's, JaxMARL's, and those in Python."""

import dataclasses
import difflib
import importlib
from collections.abc import Callable
from typing import Any

from envs.environment import Environment, EnvParams

# Name -> (module, class); modules are imported when the environment is made.
_OURS: dict[str, tuple[str, str]] = {
    "AgentGraph-v1": ("envs.agent_graph.env", "AgentGraph"),
    "Blackjack-v1": ("envs.blackjack.env", "Blackjack"),
    "Characters-v1": ("envs.characters.env", "Characters"),
    "CheckedSum-v1": ("envs.checked_sum.env", "CheckedSum"),
    "Coin-v1": ("envs.coin.env", "Coin"),
    "ConnectFour-v1": ("envs.connect_four.env", "ConnectFour"),
    "Debate-v1": ("envs.debate.env", "Debate"),
    "Delegation-v1": ("envs.delegation.env", "Delegation"),
    "DictSum-v1": ("envs.dict_sum.env", "DictSum"),
    "Dispatch-v1": ("envs.dispatch.env", "Dispatch"),
    "Drafts-v1": ("envs.drafts.env", "Drafts"),
    "EZPoints-v1": ("envs.points.env", "EZPoints"),
    "Foraging-v1": ("envs.foraging.env", "Foraging"),
    "FrozenLake-v1": ("envs.frozen_lake.env", "FrozenLake"),
    "FunctionGym-v1": ("envs.function_gym.env", "FunctionGym"),
    "GuidedResearch-v1": ("envs.guided_research.env", "GuidedResearch"),
    "Hanabi-v1": ("envs.hanabi.env", "Hanabi"),
    "HierResearch-v1": ("envs.hier_research.env", "HierResearch"),
    "Household-v1": ("envs.household.env", "Household"),
    "Intention-v1": ("envs.intention.env", "Intention"),
    "Itinerary-v1": ("envs.itinerary.env", "Itinerary"),
    "Jobs-v1": ("envs.jobs.env", "Jobs"),
    "KeyDoor-v1": ("envs.key_door.env", "KeyDoor"),
    "KuhnPoker-v1": ("envs.kuhn_poker.env", "KuhnPoker"),
    "LeducPoker-v1": ("envs.leduc_poker.env", "LeducPoker"),
    "LiarsDice-v1": ("envs.liars_dice.env", "LiarsDice"),
    "LookupCheck-v1": ("envs.lookup_check.env", "LookupCheck"),
    "Maze-v1": ("envs.maze.env", "Maze"),
    "Meadow-v1": ("envs.meadow.env", "Meadow"),
    "ModSum-v1": ("envs.mod_sum.env", "ModSum"),
    "Nim-v1": ("envs.nim.env", "Nim"),
    "NumberLine-v1": ("envs.number_line.env", "NumberLine"),
    "Persuade-v1": ("envs.persuade.env", "Persuade"),
    "PigDice-v1": ("envs.pig_dice.env", "PigDice"),
    "PlanarVolleyball-v1": ("envs.volleyball.env", "PlanarVolleyball"),
    "PlannedHousehold-v1": ("envs.planned.env", "PlannedHousehold"),
    "PlannedKeyDoor-v1": ("envs.planned.env", "PlannedKeyDoor"),
    "PlannedVolleyball-v1": ("envs.volleyball.levels", "PlannedVolleyball"),
    "Points24-v1": ("envs.points.env", "Points24"),
    "Queries-v1": ("envs.queries.env", "Queries"),
    "Screens-v1": ("envs.screens.env", "Screens"),
    "Relay-v1": ("envs.relay.env", "Relay"),
    "Research-v1": ("envs.research.env", "Research"),
    "Retail-v1": ("envs.retail.env", "Retail"),
    "SearchQA-v1": ("envs.search_qa.env", "SearchQA"),
    "SharedBank-v1": ("envs.shared_bank.env", "SharedBank"),
    "Shop-v1": ("envs.shop.env", "Shop"),
    "SimpleNegotiation-v1": ("envs.simple_negotiation.env", "SimpleNegotiation"),
    "SocialDeduction-v1": ("envs.social_deduction.env", "SocialDeduction"),
    "SoloResearch-v1": ("envs.solo_research.env", "SoloResearch"),
    "Sokoban-v1": ("envs.sokoban.env", "Sokoban"),
    "StepChain-v1": ("envs.step_chain.env", "StepChain"),
    "Support-v1": ("envs.support.env", "Support"),
    "SwitchedHousehold-v1": ("envs.switched.env", "SwitchedHousehold"),
    "SwitchedKeyDoor-v1": ("envs.switched.env", "SwitchedKeyDoor"),
    "TeamGraph-v1": ("envs.team_graph.env", "TeamGraph"),
    "Telecom-v1": ("envs.telecom.env", "Telecom"),
    "TicTacToe-v1": ("envs.tictactoe.env", "TicTacToe"),
    "ToolCalls-v1": ("envs.tool_calls.env", "ToolCalls"),
    "ToolFlow-v1": ("envs.tool_flow.env", "ToolFlow"),
    "ToolProgram-v1": ("envs.tool_program.env", "ToolProgram"),
    "TradingDesk-v1": ("envs.trading_desk.env", "TradingDesk"),
    "Travel-v1": ("envs.travel.env", "Travel"),
    "Treasures-v1": ("envs.treasures.env", "Treasures"),
    "Turtle-v1": ("envs.turtle.env", "Turtle"),
    "TwentyQuestions-v1": ("envs.twenty_questions.env", "TwentyQuestions"),
    "Video-v1": ("envs.video.env", "Video"),
    "Volleyball-v1": ("envs.volleyball.env", "Volleyball"),
    "VolleyballSkill-v1": ("envs.volleyball.single_skill", "VolleyballSkill"),
    "Wordle-v1": ("envs.wordle.env", "Wordle"),
}
_REGISTERED: dict[str, Callable[..., Environment]] = {}


def registered() -> tuple[str, ...]:
    """Names of our own and of registered environments; gymnax's are available in addition."""
    return tuple(sorted([*_OURS, *_REGISTERED]))


def register(name: str, factory: Callable[..., Environment]) -> None:
    """Adds an environment: `factory(**options)` returns an `Environment`. ValueError if the name is
    taken."""
    if name in registered():
        raise ValueError(f"environment {name!r} is registered already; choose another name")
    _REGISTERED[name] = factory


def in_python(name: str) -> bool:
    """Whether the name is that of an environment in Python, see `envs.hosted`."""
    return ":" in name and not name.startswith("jaxmarl:")


def make(name: str, **options: Any) -> tuple[Any, Any]:
    """Makes an environment: (env, params).

    options: fields of the environment (static: they shape its arrays) or of its params (traced).
    A name that is not ours is looked up in gymnax: `make("CartPole-v1")`. "jaxmarl:NAME" is one of
    JaxMARL's, see `envs.jaxmarl_bridge`. Any other name with a colon is an environment in Python,
    `make("textarena:TicTacToe-v0")`: see `envs.hosted`. One with a dot is a class of your own,
    `make("my_module.MyEnvironment")`. A wrapper is given the environment that it wraps,
    `make("envs.wrappers.TurnBudget", base={"name": "Coin-v1", ...}, turns=6)`.

    Lists among the options, as configs read back from JSON contain them, become tuples.

    Raises:
      ValueError: there is no such environment or option; the message names the nearest valid one.
    """
    options = {key: _hashable(value) for key, value in options.items()}
    if name in _REGISTERED:
        factory = _REGISTERED[name]
    elif name in _OURS:
        module, attribute = _OURS[name]
        factory = getattr(importlib.import_module(module), attribute)
    elif name.startswith("jaxmarl:"):
        from envs import jaxmarl_bridge  # a package that need not be there

        return jaxmarl_bridge.make(name.removeprefix("jaxmarl:"), **options)
    elif in_python(name):
        from envs import hosted  # starts processes, so only when one is asked for

        return hosted.make(name, **options)
    elif "." in name:
        factory = _imported(name)
    else:
        return _make_gymnax(name, options)
    if not isinstance(factory, type):
        env = factory(**options)
        return env, env.default_params
    static = _fields(factory)
    if factory.wraps:
        around = _around if hasattr(factory, "base") else _wrapped
        return around(name, factory, static, **options)
    env = factory(**{key: value for key, value in options.items() if key in static})
    return env, _with_params(
        name, env.default_params, static, {k: v for k, v in options.items() if k not in static}
    )


def _wrapped(
    name: str, factory: type[Environment], static: set[str], *, base: Any = None, **options: Any
) -> tuple[Environment, Any]:
    """A wrapper around the environment that `base` names."""
    if not hasattr(base, "keys") or "name" not in base:
        raise ValueError(
            f"environment {name!r} base={base!r}: expected the environment that it wraps, as "
            "{'name': 'Coin-v1', ...}"
        )
    place = base["name"]
    if factory.hosted and in_python(place):
        if options:
            raise ValueError(
                f"environment {name!r} around {place}: options {', '.join(options)}; expected "
                "those of the environment in Python alone, in base"
            )
        return make(**{**base, "name": f"{factory.hosted}:{place}"})
    inner, inner_params = make(**base)
    env = factory(base=inner, **{k: v for k, v in options.items() if k in static})
    options = {k: v for k, v in options.items() if k not in static}
    params = env.default_params.replace(base=inner_params)
    return env, _with_params(name, params, static, options)


def _around(
    name: str, factory: type[Environment], static: set[str], **options: Any
) -> tuple[Environment, Any]:
    """A wrapper that has an environment of its own, whose options are options of the wrapper."""
    inner, static = _fields(factory.base) - static, static - {"base"}
    base = dataclasses.replace(factory.base, **{k: v for k, v in options.items() if k in inner})
    env = factory(base=base, **{k: v for k, v in options.items() if k in static})
    params, static = env.default_params, static | inner
    own = _fields(params) - {"base"}
    changes = {k: v for k, v in options.items() if k not in static}
    of_base = {k: v for k, v in changes.items() if k not in own}
    params = params.replace(base=_with_params(name, params.base, static | own, of_base))
    return env, params.replace(**{k: v for k, v in changes.items() if k in own})


def options_of(*parts: Any) -> dict[str, Any]:
    """The options of `make` that an environment has, and with its params theirs, with their values.

    `base` of a wrapper is the environment, unless the wrapper has one of its own, whose options are
    then among the wrapper's.
    """
    found: dict[str, Any] = {}
    around = getattr(parts[0], "wraps", False) and hasattr(type(parts[0]), "base")
    for part in parts:
        own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        inner = options_of(own.pop("base")) if around else {}
        for key, value in (*own.items(), *inner.items()):
            found.setdefault(key, value)
    return found


def _fields(part: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(part)}


def _imported(name: str) -> type[Environment]:
    """An environment class of a user's own module, by its dotted path. ValueError if none."""
    module, _, attribute = name.rpartition(".")
    if not all(map(str.isidentifier, name.split("."))):
        raise ValueError(
            f"environment {name!r} does not exist: expected a name, such as Coin-v1, or the dotted "
            "path of a class of yours, my_module.MyEnvironment"
        )
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"environment {name!r}: {error}; expected module.Class, with the module's folder on "
            "the Python path (start the command there, or set PYTHONPATH)"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise ValueError(
            f"environment {name!r}: {module} has no class {attribute!r} that derives from "
            "envs.environment.Environment"
        )
    return found


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _with_params(name: str, params: EnvParams, static: set[str], changes: dict) -> EnvParams:
    traced = _fields(params)
    for key in changes:
        if key not in traced:
            raise ValueError(
                f"environment {name!r} has no option {key!r}{_nearest(key, static | traced)}; "
                f"it has {', '.join(sorted(static | traced))}"
            )
    return params.replace(**changes)


def _make_gymnax(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    import gymnax  # slow to import, so only when a name is not ours

    from envs import gymnax_bridge

    if name not in gymnax.registered_envs:
        known = [*registered(), *gymnax.registered_envs]
        raise ValueError(
            f"environment {name!r} does not exist{_nearest(name, known)}; expected the dotted path "
            f"of a class of yours, my_module.MyEnvironment, or one of {', '.join(known)}"
        )
    env = gymnax_bridge.load(name)
    return env, _with_params(name, env.default_params, set(), options)


def _nearest(word: str, known) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
