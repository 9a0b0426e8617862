"""GAE through the order in which agents act within a step (MARFT)."""

import math

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import choice, group_owner


def marft(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    episode: jax.Array,
    role: jax.Array,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
    restart: str = "chain",
    truncated: jax.Array | None = None,
) -> jax.Array:
    """GAE of a team whose agents act one after another within each turn.

    All decisions of an episode form one sequence, by turn, then role (then token):

      delta_j = r_j + gamma V'_j - V_j,  A_j = delta_j + gamma lam c_j A_{j+1}.

    Agent k's successor is agent k + 1 in the same turn, who has seen what k wrote; the last one's
    is the first agent of the next turn. V' and c are as in `gae`: the successor's value and 1, or 0
    and 0 where the episode terminated in this turn, or bootstrap and 0 where it is cut. The
    discount is applied between agents (and tokens) too. The team's reward is on its last agent and
    so reaches all.

    Args:
      reward: f32[N, T]; terminated: bool[N, T]. The turn number is the episode's clock: entry t of
        all streams of an episode belongs to the same step. What any of them says of the end holds
        for the step, and takes effect after its last agent.
      value: f32[N, T], or f32[N, T, L] with a value of each of up to L tokens of a turn.
      mask: bool of value's shape; tokens of a turn from the first on. The reward is its last one's.
      bootstrap: f32[N, T], f32[N] or a scalar, as for `gae`; read at the last decision before a
        cut, so that it is the value of the agent who would act next (the reference: agent 0).
      episode, role: i32[N], any ids; equal roles of an episode act in the order of the streams.
      gamma, lam: discount and trace, in [0, 1].
      restart: in rows that hold several episodes, "chain" links the agents in the first step after
        an end as in every other. "cut" does not, as in the reference: each agent's transition to
        the next is multiplied by the mask of the step's start, which is 0 because the episode
        before had ended, so that only the last agent learns from that step's reward.
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its row.

    Returns:
      f32 of value's shape, 0 where mask is False, gradient stopped. With one agent this is `gae`.

    References:
      Liao et al. (2025), MARFT, https://arxiv.org/abs/2504.16129; Wen et al. (2022), Multi-agent
      transformer, https://arxiv.org/abs/2205.14953. Read and executed: jwliao-ai/MARFT 1beacdb,
      action_level_buffer and token_level_buffer. Normalising over minibatches is not done here.
    """
    choice("restart", restart, ("chain", "cut"))
    chex.assert_rank([reward, terminated], 2)
    chex.assert_rank(value, {2, 3})
    chex.assert_equal_shape([value, mask])
    chex.assert_equal_shape([reward, terminated])
    chex.assert_equal_shape_prefix([reward, value], 2)
    (streams, turns), shape = reward.shape, (*reward.shape, value.size // reward.size)
    steps = streams * turns
    acted = jnp.asarray(mask).reshape(shape)
    owner = group_owner(episode, jnp.any(acted, axis=(1, 2)))
    step = owner[:, None] * turns + jnp.arange(turns, dtype=jnp.int32)

    def of_step(flags):
        flags = jnp.any(acted, axis=2) & flags
        return jax.ops.segment_max(flags.reshape(-1), step.reshape(-1), num_segments=steps)

    ends = of_step(terminated)
    cuts = jnp.zeros_like(ends) if truncated is None else of_step(truncated)
    bootstrap = jnp.asarray(bootstrap, jnp.float32)
    bootstrap = bootstrap[:, None] if bootstrap.ndim == 1 else bootstrap

    # Streams by role, then a stable sort by step: decisions in their order, absent ones at the end.
    by_role = jnp.argsort(role, stable=True)

    def flat(array):
        array = jnp.asarray(array)
        wide = array if array.ndim == 3 else jnp.broadcast_to(array, shape[:2])[:, :, None]
        return jnp.broadcast_to(wide, shape)[by_role].reshape(-1)

    at = jnp.where(flat(acted), flat(step), steps)
    order = jnp.argsort(at, stable=True)
    arrays = (
        reward,
        value.reshape(shape),
        bootstrap,
        jnp.arange(streams, dtype=jnp.int32)[:, None],
    )
    r, v, beyond, stream = (flat(array)[order] for array in arrays)
    at = at[order]
    exists, home = at < steps, jnp.minimum(at, steps - 1)

    def following(array, last):
        return jnp.concatenate([array[1:], jnp.full(1, last, array.dtype)])

    same_step = exists & (following(at, steps) == at)
    same_episode = exists & (following(at, steps) // turns == at // turns)
    last_token = ~(same_step & (following(stream, -1) == stream))
    ended = ~same_step & ends[home]
    goes_on = same_episode & (same_step | ~(ends | cuts)[home])
    if restart == "cut":
        starts = (home % turns > 0) & ends[home - 1]
        ended = ended | (starts & same_step & last_token)
        goes_on = goes_on & ~ended
    after = jnp.where(goes_on, following(v, 0.0), jnp.where(ended, 0.0, beyond))
    delta = jnp.where(last_token, r, 0.0) + gamma * after - v
    trace = jnp.where(goes_on, gamma * lam, 0.0)
    advantage = _backward(trace, jnp.where(exists, delta, 0.0))
    advantage = jnp.zeros(order.size, jnp.float32).at[order].set(jnp.where(exists, advantage, 0.0))
    back = jnp.zeros(shape, jnp.float32).at[by_role].set(advantage.reshape(shape))
    return jax.lax.stop_gradient(back.reshape(value.shape))


def _backward(trace: jax.Array, delta: jax.Array) -> jax.Array:
    """A_j = delta_j + trace_j A_{j+1} over f32[M], in about 2 sqrt(M) steps.

    Blocks of about sqrt(M) side by side, each as if nothing followed it; then what does follow is
    handed from block to block. A scan of M steps would leave an accelerator idle, and
    `associative_scan` takes ten seconds to compile for 262,144 turns on CPU.
    """
    count = delta.shape[0]
    width = math.isqrt(count - 1) + 1
    blocks = -(-count // width)
    trace, delta = (
        jnp.pad(array, (0, blocks * width - count)).reshape(blocks, width)
        for array in (trace, delta)
    )

    def within(carry, column):
        advantage, reach = carry
        carry = column[1] + column[0] * advantage, column[0] * reach
        return carry, carry

    nothing = (jnp.zeros(blocks, jnp.float32), jnp.ones(blocks, jnp.float32))
    _, (local, reach) = jax.lax.scan(within, nothing, (trace.T, delta.T), reverse=True)

    def between(after, block):
        return block[0] + block[1] * after, after

    _, after = jax.lax.scan(between, jnp.zeros((), jnp.float32), (local[0], reach[0]), reverse=True)
    return (local + reach * after).T.reshape(-1)[:count]
