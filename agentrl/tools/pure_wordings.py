"""Environments of pure tools in words: the prompt, then results of commands."""

import string
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.tools.pure import Kind
from agentrl.tools.pure_environment import (
    FAILED,
    OK,
    REFUSED,
    PureToolEnvironment,
    PureToolState,
)
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
    prompt, result = _prompt(env, lexicon), _result(env, lexicon)
    line = lexicon("\n")
    commands = lexicon.table(env.action_names if env.every_turn else ())

    def last(state, params):
        now = np.arange(env.turns) == state.time - 1
        made, outcome = (jnp.sum(jnp.where(now, x, 0)) for x in (state.made, state.outcome))
        values = jnp.sum(jnp.where(now[:, None], state.results, 0), axis=0)
        asked, told = prompt(state), result(made, outcome, values)
        size = max(len(asked), len(told))
        asked, told = (jnp.pad(x, (0, size - len(x))) for x in (asked, told))
        return jnp.where(state.time == 0, asked, told)

    def whole(state, params):
        told = [prompt(state)]
        for turn in range(env.turns):
            made, outcome = state.made[turn], state.outcome[turn]
            command = jnp.stack([line, jnp.asarray(commands)[made]])
            told += [
                jnp.where(made >= 0, command, 0),
                jnp.where(outcome > 0, line, 0)[None],
                result(made, outcome, state.results[turn]),
            ]
        return jnp.concatenate(told)

    return _view(env, lexicon, whole if env.every_turn else last)


def _written(lexicon: Lexicon, kinds: Sequence[Kind]):
    """values -> their fragments, apart by spaces, i32[2 n - 1]."""
    gap, tables = lexicon(" "), [lexicon.table(kind.words) for kind in kinds]

    def fragments(values: jax.Array) -> jax.Array:
        said = []
        for at, (kind, table) in enumerate(zip(kinds, tables, strict=True)):
            place = jnp.clip(values[at] - kind.first, 0, len(table) - 1)
            said += [gap, jnp.asarray(table)[place]]
        return jnp.stack(said[1:])

    return fragments


def _prompt(env: PureToolEnvironment, lexicon: Lexicon):
    """state -> fragments of the prompt."""
    pieces = [
        (lexicon(text), name, _written(lexicon, env.shown[name]) if name is not None else None)
        for text, name, *_ in string.Formatter().parse(env.prompt)
    ]

    def fragments(state: PureToolState) -> jax.Array:
        said = []
        for text, name, written in pieces:
            said.append(jnp.asarray(text)[None])
            if written is not None:
                said.append(written(jnp.reshape(getattr(state.task, name), -1)))
        return jnp.concatenate(said)

    return fragments


def _result(env: PureToolEnvironment, lexicon: Lexicon):
    """(made, outcome, values) of a turn -> fragments of what is read after it, i32[2 R - 1]."""
    refused, failed = lexicon(NO_CALL), lexicon(NO_RESULT)
    writers = [_written(lexicon, tool.result) for tool in env.tools]

    def fragments(made: jax.Array, outcome: jax.Array, values: jax.Array) -> jax.Array:
        said = jnp.zeros(2 * env.width - 1, jnp.int32)
        for tool, start, written in zip(env.tools, env.starts, writers, strict=True):
            here = written(values)
            here = jnp.pad(here, (0, len(said) - len(here)))
            inside = (outcome == OK) & (made >= start) & (made < start + tool.size)
            said = jnp.where(inside, here, said)
        error = jnp.where(outcome == REFUSED, refused, jnp.where(outcome == FAILED, failed, 0))
        return said.at[0].add(error)

    return fragments


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
