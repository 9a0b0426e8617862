"""KeyDoor-v1: a chain of locked rooms with a reward behind the last door only."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.key_door import rules
from envs.key_door.rules import COLOURS, Chain


@struct.dataclass
class KeyDoorParams(EnvParams):
    """door_reward: for each door that opens but the last, which pays 1. 0: the reward is sparse."""

    door_reward: float = 0.0


@struct.dataclass
class KeyDoorState(EnvState):
    """chain: the rooms and the agent in them."""

    chain: Chain


@dataclasses.dataclass(frozen=True)
class KeyDoor(Environment):
    """A chain of N `rooms`, each a line of W = `width` cells with K = `keys` keys.

    Each room contains one key of each of K colours, in different cells; the door at the last cell
    opens with the key of its colour. The agent enters at the first cell, with empty hands.

    Actions: left, right, take (the key in this cell, in exchange for the one in hand), open (at the
    door with a key in hand). The right key opens the door and stays in it; a wrong one jams the
    lock and ends the episode.

    Observation: float32 indicators of the room [N], the agent's cell [W], the colour of the key in
    hand [K] and of the door [K], and the cell of each key that lies in the room [K, W]; 0 at the
    end. Reward: 1 behind the last door, which ends the episode, and
    `door_reward` behind the others, 0. Limit: 16 steps per room.

    Subgoals: the key of each colour (reached with it in hand), then the door (reached with empty
    hands, so it can be set only with a key in hand).

    Expert: a shortest path, W + 1 steps per room. Source: ours, for HiPER's credit (2026),
    https://arxiv.org/abs/2602.16165: the optimal policy in a room does not depend on the later
    rooms.
    """

    rooms: int = 3
    keys: int = 2
    width: int = 5

    wordings: ClassVar[str] = "envs.key_door.words"
    # In the order that `envs.key_door.rules` gives the actions.
    action_names: ClassVar[tuple[str, ...]] = ("left", "right", "take", "open")

    def __post_init__(self):
        if self.rooms < 1:
            raise ValueError(f"rooms {self.rooms}: expected at least 1")
        if not 2 <= self.keys <= min(self.width, len(COLOURS)):
            raise ValueError(
                f"keys {self.keys}, width {self.width}: expected 2 to {len(COLOURS)} keys, and one "
                "cell per key"
            )

    @property
    def default_params(self) -> KeyDoorParams:
        """A limit of 16 steps per room."""
        return KeyDoorParams(max_steps_in_episode=16 * self.rooms)

    @property
    def subgoal_names(self) -> tuple[str, ...]:
        return (*(f"{colour} key" for colour in COLOURS[: self.keys]), "door")

    def initial(self, key: jax.Array, params: KeyDoorParams) -> KeyDoorState:
        chain = rules.generate(key, self.rooms, self.keys, self.width)
        return KeyDoorState(jnp.zeros((), jnp.int32), chain)

    def transition(
        self, key: jax.Array, state: KeyDoorState, action: jax.Array, params: KeyDoorParams
    ) -> tuple[KeyDoorState, jax.Array]:
        chain = rules.act(state.chain, action)
        opened = jnp.where(chain.room > state.chain.room, params.door_reward, 0.0)
        reward = jnp.where(chain.room == self.rooms, 1.0, opened)
        return state.replace(chain=chain), reward.astype(jnp.float32)

    def legal(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        return rules.legal(state.chain, self.width)

    def observe(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        chain = state.chain
        door, cells = rules.here(chain)
        colours, places = np.arange(self.keys), np.arange(self.width)
        parts = [
            chain.room == np.arange(self.rooms),
            chain.cell == places,
            chain.held == colours,
            door == colours,
            (cells[:, None] == places).reshape(-1),
        ]
        inside = chain.room < self.rooms
        return (jnp.concatenate(parts) & inside).astype(jnp.float32)

    def is_terminated(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        """Behind the last door, or in front of a jammed one."""
        return state.chain.jammed | self.is_success(state, params)

    def is_success(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        return state.chain.room == self.rooms

    def expert(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        """Moves to the right key, then to the door."""
        return rules.expert(state.chain, self.width)

    def subgoal(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        return rules.subgoal(state.chain)

    def reached(self, state: KeyDoorState, params: KeyDoorParams) -> jax.Array:
        """Keys: it is in hand. Door: hands are empty."""
        return rules.reached(state.chain)

    def render(self, state: KeyDoorState, params: KeyDoorParams) -> str:
        """The room: r, g .. keys, @ the agent (upper case over a key: R), | the door's colour."""
        chain = jax.tree.map(np.asarray, state.chain)
        door, cells = (np.asarray(x) for x in rules.here(chain))
        line = ["."] * self.width
        for colour, cell in enumerate(cells):
            if cell >= 0:
                line[cell] = COLOURS[colour][0]
        line[chain.cell] = "@" if line[chain.cell] == "." else line[chain.cell].upper()
        hand = COLOURS[chain.held] if chain.held >= 0 else "nothing"
        return f"room {chain.room + 1}: {''.join(line)}|{COLOURS[door]} hand: {hand}"
