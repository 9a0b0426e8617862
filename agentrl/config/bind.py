"""Sections: a function by its dotted path, with its keyword options.

`{"name": "agentrl.advantages.gigpo", "gamma": 0.95}` is bound to that function with gamma=0.95. The
options are read off the function's signature (`agentrl.learner.function`), so each exists in one
place, and an unknown key is an error that names the nearest valid one, before anything compiles. A
function of a user's own module works like one of the library's: `section(my_module.my_estimator)`.
"""

import collections.abc
import contextlib
import difflib
import importlib
import inspect
import numbers
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_collections
from ml_collections import config_dict

from agentrl.checks import check_number
from agentrl.learner.function import Function, options_of

# Where the library's own functions of each section are: their short names work too.
HOMES = {
    "advantage": "agentrl.advantages",
    "annotations": "agentrl.methods",
    "context": "agentrl.actors.contexts",
    "sampler": "agentrl.rollout.starts",
    "components": "agentrl.learner.components",
    "filters": "agentrl.advantages",
    "method": "agentrl.selfplay.psro",
    "objective": "agentrl.losses",
    "policy": "agentrl.policies",
    "reward": "agentrl.rewards",
    "reweighting": "agentrl.advantages",
    "rollout": "agentrl.rollout",
    "trajectories": "agentrl.trajectories",
}
# Keys of a term of the objective beside the options of its loss, with their defaults.
TERM_KEYS = {
    "weight": 1.0,
    "final_weight": None,
    "source": "rollout",
    "during": "rl",
    "scale": None,
}


# In front of the dotted path of a function that is the value of an option.
FUNCTION = "@"


def nearest(word: str, known: typing.Iterable[str], cutoff: float = 0.5) -> str:
    """' (did you mean ...?)' if a known word is close, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_variant(variant: str, variants: typing.Iterable[str]) -> None:
    """ValueError if the argument of a config file, what stands after its ":", is not a variant."""
    if variant not in variants:
        raise ValueError(
            f"variant {variant!r}{nearest(variant, variants)}: expected one of "
            f"{', '.join(variants)}"
        )


def path_of(function: Callable) -> str:
    """The shortest dotted path under which a function can be imported.

    Raises:
      ValueError: a function that has none, such as one defined inside another or in a config file.
    """
    parts = function.__module__.split(".")
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        try:
            found = getattr(importlib.import_module(module), function.__qualname__, None)
        except ImportError:
            continue
        # Another process has to find it, too: the module of a config file is in this one only. All
        # finders are asked: an editable installation has one of its own.
        there = (finder.find_spec(parts[0], None) for finder in sys.meta_path)
        if found is function and any(spec is not None for spec in there):
            return f"{module}.{function.__qualname__}"
    raise ValueError(
        f"{function.__module__}.{function.__qualname__} cannot be imported by that name: define it "
        "at the top level of a module of yours on the Python path, and import it from there"
    )


def lookup(section: str, name: str) -> Callable:
    """The function that a section names, by its dotted path or its short name.

    Raises:
      ValueError: there is none; says the nearest of the library's.
    """
    home = HOMES.get(section.partition(".")[0])
    if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
        raise ValueError(
            f"config.{section}.name={name!r}: expected the name of a function, or its dotted path"
        )
    module, _, attribute = name.rpartition(".")
    here, why = None, ""
    try:
        here = importlib.import_module(module or home)
    except ImportError as error:
        if module and error.name is not None and not module.startswith(error.name):
            raise
        why = (
            f": no module {module!r} on the Python path (start the command in its folder, or set "
            "PYTHONPATH to that)"
        )
    found = getattr(here, attribute, None)
    if callable(found):
        return found
    known = [] if home is None else functions_of(home)
    near = known if here is None else [*functions_of(here.__name__), *known]
    raise ValueError(
        f"config.{section}.name={name!r} does not exist{nearest(attribute, near)}{why}; expected "
        f"the dotted path of a function of yours, or one of {', '.join(known)}"
    )


def functions_of(module: str) -> list[str]:
    """Names of the public functions that a module or package defines, sorted."""
    found = importlib.import_module(module)
    names = [n for n in getattr(found, "__all__", None) or dir(found) if not n.startswith("_")]
    functions = {n: getattr(found, n) for n in names if inspect.isfunction(getattr(found, n, None))}
    return sorted(n for n, f in functions.items() if f.__module__.startswith(module))


def bind(
    section: str, function: Callable, values: Mapping[str, Any], *, beside: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """Keyword arguments for `function` from a section's values.

    section: its path in the config, or "" of a function that has no place in a config yet.
    beside: keys that the section has for others than the function.

    Raises:
      ValueError: a key that the function does not take, or one that it needs and is not given.
    """
    known = options_of(function)
    given = {key: value for key, value in values.items() if key not in ("name", *beside)}
    label = function.__name__
    where = f"config.{section}." if section else f"section({label}): "
    for key in given:
        if key not in known:
            valid = [*known, *beside]
            near, remedy = nearest(key, valid), ""
            if "name" in values and not near:
                # Named alone, a function is given the options of the one that it replaces.
                remedy = (
                    f". To name another function, give the section as a whole: --config.{section}="
                    f"\"{{'name': {values['name']!r}, ...}}\""
                )
            raise ValueError(
                f"{where}{key} is not an option of {label!r}{near}; its options are "
                f"{', '.join(valid) or 'none'}{remedy}"
            )
    for key, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and key not in given:
            raise ValueError(f"{where}{key} is missing: {label!r} has no default for it")
    return {key: _value(f"{where}{key}", x, known[key]) for key, x in given.items()}


def _value(where: str, value: Any, parameter: inspect.Parameter) -> Any:
    """An option as its function takes it: lists are tuples, "@path" is the function of that path.

    Raises:
      ValueError: there is no such function, or the value is of another type than the parameter.
    """
    annotation = parameter.annotation
    value = tuple(value) if isinstance(value, list) else value
    check_number(where, value)
    if not _is_a(value, annotation):
        default = parameter.default
        given = default if default is not inspect.Parameter.empty and _is_plain(default) else None
        raise ValueError(
            f"{where}={value!r}: expected {inspect.formatannotation(annotation)}"
            + (f", such as {given!r}" if given is not None else "")
        )
    if not (isinstance(value, str) and "Callable" in str(annotation)):
        return value
    path = re.fullmatch(rf"{FUNCTION}([\w.]+)\.(\w+)", value)
    if path is None:
        return value
    try:
        found = getattr(importlib.import_module(path[1]), path[2], None)
    except ImportError:
        found = None
    if not callable(found):
        raise ValueError(
            f"{where}={value!r} does not exist: expected {FUNCTION}module.function of a module on "
            "the Python path"
        )
    return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | tuple | None)


# Types that a config can hold, and what counts as one.
_KINDS = {
    int: numbers.Integral,
    float: numbers.Real,
    str: str,
    bool: bool,
    type(None): type(None),
    None: type(None),
    tuple: tuple,
}


def _is_a(value: Any, annotation: Any) -> bool:
    """Whether a value of a config is of an annotation; True where the annotation does not tell."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, part) for part in parts)
    if not _is_plain(value):  # arrays, functions, sections
        return True
    if origin is tuple and isinstance(value, tuple):
        each = parts[:1] * len(value) if parts[-1:] == (...,) else parts
        return len(each) == len(value) and all(map(_is_a, value, each))
    if origin is tuple:
        return False
    if origin is collections.abc.Callable:
        return isinstance(value, str)  # its path
    return isinstance(value, _KINDS.get(annotation, object))


