"""FunctionGym in words: the probes, the test case, and the last event."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.function_gym import env as gym
from envs.function_gym import rules
from envs.function_gym.env import FunctionGym
from envs.text import Lexicon, Query, View, template

RULES = (
    "Somebody has a function of {count} numbers {range}. Find it out by trying numbers, and say "
    "what it gives for the test case, whose numbers you can ask for but not try. {format}"
)


class Words(NamedTuple):
    """Strings of a wording.

    row, case: before the first number, between numbers, after the last; a row's result follows, and
    then row_end. line: between the parts. messages: one per event; the expected result follows
    `finish`. commands: forms with the slots {first}, {second} and {answer}. between: before the
    second number of a command. verbs: the first words of probes, answers, search and finish if they
    are free text, after `prefix`.
    """

    row: tuple[str, str, str]
    row_end: str
    case: tuple[str, str, str]
    line: str
    messages: dict[str, str]
    commands: tuple[str, str, str, str]
    between: str
    verbs: tuple[str, str, str, str]
    prefix: str
    floats: bool
    format: str


def _query(env: FunctionGym, lexicon: Lexicon, words: Words) -> Query:
    """Free text: the verb, then numbers; both 7 and 7.0 are understood."""
    numbers = range(-env.largest, env.largest + 1)
    forms = [form for number in numbers for form in (str(number), str(float(number)))]
    vocabulary = lexicon.table([*words.verbs, *forms])
    verbs = len(words.verbs)
    first_probe = 2 + env.num_answers

    def action(said: jax.Array) -> jax.Array:
        verb, rest = said[0], said[1:]
        number = rest >= verbs
        value = (rest - verbs) // 2 - env.largest
        digits = value[: env.variables] - 1
        fits = jnp.all((digits >= 0) & (digits < 10))
        code = jnp.sum(digits * 10 ** np.arange(env.variables - 1, -1, -1))
        four = jnp.sum(number) == env.variables
        probe = jnp.where(fits, first_probe + code, -1)
        probe = jnp.where(
            four & jnp.all(number[: env.variables]), probe, first_probe + env.num_probes
        )
        answer = jnp.where(number[0], 2 + value[0] + env.largest, first_probe - 1)
        chosen = jnp.stack([probe, answer, jnp.int32(0), jnp.int32(1)])
        return jnp.sum(jnp.where(np.arange(verbs) == verb, chosen + 1, 0)) - 1

    return Query(words.prefix, "", vocabulary, env.variables + 2, action)


def _forms(env: FunctionGym, words: Words) -> tuple[str, ...]:
    """Forms of the commands that are no free text."""
    return words.commands if env.modulus else words.commands[:2]


def _range(env: FunctionGym) -> tuple[int, int]:
    """The least number to try, of ten, and the most characters of a result."""
    return (0, 1) if env.modulus else (1, rules.WIDTH)


def _bounds(env: FunctionGym, words: Words) -> tuple[int, int]:
    """The most bytes of a description, and of a command."""
    n, (low, width) = env.variables, _range(env)

    def longest(ends: tuple[str, str, str], number: str) -> int:
        return len(ends[0]) + n * len(number) + (n - 1) * len(ends[1]) + len(ends[2])

    number = f"{9 + low}"
    row = longest(words.row, number + ".0" * bool(words.floats and low))
    row += width + len(words.row_end) + len(words.line)
    message = max(map(len, words.messages.values())) + width + len(words.line)
    second = f"{words.between}0"
    commands = [form.format(first=0, second=second, answer=0) for form in _forms(env, words)]
    if not env.modulus:
        commands.append(f"{words.prefix}{words.verbs[0]}" + " 10" * n)
        commands.append(f"{words.prefix}{words.verbs[1]} -{float(env.largest)}")
    size = longest(words.case, number) + max(env.memory, 1) * row + message
    return size, max(map(len, commands))


def _numbers(
    env: FunctionGym, probes: jax.Array, tables: list[np.ndarray], close: np.int32
) -> jax.Array:
    """Fragments i32[K, n + 1] of the numbers of probes i32[K]; 0 for probes that are hidden.

    tables: fragments i32[10] of each of the n numbers. close: the fragment after the last.
    """
    digits = jnp.maximum(env.digits(probes), 0)
    said = [jnp.asarray(table)[digits[:, i]] for i, table in enumerate(tables)]
    said.append(jnp.full(probes.shape, close))
    return jnp.where(probes[:, None] >= 0, jnp.stack(said, axis=1), 0)


def _view(env: FunctionGym, words: Words) -> View:
    lexicon = Lexicon()
    # Before all others, so that they have consecutive indices.
    characters = lexicon.table(rules.CHARACTERS)
    n, (low, width) = env.variables, _range(env)

    def numbers(forms: tuple[str, str, str], floats: bool) -> list[np.ndarray]:
        values = [float(v) if floats else v for v in range(low, low + 10)]
        starts = [forms[0], *[forms[1]] * (n - 1)]
        return [lexicon.table(f"{start}{value}" for value in values) for start in starts]

    row, case = numbers(words.row, words.floats and low), numbers(words.case, False)
    row_close, case_close = lexicon(words.row[2]), lexicon(words.case[2])
    row_end, line = lexicon(words.row_end), lexicon(words.line)
    messages = lexicon.table(words.messages.get(event, "") for event in gym.EVENTS)
    if env.modulus:
        first = lexicon.table(map(str, range(10)))
        second = lexicon.table(f"{words.between}{value}" for value in range(10))
        slots = {"first": first, "second": second, "answer": first[: env.modulus]}
        query = None
    else:
        slots, query = {}, _query(env, lexicon, words)
    templates = tuple(template(lexicon, form) for form in _forms(env, words))
    slots = {name: values[:, None] for name, values in slots.items()}

    def written(state, probes):
        packed = jnp.asarray(env.tables.written)[state.function, jnp.maximum(probes, 0)]
        codes = rules.characters(packed, width)
        return jnp.where(codes > 0, characters[0] + codes - 1, 0)

    def describe(state, params):
        asked, probes = env.shown(state)
        shown = jnp.append(asked, probes) >= 0
        follows = jnp.cumsum(shown) > shown
        there = (probes >= 0)[:, None]
        lines = jnp.where(there & follows[1:, None], line, 0)
        ends = jnp.where(there, row_end, 0)
        results = jnp.where(there, written(state, probes), 0)
        rows = [lines, _numbers(env, probes, row, row_close), results, ends]
        message = jnp.asarray(messages)[state.event.astype(jnp.int32)]
        breaks = jnp.where(jnp.any(shown) & (message != 0), line, 0)
        finish = jnp.where(state.event == gym.FINISH, written(state, state.case), 0)
        return jnp.concatenate(
            [
                _numbers(env, asked[None], case, case_close)[0],
                jnp.concatenate(rows, axis=1).reshape(-1),
                jnp.stack([breaks, message]),
                finish,
            ]
        )

    max_bytes, max_command_bytes = _bounds(env, words)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=templates,
        slots=lambda state, params: slots,
        max_fragments=n + 1 + max(env.memory, 1) * (n + 3 + width) + 2 + width,
        max_bytes=max_bytes,
        max_command_bytes=max_command_bytes,
        query=query,
        rules=RULES.format(
            count="two" if env.modulus else "four",
            range=f"0 to 9, modulo {env.modulus}" if env.modulus else "1 to 10",
            format=words.format,
        ),
    )


def compact(env: FunctionGym) -> View:
    """`test 5 6; 3 7=4; 1 1=2; wrong`: the case, the probes, and any other last event."""
    if env.modulus:
        how = "Write two numbers to try them, =v to answer v, test for the test case, or finish."
    else:
        how = "Write: try 1 2 3 4, answer 5, test for the test case, or finish."
    return _view(
        env,
        Words(
            row=("", " ", "="),
            row_end="",
            case=("test ", " ", ""),
            line="; ",
            messages={
                "start": "new",
                "failed": "no result",
                "refused": "refused",
                "wrong": "wrong",
                "right": "right",
                "finish": "over, it was ",
                "malformed": "unclear",
                "count": "four numbers",
            },
            commands=("test", "finish", "={answer}", "{first}{second}"),
            between=" ",
            verbs=("try", "answer", "test", "finish"),
            prefix="",
            floats=False,
            format=how,
        ),
    )


def faithful(env: FunctionGym) -> View:
    """UserRL's messages.

    With a memory the test case and the earlier results come first, one per line.
    """
    count = "two" if env.modulus else "four"
    return _view(
        env,
        Words(
            row=("For numbers [", ", ", "], the result is "),
            row_end=".",
            case=("Test case: [", ", ", "]"),
            line="\n",
            messages={
                "start": "New function problem loaded. You can use [action] with "
                f"{count} numbers to test the function, [search] for test case, or [answer] with "
                "your final guess.",
                "failed": "Error parsing numbers or calculating result. This may happen like when "
                "division by zero occurs. Please try again with different number combinations.",
                "refused": "This is the test case and I cannot provide you with the calculation "
                "feedback.",
                "wrong": "Your answer is wrong. Please continue to try and reason about the hidden "
                "function and make your answer attempt later.",
                "right": "Your answer is correct!",
                "finish": "Episode finished without correct answer. The expected result for the "
                "test case was: ",
                "malformed": "Invalid action format. Please use [action], [search], [answer], or "
                "[finish].",
                "count": f"Please provide exactly {count} numbers.",
            },
            commands=("[search] test", "[finish]", "[answer] {answer}", "[action] {first}{second}"),
            between=" ",
            verbs=("action]", "answer]", "search]", "finish]"),
            prefix="[",
            floats=True,
            format="Write as in: [action] 3 7" + " 1 2" * (not env.modulus) + ", [search] test, "
            "[answer] 5, [finish].",
        ),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
