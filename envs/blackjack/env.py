"""Blackjack-v1: hit or stand against a dealer, from an infinite deck.

Source: gym-cards, read in RL4VLM and in an early copy in verl-agent; replayed against episodes
recorded in a later one, from which the rewards are taken.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.blackjack import rules
from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class BlackjackState(EnvState):
    """State of one deal.

    total i32[]: the player's cards, aces counting 1; ace bool[]: has one; shown i32[]: the dealer's
    open card, 1..10; dealer i32[]: the dealer's final points, 0 until the player stands.
    """

    total: jax.Array
    ace: jax.Array
    shown: jax.Array
    dealer: jax.Array


@dataclasses.dataclass(frozen=True)
class Blackjack(Environment):
    """One player against the dealer, which draws while below 17.

    Observation: uint8[3], the player's points (a usable ace counting 11), usable ace 0 or 1, the
    dealer's open card (1 is an ace). Actions: 0 stand, 1 hit, both always legal. Reward: 1 for a
    win, 0 for a draw or a loss (as recorded; the code that was read has -1 for a loss). Naturals
    pay nothing extra. Ends on standing or above 21; limit 15 steps (verl-agent's turns). Task:
    three cards.

    Deviations: the reference draws the hidden card when it deals and shows pictures with suits;
    here the dealer's final points are drawn when the player stands, which has the same
    distribution, and hands of equal value have the same observation.

    Expert: the policy that wins most often (not the casino's, which counts a draw as half a win).
    It wins 43.2 % of the deals, `rules.optimum().win_rate` exactly.
    """

    # Points go up to 31: a ten on a hard 21.
    num_codes: ClassVar[int] = 32
    wordings: ClassVar[str] = "envs.blackjack.words"
    # A limit of 15 turns, as in the GiGPO code base (verl-agent).
    default_params: ClassVar[EnvParams] = EnvParams(max_steps_in_episode=15)
    # In the order of gym-cards' Blackjack: action 0 stands, 1 takes a card.
    action_names: ClassVar[tuple[str, ...]] = ("stand", "hit")

    def initial(self, key: jax.Array, params: EnvParams) -> BlackjackState:
        """Two cards for the player, one open card for the dealer."""
        cards = rules.card(jax.random.uniform(key, (3,)))
        return BlackjackState(
            time=jnp.zeros((), jnp.int32),
            total=cards[0] + cards[1],
            ace=(cards[0] == 1) | (cards[1] == 1),
            shown=cards[2],
            dealer=jnp.zeros((), jnp.int32),
        )

    def transition(
        self, key: jax.Array, state: BlackjackState, action: jax.Array, params: EnvParams
    ) -> tuple[BlackjackState, jax.Array]:
        """Draws the cards that the action may need, then calls `resolve`."""
        del params
        u = jax.random.uniform(key, (2,))
        return self.resolve(state, action, rules.card(u[0]), rules.draw_dealer(u[1], state.shown))

    def resolve(
        self, state: BlackjackState, action: jax.Array, card: jax.Array, dealer: jax.Array
    ) -> tuple[BlackjackState, jax.Array]:
        """Next state and reward, given the card of a hit and the dealer's points after a stand."""
        hit = action == 1
        hand = rules.Hand(state.total, state.ace)
        reward = jnp.where(~hit & rules.wins(rules.points(hand), dealer), 1.0, 0.0)
        following = rules.add(hand, card)
        return state.replace(
            total=jnp.where(hit, following.total, state.total),
            ace=jnp.where(hit, following.ace, state.ace),
            dealer=jnp.where(hit, 0, dealer),
        ), reward

    def observe(self, state: BlackjackState, params: EnvParams) -> jax.Array:
        """Points, usable ace, dealer's card."""
        hand = rules.Hand(state.total, state.ace)
        usable = rules.usable_ace(hand)
        return jnp.stack([rules.points(hand), usable, state.shown]).astype(jnp.uint8)

    def is_terminated(self, state: BlackjackState, params: EnvParams) -> jax.Array:
        return (state.dealer > 0) | (state.total > 21)

    def is_success(self, state: BlackjackState, params: EnvParams) -> jax.Array:
        held = rules.points(rules.Hand(state.total, state.ace))
        return (state.dealer > 0) & rules.wins(held, state.dealer)

    def expert(self, state: BlackjackState, params: EnvParams) -> jax.Array:
        """The optimal choice by total, ace and open card."""
        hit = jnp.asarray(rules.optimum().hit)
        return hit[state.total, state.ace.astype(jnp.int32), state.shown - 1].astype(jnp.int32)

    def render(self, state: BlackjackState, params: EnvParams) -> str:
        """`player 15 | dealer shows 10`, and after standing the dealer's points."""
        points, usable, shown = (int(x) for x in self.observe(state, params))
        player = f"player {points}{' with a usable ace' if usable else ''}"
        if not int(state.dealer):
            return f"{player} | dealer shows {shown}"
        dealer = "bust" if int(state.dealer) > 21 else str(int(state.dealer))
        return f"{player} | dealer shows {shown}, has {dealer}"
