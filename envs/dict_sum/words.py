"""DictSum in words: the dictionary, the recalled turns, and this turn's keys."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from envs.dict_sum import rules
from envs.dict_sum.env import DictSum
from envs.text import Lexicon, View, template

RULES = (
    "A dictionary gives every word a value. Each turn names words: add their values to the sum so "
    "far, which starts at 0, and answer with the new sum alone, for example -3. {shown}"
)
# Without the answers of earlier turns, and with them.
SHOWN = (
    "Earlier turns are shown without their sums.",
    "Earlier turns are shown with their sums.",
)


class Words(NamedTuple):
    """Strings of a wording: around the dictionary, its first and its other words, around a turn's
    keys, its first and its other keys, before and after a turn's answer."""

    dictionary: tuple[str, str]
    pair: tuple[str, str]
    turn: tuple[str, str]
    key: tuple[str, str]
    answer: tuple[str, str]


def compact(env: DictSum) -> View:
    """`ap=5 gr=-3 st=8 cl=-7 +ap =5 +st =13 +gr`: dictionary, turns with their sums, this turn."""
    words = Words(("", ""), ("{}=", " {}="), ("", ""), (" +{}", " +{}"), (" =", ""))
    return _view(env, words, [word[:2] for word in rules.WORDS])


def faithful(env: DictSum) -> View:
    """Dictionary and keys written as in Python, as in the reference's prompts (read)."""
    words = Words(
        ("Dictionary: {", "}\n"),
        ("'{}': ", ", '{}': "),
        ("Keys: [", "]\n"),
        ("'{}'", ", '{}'"),
        ("Sum: ", "\n"),
    )
    return _view(env, words, rules.WORDS)


def _view(env: DictSum, words: Words, names) -> View:
    lexicon, names = Lexicon(), names[: env.pairs]
    numbers = lexicon.table(env.action_names)

    def first_and_others(forms, index):
        return lexicon.table(forms[bool(index)].replace("{}", name) for name in names)

    first, later = (first_and_others(words.pair, i) for i in range(2))
    pair = np.concatenate([first[:1], later[1:]])
    # By place in the turn and by word.
    key = np.stack([first_and_others(words.key, i) for i in range(env.keys)])
    around = {name: lexicon.table(getattr(words, name)) for name in ("dictionary", "turn")}
    before, behind = lexicon.table(words.answer)
    end = lexicon(".")

    def number(values):
        return jnp.asarray(numbers)[values.astype(jnp.int32) + env.limit]

    def turn(keys, there):
        """Fragments [..., keys + 2] of a turn's keys."""
        of_keys = jnp.asarray(key)[np.arange(env.keys), keys]
        ends = jnp.broadcast_to(around["turn"], (*keys.shape[:-1], 2))
        fragments = jnp.concatenate([ends[..., :1], of_keys, ends[..., 1:]], axis=-1)
        return jnp.where(there[..., None], fragments, 0)

    def describe(state, params):
        pairs = jnp.stack([jnp.asarray(pair), number(state.values)], axis=1).reshape(-1)
        opening, closing = around["dictionary"]
        dictionary = jnp.concatenate([opening[None], pairs, closing[None]])
        if env.recall == 0:
            dictionary = jnp.where(state.turn == 0, dictionary, 0)
        keys, answers, there = env.recalled(state)
        sums = (jnp.full_like(answers, before), number(answers), jnp.full_like(answers, behind))
        sums = jnp.where((there & env.tells_answers)[:, None], jnp.stack(sums, axis=1), 0)
        earlier = jnp.concatenate([turn(keys, there), sums], axis=1)
        # After the last turn: an observation is never empty.
        last = turn(*env.asked(state))
        over = jnp.where(state.turn < env.turns, 0, end)
        return jnp.concatenate([dictionary, earlier.reshape(-1), last, over[None]])

    widest = max(len(str(-env.span)), 1)
    longest_sum = len(str(-env.limit))
    of_pairs = sum(len(words.pair[i > 0]) - 2 + len(name) for i, name in enumerate(names))
    of_keys = sum(len(words.key[i > 0]) - 2 for i in range(env.keys))
    of_turn = len("".join(words.turn)) + of_keys + env.keys * max(map(len, names))
    of_answer = len("".join(words.answer)) + longest_sum
    shown = SHOWN[env.tells_answers] if env.recall else ""
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{answer}"),),
        slots=lambda state, params: {"answer": numbers[:, None]},
        max_fragments=2 + 2 * env.pairs + env.recall * (env.keys + 5) + env.keys + 2 + 1,
        max_bytes=len("".join(words.dictionary))
        + of_pairs
        + env.pairs * widest
        + env.recall * (of_turn + of_answer)
        + max(of_turn, 1),
        max_command_bytes=longest_sum,
        rules=RULES.format(shown=shown).strip(),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
