"""Questions about tables in words, for a grounder, a generator and a validator."""

import jax.numpy as jnp
import numpy as np

from envs.queries.env import COLUMNS, GENERATOR, NAMES, PICKS, TABLES, VALIDATOR, Queries
from envs.queries.rules import AGGREGATES, COMPARISONS
from envs.text import Lexicon, Template, View, template


def compact(env: Queries) -> View:
    """Grounder: `tables max age cost > 3; age x cost x cost y age y mass z age z`. Generator:
    `query`, the same of the tables picked, `ran max age x cost x > 3 gave nothing`. Validator:
    `check max age cost > 3 by max age x cost x > 3 gave 5`."""
    lexicon = Lexicon()

    def of(words):
        return np.asarray(lexicon.table(words))

    heads, letters = of(["tables", "query", "check"]), of(f" {t}" for t in "xyz")
    names, aggregates = of(f" {n}" for n in NAMES), of(f" {a}" for a in AGGREGATES)
    signs, numbers = of(f" {c}" for c in COMPARISONS), of(f" {n}" for n in range(env.rows**2 + 1))
    ran, by, gave, then, last = of([" ran", " by", " gave", ";", " last"])
    statuses = of(["", " nothing", " failed", ""])
    values = numbers[1 : env.highest + 1]
    compared = np.array([[sign, value] for sign in signs for value in values])

    def listed(state):
        """Name and table of each column, [T, C, 2]."""
        tables = np.broadcast_to(letters[:, None], (TABLES, COLUMNS))
        return jnp.stack([jnp.asarray(names)[state.task.names], tables], axis=2)

    def describe(state, params, agent):
        task, gold, query = state.task, state.task.gold, state.query
        asked = task.names[gold.table, gold.column], task.names[gold.other, gold.condition]
        question = [heads, aggregates, names, names, signs, numbers]
        at = (agent, gold.aggregate, *asked, gold.comparison, gold.value)
        question = [jnp.asarray(words)[i] for words, i in zip(question, at, strict=True)]
        columns = jnp.where(env.readable(state, agent)[:, None, None], listed(state), 0)
        written = [aggregates, names, letters, names, letters, signs, numbers]
        at = (
            *(query.aggregate, task.names[query.table, query.column], query.table),
            *(task.names[query.other, query.condition], query.other),
            *(query.comparison, query.value),
        )
        written = [jnp.asarray(words)[i] for words, i in zip(written, at, strict=True)]
        shown = env.preview(state)
        shown = jnp.where(shown >= 0, jnp.asarray(numbers)[jnp.maximum(shown, 0)], 0)
        told = [
            jnp.where(agent == VALIDATOR, by, ran), *written, jnp.asarray(gave),
            jnp.asarray(statuses)[env.status(state)], *shown,
        ]  # fmt: skip
        told = jnp.where(state.tries > 0, jnp.stack(told), 0)
        ends = jnp.where(env.last_turn(state) & (agent == GENERATOR), last, 0)
        mark = jnp.where(agent == VALIDATOR, 0, then)
        parts = [jnp.stack(question), mark[None], columns.reshape(-1), told, ends[None]]
        return jnp.concatenate(parts)

    def slots(state, params, agent):
        columns = listed(state).reshape(TABLES * COLUMNS, 2)
        return {
            "aggregate": aggregates[:, None],
            "column": columns,
            "condition": columns,
            "compared": compared,
        }

    picks = [Template((lexicon("use"), *letters[pick].tolist())) for pick in PICKS]
    calls = [template(lexicon, verb + "{aggregate}{column}{condition}{compared}") for verb in VERBS]
    verdicts = [template(lexicon, verdict) for verdict in ("yes", "no")]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(*picks, *calls, *verdicts),
        slots=slots,
        max_fragments=7 + 2 * TABLES * COLUMNS + 13 + 1,
        max_bytes=len("tables count size cost > 6") + len(";") + TABLES * COLUMNS * len(" size x")
        + len(" ran count size x cost x > 6 gave nothing 64 64 64 last"),
        max_command_bytes=len("answer count size x cost x > 6"),
        rules=RULES,
    )  # fmt: skip


VERBS = ("run", "answer")
RULES = (
    "A question names columns but no tables. If you read tables, name those that may be needed, as "
    "in 'use x y'. If you read query, write 'run' or 'answer' and a query, such as 'run max age x "
    "cost y > 3': the greatest age in x, of rows whose row of the same key in y has a cost above "
    "3. If nothing is found, try the other table with that column; last is your last turn. If you "
    "read check, say yes if the query answers the question, else no."
)
WORDINGS = {"compact": compact}
