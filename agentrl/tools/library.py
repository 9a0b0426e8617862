"""Tools that are there: arithmetic, search over documents, a table of a database."""

import ast
import math
import operator
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.tools.function import Tool, needed, tool

_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
# Larger numbers are refused, so that an expression takes no time.
_LARGEST = 1e100
# Steps of SQLite's machine between looks at the limit, and how many such looks a query has.
_STEPS, _LOOKS = 10_000, 1_000


def calculator(*, name: str = "calculator", longest: int = 64, calls: int | None = None) -> Tool:
    """A tool for arithmetic with + - * / // % ** and brackets, of numbers up to 1e100.

    name, longest, calls: see `agentrl.tools.tool`.
    """

    def calculate(expression: str) -> str:
        return f"{arithmetic(expression):.12g}"

    about = "The value of an arithmetic expression, such as 3 * (4 + 5)."
    return tool(calculate, name=name, description=about, longest=longest, calls=calls)


def arithmetic(expression: str) -> float:
    """The value of an arithmetic expression. ValueError: it is none, or its numbers are too large.

    Python's grammar of numbers and of + - * / // % **; nothing is executed.
    """
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r:.80} is no arithmetic expression") from None
    except ZeroDivisionError:
        raise ValueError(f"{expression!r:.80} divides by zero") from None
    return value


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        value = _OPERATIONS[type(node.op)](_value(node.operand))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = _value(node.left), _value(node.right)
        if base and abs(power) * abs(math.log10(abs(base))) > 100 or (base < 0 and power % 1):
            raise ValueError("a power is too large, or of a negative number by a fraction")
        value = base**power
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        value = _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    else:
        raise ValueError(f"{ast.unparse(node)!r:.80}: expected numbers and + - * / // % **")
    if not abs(value) <= _LARGEST:
        raise ValueError("a number is too large")
    return value


def search(
    documents: Sequence[str],
    *,
    name: str = "search",
    count: int = 3,
    longest: int = 1024,
    calls: int | None = None,
) -> Tool:
    """A tool that finds the `count` documents nearest to a query by BM25 (package bm25s).

    Documents without a word of the query are not shown. name, longest, calls: see
    `agentrl.tools.tool`.

    Raises:
      ValueError: no documents.
    """
    bm25s = needed("bm25s")
    if not documents:
        raise ValueError("search: expected one document or more")
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(list(documents), stopwords=None, show_progress=False), show_progress=False
    )
    most = min(count, len(documents))

    def find(query: str) -> str:
        words = bm25s.tokenize([query], stopwords=None, show_progress=False, return_ids=False)
        found, scores = index.retrieve(words, k=most, show_progress=False)
        near = [documents[i] for i, score in zip(found[0], scores[0], strict=True) if score > 0]
        return "\n".join(near) or "nothing found"

    about = "The documents that match the words of a query best."
    return tool(find, name=name, description=about, longest=longest, calls=calls)


def table(
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    name: str = "sql",
    rows: int = 20,
    longest: int = 1024,
    calls: int | None = None,
) -> Tool:
    """A tool that answers SELECT queries (SQLite) over tables, given as rows of named values.

    Each query sees the tables as they were given; it may read only, takes ten million steps of
    SQLite's machine at most, and shows `rows` rows. name, longest, calls: see `agentrl.tools.tool`.

    Raises:
      ValueError: a table without rows, or with rows that have other columns than its first.
    """
    database = sqlite3.connect(":memory:")
    columns = {}
    for title, lines in tables.items():
        columns[title] = _columns(title, lines)
        names = ", ".join(map(_quoted, columns[title]))
        database.execute(f"create table {_quoted(title)} ({names})")
        places = ", ".join("?" * len(columns[title]))
        values = [[line[column] for column in columns[title]] for line in lines]
        database.executemany(f"insert into {_quoted(title)} values ({places})", values)
    database.commit()
    image = database.serialize()
    database.close()

    def select(query: str) -> str:
        with sqlite3.connect(":memory:") as connection:
            connection.deserialize(image)
            looks = iter(range(_LOOKS))
            connection.set_progress_handler(lambda: next(looks, None) is None, _STEPS)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
            connection.set_authorizer(_reads_only)
            cursor = connection.execute(query)
            found = cursor.fetchmany(rows + 1)
            lines = [" | ".join(map(str, line)) for line in found[:rows]]
            head = [" | ".join(column[0] for column in cursor.description or ())]
        connection.close()
        return "\n".join([*head, *lines, *(["..."] if len(found) > rows else [])])

    shown = "; ".join(f"{title}({', '.join(names)})" for title, names in columns.items())
    about = f"Answers a SELECT query of SQLite over the tables {shown}."
    return tool(select, name=name, description=about, longest=longest, calls=calls)


def _columns(title: str, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    if not lines:
        raise ValueError(f"table {title!r} has no rows")
    columns = [*lines[0]]
    for number, line in enumerate(lines):
        if [*line] != columns:
            raise ValueError(
                f"table {title!r}, row {number}: columns {', '.join(line)}, expected "
                f"{', '.join(columns)}"
            )
    return columns


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _reads_only(action: int, *names: str | None) -> int:
    allowed = (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
    dangerous = action == sqlite3.SQLITE_FUNCTION and names[1] == "load_extension"
    return sqlite3.SQLITE_OK if action in allowed and not dangerous else sqlite3.SQLITE_DENY
