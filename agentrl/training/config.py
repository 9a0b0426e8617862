"""Configs: sections that name a function and hold its keyword arguments.

`{"name": "gigpo", "gamma": 0.95}` is bound to `agentrl.advantages.gigpo(..., gamma=0.95)`. What a
section may hold is read off the function's signature, so an option exists in one place, and an
unknown or unused key is an error that names the nearest valid one, before anything compiles.
"""

import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import ml_collections
from ml_collections import config_dict

import envs


def nearest(word: str, known) -> str:
    """' (did you mean ...?)' if a known word is close, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def lookup(section: str, name: str, registry: Mapping[str, Any]) -> Any:
    """The registry's entry, or a ValueError that names the nearest one."""
    if name not in registry:
        raise ValueError(
            f"config.{section}.name={name!r} does not exist{nearest(name, registry)}; "
            f"expected one of {', '.join(sorted(registry))}"
        )
    return registry[name]


def _annotation_has(annotation: Any, kind: type) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_annotation_has(part, kind) for part in typing.get_args(annotation))
    return annotation is kind


def options_of(function: Callable) -> dict[str, inspect.Parameter]:
    """Keyword-only parameters that a config may set: all but arrays, which come from the data."""
    return {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and not _annotation_has(parameter.annotation, jax.Array)
    }


def inputs_of(function: Callable) -> tuple[str, ...]:
    """Names of the arrays that a function is called with: its positional parameters."""
    return tuple(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )


def optional_inputs(function: Callable) -> tuple[str, ...]:
    """Names of the arrays that a function takes where there are any: keyword-only arrays."""
    return tuple(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and _annotation_has(parameter.annotation, jax.Array)
    )


def bind(section: str, function: Callable, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `function` from a section's values.

    Raises:
      ValueError: a key that the function does not take, or one that it needs and is not given.
    """
    known = options_of(function)
    given = {key: value for key, value in values.items() if key != "name"}
    label = values.get("name", function.__name__)
    for key in given:
        if key not in known:
            raise ValueError(
                f"config.{section}.{key} is not an option of {label!r}{nearest(key, known)}; "
                f"its options are {', '.join(known) or 'none'}"
            )
    for key, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and key not in given:
            raise ValueError(f"config.{section}.{key} is missing: {label!r} has no default for it")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}


def section(function: Callable, /, named: bool = True, **values: Any) -> ml_collections.ConfigDict:
    """A config section with every option of a function, defaults filled in.

    Filling in is what lets each of them be changed on the command line, and what makes the run's
    `config.json` say everything. `values` are changes of the defaults, checked as in `bind`.
    named=False leaves out the name, where the section is always bound to this function.
    """
    bind(function.__name__, function, values)
    filled = ml_collections.ConfigDict({"name": function.__name__} if named else {})
    for key, parameter in options_of(function).items():
        value = values.get(key, parameter.default)
        if value is None:
            kinds = [k for k in typing.get_args(parameter.annotation) if k is not type(None)]
            filled[key] = config_dict.placeholder(kinds[0] if kinds else object)
        else:
            filled[key] = value
            if parameter.default is None:
                # ml_collections fixes a field's type when it is first set; None stays possible.
                filled[key] = config_dict.placeholder(type(value))
                filled[key] = value
    return filled


def env_section(name: str, **values: Any) -> ml_collections.ConfigDict:
    """A config section with every option of an environment, static and traced, filled in.

    Of an environment in Python (a name with a colon) the options are those that are given: it is
    not started here.
    """
    if ":" in name:
        own = {"python": "", "start_timeout_s": 120.0}
        return ml_collections.ConfigDict({"name": name} | own | values)
    env, params = envs.make(name, **values)
    filled = ml_collections.ConfigDict({"name": name})
    for source in (env, params):
        for field in dataclasses.fields(source):
            value = getattr(source, field.name)
            if isinstance(value, bool | int | float | str | tuple):
                filled[field.name] = value
    if "identifier" in filled:  # a gymnax environment's own id, which is its name
        del filled["identifier"]
    if env.wordings is None:
        del filled["wording"]
    return filled


def env_sections(*sections: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The config section of several environments, which one policy learns together.

    `name` is the tuple of their names; each one's options stand under its name.
    """
    names = tuple(section.name for section in sections)
    if len(set(names)) < len(names):
        raise ValueError(f"env_sections of {', '.join(names)}: expected each environment once")
    together = ml_collections.ConfigDict({"name": names})
    for section in sections:
        together[section.name] = {key: x for key, x in section.items() if key != "name"}
    return together


def environments(section: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The environments of a section by name, (env, params) each; see `env_sections`.

    Raises:
      ValueError: an environment or an option that does not exist, or options of one that is not
        among the names.
    """
    if isinstance(section["name"], str):
        options = {key: value for key, value in section.items() if key != "name"}
        return {section["name"]: envs.make(section["name"], **options)}
    names = tuple(section["name"])
    if not names:
        raise ValueError("config.env.name is empty: expected one environment or more")
    check_keys("config.env", section, dict.fromkeys(("name", *names)))
    return {name: envs.make(name, **section[name]) for name in names}


def check_keys(name: str, given: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """ValueError for keys that are missing or not expected."""
    for key in given:
        if key not in expected:
            raise ValueError(
                f"{name}.{key} is not used by anything{nearest(key, expected)}; "
                f"expected {', '.join(expected)}"
            )
    for key in expected:
        if key not in given:
            raise ValueError(f"{name}.{key} is missing; expected {', '.join(expected)}")


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of each leaf of nested mappings, names joined by dots."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
