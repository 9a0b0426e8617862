"""Completion of these command lines for bash and zsh.

    python -m launchers.completion bash    # a script for `eval` in ~/.bashrc
    python -m launchers.completion zsh     # for `eval` in ~/.zshrc, after compinit

Then TAB completes after `python -m`: commands, flags and their values, files of --config (also the
installed ones), variants after ":" and, one level at a time, keys after `--config.`. Flags and
variants are read without importing what is slow. Keys need the config itself: the first TAB for
a config, or after a change of the code, takes as long as loading it, and the keys are kept in
`cli.cache_home()`/agentrl/completion.
"""

import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import launchers
from launchers import config_files

HOME = pathlib.Path(__file__).parent
# After these nothing is added: more follows.
OPEN = ("=", ":", "/", ".", ",")
# Flags that take config files.
FILES = {"config": "config", "configs": "list"}

BASH = r"""
_agentrl() {
  local line="${COMP_LINE:0:COMP_POINT}" candidate
  [[ "$line" =~ [[:space:]]-m[[:space:]]+l ]] || return 0
  COMPREPLY=()
  while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(
    "${COMP_WORDS[0]/#\~/$HOME}" -m launchers.completion line "$line" "$COMP_WORDBREAKS" 2>/dev/null
  )
  case "${COMPREPLY[0]}" in *[=:/.,]) compopt -o nospace 2>/dev/null ;; esac
}
complete -o bashdefault -o default -F _agentrl python python3
"""
ZSH = r"""
_agentrl_before="${_comps[python]}"
_agentrl() {
  if [[ "${words[1,CURRENT]}" != *' -m l'* ]]; then
    ${_agentrl_before:-_files}
    return
  fi
  local -a found
  found=("${(@f)$(${~words[1]} -m launchers.completion words "${(@Q)words[2,CURRENT-1]}" \
    "$PREFIX" 2>/dev/null)}")
  found=(${found:#})
  if (( $#found )); then
    compadd -S '' -- ${(M)found:#*[=:/.,]}
    compadd -- ${found:#*[=:/.,]}
  else
    compset -P '*='
    _files
  fi
}
compdef _agentrl python python3
"""


def commands() -> list[str]:
    """Names of the command lines."""
    return sorted(p.stem for p in HOME.glob("*.py") if '__name__ == "__main__"' in p.read_text())


class _Flags(config_files.Absent):
    """In the place of absl and ml_collections: notes the flags that are defined."""

    def __init__(self, found: dict[str, list[str]]):
        super().__init__("flags")
        self.found = found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("DEFINE_"):
            return functools.partial(self._define, name)
        return super().__getattr__(name)

    def _define(self, kind: str, name: str, default: Any = None, *rest: Any, **_: Any) -> Any:
        if kind in ("DEFINE_bool", "DEFINE_boolean"):
            self.found |= {name: ["true", "false"], f"no{name}": []}
        else:
            self.found[name] = list(map(str, rest[0])) if "enum" in kind else []
        return self


def flags(command: str) -> dict[str, list[str]]:
    """Flags of a command, also from modules of ours that it imports, and the values that each has.

    The values are those of an enumeration and of a flag that is true or false, else [].
    """
    found: dict[str, list[str]] = {}
    notes = _Flags(found)
    instead = {"absl": notes, "ml_collections": notes}
    config_files.glance(HOME / f"{command}.py", ("configs", "launchers"), instead)
    return found


def candidates(words: list[str]) -> list[str]:
    """What the last word can become, given those before it, from the interpreter on."""
    *before, word = words
    if "-m" not in before:
        return []
    at = before.index("-m")
    if at == len(before) - 1:
        found = [f"launchers.{name}" for name in commands()]
        return [name for name in found if name.startswith(word)]
    command = before[at + 1].removeprefix("launchers.")
    if command not in commands():
        return []
    if command == "completion":
        return [shell for shell in ("bash", "zsh") if shell.startswith(word)]
    known, arguments = flags(command), before[at + 2 :]
    flag, equals, value = word.partition("=")
    if word.startswith("--config.") and not equals:
        return [f"--config.{key}" for key in _next(word.removeprefix("--config."), arguments)]
    if equals:
        return [f"{flag}={x}" for x in _values(flag.lstrip("-"), value, known)]
    if arguments and arguments[-1].startswith("-") and "=" not in arguments[-1]:
        name = arguments[-1].lstrip("-")
        if name in FILES or known.get(name, []) not in ([], ["true", "false"]):
            return _values(name, word, known)
    names = [f"--{n}=" if n in FILES or not _alone(n, known) else f"--{n}" for n in sorted(known)]
    names += ["--config."] if "config" in known else []
    if command == "runs" and not word.startswith("-"):  # which takes directories
        return []
    return [name for name in (*names, "--help") if name.startswith(word)]


