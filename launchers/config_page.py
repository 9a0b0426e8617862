"""The page of all keys of a config, from `base_config`, signatures and docstrings.

Written by `python -m launchers.pages`; a test compares it with the code. First the keys that every
config has, then, section by section, the library's functions that can stand there with the options
of each, and the environments. A function of a user's own stands in the same places.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

from agentrl.actors.contexts import Context
from agentrl.config import base
from agentrl.config.bind import HOMES, TERM_KEYS, path_of
from agentrl.config.trajectories import KEYS
from agentrl.learner.component import Component
from agentrl.learner.function import options_of
from agentrl.policies.actor_critic import Policy
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.types import Rollout
from launchers import methods_page

INTRODUCTION = """# Keys of a config

Made by `python -m launchers.pages` from `base_config`, signatures and docstrings; a test keeps it so. `--config.KEY=VALUE` changes a key on the command line, for example `--config.optimizer.learning_rate=1e-3`. A section with a `name` is one function and its options (its keyword-only parameters); the functions below are the library's, and one of your own is given by its dotted path: `--config.advantage="{'name': 'my_module.my_estimator'}"` ([README.md](README.md#how-to-add)). A key that nothing uses is an error. What the methods are, with equations and papers: [METHODS.md](METHODS.md).
"""  # noqa: E501
# Sections without a name are the options of one function.
OF_ONE = ("learner", "optimizer", "warm_start", "reference", "pool", "expert", "population", "host")
# What each section of functions holds, and in which packages the library's are.
SECTIONS = {
    "policy": ("who acts", ("agentrl.policies", "agentrl.policies.by_role")),
    "rollout": (
        "how experience is collected",
        ("agentrl.rollout", "agentrl.methods", "agentrl.serving.programs"),
    ),
    "context": ("what a language policy reads before a reply", ("agentrl.actors.contexts",)),
    "sampler": ("which tasks are played", ("agentrl.rollout.starts", "agentrl.methods")),
    "reward": ("terms of the reward, by name", ("agentrl.rewards",)),
    "filters": ("streams that are learnt from, by name", ("agentrl.advantages",)),
    "advantage": ("the estimator", ("agentrl.advantages", "agentrl.rewards", "agentrl.methods")),
    "reweighting": ("what changes advantages, by name", ("agentrl.advantages", "agentrl.methods")),
    "objective": ("terms of the loss, by name", ("agentrl.losses",)),
    "components": (
        "what carries state between updates, by name",
        ("agentrl.learner.components", "agentrl.methods", "agentrl.trajectories"),
    ),
    "trajectories": ("which episodes are written to files", ("agentrl.trajectories",)),
}
KINDS = {Policy: "policy", LanguagePolicy: "policy", Rollout: "rollout", Context: "context"}
KINDS |= {Component: "components"}
# Of the parts of a docstring.
HEADINGS = r"\s*(Args|Attributes|Returns|Raises):"
# Packages that have a file for each of their functions.
FILES = ("agentrl.learner.components", "agentrl.methods")
# Components that other sections of a config make, or that every run has.
IMPLIED = {"baseline", "exploitability", "expert", "guard", "opponent_pool", "population"}
IMPLIED |= {"per_seed", "reference", "sampler", "steps"}


def page() -> str:
    """Markdown of all keys of a config, with defaults, by section."""
    of_section = {
        "learner": base.UpdateOptions,
        "pool": base.opponent_pool,
        "host": base.rollout.processes,
    }
    parts = [INTRODUCTION, "## Every config\n\n" + "\n".join(_keys()) + "\n"]
    for section in OF_ONE:
        function = of_section.get(section) or getattr(base, section)
        parts.append(f"## {section}\n\n" + _table([_options(function)]) + "\n")
    for section, (holds, _) in SECTIONS.items():
        found = functions_of(section)
        parts.append(f"## {section}\n\n{_lead(section, holds)}\n\n" + _functions(section, found))
    return "\n".join(parts + [_environments()])


def meanings() -> dict[str, str]:
    """{key: what `base_config`'s docstring says of it}; keys of a key as "evaluation.every"."""
    config = base.base_config()
    known = {*config, *(f"{k}.{sub}" for k in config for sub in _inner(config[k]))}
    text = " ".join(inspect.getdoc(base.base_config).partition("\n\n")[2].split())
    names = r"(?:(?<=\. )|^)((?:[a-z_.]+, )*[a-z_.]+): "
    heads = [m for m in re.finditer(names, text) if set(m[1].split(", ")) <= known]
    ends = [m.start() for m in heads[1:]] + [len(text)]
    found = {}
    for head, end in zip(heads, ends, strict=True):
        found |= dict.fromkeys(head[1].split(", "), text[head.end() : end].strip())
    return found


def _inner(value: Any) -> list[str]:
    return list(value) if hasattr(value, "keys") else []


def _keys() -> Iterator[str]:
    """Rows of the keys of `base_config`."""
    told = meanings()
    yield "| key | default | what it is |\n|---|---|---|"
    for key, value in base.base_config().items():
        functions = key in SECTIONS or key in OF_ONE
        inner = [] if functions or key in ("env", "annotations") else _inner(value)
        if functions or not inner:
            shown = f"[below](#{key})" if functions or key == "env" else f"`{_plain(value)}`"
            yield _line(f"`{key}`", shown, told.get(key, ""))
        for sub in inner:
            text = told.get(f"{key}.{sub}", told.get(key, ""))
            yield _line(f"`{key}.{sub}`", f"`{_plain(value[sub])}`", text)


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else repr(value)


def _lead(section: str, holds: str) -> str:
    text = holds[0].upper() + holds[1:] + "."
    if section == "objective":
        beside = ", ".join(f"`{key}={value!r}`" for key, value in TERM_KEYS.items())
        return f"{text} Every term has, beside the options of its loss: {beside}."
    if section == "trajectories":
        beside = ", ".join(f"`{key}={value!r}`" for key, value in KEYS.items())
        text += f" Beside the options of the function: {beside}."
    home = HOMES.get(section)
    return text + (f" Short names are those of `{home}`." if home else "")


def functions_of(section: str) -> list[Callable]:
    """The library's functions that can stand in a section, by their paths."""
    found = {}
    for package in SECTIONS[section][1]:
        for module in _modules(package):
            for function in filter(inspect.isfunction, vars(module).values()):
                own = function.__module__.startswith(package)
                if own and not function.__name__.startswith("_") and _kind(function) == section:
                    found[path_of(function)] = function
    return [found[path] for path in sorted(found, key=lambda path: path.rpartition(".")[2])]


def _modules(package: str) -> Iterator[Any]:
    """Where a package has its public functions: in itself, or, with a file for each, in those."""
    home = importlib.import_module(package)
    for name in dir(home):
        getattr(home, name)  # what is imported at its first use
    yield home
    for found in pkgutil.iter_modules(home.__path__) if package in FILES else ():
        yield importlib.import_module(f"{package}.{found.name}")


def _kind(function: Callable) -> str | None:
    """The section in which a function can stand, by its declaration; None: in none."""
    signature = inspect.signature(function)
    names, gives = list(signature.parameters), signature.return_annotation
    if gives in KINDS:
        fits = {"components": names[:1] == ["setup"], "rollout": names[:2] == ["policy", "env"]}
        implied = function.__name__ in IMPLIED or not fits.get(KINDS[gives], True)
        return None if implied else KINDS[gives]
    if names[:2] == ["key", "count"]:
        return "sampler"
    package = function.__module__.split(".")[1]
    if package == "trajectories":
        return package
    if package != "methods" and function.__name__ in methods_page.PARTS - {"discounted_return"}:
        return None
    if package == "losses":
        return "objective" if names[0] in methods_page.LEARNT else None
    returns = re.search(r"Returns:\s+(\S+)", inspect.getdoc(function) or "")
    if names[:1] == ["advantage"]:
        return "reweighting"
    if names[:1] and names[0] in methods_page.CREDITED and package != "methods":
        if package == "rewards" and function.__name__ != "discounted_return":
            return "reward"
        return "filters" if returns and returns[1].startswith("bool[N") else "advantage"
    return "advantage" if names[:3] == ["reward", "mask", "group"] else None


def _functions(section: str, found: list[Callable]) -> str:
    home = HOMES.get(section, "")
    rows = []
    for function in found:
        path = path_of(function)
        short = path.removeprefix(f"{home}.")
        name = f"`{short if '.' not in short else path}`"
        first = " ".join(inspect.getdoc(function).split("\n\n")[0].split())
        rows.append((name, first, _options(function)))
    lines = ["| function | what it is | options |", "|---|---|---|"]
    for name, first, options in rows:
        told = "<br>".join(f"`{key}={value}` {text}".strip() for key, value, text in options)
        lines.append(_line(name, first, told or "-"))
    return "\n".join(lines) + "\n"


def _table(tables: list[list[tuple[str, str, str]]]) -> str:
    lines = ["| key | default | what it is |", "|---|---|---|"]
    lines += [_line(f"`{k}`", f"`{v}`", text) for table in tables for k, v, text in table]
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _options(function: Callable) -> list[tuple[str, str, str]]:
    """(name, default or ..., what the docstring says) of each option."""
    told = described(function)
    return [
        (name, "..." if p.default is p.empty else _default(p.default), told.get(name, ""))
        for name, p in options_of(function).items()
    ]


def _default(value: Any) -> str:
    return value.__name__ if callable(value) else repr(value)


def described(function: Callable) -> dict[str, str]:
    """{parameter: text} of a docstring's entries, `name: text` or `one, another: text`."""
    parameters = set(inspect.signature(function).parameters)
    lines, found, names, indent = (inspect.getdoc(function) or "").splitlines(), {}, [], 0
    for line in lines:
        depth = len(line) - len(line.lstrip())
        head = re.match(r"\s*((?:\w+, )*\w+): (.+)", line)
        if head and set(head[1].split(", ")) & parameters:
            names, indent = head[1].split(", "), depth
            found |= dict.fromkeys(names, head[2])
        elif (
            not line.strip()
            or depth < indent
            or re.match(r"\s*(Args|Attributes|Returns|Raises):", line)
        ):
            names = []
        elif names:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    # An entry may go on with another: "widths. critic: ..."
    for name in list(found):
        text, *others = re.split(r"(?<=[.;] )((?:\w+, )*\w+): ", found[name])
        if others and set(others[0].split(", ")) & parameters:
            found[name] = text.strip()
            for names, told in zip(others[::2], others[1::2], strict=True):
                found |= {other: told.strip() for other in names.split(", ")}
    return found


def _environments() -> str:
    """The environments of the package with their options, by name."""
    import envs

    lines = ["| environment | options |", "|---|---|"]
    for name in envs.registered():
        env, params = envs.make(name)
        options = envs.options_of(env, params)
        shown = ", ".join(f"`{key}={value!r}`" for key, value in options.items()) or "-"
        lines.append(_line(f"`{name}`", shown))
    lead = (
        "The package's own environments; every option can be set in a config and, as "
        "`--config.env.KEY=VALUE`, on the command line. Wrappers, gymnax's environments and those "
        "in Python: [envs/README.md](../envs/README.md)."
    )
    return f"## env\n\n{lead}\n\n" + "\n".join(lines) + "\n"
