"""Debate-v1: an honest debater and a liar reveal pixels of a picture to a judge in turn."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.debate import rules
from envs.game import GameParams, GameState, TurnGame, opening

GLYPHS = "01-+"


@struct.dataclass
class DebateState(GameState):
    """State of one debate.

    picture, shown: bool[pixels]. label: i32[], the truth. honest: i32[], the seat that defends it.
    claim: i32[], the label that the liar claims; -1 for none. winner: i32[], seat; -1 before the
    verdict.
    """

    picture: jax.Array
    shown: jax.Array
    label: jax.Array
    honest: jax.Array
    claim: jax.Array
    winner: jax.Array


@struct.dataclass
class DebateParams(GameParams):
    """sharpness: the label with the higher score wins with probability sigmoid(sharpness x lead).

    Infinite by default: it always wins; ties are broken at random.
    """

    sharpness: float = math.inf


@dataclasses.dataclass(frozen=True)
class Debate(TurnGame):
    """AI safety via debate, small: can a judge that sees few pixels be led to the truth?

    Both debaters see a picture of `side` x `side` pixels and its label, one of `labels`; one seat
    defends the label, the other lies. With `precommit` the liar first claims another label. Then
    they reveal one pixel each in turn, seat 0 first, `reveals` in all, none twice. The judge sees
    these pixels alone. With precommit the better of the two labels wins; without it, the honest
    debater wins if the true label ranks best of all. The winner's reward is 1, the other's -1.

    The judge is neither trained nor the paper's network on MNIST: it is naive Bayes with the model
    that pictures are drawn from, determined by `judge_seed` and `contrast` (`envs.debate.rules`);
    debaters learn it by playing. `judge` gives its scores.

    honest: the seat of the honest debater, 0 or 1, or "random", drawn with the task.
    Observation: uint8; for each pixel 0 or 1 (off or on), and 2 more once revealed; whether the
    agent is honest; the label; claim + 1, or 0. Actions: reveal each pixel, claim each label;
    illegal are revealed pixels, claiming the truth, and later claims (`GameParams`). Task: the
    picture.

    Expert: minimax with precommit and a sharp judge, where evidence adds up; without precommit the
    greedy reveal. A judge of 6 random pixels finds the label of 62 % of the pictures; the honest
    side wins 90 % between experts with precommit, 50 % without (of 2048).
    Source: Irving, Christiano, Amodei (2018), AI safety via debate, arXiv:1805.00899; without code.
    """

    side: int = 5
    labels: int = 6
    reveals: int = 6
    precommit: bool = True
    honest: int | str = "random"
    judge_seed: int = 0
    contrast: float = 1.5

    sides: ClassVar[tuple[str, ...]] = ("honest", "liar")
    wordings: ClassVar[str] = "envs.debate.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 2 <= self.side <= 28 or not 2 <= self.labels <= 26:
            raise ValueError(
                f"side {self.side}, labels {self.labels}: expected 2 to 28 and 2 to 26"
            )
        if not 1 <= self.reveals <= self.side**2:
            raise ValueError(f"reveals {self.reveals}: expected 1 to {self.side**2}")
        if self.honest not in (0, 1, "random"):
            raise ValueError(f"honest {self.honest!r}: expected 0, 1 or 'random'")

    @property
    def default_params(self) -> DebateParams:
        """A sharp judge; time for an illegal action before each legal one."""
        return DebateParams(max_steps_in_episode=2 * (self.reveals + self.precommit))

    @property
    def model(self) -> np.ndarray:
        """The model of pictures, which the judge uses, f32[labels, pixels]."""
        return rules.logits(self.judge_seed, self.labels, self.side**2, self.contrast)

    @property
    def action_names(self) -> tuple[str, ...]:
        pixels = (f"reveal {i}" for i in range(self.side**2))
        return (*pixels, *(f"claim {i}" for i in range(self.labels)))

    @property
    def num_codes(self) -> int:
        """Pixels have 4 codes, claims one more than there are labels."""
        return max(4, self.labels + 1)

    def initial(self, key: jax.Array, params: DebateParams) -> DebateState:
        picture_key, seat_key = jax.random.split(key)
        label, picture = rules.draw(picture_key, self.model)
        drawn = jax.random.randint(seat_key, (), 0, 2)
        return DebateState(
            **opening(),
            picture=picture,
            shown=jnp.zeros(picture.shape, bool),
            label=label,
            honest=drawn if self.honest == "random" else jnp.full((), self.honest, jnp.int32),
            claim=jnp.full((), -1, jnp.int32),
            winner=jnp.full((), -1, jnp.int32),
        )

    def side_of(self, state: DebateState, params: DebateParams) -> jax.Array:
        return (self._agents != state.honest).astype(jnp.int32)

    def claims(self, state: DebateState) -> jax.Array:
        """Whether the liar has to make its claim now, bool[]."""
        return (state.claim < 0) & self.precommit

    def judge(self, state: DebateState) -> jax.Array:
        """The judge's score of each label, f32[labels]."""
        return rules.scores(self.model, state.picture, state.shown)

    def mover(self, state: DebateState, params: DebateParams) -> jax.Array:
        """The liar for its claim, then the seats alternate."""
        turn = jnp.sum(state.shown, dtype=jnp.int32) % 2
        return jnp.where(self.claims(state), 1 - state.honest, turn)

    def legal(self, state: DebateState, params: DebateParams) -> jax.Array:
        """Other labels than the true one, then pixels not yet revealed."""
        claims = self.claims(state)
        other = jnp.arange(self.labels) != state.label
        return jnp.append(~state.shown & ~claims, other & claims)

    def transition(
        self, key: jax.Array, state: DebateState, action: jax.Array, params: DebateParams
    ) -> tuple[DebateState, jax.Array]:
        """A claim or a pixel; the verdict after the last."""
        pixels = self.side**2
        shown = state.shown | (jnp.arange(pixels) == action)
        claim = jnp.where(action >= pixels, action - pixels, state.claim)
        state = state.replace(shown=shown, claim=claim)
        lead = rules.margin(self.judge(state), state.label, claim)
        chance = jax.nn.sigmoid(jnp.where(lead == 0, 0.0, params.sharpness * lead))
        true = jax.random.uniform(key) < chance
        winner = jnp.where(true, state.honest, 1 - state.honest)
        over = jnp.sum(shown) >= self.reveals
        reward = jnp.where(self._agents == winner, 1.0, -1.0)
        return state.replace(winner=jnp.where(over, winner, -1)), jnp.where(over, reward, 0.0)

    def observe_as(self, state: DebateState, agent: jax.Array, params: DebateParams) -> jax.Array:
        """The full state: debaters hide nothing from each other."""
        pixels = state.picture + 2 * state.shown.astype(jnp.int32)
        facts = jnp.stack([(agent == state.honest).astype(jnp.int32), state.label, state.claim + 1])
        return jnp.append(pixels, facts).astype(jnp.uint8)

    def is_over(self, state: DebateState, params: DebateParams) -> jax.Array:
        return state.winner >= 0

    def won(self, state: DebateState, params: DebateParams) -> jax.Array:
        return self._agents == state.winner

    def expert(self, state: DebateState, params: DebateParams) -> jax.Array:
        """The best claim, then the best pixel."""
        first, second = (self.reveals + 1) // 2, self.reveals // 2
        honest = jnp.where(state.honest == 0, first, second)
        known = (self.model, state.picture)
        lie = rules.best_lie(*known, state.label, honest, self.reveals - honest)
        mine = self.mover(state, params) == state.honest
        pixel = rules.best_reveal(*known, state.shown, state.label, state.claim, mine)
        return jnp.where(self.claims(state), self.side**2 + lie, pixel)

    def render(self, state: DebateState, params: DebateParams) -> str:
        """Pixels 0 and 1, - and + once revealed; then label, claim and the honest seat."""
        codes = np.asarray(state.picture + 2 * state.shown.astype(jnp.int32))
        rows = codes.reshape(self.side, self.side)
        facts = f"label {state.label} claim {state.claim} honest {state.honest}"
        return "\n".join([*("".join(GLYPHS[c] for c in row) for row in rows), facts])
