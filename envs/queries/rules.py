"""Queries over small tables of integers: results as padded multisets, and how tasks are drawn."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

AGGREGATES = ("all", "count", "max")
COMPARISONS = ("=", "<", ">")


class Tables(NamedTuple):
    """T tables of R rows. key: i32[T, R], by which rows are joined. values: i32[T, R, C], not
    negative."""

    key: jax.Array
    values: jax.Array


class Query(NamedTuple):
    """`aggregate` of a column of a table, of the rows whose `condition` column in table `other`
    compares with a value; if the tables differ they are joined on their keys. i32[] each.

    aggregate, comparison: index into AGGREGATES, COMPARISONS. column, condition: of their tables.
    """

    aggregate: jax.Array
    table: jax.Array
    column: jax.Array
    other: jax.Array
    condition: jax.Array
    comparison: jax.Array
    value: jax.Array


class Result(NamedTuple):
    """values: i32[R * R], in the order of the rows, then -1. fails: bool[], there is none: the
    greatest of no rows."""

    values: jax.Array
    fails: jax.Array

    @property
    def size(self) -> jax.Array:
        """Number of values, i32[]."""
        return jnp.sum(self.values >= 0, dtype=jnp.int32)


def compare(values: jax.Array, comparison: jax.Array, value: jax.Array) -> jax.Array:
    """Which values fulfil the condition, bool[...]."""
    outcomes = jnp.stack([values == value, values < value, values > value])
    return outcomes[comparison]


def run(tables: Tables, query: Query) -> Result:
    """The result of a query: `all` keeps duplicates, as SQL's SELECT does."""
    rows = tables.key.shape[1]
    same = tables.key[query.table][:, None] == tables.key[query.other][None]
    paired = jnp.where(query.table == query.other, np.eye(rows, dtype=bool), same)
    condition = tables.values[query.other, :, query.condition]
    kept = paired & compare(condition, query.comparison, query.value)
    chosen = tables.values[query.table, :, query.column][:, None]
    count = jnp.sum(kept, dtype=jnp.int32)
    listed = _front(jnp.where(kept, chosen, -1).reshape(-1))
    most = jnp.max(jnp.where(kept, chosen, -1))
    one = jnp.full_like(listed, -1)
    results = jnp.stack([listed, one.at[0].set(count), one.at[0].set(most)])
    fails = (query.aggregate == AGGREGATES.index("max")) & (count == 0)
    return Result(results[query.aggregate], fails)


def _front(values: jax.Array) -> jax.Array:
    """The values that are not -1, in their order, then -1."""
    return values[jnp.argsort(values < 0, stable=True)]


def distinct(values: jax.Array) -> jax.Array:
    """The first of equal values each, in their order, then -1."""
    earlier = np.tri(values.shape[0], k=-1, dtype=bool)
    repeated = jnp.any((values[:, None] == values[None]) & earlier, axis=1)
    return _front(jnp.where(repeated, -1, values))


def equal(
    first: Result, second: Result, *, ordered: bool = False, duplicates: bool = True
) -> jax.Array:
    """Whether two results are the same, bool[]; never if one of them fails.

    The default compares multisets. (MARS-SQL's released code compares sets, `duplicates=False`, so
    that a value that occurs too often goes unnoticed.)

    Source: MARS-SQL, https://arxiv.org/abs/2511.01008 (code read: YangHaolin0526/MARS-SQL 0ece2af).
    """
    sides = [side.values for side in (first, second)]
    if not duplicates:
        sides = [distinct(side) for side in sides]
    if not ordered:
        sides = [jnp.sort(side) for side in sides]
    return jnp.all(sides[0] == sides[1]) & ~first.fails & ~second.fails


def outcome(malformed: jax.Array, right: jax.Array, gold_fails: jax.Array) -> jax.Array:
    """Reward of a finished attempt, f32[]: -1 malformed, 0 wrong, 1 right.

    Where the gold query fails it is 0 whatever was done: all attempts at that task are alike, so
    that group-relative credit learns nothing from them.

    Source: as of `equal`; there such a task counts as answered wrongly.
    """
    reward = jnp.where(malformed, -1.0, jnp.where(right, 1.0, 0.0))
    return jnp.where(gold_fails, 0.0, reward)


