"""One transcript: the agents of a team, who speak in turn, as one agent who plays them all."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envs.environment import Environment
from envs.fingerprint import fingerprint
from envs.game import TurnGame
from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@dataclasses.dataclass(frozen=True)
class OneTranscript(Wrapper):
    """A team that speaks in turn is one agent, whose turns are those of all its members.

    In each turn it sees what the member whose turn it is would see, and acts for it. So an episode
    is one stream, whatever the members, and with the context `whole` one row: every member reads
    all that was said before, and the prompt of a turn says who speaks. Trees of turns
    (`agentrl.methods.trees`) grow over whole conversations, in which a later member's turns are
    the children of an earlier one's.

    `base` is a game in turns whose agents are one team with equal rewards and without secrets from
    each other, such as CheckedSum-v1; or one in Python ("my_module:MyGame"), which becomes
    `transcript:my_module:MyGame` of `envs.hosted`, without trees, and with the game's own rules for
    illegal actions.

    Observation: the member's own, and its number one-hot behind it. Actions, rewards, success and
    the limit are the game's; an illegal action costs its turn and `illegal_reward`, and no more.

    Expert: the game's.
    """

    words: ClassVar[str] = "envs.wrappers.one_transcript_words"
    hosted: ClassVar[str] = "transcript"
    kinds: ClassVar[tuple[str, ...]] = ()
    num_codes: ClassVar[None] = None

    def __post_init__(self):
        game = self.base
        if not (isinstance(game, TurnGame) and game.cooperative) or game.continuous:
            name = game.name if isinstance(game, Environment) else repr(game)
            raise ValueError(
                f"OneTranscript base={name}: expected a game in turns whose agents are one team, "
                "as {'name': 'CheckedSum-v1', ...} in envs.make"
            )

    @property
    def default_params(self) -> WrapperParams:
        return WrapperParams(base=self.base.default_params)

    @property
    def speakers(self) -> int:
        """Roles that write the transcript: those of the game."""
        return self.base.num_roles

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """A member's own, and as many more as there are members."""
        return (int(np.prod(self.base.observation_shape)) + self.base.num_agents,)

    def member(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        """The member whose turn it is, i32[]."""
        return self.base.mover(state.base, params.base)

    def speaker(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        """The role of the member whose turn it is, i32[]."""
        roles = jnp.asarray(self.base.roles_of_seats, jnp.int32)
        return roles[self.member(state, params)]

    def initial(self, key: jax.Array, params: WrapperParams) -> WrapperState:
        base = self.base.initial(key, params.base)
        return WrapperState(time=jnp.zeros((), jnp.int32), base=base)

    def step_env(
        self, key: jax.Array, state: WrapperState, action: jax.Array, params: WrapperParams
    ) -> tuple[jax.Array, WrapperState, jax.Array, jax.Array, dict[str, Any]]:
        """The game's step by the member whose turn it is."""
        member = self.member(state, params)
        valid = self.base.is_legal(state.base, action, params.base)
        running = self.base.is_running(state.base, params.base)
        _, base, reward, terminated, info = self.base.step_env(key, state.base, action, params.base)
        kept = state.base.replace(time=state.base.time + running)
        base = jax.tree.map(lambda new, old: jnp.where(valid, new, old), base, kept)
        told = {
            "discount": jnp.where(valid, info["discount"], 1.0),
            "valid": valid | ~running,
            "success": info["success"][member] & valid,
        }
        reward = jnp.where(valid, reward[member], jnp.where(running, params.illegal_reward, 0.0))
        following = WrapperState(time=base.time, base=base)
        return self.observe(following, params), following, reward, terminated & valid, told

    def observe(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        member = self.member(state, params)
        own = self.base.observe_as(state.base, member, params.base).reshape(-1)
        number = np.arange(self.base.num_agents) == member
        return jnp.concatenate([own, number]).astype(jnp.float32)

    def is_success(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.is_success(state.base, params.base)[0]

    def fingerprint(
        self, state: WrapperState, params: WrapperParams, *, of: str = "observation"
    ) -> jax.Array:
        if of == "observation":
            return fingerprint(self.observe(state, params))[None]
        return self.base.fingerprint(state.base, params.base, of=of)[:1]
