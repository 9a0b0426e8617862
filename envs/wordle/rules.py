"""Rules of Wordle with LMRL-Gym's simplified colours, and the information gain of a guess.

A colour is 0 black, 1 yellow or 2 green. Read in code: LMRL-Gym `wordle_env` (colours, words that
are consistent with the history). Its target is drawn again after every guess from the words that
are still consistent, which has the same distribution as a fixed uniform target.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

BLACK, YELLOW, GREEN = range(3)

WORDS = {
    4: tuple(
        """
        able acid aunt baby back ball bark bear bell bird boat bone book cake calm card cave city
        coal coat cold cook corn dark dawn deer desk door duck dust east edge farm fast fire fish
        flag fork game gate gift goat gold hand harp hill home idea iron jump kind king kite lake
        lamp leaf lime lion milk moon nail nest oath open oven park pear pine plum pond quiz rain
        ring road rose salt sand ship shoe snow soap sofa song star tent tile tree tuna vase vote
        wave west wind wolf wood yard year
        """.split()
    ),
    5: tuple(
        """
        actor apple arrow beach bench berry black bread brick bride bring brush build cabin candy
        chair chalk chest child cloud coach coast count crane cream crowd curve daily dance depth
        diary dozen dream drive eagle early earth empty enjoy error event fairy field flame floor
        focus forge fruit ghost giant glass globe grain grape green guest heart heavy horse hotel
        house image ivory jelly judge juice kayak knife large laugh lemon level light lunch magic
        maple march metal mixed money month motor mouse music night noise north novel ocean olive
        onion orbit paint panel paper peach pearl phone piano pilot plant queen quick radio ranch
        river robin round salad scale sheep shelf skirt sleep smile snail spoon stone storm sugar
        table tiger toast tooth train vapor water whale wheat yield young zebra
        """.split()
    ),
}


def letters_of(words: tuple[str, ...]) -> np.ndarray:
    """Letters of the words, u8[W, L], a = 0."""
    return np.array([[ord(letter) - ord("a") for letter in word] for word in words], np.uint8)


def colours(guess: jax.Array, target: jax.Array) -> jax.Array:
    """Colours u8[..., L] of a guess [..., L]: green at its position, yellow if elsewhere in the
    target.

    Unlike the newspaper's game, a letter that occurs once in the target is coloured at every
    position of it in the guess. Works on NumPy arrays too.
    """
    anywhere = (guess[..., :, None] == target[..., None, :]).any(-1)
    return (anywhere + (guess == target).astype(np.uint8)).astype(np.uint8)


@functools.lru_cache(maxsize=8)
def patterns(words: tuple[str, ...]) -> np.ndarray:
    """Colours of every guess under every target as one base-3 number: u16[guesses, targets]."""
    letters = letters_of(words)
    powers = 3 ** np.arange(letters.shape[1], dtype=np.uint16)
    return np.stack([(colours(guess, letters) * powers).sum(-1) for guess in letters]).astype(
        np.uint16
    )


def consistent(table: np.ndarray, guesses: jax.Array, target: jax.Array) -> jax.Array:
    """Words under which all guesses would have the same colours, bool[W].

    table: of `patterns`. guesses: i32[T], -1 for none. target: i32[].
    """
    shown = jnp.asarray(table)[jnp.maximum(guesses, 0)]
    alike = shown == jnp.take(shown, target, axis=1)[:, None]
    return jnp.all((guesses < 0)[:, None] | alike, axis=0)


def information(table: np.ndarray, possible: jax.Array) -> jax.Array:
    """Bits of information of each guess's colours about a uniform word of `possible` bool[W],
    f32[W].

    H(g) = -sum_c p_c log2 p_c over the patterns c, p_c the share of possible words that give c.
    """
    words = table.shape[0]
    kinds = int(table.max()) + 1
    places = table.astype(np.int32) + kinds * np.arange(words, dtype=np.int32)[:, None]
    weights = jnp.broadcast_to(possible.astype(jnp.float32), table.shape)
    counts = jnp.zeros(words * kinds).at[places].add(weights).reshape(words, kinds)
    share = counts / jnp.maximum(jnp.sum(possible), 1)
    logs = jnp.log2(jnp.where(share > 0, share, 1.0))
    return -jnp.sum(share * logs, axis=1)
