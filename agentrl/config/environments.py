"""Sections of environments, and the environments that they make."""

from collections.abc import Mapping
from typing import Any

import chex
import ml_collections

import envs
from agentrl.config.bind import check_keys, path_of
from envs import registry
from envs.environment import AnyEnvironment


def env_section(name: str | type, **values: Any) -> ml_collections.ConfigDict:
    """A config section with every option of an environment, static and traced, filled in.

    name: a registered name, or a class of a user's own module, which is stored by its dotted path.
    Of a wrapper, `base` is the section of the environment that it wraps. An option whose name is a
    method of ConfigDict has an underscore behind it in the section, `config.env.keys_`: flags could
    not set it otherwise.
    Of an environment in Python (a name with a colon) the options are those that are given: it is
    not started here, nor is a wrapper's around one. So are JaxMARL's own options ("jaxmarl:NAME").
    """
    if isinstance(name, type):
        name = path_of(name)
    if registry.in_python(name):
        own = {"python": "", "start_timeout_s": 120.0}
        return ml_collections.ConfigDict({"name": name} | own | values)
    values = _options(values)
    base = values.get("base")
    if hasattr(base, "keys") and registry.in_python(base.get("name", "")):
        return ml_collections.ConfigDict({"name": name} | values | {"base": env_section(**base)})
    env, params = envs.make(name, **values)
    filled = ml_collections.ConfigDict({"name": name})
    for key, value in envs.options_of(env, params).items():
        if isinstance(value, bool | int | float | str | tuple):
            filled[key + "_" * hasattr(ml_collections.ConfigDict, key)] = value
    if "base" in values:
        filled.base = env_section(**values["base"])
    if "identifier" in filled:  # an id of gymnax or JaxMARL, which is the name
        del filled["identifier"]
        filled.update({key: value for key, value in values.items() if key not in filled})
    if env.wordings is None:
        del filled["wording"]
    return filled


def env_sections(*sections: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The config section of several environments, which one policy learns together.

    `name` is the tuple of their names; the options of each stand under its name.
    """
    names = tuple(section.name for section in sections)
    if len(set(names)) < len(names):
        raise ValueError(f"env_sections of {', '.join(names)}: expected each environment once")
    together = ml_collections.ConfigDict({"name": names})
    for section in sections:
        together[section.name] = {key: x for key, x in section.items() if key != "name"}
    return together


def environments(
    section: Mapping[str, Any],
) -> dict[str, tuple[AnyEnvironment, chex.ArrayTree]]:
    """The environments of a section by name, (env, params) each; see `env_sections`.

    Raises:
      ValueError: an environment or an option that does not exist, or options of one that is not
        among the names.
    """
    if isinstance(section["name"], str):
        return {section["name"]: envs.make(**_options(section))}
    names = section["name"]
    if not isinstance(names, tuple | list):
        raise ValueError(
            f"config.env.name={names!r}: expected the name of an environment, or several"
        )
    if not names:
        raise ValueError("config.env.name is empty: expected one environment or more")
    check_keys("config.env", section, dict.fromkeys(("name", *names)))
    return {name: envs.make(name, **_options(section[name])) for name in names}


def _options(section: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a section by their own names; see `env_section`."""
    own = {}
    for key, value in section.items():
        method = key.endswith("_") and hasattr(ml_collections.ConfigDict, key[:-1])
        own[key[:-1] if method else key] = _options(value) if key == "base" else value
    return own
