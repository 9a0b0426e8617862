"""What the rollouts share: their contract, one acting step, and the rows that come of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs
from agentrl.policies.actor_critic import Policy
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.opponents import Slots
from agentrl.streams import Rows, Streams

ANCHORS = ("observation", "state")


class Rollout(NamedTuple):
    """How experience is collected, as pure functions.

    init: (key) -> state carried from one collection to the next (environments in mid-episode).
    collect: (params, state, key) -> (state, Streams, Rows, episodes).
    init's state has the batch as the first axis of every leaf, so that it can be split.
    num_streams, turns: N and T of the streams. units: what can be split over devices (episodes, or
      groups, which stay whole), and the config key that says how many.
    provides: fields of `Streams` that it fills, for checking what an estimator asks for.
    num_rows: R of the rows.
    demonstrate: (task keys [B], key, thoughts=False, noise=0.0) -> Rows of the environment's
      expert, as `agentrl.training.warm_start` says; or None.
    play: (params, task keys [B], key, greedy bool) -> (Streams, Rows) of whole episodes, where the
      rollout is a conversation; else None.
    roles: how many there are in the streams. tasks: names of the tasks that they are of.
    slots: where matches are played against members of a pool, which match meets which; collect then
      takes their parameters [members, ...] as a fourth argument, those that are trained. Else None.
    needs: names of the inputs that collect takes besides. properties: which of
      `agentrl.declarations.PROPERTIES` hold of its streams.
    on_host: collect and play are Python that runs programs, not programs themselves. close: ends
      what they hold open.

    `episodes` holds, for episodes that ended in this collection, sums and counts by metric name:
    {name: f32[2]} with the total and the weight, so that means of several collections combine.
    """

    init: Callable[[jax.Array], chex.ArrayTree]
    collect: Callable[..., tuple[chex.ArrayTree, Streams, Rows, dict[str, jax.Array]]]
    num_streams: int
    turns: int
    units: tuple[int, str]
    provides: frozenset[str]
    num_rows: int
    demonstrate: Callable[..., Rows] | None = None
    play: Callable[..., tuple[Streams, Rows]] | None = None
    roles: int = 1
    tasks: tuple[str, ...] = ("0",)
    slots: Slots | None = None
    needs: tuple[str, ...] = ()
    properties: frozenset[str] = frozenset()
    on_host: bool = False
    close: Callable[[], None] = lambda: None


def check_roles(policy: LanguagePolicy, env: Any, roles: int) -> None:
    """ValueError where a language policy has adapters for fewer roles than the environment."""
    if 1 < policy.config.lora_roles < roles:
        raise ValueError(
            f"policy lora_roles={policy.config.lora_roles} with {env.name}, which has {roles} "
            "roles: set it to as many, or to 1 for one adapter for all"
        )


class Acted(NamedTuple):
    """One turn of B episodes: what was seen, done and thought of it."""

    observation: jax.Array  # [B, ...]
    legal: jax.Array | None  # bool[B, A]
    action: jax.Array  # i32[B], or f32[B, K] where continuous
    logp: jax.Array  # f32[B]
    value: jax.Array  # f32[B]
    anchor: jax.Array  # u32[B, 2]
    asked: jax.Array | None = None  # bool[B], whether asked what it believes
    answer: jax.Array | None = None  # i32[B], and the truth


class Choice(NamedTuple):
    """Actions i32[n] (continuous: f32[n, K]) drawn from a policy, with their log-probability and
    the value, f32[n]."""

    action: jax.Array
    logp: jax.Array
    value: jax.Array


def choose(
    policy: Policy,
    params: chex.ArrayTree,
    memory: chex.ArrayTree | None,
    observation: chex.ArrayTree,
    legal: jax.Array | None,
    key: jax.Array,
    *,
    greedy: bool = False,
) -> tuple[Choice, chex.ArrayTree | None]:
    """Acts on n observations: (Choice, memory). legal: bool[n, A] to choose among, or None.

    key draws the actions (unused if greedy).
    """
    outputs, value, memory = policy.step(params, memory, observation)
    head = policy.head
    action = head.best(outputs, legal) if greedy else head.draw(outputs, legal, key)
    return Choice(action, head.log_prob(outputs, legal, action), value), memory


def act(
    policy: Policy,
    env: Any,
    env_params: Any,
    *,
    anchor: str | None,
    mask_illegal: bool,
) -> Callable[..., tuple[Acted, chex.ArrayTree]]:
    """The acting step: (params, memory, observation, state, key) -> (Acted, memory)."""

    def turn(params, memory, observation, state, key):
        legal = None
        if mask_illegal and policy.head.numbered:
            legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, env_params)[:, 0]
        choice, memory = choose(policy, params, memory, observation, legal, key)
        if anchor == "state":
            mark = jax.vmap(lambda s: env.fingerprint(s, env_params, of="state")[0])(state)
        elif anchor == "observation":
            mark = jax.vmap(envs.fingerprint)(observation)
        else:
            mark = None
        return Acted(observation, legal, *choice, mark), memory

    return turn


def rows_of(acted: Acted, mask: jax.Array, start: jax.Array, memory: chex.ArrayTree | None) -> Rows:
    """Rows of T turns of B streams, from arrays [T, B, ...] as a scan stacks them.

    A policy without memory gets one row a turn, [T * B, 1], in the order of the scan; one with
    memory gets one row a stream, [B, T], and its memory [B, ...] before the first turn.
    """
    turns, streams = mask.shape
    if memory is None:

        def layout(x):
            return x.reshape(turns * streams, 1, *x.shape[2:])

        stream = jnp.tile(jnp.arange(streams, dtype=jnp.int32), turns)
        turn = jnp.repeat(jnp.arange(turns, dtype=jnp.int32), streams)[:, None]
    else:

        def layout(x):
            return jnp.swapaxes(x, 0, 1)

        stream = jnp.arange(streams, dtype=jnp.int32)
        turn = jnp.tile(jnp.arange(turns, dtype=jnp.int32), (streams, 1))
    numbered = acted.action.ndim == 2
    return Rows(
        tokens=layout(acted.action if numbered else jnp.zeros(mask.shape, jnp.int32)),
        action=None if numbered else layout(acted.action),
        loss_mask=layout(mask),
        stream=stream,
        turn=turn,
        behaviour_logp=layout(acted.logp),
        observation=jax.tree.map(layout, acted.observation),
        legal=None if acted.legal is None else layout(acted.legal),
        start=None if memory is None else layout(start),
        memory=memory,
        asked=None if acted.asked is None else layout(acted.asked),
        answer=None if acted.answer is None else layout(acted.answer),
    )


def check_anchor(anchor: str) -> None:
    """ValueError unless the anchor is one that a rollout can take."""
    if anchor not in ANCHORS:
        raise ValueError(f"rollout anchor={anchor!r}: expected one of {', '.join(ANCHORS)}")


def check_groups(num_groups: int, group_size: int) -> None:
    """ValueError unless there is a group, and somebody in it."""
    for name, given in (("num_groups", num_groups), ("group_size", group_size)):
        if given < 1:
            raise ValueError(f"rollout {name}={given}: expected at least 1")
