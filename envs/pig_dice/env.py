"""PigDice-v1: roll and risk, or hold and keep (TextArena's rules)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.game import GameParams
from envs.pig_dice import rules
from envs.rules_game import RulesGame, RulesState


@struct.dataclass
class PigDiceParams(GameParams):
    """Length of the game.

    target: points that win. turn_limit: number of actions of both seats after which the current
    turn is the last; every roll and every hold counts.
    max_steps_in_episode: beyond the limit, for illegal actions and a last turn of many rolls.

    The defaults are TextArena's PigDice-v0; its "short" game and SPIRAL's are 50 points in 25 and
    in 50 turns.
    """

    max_steps_in_episode: int = 256
    target: int = 100
    turn_limit: int = 100


@dataclasses.dataclass(frozen=True)
class PigDice(RulesGame):
    """Two seats roll a die in turn, seat 0 first.

    In its turn a seat may roll any number of times and sums the points; a 1 loses the turn's points
    and passes the turn, hold keeps them and passes the turn.

    Observation: float32[5]: own score, the other's and the turn's total, as shares of the target; 1
    if it is the agent's turn; the share left of the turn limit. Actions: 0 roll, 1 hold, both
    always legal. The game ends when the turn passes and a seat has reached the target, or at the
    limit. Reward at the end: 1 for the higher score, -1 for the other seat; 0 if equal.

    Expert: holds at 20 points and at the target; after the limit, as soon as it leads.
    Source: TextArena 0.7.4 (read), PigDice-v0; its recorded games are replayed with their dice.
    """

    game = rules
    costly_reset: ClassVar[bool] = False
    perfect_information: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.pig_dice.words"
    # TextArena's PigDice-v0: 100 points win, 100 turns; see `PigDiceParams`.
    default_params: ClassVar[PigDiceParams] = PigDiceParams()
    # Action 0 throws the die, action 1 keeps the points of the turn; words as in TextArena.
    action_names: ClassVar[tuple[str, str]] = ("roll", "hold")

    def chance(self, key: jax.Array, params: PigDiceParams) -> tuple[Any, ...]:
        return rules.throw(key), params.target, params.turn_limit

    def observe_as(self, state: RulesState, agent: jax.Array, params: PigDiceParams) -> jax.Array:
        at = state.game
        points = jnp.append(rules.scores_of(at, agent), at.total) / params.target
        left = jnp.maximum(1.0 - at.actions / params.turn_limit, 0.0)
        return jnp.append(points, jnp.stack([at.seat == agent, left])).astype(jnp.float32)

    def expert(self, state: RulesState, params: PigDiceParams) -> jax.Array:
        at = state.game
        own, other = rules.scores_of(at, at.seat)
        own += at.total
        last = at.actions >= params.turn_limit
        enough = jnp.where(last, own > other, at.total >= 20) | (own >= params.target)
        return jnp.where(enough, rules.HOLD, rules.ROLL).astype(jnp.int32)

    def render(self, state: RulesState, params: PigDiceParams) -> str:
        """For example `12 : 30, seat 1 has 8`."""
        at = state.game
        return f"{at.scores[0]} : {at.scores[1]}, seat {at.seat} has {at.total}"