def bound(section: str, values: Mapping[str, Any], *, beside: Mapping[str, Any] = {}) -> Function:
    """The function of a section with its options; without a name, that of the section itself.

    Raises:
      ValueError: as `lookup` and `bind`.
    """
    function = lookup(section, values.get("name", section.rpartition(".")[2]))
    return Function(function, bind(section, function, values, beside=beside))


def check_unused(section: str, function: Callable, values: Mapping[str, Any], remedy: str) -> None:
    """ValueError, with the remedy, for options that differ from the defaults of the function."""
    known = options_of(function)
    for key, value in values.items():
        default = known[key].default
        if value != default:
            raise ValueError(
                f"config.{section}.{key}={value!r} is not used by anything: {remedy}, or leave it "
                f"at {default!r}"
            )


def section(function: Callable, /, named: bool = True, **values: Any) -> ml_collections.ConfigDict:
    """A config section with every option of a function, defaults filled in.

    Filled in, each of them can be changed on the command line, and `config.json` is complete.
    `values` are changes of the defaults, checked as in `bind`; a function among them becomes
    "@module.function" where it can be imported by that, as it must be for a run. named=False leaves
    out the name, where the section is always bound to this function.
    """
    bind("", function, values)
    filled = ml_collections.ConfigDict({"name": path_of(function)} if named else {})
    for key, parameter in options_of(function).items():
        if key in values or parameter.default is not inspect.Parameter.empty:
            default = parameter.default
            _fill(filled, key, values.get(key, default), default, parameter.annotation)
    return filled


def _fill(filled: ml_collections.ConfigDict, key: str, value, default, annotation) -> None:
    """Sets a key so that None stays possible where the default is None.

    ml_collections fixes a field's type when it is first set.
    """
    if default is None or value is None:
        kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        only = kinds[0] if len(kinds) == 1 else object
        filled[key] = config_dict.placeholder(only if kinds or value is None else type(value))
    if inspect.isfunction(value):
        with contextlib.suppress(ValueError):
            value = FUNCTION + path_of(value)
    if value is not None:
        filled[key] = value


def roles_section(
    train: tuple[str, ...] | None = None, **networks: ml_collections.ConfigDict
) -> ml_collections.ConfigDict:
    """The policy section of a network per role: {name: section of its policy, with `agents`}.

    train: names of the networks that are trained; default: all. The k-th network acts for agent k,
    unless its section says otherwise: `config.policy.roles.NAME.agents = (0, 2)`.
    """
    filled = ml_collections.ConfigDict({"name": "agentrl.policies.by_role.by_role"})
    filled.train = tuple(networks) if train is None else tuple(train)
    filled.roles = ml_collections.ConfigDict()
    for k, (name, network) in enumerate(networks.items()):
        filled.roles[name] = ml_collections.ConfigDict({"agents": (k,), **network.to_dict()})
    return filled


def term(loss: Callable, /, **values: Any) -> ml_collections.ConfigDict:
    """The section of a term of the objective: the loss's options, and `TERM_KEYS`.

    weight, final_weight: the term's weight, and where it goes by the end of its updates by equal
    factors (None: it stays). source: the rows that it is of: "rollout", "expert" or a component's
    name. during: "rl", "warm_start" or "both". scale: the name of an array that multiplies it.
    """
    own = {key: values.pop(key) for key in tuple(values) if key in TERM_KEYS}
    filled = section(loss, **values)
    kinds = {"final_weight": float | None, "scale": str | None}
    for key, default in TERM_KEYS.items():
        _fill(filled, key, own.get(key, default), default, kinds.get(key))
    return filled


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
