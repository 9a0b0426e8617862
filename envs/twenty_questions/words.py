"""Twenty questions in words: the questions with their answers."""

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, template
from envs.twenty_questions import rules
from envs.twenty_questions.env import TwentyQuestions

RULES = (
    "Somebody thinks of one of these: {things}. Find out which in {turns} turns. In a turn, either "
    "ask one of these questions or guess a thing. Questions: {questions}. {format}"
)


def _answers(env: TwentyQuestions, state, asked: np.ndarray, marks: np.ndarray):
    """Fragments of the answered questions and of the guesses, each with its answer.

    asked: i32[A + E]. marks: i32[2 turns + 1], by balance from -turns to turns.
    """
    right = jnp.arange(env.entities, dtype=jnp.uint8) == state.target
    guesses = jnp.where(state.guessed, jnp.where(right, 1, -1), 0)
    balance = jnp.concatenate([state.balance.astype(jnp.int32), guesses])
    # Indices in the order of the balances, apart from the empty one in the middle: no gather.
    mark = marks[0] + balance + env.turns - (balance > 0)
    return jnp.stack([jnp.where(balance, asked, 0), jnp.where(balance, mark, 0)], 1).reshape(-1)


def _marks(lexicon: Lexicon, env: TwentyQuestions, of) -> np.ndarray:
    """Fragment indices of the answers for balances -turns to turns, without 0."""
    return lexicon.table(of(d) for d in range(-env.turns, env.turns + 1) if d)


def _longest(env: TwentyQuestions, forms: list[str], answer: int, again: int) -> int:
    """Bytes of as many of the longest questions as there are turns, each with its answer.

    answer: bytes of an answer. again: additional bytes when a question is repeated, which is less
    than a new question would add.
    """
    different = min(env.turns, len(forms))
    return (
        sum(sorted(map(len, forms))[-different:])
        + answer * different
        + again * (env.turns - different)
    )


def _rules(env: TwentyQuestions, questions: list[str], end: str) -> str:
    things = ", ".join(name for name, _ in rules.THINGS[: env.entities])
    return RULES.format(things=things, turns=env.turns, questions=" ".join(questions), format=end)


def compact(env: TwentyQuestions) -> View:
    """`alive?y big?n cat?n >`: each question and guess with its answer; `y3` is three more yes than
    no.

    With drawn truths the things come first, each with its truths as hexadecimal digits, four
    attributes per digit, the first attribute the lowest bit of the first digit: `cat:5a3`.
    """
    lexicon = Lexicon()
    names = [f"{name}?" for name in env.action_names]
    asked = lexicon.table(names)
    marks = _marks(lexicon, env, lambda d: "ny"[d > 0] + (str(abs(d)) if abs(d) > 1 else "") + " ")
    prompt = lexicon(">")
    things, digits, newline = (), (), np.int32(0)
    if env.redraw:
        things = lexicon.table(f"{name}:" for name in env.action_names[env.attributes :])
        digits = lexicon.table("0123456789abcdef")
        newline = lexicon("\n")
    width = -(-env.attributes // 4)

    def describe(state, params):
        said = [_answers(env, state, asked, marks), prompt[None]]
        if env.redraw:
            nibbles = (state.table[:, None] >> np.arange(0, 4 * width, 4, dtype=np.uint16)) & 15
            nibbles = digits[0] + nibbles.astype(jnp.int32)
            ends = np.full((env.entities, 1), newline)
            table = jnp.concatenate([things[:, None], nibbles, ends], axis=1)
            said.insert(0, table.reshape(-1))
        return jnp.concatenate(said)

    lines = sum(len(n) + width + 1 for n in names[env.attributes :]) if env.redraw else 0
    format_ = "You are told the answers, y for yes and n for no, with how many more there were."
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{question}"),),
        slots=lambda state, params: {"question": asked[:, None]},
        max_fragments=2 * min(env.turns, len(names)) + 1 + env.redraw * env.entities * (2 + width),
        max_bytes=_longest(env, names, 2, 1) + 1 + lines,
        max_command_bytes=max(map(len, names)),
        rules=_rules(env, names[: env.attributes], f"{format_} Guess as in: {names[-1]}"),
    )


def faithful(env: TwentyQuestions) -> View:
    """Questions in sentences, each with its answer.

    Source: the form of LMRL-Gym's dialogues (read); the questions are ours. With drawn truths the
    things come first, each with its true attributes.
    """
    lexicon = Lexicon()
    questions = [question for _, question in rules.ATTRIBUTES[: env.attributes]]
    guesses = [f"Is it {name}?" for name, _ in rules.THINGS[: env.entities]]
    asked = lexicon.table(f"{question} " for question in questions + guesses)
    marks = _marks(
        lexicon,
        env,
        lambda d: (
            ("Yes" if d > 0 else "No") + (f", {abs(d)} times more" if abs(d) > 1 else "") + ".\n"
        ),
    )
    commands = lexicon.table(questions + guesses)
    heading = lexicon("Questions:\n")
    things, words, ends = (), (), np.int32(0)
    if env.redraw:
        things = lexicon.table(f"{name}:" for name in env.action_names[env.attributes :])
        words = lexicon.table(f" {word}" for word in env.action_names[: env.attributes])
        ends = lexicon(".\n")

    def describe(state, params):
        said = [heading[None], _answers(env, state, asked, marks)]
        if env.redraw:
            true = rules.bits(state.table, env.attributes)
            columns = [things[:, None], jnp.where(true, words, 0)]
            columns.append(np.full((env.entities, 1), ends))
            said.insert(0, jnp.concatenate(columns, axis=1).reshape(-1))
        return jnp.concatenate(said)

    lines = 0
    if env.redraw:
        names = [len(name) for name in env.action_names]
        everything = sum(names[: env.attributes]) + env.attributes + len(":.\n")
        lines = sum(names[env.attributes :]) + env.entities * everything
    forms = [f"{question} " for question in questions + guesses]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{question}"),),
        slots=lambda state, params: {"question": commands[:, None]},
        max_fragments=2 * min(env.turns, len(forms))
        + 1
        + env.redraw * env.entities * (2 + env.attributes),
        max_bytes=len("Questions:\n")
        + _longest(env, forms, len("Yes.\n"), len(", 2 times more") + 1)
        + lines,
        max_command_bytes=max(map(len, forms)) - 1,
        rules=_rules(env, questions, f"Guess as in: {guesses[-1]}"),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
