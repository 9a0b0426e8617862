"""Twin critics of whole replies, over arrays; what ArCHer's critics of any kind provide.

Letters: M turns in places of a replay, n of them drawn; A actions. In words a place is an episode
of T turns (`agentrl.methods.text_critics`).
"""

from collections.abc import Mapping
from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp

from agentrl.learner.component import Setup
from agentrl.methods.by_turn import transitions
from agentrl.methods.networks import Embedding
from agentrl.methods.twin_q import rows_of
from agentrl.streams import Rows, Streams

Turns = Mapping[str, Any]


class UtteranceCritics(Protocol):
    """Two critics of replies, Q_j(o, u), and two of observations, V_j(o), as functions of params.

    Turns are arrays by name with places in front, [n, ...]: reward, over (terminated), and acted,
    whether there is a turn to learn from; each is [n], or [n, T] where a place is an episode.
    """

    def init(self, key: jax.Array) -> chex.ArrayTree:
        """The critics' parameters."""

    def turns(self, streams: Streams, rows: Rows) -> dict[str, Any]:
        """The turns of whole streams, in the order of the streams."""

    def values(self, params: chex.ArrayTree, turns: Turns) -> tuple[jax.Array, jax.Array]:
        """(Q of the replies, V of the observations), f32[..., 2] each."""

    def next_values(self, params: chex.ArrayTree, turns: Turns) -> jax.Array:
        """V of what followed each turn, f32[..., 2]."""

    def anew(self, acting: chex.ArrayTree, turns: Turns, key: jax.Array) -> Any:
        """Replies of the policy with parameters `acting` to observations of the turns."""

    def anew_q(
        self, params: chex.ArrayTree, turns: Turns, said: Any
    ) -> tuple[jax.Array, jax.Array]:
        """(Q of replies of `anew` f32[..., 2], turns that have one bool[...])."""

    def learnt(self, acting: chex.ArrayTree, turns: Turns, said: Any) -> tuple[Streams, Rows]:
        """Streams and rows of the replies of `anew`, for the policy to learn from."""


def bare_turns(mask: jax.Array) -> Streams:
    """Streams of these turns, bool[N, T], of which nothing else is known."""
    nothing = jnp.zeros(mask.shape, bool)
    return Streams(reward=jnp.zeros(mask.shape), mask=mask, terminated=nothing, truncated=nothing)


class ArrayCritics:
    """`UtteranceCritics` of discrete actions: a reply is an action, a place is a turn."""

    def __init__(self, setup: Setup, hidden: int):
        env, _ = next(iter(setup.envs.values()))
        self.env, self.actions, self.policy = env, env.num_actions, setup.policy
        self.q = Embedding(hidden, 2 * env.num_actions, env.num_codes)
        self.v = Embedding(hidden, 2, env.num_codes)

    def init(self, key: jax.Array) -> dict[str, chex.ArrayTree]:
        example = jnp.zeros((1, *self.env.observation_shape), self.env.observation_dtype)
        q, v = jax.random.split(key)
        return {"q": self.q.init(q, example), "v": self.v.init(v, example)}

    def turns(self, streams: Streams, rows: Rows) -> dict[str, Any]:
        """`by_turn.transitions`, [M, ...]; `acted` where the episode ends or goes on in sight."""
        turns = transitions(streams, rows)
        return turns | {"acted": turns["acted"] & (turns["over"] | turns["seen"])}

    def _q(self, params: Any, observation: chex.ArrayTree, action: jax.Array) -> jax.Array:
        q = self.q.apply(params["q"], observation).reshape(-1, self.actions, 2)
        return jnp.take_along_axis(q, action[:, None, None], axis=1)[:, 0]

    def values(self, params: Any, turns: Turns) -> tuple[jax.Array, jax.Array]:
        q = self._q(params, turns["observation"], turns["action"])
        return q, self.v.apply(params["v"], turns["observation"])

    def next_values(self, params: Any, turns: Turns) -> jax.Array:
        return self.v.apply(params["v"], turns["following"])

    def anew(self, acting: chex.ArrayTree, turns: Turns, key: jax.Array) -> jax.Array:
        """An action i32[n] in each turn."""
        outputs, _, _ = self.policy.step(acting, None, turns["observation"])
        return self.policy.head.draw(outputs, turns.get("legal"), key)

    def anew_q(self, params: Any, turns: Turns, said: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self._q(params, turns["observation"], said), turns["acted"]

    def learnt(self, acting: chex.ArrayTree, turns: Turns, said: jax.Array) -> tuple[Streams, Rows]:
        """A stream [n, 1] and a row [n, 1] per turn."""
        there = turns["acted"][:, None]
        # Nothing is cut where there is no turn, so that logits stay finite.
        legal = turns["legal"][:, None] | ~there[..., None] if "legal" in turns else None
        rows = rows_of({**turns, "action": said}).replace(legal=legal)
        logp = self.policy.score(acting, rows).logp
        return bare_turns(there), rows.replace(behaviour_logp=jnp.where(there, logp, 0.0))
