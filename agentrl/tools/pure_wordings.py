"""Environments of pure tools in words: the prompt, then results of commands."""

import string

import jax.numpy as jnp
import numpy as np

from agentrl.tools.pure import Kind
from agentrl.tools.pure_environment import FAILED, OK, REFUSED, PureToolEnvironment
from envs.text import Lexicon, View, template

# What is read after a turn without a result, in the graph and on the host.
NO_CALL = "error: no such call"
NO_RESULT = "error: no result"


def rules(env: PureToolEnvironment) -> str:
    """How to call the tools, for models that were not trained here."""
    lines = []
    for tool in env.tools:
        shown = tool.form.format(**{name: name.upper() for name, _ in tool.arguments})
        limit = f" At most {tool.calls} times." if tool.calls else ""
        ends = " Ends the task." if tool.ends else ""
        lines.append(f"{shown}: {tool.description}{limit}{ends}")
    return "\n".join(["Each reply is one command:", *lines])


def compact(env: PureToolEnvironment) -> View:
    """`7 fig?`, then `4`, the result of `price fig`; with `every_turn` all of it, line by line."""
    env.check_ranges()
    lexicon = Lexicon()
    gap, line, refused, failed = map(lexicon, (" ", "\n", NO_CALL, NO_RESULT))
    pieces = [
        (lexicon(text), name, [lexicon.table(kind.words) for kind in env.shown.get(name, ())])
        for text, name, *_ in string.Formatter().parse(env.prompt)
    ]
    commands = lexicon.table(env.action_names if env.every_turn else ())
    results = [[lexicon.table(kind.words) for kind in tool.result] for tool in env.tools]

    def written(values, kinds: tuple[Kind, ...], tables) -> list:
        """Fragments of values, apart by spaces."""
        said = []
        for value, kind, table in zip(values, kinds, tables, strict=True):
            at = jnp.clip(value - kind.first, 0, len(table) - 1)
            said += [gap, jnp.asarray(table)[at]]
        return said[1:]

    def prompt(state):
        said = []
        for text, name, tables in pieces:
            said.append(text)
            if name is not None:
                values = jnp.reshape(getattr(state.task, name), -1)
                said += written(values, env.shown[name], tables)
        return jnp.stack([jnp.asarray(fragment, jnp.int32) for fragment in said])

    def result(made, outcome, values):
        """Fragments of what is read after a turn, i32[2 R - 1]."""
        said = jnp.zeros(2 * env.width - 1, jnp.int32)
        for tool, start, tables in zip(env.tools, env.starts, results, strict=True):
            here = jnp.stack(written(values[: len(tool.result)], tool.result, tables))
            inside = (outcome == OK) & (made >= start) & (made < start + tool.size)
            said = jnp.where(inside, jnp.pad(here, (0, len(said) - len(here))), said)
        error = jnp.where(outcome == REFUSED, refused, jnp.where(outcome == FAILED, failed, 0))
        return said.at[0].add(error)

    def describe(state, params):
        asked = prompt(state)
        if not env.every_turn:
            last = np.arange(env.turns) == state.time - 1
            chosen = (
                jnp.sum(jnp.where(last[:, None], state.results, 0), axis=0),
                jnp.sum(jnp.where(last, state.outcome, 0)),
                jnp.sum(jnp.where(last, state.made, 0)),
            )
            said = result(chosen[2], chosen[1], chosen[0])
            size = max(len(asked), len(said))
            asked, said = (jnp.pad(x, (0, size - len(x))) for x in (asked, said))
            return jnp.where(state.time == 0, asked, said)
        said = [asked]
        for turn in range(env.turns):
            made, outcome = state.made[turn], state.outcome[turn]
            called = outcome * 0 + jnp.where(made >= 0, jnp.asarray(commands)[made], 0)
            there = outcome > 0
            head = [jnp.where(made >= 0, line, 0), called, jnp.where(there, line, 0)]
            said += [jnp.stack(head), result(made, outcome, state.results[turn])]
        return jnp.concatenate(said)

    return _view(env, lexicon, describe)


def _view(env: PureToolEnvironment, lexicon: Lexicon, describe) -> View:
    """The view with its bounds."""

    def longest(kinds):
        return sum(max(map(len, kind.words)) + 1 for kind in kinds) - 1

    pieces = [*string.Formatter().parse(env.prompt)]
    asked = sum(len(text.encode()) for text, *_ in pieces)
    asked += sum(longest(env.shown[name]) for _, name, *_ in pieces if name is not None)
    fragments = len(pieces) + sum(2 * len(env.shown[n]) for _, n, *_ in pieces if n is not None)
    told = max(len(NO_CALL), *(longest(tool.result) for tool in env.tools))
    command = max(len(name.encode()) for name in env.action_names)
    slots = {
        f"{tool.name}_{name}": lexicon.table(kind.words)[:, None]
        for tool in env.tools
        for name, kind in tool.arguments
    }
    forms = [
        template(
            lexicon, tool.form.format(**{n: f"{{{tool.name}_{n}}}" for n, _ in tool.arguments})
        )
        for tool in env.tools
    ]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(forms),
        slots=lambda state, params: slots,
        max_fragments=fragments + env.turns * (2 * env.width + 2)
        if env.every_turn
        else max(fragments, 2 * env.width - 1),
        max_bytes=asked + env.turns * (told + command + 2) if env.every_turn else max(asked, told),
        max_command_bytes=command,
        rules=rules(env),
    )


WORDINGS = {"compact": compact}
