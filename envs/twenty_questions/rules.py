"""Things, their attributes and the information of an answer: the rules of twenty questions.

A thing's truths are the bits of one number, bit a for attribute a. Answers to the question about
attribute a are kept as their balance d_a, "yes" minus "no": with answers that are independently
wrong with probability p, it determines the likelihood of a thing e,

    log P(answers | e) = const + sum_a d_a s_ea w,    s_ea = +-1,    w = log((1 - p) / p) / 2.
"""

import jax
import jax.numpy as jnp
import numpy as np

# Word and question of each attribute.
ATTRIBUTES = (
    ("alive", "Is it alive?"),
    ("animal", "Is it an animal?"),
    ("big", "Is it bigger than a person?"),
    ("food", "Do people eat it?"),
    ("flies", "Can it fly?"),
    ("water", "Is it found in or on water?"),
    ("metal", "Is it made of metal?"),
    ("wheels", "Does it have wheels?"),
    ("house", "Is it kept in the house?"),
    ("power", "Does it need power?"),
    ("round", "Is it round?"),
    ("legs", "Does it have legs?"),
)
# All things have different truths. The first ones differ most.
THINGS = (
    ("a cat", "alive animal house legs"),
    ("an oak", "alive big"),
    ("a car", "big metal wheels power"),
    ("an apple", "food round"),
    ("a whale", "alive animal big water"),
    ("a lamp", "house power"),
    ("an eagle", "alive animal flies legs"),
    ("a ball", "round"),
    ("a horse", "alive animal big legs"),
    ("a knife", "metal house"),
    ("a kite", "flies"),
    ("bread", "food"),
    ("a frog", "alive animal water legs"),
    ("a plane", "big flies metal wheels power"),
    ("a chair", "house legs"),
    ("a rose", "alive"),
    ("a duck", "alive animal food flies water legs"),
    ("a bike", "metal wheels"),
    ("a ship", "big water metal power"),
    ("a clock", "house power round"),
    ("a cow", "alive animal big food legs"),
    ("a coin", "metal round"),
    ("a parrot", "alive animal flies house legs"),
    ("a tent", "big"),
    ("a snake", "alive animal"),
    ("an oven", "metal house power"),
    ("a crab", "alive animal food water legs"),
    ("a piano", "big house legs"),
    ("a book", "house"),
    ("a raft", "big water"),
    ("a robot", "metal power legs"),
    ("a drone", "flies power"),
    ("a trout", "alive animal food water"),
    ("a hen", "alive animal food legs"),
    ("a cactus", "alive house"),
    ("a cabbage", "alive food round"),
    ("a cart", "big wheels"),
    ("the moon", "big round"),
    ("a globe", "house round"),
    ("a pot", "metal house round"),
    ("a bridge", "big metal"),
    ("a rocket", "big flies metal power"),
    ("a drill", "metal power"),
    ("a mower", "metal wheels power"),
)


def truths(entities: int, attributes: int) -> np.ndarray:
    """Truths of the first things about the first attributes, u16[entities]."""
    words = [word for word, _ in ATTRIBUTES[:attributes]]
    return np.array(
        [sum(1 << words.index(w) for w in true.split() if w in words) for _, true in THINGS],
        np.uint16,
    )[:entities]


def bits(table: jax.Array, attributes: int) -> jax.Array:
    """Truths one by one, bool[E, A], of `table` u16[E]."""
    return ((table[:, None] >> np.arange(attributes, dtype=np.uint16)) & 1).astype(bool)


def _entropy(share: jax.Array) -> jax.Array:
    """Bits of a yes-or-no answer that is yes with this probability."""
    inside = (share > 0) & (share < 1)
    p = jnp.where(inside, share, 0.5)
    return jnp.where(inside, -p * jnp.log2(p) - (1 - p) * jnp.log2(1 - p), 0.0)


def posterior(
    true: jax.Array, balance: jax.Array, guessed: jax.Array, noise: jax.Array
) -> jax.Array:
    """Probability of each thing after the answers, f32[E].

    true: bool[E, A]. balance: [A]. guessed: bool[E], wrong guesses. noise: f32[].
    """
    noise = jnp.clip(noise, 1e-4, 1 - 1e-4)
    weight = jnp.log((1 - noise) / noise) / 2
    fit = weight * jnp.sum(jnp.where(true, 1, -1) * balance.astype(jnp.int32), axis=1)
    return jax.nn.softmax(jnp.where(guessed, -1e9, fit))


def worth(true: jax.Array, chance: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Information gain of each question f32[A] and of each guess f32[E], in bits.

    A question with posterior probability q of a true yes gains h(r) - h(p) bits, where r = q (1 -
    p) + (1 - q) p is the probability of the answer yes; guesses are answered without error, and
    their probability to end the game is added to their gain.
    """
    share = jnp.sum(jnp.where(true, chance[:, None], 0.0), axis=0)
    answered = share * (1 - noise) + (1 - share) * noise
    return _entropy(answered) - _entropy(noise), _entropy(chance) + chance
