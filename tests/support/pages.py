"""What pages and docstrings tell a reader to type: blocks of Python, and commands as bash has them.

A fenced block without a language is what one types into a shell, one marked `python` is a program,
`text` is neither. What cannot run in a test is marked in the line before it, with the reason:

    <!-- not executed: needs a GPU -->
"""

import ast
import functools
import inspect
import pathlib
import re
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("agentrl", "envs", "launchers", "configs", "colab")
PAGES = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]
PAGES += [page for name in FOLDERS for page in sorted((ROOT / name).rglob("*.md"))]
MODULES = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]

MARK = re.compile(r"<!-- not executed: *(.*?) *-->\s*\Z")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# In front of a command, what the shell sets for it: XLA_FLAGS=... python -m launchers.benchmark
INLINE = re.compile(r"`((?:\w+=\S+ )*(?:python -m|bash launchers/|pip install) ?[^`\n]+)`")
# What stands for a name that the reader has, and for a choice: [household|coin].
PLACEHOLDERS = re.compile(r"launchers\.NAME|HOST:PORT|\.\.\.|…|\[\w+\|")
# Each command that bash calls writes its arguments instead of running: bash itself expands loops,
# variables and quotes. There is no PATH, so nothing else can run.
RECORDER = """
record() { printf '%s\\0' "$@"; printf '\\n\\0'; }
for name in python python3 pip bash ruff mkdocs tensorboard source; do
  eval "$name() { record $name \\"\\$@\\"; }"
done
command_not_found_handle() { record "$@"; }
"""


class Block(NamedTuple):
    """A fenced block. line: of its fence. not_executed: the reason, or None."""

    page: pathlib.Path
    line: int
    language: str
    text: str
    not_executed: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Command(NamedTuple):
    """A command after the shell's expansions. words: as `sys.argv` would have them."""

    where: str
    words: tuple[str, ...]


def blocks(page: pathlib.Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text, found = page.read_text(), []
    for match in FENCE.finditer(text):
        mark = MARK.search(text[: match.start()])
        line = text[: match.start()].count("\n") + 1
        indent = len(match[1])
        lines = "".join(x[indent:] or "\n" for x in match[3].splitlines(keepends=True))
        found.append(Block(page, line, match[2], lines, mark and mark[1]))
    return found


def file_of(block: Block) -> str | None:
    """The name of the file that a block is, from its first line: `# my_module.py`."""
    match = re.match(r"# (\w+\.py)\n", block.text)
    return match and match[1]


def _literal_blocks(text: str) -> list[str]:
    """Runs of indented lines of a docstring that contain a command, and lines that are one."""
    runs = re.findall(r"(?:^(?: {4}.*|python -m launchers\..*)\n?)+", text, re.MULTILINE)
    return [inspect.cleandoc(run) for run in runs if "python -m launchers." in run]


def _comments(text: str) -> list[str]:
    """Indented comments that contain a command."""
    runs = re.findall(r"(?:^# {3}.*\n)+", text, re.MULTILINE)
    return [re.sub(r"^# +", "", run, flags=re.M) for run in runs if "python -m launchers." in run]


@functools.cache
def scripts() -> tuple[tuple[str, str], ...]:
    """(where, text) of all that a reader is told to type into a shell."""
    found = []
    for page in PAGES:
        found += [
            (str(b), b.text) for b in blocks(page) if not b.language and b.not_executed is None
        ]
        found += _inline(page, re.sub(FENCE, "", page.read_text()))
    for path in MODULES:
        source, where = path.read_text(), str(path.relative_to(ROOT))
        text = ast.get_docstring(ast.parse(source)) or ""
        found += [(where, block) for block in _literal_blocks(text) + _comments(source)]
        found += _inline(path, text)
    return tuple(found)


def _inline(path: pathlib.Path, text: str) -> list[tuple[str, str]]:
    where = str(path.relative_to(ROOT))
    return [(where, c) for c in INLINE.findall(text) if not PLACEHOLDERS.search(c)]


@functools.cache
def commands() -> tuple[Command, ...]:
    """Every command of `scripts`, once, as bash expands it."""
    parts = [RECORDER]
    for number, (_, text) in enumerate(scripts()):
        parts.append(f"printf '@%s\\0' {number}\n({text}\n)\n")
    done = subprocess.run(
        ["/bin/bash", "-c", "\n".join(parts)],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    found, where, words = {}, "", []
    for word in done.stdout.split("\0"):
        if not words and word.startswith("@"):
            where = scripts()[int(word[1:])][0]
        elif word == "\n":
            found.setdefault(tuple(words), where)
            words = []
        else:
            words.append(word)
    return tuple(Command(where, words) for words, where in found.items())