class Task(NamedTuple):
    """names: i32[T, C], names of the columns. gold: the query. rivals: bool[T], the two tables that
    have the condition's column, of which only execution tells which is meant. first: i32[], the one
    that the expert tries first."""

    tables: Tables
    names: jax.Array
    gold: Query
    rivals: jax.Array
    first: jax.Array


def draw(
    key: jax.Array, *, rows: int, names: int, highest: int, joins: bool, failing: float
) -> Task:
    """A task over three tables with two columns each of values 1 to `highest`.

    Two rival tables have the condition's column; in one of them, the gold query's, some row fulfils
    the condition, in the other none. The queried column is in both (and in the third table, which
    lacks the condition's), or with `joins` in half of the tasks in the third table alone. A share
    `failing` of the tasks asks for the greatest of no rows.
    """
    # All that is drawn comes of one call, which compiles in a fraction of the time of many.
    sizes = (3, names, 3, 3 * rows, 6 * rows, 7)
    parts = jnp.split(jax.random.uniform(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    order, words = (jnp.argsort(part).astype(jnp.int32) for part in parts[:2])
    gold, rival, third = order[0], order[1], order[2]
    joined = joins & (parts[5][0] < 0.5)
    # Pairs of names: a table holds both names of the question, or one of them and another one.
    asked, tested = words[0], words[1]
    own = jnp.stack([jnp.where(joined, words[2], asked), tested])
    others = jnp.stack([jnp.where(joined, words[3], asked), tested])
    rest = jnp.stack([asked, words[4]])
    columns = jnp.zeros((3, 2), jnp.int32).at[order].set(jnp.stack([own, others, rest]))
    columns = jnp.where((parts[2] < 0.5)[:, None], columns[:, ::-1], columns)
    comparison = _whole(parts[5][1], len(COMPARISONS))
    # No number is below 1 or above the highest.
    value = _whole(parts[5][2], highest - (comparison > 0)) + 1 + (comparison == 1)
    aggregate = _whole(parts[5][3], len(AGGREGATES))
    fails = parts[5][4] < failing
    aggregate = jnp.where(fails, AGGREGATES.index("max"), aggregate)
    table = jnp.where(joined, third, gold)
    query = Query(
        aggregate=aggregate,
        table=table,
        column=jnp.argmax(columns[table] == asked),
        other=gold,
        condition=jnp.argmax(columns[gold] == tested),
        comparison=comparison,
        value=value,
    )
    values = 1 + _whole(parts[4], highest).reshape(3, rows, 2)
    one = _whole(parts[5][5], rows)
    unfit, fit = _unfit(values, comparison, value, highest), _fit(comparison, value)
    tests = columns[:, None] == tested
    barred = ((np.arange(3) == rival) | fails)[:, None, None] & tests
    values = jnp.where(barred, unfit, values)
    fitted = (np.arange(3) == gold)[:, None, None] & (np.arange(rows) == one)[None, :, None]
    values = jnp.where(fitted & tests & ~fails, fit, values)
    shuffled = jnp.argsort(parts[3].reshape(3, rows), axis=1).astype(jnp.int32)
    rivals = (np.arange(3) == gold) | (np.arange(3) == rival)
    first = jnp.where(parts[5][6] < 0.5, gold, rival)
    query = jax.tree.map(lambda x: jnp.asarray(x, jnp.int32), query)
    return Task(Tables(shuffled, values), columns, query, rivals, first.astype(jnp.int32))


def _whole(uniform: jax.Array, count: jax.Array | int) -> jax.Array:
    """Numbers from 0 to count - 1 of uniform ones."""
    return jnp.floor(uniform * count).astype(jnp.int32)


def _unfit(values: jax.Array, comparison: jax.Array, value: jax.Array, highest: int) -> jax.Array:
    """The values, changed where they fulfil the condition, so that none does."""
    other = jnp.stack([value % highest + 1, jnp.int32(highest), jnp.int32(1)])[comparison]
    return jnp.where(compare(values, comparison, value), other, values)


def _fit(comparison: jax.Array, value: jax.Array) -> jax.Array:
    """A value that fulfils the condition."""
    return value + jnp.array([0, -1, 1])[comparison]