def _alone(name: str, known: dict[str, list[str]]) -> bool:
    """Whether a flag is given without a value."""
    return known[name] == ["true", "false"] or known.get(name.removeprefix("no")) == [
        "true",
        "false",
    ]


def _values(name: str, value: str, known: dict[str, list[str]]) -> list[str]:
    if name not in FILES:
        return [x for x in known.get(name, []) if x.startswith(value)]
    first, comma, last = value.rpartition(",") if FILES[name] == "list" else ("", "", value)
    return [f"{first}{comma}{x}" for x in sorted(_files(last))]


def _files(value: str) -> Iterator[str]:
    """Config files and folders that begin so, or the variants of one."""
    path, colon, variant = value.partition(":")
    if colon:
        try:
            module = config_files.glance(config_files.located(path))
        except Exception:  # whatever a config file raises
            return
        for name in getattr(module, "VARIANTS", ()):
            if name.startswith(variant) and config_files.is_closed([name]):
                yield f"{path}:{name}"
        return
    folder, slash, _ = path.rpartition("/")
    for root in dict.fromkeys([pathlib.Path(folder or slash), launchers.ROOT / folder]):
        entries = list(root.iterdir()) if root.is_dir() else []
        if root == launchers.ROOT and root != pathlib.Path.cwd():
            entries = [config_files.CONFIGS]  # of an installation only these
        for entry in entries:
            shown = f"{folder}{slash}{entry.name}"
            if not shown.startswith(path) or entry.name[0] in "._":
                continue
            if entry.is_dir():
                yield f"{shown}/"
            elif entry.suffix == ".py":
                yield shown
                if "\nVARIANTS" in entry.read_text(encoding="utf-8", errors="replace"):
                    yield f"{shown}:"


def _next(begun: str, arguments: list[str]) -> list[str]:
    """Keys that begin so, one level on: of a section with a ".", of a value with "=" behind it."""
    given = [x.partition("=")[2] for x in arguments if x.startswith("--config=")]
    given += [b for a, b in zip(arguments, arguments[1:], strict=False) if a == "--config"]
    if not given:
        return []
    level = begun.count(".")
    found = {}
    for key in _keys(given[-1]):
        if key.startswith(begun):
            parts = key.split(".")
            found[".".join(parts[: level + 1]) + ("=" if len(parts) == level + 1 else ".")] = None
    return list(found)


def _keys(value: str) -> list[str]:
    """Dotted keys of a config, from the cache if neither it nor our code has changed since."""
    from launchers import cli

    path, colon, variant = value.partition(":")
    file = config_files.located(path).absolute()
    folders = [launchers.ROOT / name for name in ("agentrl", "envs", "configs")]
    sources = [file, *(p for folder in folders for p in folder.rglob("*.py"))]
    newest = max(source.stat().st_mtime_ns for source in sources)
    state = hashlib.sha256(repr((str(file), value, newest, len(sources))).encode()).hexdigest()
    name = hashlib.sha256(f"{file}:{variant}".encode()).hexdigest()[:16]
    kept = cli.cache_home() / "agentrl" / "completion" / f"{name}.json"
    try:
        content = json.loads(kept.read_text())
        if content["state"] == state:
            return content["keys"]
    except (OSError, ValueError, KeyError):
        pass
    keys = _loaded_keys(file, [variant] if colon else [])
    kept.parent.mkdir(parents=True, exist_ok=True)
    temporary = kept.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"state": state, "keys": keys}))
    os.replace(temporary, kept)
    return keys


def _loaded_keys(file: pathlib.Path, arguments: list[str]) -> list[str]:
    sys.path.insert(0, os.getcwd())
    spec = importlib.util.spec_from_file_location("config_file", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(_dotted(module.get_config(*arguments).to_dict()))


def _dotted(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _split(line: str) -> list[str]:
    """Words of a command line up to the cursor; the last may be begun or empty."""
    try:
        words = shlex.split(line)
    except ValueError:  # within quotes
        words = line.split()
    return words if line[-1:].strip() else [*words, ""]


def main(argv: list[str]) -> None:
    """Prints the script of a shell, or what completes the words of one."""
    what, *rest = argv or ("",)
    if what in ("bash", "zsh") and not rest:
        print({"bash": BASH, "zsh": ZSH}[what].strip())
    elif what == "words":
        print("\n".join(candidates(["python", *rest])))
    elif what == "line" and len(rest) == 2:
        words, breaks = _split(rest[0]), rest[1]
        # Bash completes what follows the last of these characters in a word.
        begun = max((words[-1].rfind(x) for x in "=:" if x in breaks), default=-1) + 1
        print("\n".join(x[begun:] for x in candidates(words)))
    else:
        from launchers import cli

        cli.fail("give a shell: python -m launchers.completion bash, or zsh")


if __name__ == "__main__":
    main(sys.argv[1:])
