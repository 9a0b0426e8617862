"""Tool programs in words: the question, and the results of the tools."""

import re
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, template
from envs.tool_program import rules
from envs.tool_program.env import ToolProgram

RULES = (
    "{cells} cells, numbered from 0, hold digits that you do not see. Answer a question about them "
    "in few calls of tools. Which tools work depends on the question. '{get}' tells the digit of "
    "cell i. '{sum}' tells the last digit of the sum of cells 0 to i. '{cmp}' compares two cells, "
    "'{swap}' exchanges them; i is less than j. '{done}' answers v and ends.{questions}"
)
SENTENCES = {
    "max": "Which cell holds the greatest digit?",
    "min": "Which cell holds the least digit?",
    "count": "How many cells hold {0}?",
    "find": "The cells are sorted. Which cell holds {0}?",
    "range": "What is the last digit of the sum of cells {0} to {1}?",
    "pair": "Which cell adds up to {0} with another cell?",
    "sort": "Sort the cells, the least digit first, and answer 0.",
    "balance": "0 opens a bracket and 1 closes one. Answer 1 if all brackets match, else 0.",
}
CODES = {family: family + " {0}" * (n > 0) + " {1}" * (n > 1) for family, n in rules.ARITY.items()}


def _view(
    env: ToolProgram,
    questions: Mapping[str, str],
    ends: str,
    commands: Mapping[str, str],
    told: Mapping[str, tuple[str, ...]],
    explained: str,
) -> View:
    """A view with these forms.

    questions: one per family, {0} and {1} its arguments, each followed by `ends`. commands: one per
    tool, with the slot {cell}, {pair} or {answer}. told: the result of each tool for cell or cells
    {0}, {1}, one form per result, all different. explained: the questions, for the rules.
    """
    lexicon = Lexicon()
    digits = lexicon.table(map(str, range(19)))
    pieces = [re.split(r"\{[01]\}", questions[name] + ends) for name in rules.FAMILIES]
    pieces = [[*row[:-1], *[""] * (3 - len(row)), row[-1]] for row in pieces]
    begin, middle, end = (lexicon.table(column) for column in zip(*pieces, strict=True))
    arity = np.array([rules.ARITY[name] for name in rules.FAMILIES])
    first, second = rules.pairs(env.cells)
    calls = [(i, i) for i in range(env.cells)]
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    results = [
        form.format(i, j)
        for tool, where in (("get", calls), ("sum", calls), ("cmp", pairs), ("swap", pairs))
        for i, j in where
        for form in told[tool]
    ]
    results = lexicon.table(results)
    widths = [len(told[tool]) for tool in ("get", "sum", "cmp", "swap")]
    counts = [len(calls), len(calls), len(pairs), len(pairs)]
    starts = np.cumsum([0, *np.repeat(widths, counts)[:-1]])
    forms = tuple(template(lexicon, commands[t]) for t in ("get", "sum", "cmp", "swap", "done"))
    between = lexicon(commands["between"])
    both = np.stack([digits[first], np.full(len(first), between), digits[second]], axis=1)
    at = env.layout

    def describe(state, params):
        family = np.arange(len(rules.FAMILIES), dtype=np.uint8) == state.family

        def of(table):
            return jnp.sum(jnp.where(family, table, 0), dtype=jnp.int32)

        # The fragments of digits and of results have consecutive indices: no gather.
        arguments = digits[0] + state.arguments.astype(jnp.int32)
        arguments = jnp.where(np.arange(2) < of(arity), arguments, 0)
        question = [of(begin), arguments[0], of(middle), arguments[1], of(end)]
        said = jnp.concatenate([*env.results(state), jnp.zeros(at.done - at.swap, jnp.uint8)])
        said = results[0] + starts + said.astype(jnp.int32)
        if env.notes:
            said = jnp.where(jnp.concatenate(state.notes), said[: at.swap], 0)
        else:
            last = jnp.arange(1, at.done + 1, dtype=jnp.uint8) == state.last
            said = jnp.sum(jnp.where(last, said, 0), dtype=jnp.int32)[None]
        return jnp.concatenate([jnp.stack(question), said])

    most = max(env.cells, len(first)) if env.notes else 1
    longest = max(len(form.format(0, 0)) for tool in told for form in told[tool])
    asked = max(len(form.format(10, 10)) for form in questions.values())
    called = _shown(commands).values()
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=forms,
        slots=lambda state, params: {
            "cell": digits[: env.cells, None],
            "pair": both,
            "answer": digits[:10, None],
        },
        max_fragments=5 + most,
        max_bytes=asked + len(ends) + most * longest,
        max_command_bytes=max(map(len, called)),
        rules=RULES.format(cells=env.cells, questions=explained, **_shown(commands)),
    )


def _shown(commands: Mapping[str, str]) -> dict[str, str]:
    """Commands as written in the rules."""
    pair = "i" + commands["between"] + "j"
    return {tool: form.format(cell="i", pair=pair, answer="v") for tool, form in commands.items()}


def compact(env: ToolProgram) -> View:
    """`find 7: 2:4`: the family, its arguments, and the notes.

    3:7 the digit of a cell, s3:7 a prefix sum, 0<1 a comparison; without notes only the last
    result, 0~1 for a swap.
    """
    commands = {
        "get": "get {cell}",
        "sum": "sum {cell}",
        "cmp": "cmp {pair}",
        "swap": "swap {pair}",
        "done": "done {answer}",
        "between": " ",
    }
    told = {
        "get": tuple(" {0}:" + str(v) for v in range(10)),
        "sum": tuple(" s{0}:" + str(v) for v in range(10)),
        "cmp": (" {0}<{1}", " {0}={1}", " {0}>{1}"),
        "swap": (" {0}~{1}",),
    }
    explained = " ".join(
        f"{CODES[name].format('x', 'y')}: {SENTENCES[name].format('x', 'y')}"
        for name in rules.FAMILIES
    )
    return _view(env, CODES, ":", commands, told, f" Questions: {explained}")


def faithful(env: ToolProgram) -> View:
    """The same in sentences, calls as functions; CodeGym's own words are not public."""
    commands = {
        "get": "get({cell})",
        "sum": "sum({cell})",
        "cmp": "compare({pair})",
        "swap": "swap({pair})",
        "done": "done({answer})",
        "between": ", ",
    }
    told = {
        "get": tuple("\nCell {0} holds " + f"{v}." for v in range(10)),
        "sum": tuple("\nThe sum of cells 0 to {0} ends in " + f"{v}." for v in range(10)),
        "cmp": (
            "\nCell {0} is less than cell {1}.",
            "\nCell {0} equals cell {1}.",
            "\nCell {0} is greater than cell {1}.",
        ),
        "swap": ("\nCells {0} and {1} have changed places.",),
    }
    return _view(env, SENTENCES, "", commands, told, "")


WORDINGS = {"compact": compact, "faithful": faithful}
