"""Coin-v1: find the coin in a house of rooms (TextWorld's coin collector)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.coin import rules
from envs.environment import Environment, EnvParams, EnvState

NORTH, SOUTH, EAST, WEST, TAKE = range(5)
# Value of `last_move` before the first move.
NOWHERE = 4
ROOM_NAMES = (
    *("kitchen", "cellar", "attic", "hall", "library", "nursery", "pantry", "parlour"),
    *("stable", "chapel", "armoury", "gallery", "bakery", "brewery", "dairy", "forge"),
    *("garden", "greenhouse", "laundry", "loft", "lounge", "music room", "observatory", "office"),
    *("porch", "sauna", "smithy", "studio", "theatre", "vault", "veranda", "workshop"),
)


def room_name(number: int) -> str:
    """Name of a room by its number; beyond the list of names, the number itself."""
    return ROOM_NAMES[number] if number < len(ROOM_NAMES) else f"room {number}"


@struct.dataclass
class CoinState(EnvState):
    """The map and the positions on it.

    exits i8[R, 4]: room behind each exit or -1. names u8[R]. coin i8[]: its room, -1 once taken.
    room i8[]: the agent's room. last_move u8[]: direction of the last move or NOWHERE.
    """

    exits: jax.Array
    names: jax.Array
    coin: jax.Array
    room: jax.Array
    last_move: jax.Array


@struct.dataclass
class CoinParams(EnvParams):
    """The base class' parameters with a limit of 12 steps."""

    max_steps_in_episode: int = 12


@dataclasses.dataclass(frozen=True)
class Coin(Environment):
    """A chain of `quest_length` rooms with `distractors` dead ends per room, R rooms in all.

    The agent starts at one end of the chain, the coin lies at the other. Every task draws the map
    and the names of its rooms (without replacement, out of `num_names`), so that no map can be
    memorised; the number of a room is not observed.

    Observation: float32, a vector of indicators: name of the room [num_names] (`show_name`), open
    exits [4], coin here [1], last move [5: north, south, east, west, none yet] (`show_last_move`;
    without it a memoryless policy cannot avoid going back). Actions: 0 to 3 go north, south, east,
    west, 4 take the coin; moving where there is no exit and taking where there is no coin are
    illegal. Reward: 1 for the coin, which ends the episode; limit 12 steps.

    Anchors with of="state" are the room and whether the coin is taken; with of="observation" they
    also depend on the last move if it is shown, and merge rooms if names are not shown.

    Expert: a shortest way to the coin, quest_length - 1 moves from the start.
    Source: TextWorld 1.7 `tw_coin_collector` (read; its levels: `envs.coin.rules.level_options`);
    replayed against its recorded games. Deviations: the informational commands (look, inventory,
    examine coin) are left out, and the last move is an addition: TextWorld does not show it.
    """

    quest_length: int = 4
    distractors: int = 1
    num_names: int = 32
    show_name: bool = True
    show_last_move: bool = True

    wordings: ClassVar[str] = "envs.coin.words"
    # 12 steps: three times the shortest solution of the default map.
    default_params: ClassVar[CoinParams] = CoinParams()
    action_names: ClassVar[tuple[str, ...]] = ("north", "south", "east", "west", "take")

    def __post_init__(self):
        if self.quest_length < 1 or not 0 <= self.distractors <= 2 or self.rooms > 127:
            raise ValueError(
                f"quest_length {self.quest_length} with {self.distractors} distractors per room: "
                "expected at least 1 with 0 to 2 (a room has four exits) and at most 127 rooms"
            )
        if not self.rooms <= self.num_names <= 256:
            raise ValueError(
                f"num_names {self.num_names}: expected {self.rooms} (one per room) to 256"
            )

    @property
    def rooms(self) -> int:
        """Number of rooms R: `quest_length` on the way and the distractors beside each."""
        return self.quest_length * (1 + self.distractors)

    def initial(self, key: jax.Array, params: CoinParams) -> CoinState:
        map_key, name_key = jax.random.split(key)
        names = jax.random.permutation(name_key, self.num_names)[: self.rooms]
        return CoinState(
            time=jnp.zeros((), jnp.int32),
            exits=rules.generate(map_key, self.quest_length, self.distractors),
            names=names.astype(jnp.uint8),
            coin=jnp.array(self.quest_length - 1, jnp.int8),
            room=jnp.zeros((), jnp.int8),
            last_move=jnp.array(NOWHERE, jnp.uint8),
        )

    def transition(
        self, key: jax.Array, state: CoinState, action: jax.Array, params: CoinParams
    ) -> tuple[CoinState, jax.Array]:
        """Go through an exit, or take the coin."""
        takes = action == TAKE
        chosen = jnp.arange(4) == action
        room = jnp.where(chosen, rules.neighbours(state.exits, state.room), 0)
        room = jnp.where(takes, state.room, jnp.sum(room, dtype=jnp.int8))
        last_move = jnp.where(takes, state.last_move, action.astype(jnp.uint8))
        coin = jnp.where(takes, jnp.int8(-1), state.coin)
        state = state.replace(room=room, last_move=last_move, coin=coin)
        return state, jnp.where(takes, 1.0, 0.0)

    def observe(self, state: CoinState, params: CoinParams) -> jax.Array:
        """Indicators of the room: name, exits, coin, and the last move."""
        here = jnp.arange(self.rooms, dtype=jnp.int8) == state.room
        seen = [
            rules.neighbours(state.exits, state.room) >= 0,
            (state.coin == state.room)[None],
        ]
        if self.show_name:
            name = jnp.sum(jnp.where(here, state.names, 0), dtype=jnp.uint8)
            seen.insert(0, jnp.arange(self.num_names, dtype=jnp.uint8) == name)
        if self.show_last_move:
            seen.append(jnp.arange(5, dtype=jnp.uint8) == state.last_move)
        return jnp.concatenate(seen).astype(jnp.float32)

    def is_terminated(self, state: CoinState, params: CoinParams) -> jax.Array:
        return state.coin < 0

    def is_success(self, state: CoinState, params: CoinParams) -> jax.Array:
        return state.coin < 0

    def legal(self, state: CoinState, params: CoinParams) -> jax.Array:
        """Open exits, and the coin where it lies."""
        ways = rules.neighbours(state.exits, state.room) >= 0
        return jnp.append(ways, state.coin == state.room)

    def fingerprint(
        self, state: CoinState, params: CoinParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; of="state" leaves out the last move, which does not affect the
        future."""
        if of == "state":
            state = state.replace(last_move=jnp.zeros_like(state.last_move))
        return super().fingerprint(state, params, of=of)

    def expert(self, state: CoinState, params: CoinParams) -> jax.Array:
        ahead = rules.neighbours(state.exits, state.room)
        distance = rules.distances(state.exits, state.coin)[ahead]
        nearest = jnp.argmin(jnp.where(ahead < 0, self.rooms + 1, distance))
        return jnp.where(state.coin == state.room, TAKE, nearest).astype(jnp.int32)

    def render(self, state: CoinState, params: CoinParams) -> str:
        """One line per room, > marks the agent and $ the coin."""
        names = [room_name(int(name)) for name in np.asarray(state.names)]
        lines = []
        for room, exits in enumerate(np.asarray(state.exits)):
            marks = (">" if room == state.room else " ") + ("$" if room == state.coin else " ")
            ways = [
                f"{way} {names[to]}"
                for way, to in zip(self.action_names[:4], exits, strict=True)
                if to >= 0
            ]
            lines.append(f"{marks} {names[room]}: {', '.join(ways)}".rstrip())
        return "\n".join(lines)
