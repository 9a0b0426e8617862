"""A dataclass from JSON: its fields are the keys, and their types what has to be there."""

import dataclasses
import json
import math
import types
import typing
from typing import Any

# Numbers that JSON does not have.
_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class SchemaError(ValueError):
    """A line that is no episode; the message says where, what is there, and what was expected."""


def shown(value: Any) -> str:
    """A value as it is quoted in an error: JSON, cut after 40 letters."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def read(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as one of a type. SchemaError if it is none."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    if origin is types.UnionType:
        return _either(parts, value, where)
    if origin is tuple:
        return _sequence(parts, value, where)
    if origin is dict:
        if isinstance(value, dict):
            return value
        raise SchemaError(f"{where}: {shown(value)}, expected an object")
    return _scalar(kind, value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise SchemaError(f"{where}: {shown(value)}, expected an object")
    hints, fields = typing.get_type_hints(kind), {f.name: f for f in dataclasses.fields(kind)}
    at = f"{where}." if where else ""
    for name in value:
        if name not in fields:
            raise SchemaError(f"{at}{name}: unknown key, expected {', '.join(fields)}")
    # None is left out by the writer.
    value = {k: None for k, hint in hints.items() if type(None) in typing.get_args(hint)} | value
    for name, field in fields.items():
        if name not in value and field.default is dataclasses.MISSING:
            raise SchemaError(f"{at}{name}: missing")
    return kind(**{name: read(hints[name], x, f"{at}{name}") for name, x in value.items()})


def _either(parts: tuple[Any, ...], value: Any, where: str) -> Any:
    """Of a union: the list among its types if it is one, else the other."""
    if value is None and type(None) in parts:
        return None
    kinds = [part for part in parts if part is not type(None)]
    lists = [part for part in kinds if typing.get_origin(part) is tuple]
    if set(kinds) == {int, float}:
        return _scalar(int if type(value) is int else float, value, where)
    kind = lists[0] if lists and (isinstance(value, list) or len(kinds) == 1) else kinds[0]
    return read(kind, value, where)


def _sequence(parts: tuple[Any, ...], value: Any, where: str) -> tuple:
    if not isinstance(value, list):
        raise SchemaError(f"{where}: {shown(value)}, expected a list")
    each = parts[:1] * len(value) if parts[-1:] == (...,) else parts
    if len(each) != len(value):
        raise SchemaError(f"{where}: {len(value)} entries, expected {len(each)}")
    return tuple(
        read(part, x, f"{where}[{i}]") for i, (part, x) in enumerate(zip(each, value, strict=True))
    )


def _scalar(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, str) and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        names = {float: "a number", int: "an integer", bool: "true or false", str: "a text"}
        raise SchemaError(f"{where}: {shown(value)}, expected {names[kind]}")
    return value
