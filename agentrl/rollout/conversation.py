"""Conversations: a language policy reads, replies and acts over many turns, in one program."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

import envs
import envs.vector
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.generation import generate
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.acting import Rollout, check_anchor
from agentrl.rollout.constraint import command_constraint
from agentrl.rollout.contexts import REPLIED, Layout, Transcript
from agentrl.rollout.placement import along_data
from agentrl.rollout.talk_metrics import finished
from agentrl.streams import Rows, Streams
from envs.text import parse


@struct.dataclass
class Turns:
    """What happened in each turn of B episodes; T turns, G reply tokens.

    mask: bool[T, B], the episode was running. Everything else is read only where it is True.
    reply: i32[T, B, G]; length i32[T, B], the end token counted; ended: it wrote the end token.
    logp, entropy: f32[T, B, G]. kept: bool[T, B, G, V] or None. value: f32[T, B].
    anchor: u32[T, B, 2]. action: i32[T, B], the first command's number or -1.
    well_formed, known, valid: bool[T, B]: keeps the grammar; names commands; both, and all of them
    were legal. reward f32, terminated, truncated, success bool: of the environment.
    """

    mask: jax.Array
    length: jax.Array
    ended: jax.Array
    logp: jax.Array
    entropy: jax.Array
    kept: jax.Array | None
    value: jax.Array
    anchor: jax.Array
    action: jax.Array
    well_formed: jax.Array
    known: jax.Array
    valid: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    success: jax.Array
    cut: jax.Array


class Reply(NamedTuple):
    """Replies of one turn, as `Turns` holds them, and the cache after them."""

    tokens: jax.Array
    length: jax.Array
    ended: jax.Array
    logp: jax.Array
    entropy: jax.Array
    kept: jax.Array | None
    cache: decoder.Cache | None


def conversation(
    policy: LanguagePolicy,
    env: Any,
    env_params: Any,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    max_turns: int | None = None,
    max_new_tokens: int | None = None,
    context: str = "whole",
    history: int = 2,
    keep_first: bool = False,
    context_tokens: int | None = None,
    anchor: str = "observation",
    horizons: tuple[int, ...] = (),
    horizon_every: int = 100,
) -> Rollout:
    """Rollout of num_groups * group_size episodes, each a conversation with the environment.

    In a turn, an episode's observation is rendered and read, the reply drawn token by token, its
    bytes parsed, and the environment stepped with the command (with each command, where the grammar
    has lists: unknown ones are dropped then, as in RAGEN). A reply that names no command of the
    environment is an illegal action. All running episodes take their turns together, and the loop
    ends when none is left.

    Members of a group share the task's key and differ in those of replies and of chance.

    Args:
      max_turns: turns T; default: the environment's limit of steps.
      max_new_tokens: tokens G of a reply; default: what the longest command takes.
      context: "whole", "window" or "sliding", see `agentrl.rollout.contexts`. history: turns that
        the last two keep. keep_first: the first observation always stays.
      context_tokens: tokens of a row; default: enough for everything. An episode whose next turn
        would not fit is truncated.
      anchor: what GiGPO groups turns by: "observation" (the text) or "state".
      horizons: turns that an episode may take in the first `horizon_every` collections, in the
        next, and so on; the last one stays (ScalingInter's curriculum). Default: max_turns always.

    Streams: N = num_groups * group_size, T = max_turns.
    """
    check_anchor(anchor)
    for name, given in (("num_groups", num_groups), ("group_size", group_size)):
        if given < 1:
            raise ValueError(f"rollout {name}={given}: expected at least 1")
    talk = Talk(
        policy,
        env,
        env_params,
        max_turns=max_turns,
        max_new_tokens=max_new_tokens,
        context=context,
        history=history,
        keep_first=keep_first,
        context_tokens=context_tokens,
        anchor=anchor,
    )
    for horizon in horizons:
        if not 1 <= horizon <= talk.turns:
            raise ValueError(f"rollout horizons={horizons}: expected 1 to max_turns={talk.turns}")
    streams = num_groups * group_size

    def horizon_of(collections: jax.Array) -> jax.Array:
        if not horizons:
            return jnp.int32(talk.turns)
        stage = jnp.minimum(collections // horizon_every, len(horizons) - 1)
        return jnp.asarray(horizons, jnp.int32)[stage]

    def starts(task_key: jax.Array) -> chex.ArrayTree:
        keys = along_data(jax.random.split(task_key, num_groups))
        drawn = envs.vector.draw(env, env_params, keys).state
        return along_data(jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), drawn))

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        # One clock a group, all alike: the state's leaves have the batch first.
        horizon = horizon_of(state[0])
        transcript, turns, bootstrap = talk.run(
            params, starts(task_key), act_key, horizon=horizon, critic=policy.has_critic
        )
        group = jnp.repeat(jnp.arange(num_groups, dtype=jnp.int32), group_size)
        collected = talk.streams(turns, group, bootstrap)
        rows = talk.rows(transcript, turns)
        return state + 1, collected, rows, finished(collected, turns, env.has_success)

    def demonstrate(keys, key):
        first = along_data(envs.vector.draw(env, env_params, keys).state)
        transcript, turns, _ = talk.run(None, first, key, expert=True)
        return talk.rows(transcript, turns)

    def play(params, keys, key, greedy):
        first = envs.vector.draw(env, env_params, keys).state
        transcript, turns, _ = talk.run(params, first, key, greedy=greedy)
        return transcript, turns

    provides = {"reward", "mask", "group", "episode", "anchor", "cost", "well_formed"}
    provides |= {"terminated", "truncated", "valid", "success"}
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    return Rollout(
        init=lambda key: jnp.zeros(num_groups, jnp.int32),
        collect=collect,
        num_streams=streams,
        turns=talk.turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(provides),
        num_rows=streams if context == "whole" else streams * talk.turns,
        demonstrate=demonstrate,
        play=play,
    )


class Talk:
    """The conversation of a policy with an environment, for any batch of start states."""

    def __init__(
        self,
        policy: LanguagePolicy,
        env: Any,
        env_params: Any,
        *,
        max_turns: int | None,
        max_new_tokens: int | None,
        context: str,
        history: int,
        keep_first: bool,
        context_tokens: int | None,
        anchor: str,
    ):
        """Sizes follow from the environment's view and the policy's codec; see `conversation`."""
        self.policy, self.env, self.env_params = policy, env, env_params
        self.anchor = anchor
        codec, view = policy.codec, env.view
        limit = int(env_params.max_steps_in_episode)
        self.turns = limit if max_turns is None else max_turns
        if not 1 <= self.turns <= limit:
            raise ValueError(
                f"rollout max_turns={self.turns}: expected 1 to the environment's own limit "
                f"{limit}; raise env.max_steps_in_episode for more"
            )
        state = jax.eval_shape(lambda key: env.initial(key, env_params), jax.random.key(0))
        width = jax.eval_shape(env.commands, state, env_params).shape[-1]
        shortest = codecs.reply_tokens(codec, policy.grammar, view, width)
        self.reply_tokens = shortest if max_new_tokens is None else max_new_tokens
        if self.reply_tokens < 1:
            raise ValueError(f"rollout max_new_tokens={max_new_tokens}: expected at least 1")
        self.demonstration_tokens = shortest
        self.observation_tokens = codec.observation_tokens(view)
        self.layout = Layout(
            context,
            turns=self.turns,
            history=history,
            keep_first=keep_first,
            observation_tokens=self.observation_tokens,
            reply_tokens=self.reply_tokens,
            omitted=(*codec.before, *codec.after),
        )
        longest = self.layout.longest()
        self.context_tokens = longest if context_tokens is None else min(context_tokens, longest)
        one_turn = self.observation_tokens + self.reply_tokens
        if self.context_tokens < one_turn:
            raise ValueError(
                f"rollout context_tokens={context_tokens}: one turn takes {one_turn} "
                f"({self.observation_tokens} to read, {self.reply_tokens} to write)"
            )

    @property
    def lives(self) -> bool:
        """Whether the cache lives across turns."""
        return self.layout.context == "whole"

    def run(
        self,
        params: chex.ArrayTree | None,
        state: chex.ArrayTree,
        key: jax.Array,
        *,
        horizon: jax.Array | None = None,
        expert: bool = False,
        greedy: bool = False,
        critic: bool = False,
    ) -> tuple[Transcript, Turns, jax.Array | None]:
        """Plays episodes from start states [B, ...]: (transcript, turns, bootstrap f32[B] or None).

        expert: replies say the command of the environment's expert; params are not read.
        greedy: the most likely token each time. critic: evaluate what followed truncated episodes.
        """
        batch = jax.tree.leaves(state)[0].shape[0]
        horizon = jnp.int32(self.turns) if horizon is None else horizon
        reply = self._say_expert if expert else self._generate(greedy)
        cache = None
        if not expert and self.lives:
            room = self.observation_tokens if critic else 0
            cache = decoder.empty_cache(self.policy.config, batch, self.context_tokens + room)
        transcript = self.layout.empty(batch)
        running = along_data(jnp.ones(batch, bool))

        def advance(t, carry):
            state, cache, transcript, running = carry
            reply_key, step_key = jax.random.split(jax.random.fold_in(key, t))
            text, observation = self._observe(state)
            transcript = self.layout.observed(transcript, t, observation.tokens, observation.length)
            last, value = None, jnp.zeros(batch)
            if not expert:
                last, cache, fits = self._read(params, cache, transcript, t, observation, running)
                running = running & fits
                if self.policy.has_critic:
                    value = decoder.values(params, self.policy.config, last)[..., 0]
            said = reply(params, state, last, cache, reply_key, running)
            transcript = self.layout.replied(
                transcript, t, said.tokens, jnp.where(running, said.length, 0)
            )
            anchor = self._anchor(state, text)
            state, out = self._act(state, said, step_key, running)
            out = Turns(
                mask=running,
                length=said.length,
                ended=said.ended,
                logp=said.logp,
                entropy=said.entropy,
                kept=said.kept,
                value=value,
                anchor=anchor,
                cut=observation.cut,
                **out,
            )
            running = running & ~out.terminated & ~out.truncated
            # A context that is put together anew in each turn has no cache to keep.
            return (state, said.cache if self.lives else None, transcript, running), out

        first = (state, cache, transcript, running)
        shapes = jax.eval_shape(lambda c: advance(jnp.int32(0), c)[1], first)
        turns = jax.tree.map(lambda s: jnp.zeros((self.turns, *s.shape), s.dtype), shapes)

        def going(carry):
            t, (_, _, _, running), _ = carry
            return (t < horizon) & jnp.any(running)

        def body(carry):
            t, before, turns = carry
            after, out = advance(t, before)
            turns = jax.tree.map(
                lambda all_, one: jax.lax.dynamic_update_index_in_dim(all_, one, t, 0), turns, out
            )
            return t + 1, after, turns

        _, (state, cache, transcript, running), turns = jax.lax.while_loop(
            going, body, (jnp.int32(0), first, turns)
        )
        # Whoever has not ended was cut by the horizon or by a full context.
        ended = jnp.any(turns.mask & (turns.terminated | turns.truncated), axis=0)
        acted = jnp.sum(turns.mask, axis=0)
        is_last = turns.mask & (jnp.arange(self.turns)[:, None] == acted - 1)
        turns = turns.replace(truncated=turns.truncated | (is_last & ~ended))
        bootstrap = None
        if critic:
            bootstrap = self._value_after(params, cache, transcript, state, acted)
        return transcript, turns, bootstrap

    def _observe(self, state):
        def one(state):
            text = jax.tree.map(lambda x: x[0], self.env.describe(state, self.env_params))
            return text, codecs.render(self.policy.codec, text, self.observation_tokens)

        return jax.vmap(one)(state)

    def _anchor(self, state, text):
        if self.anchor == "state":
            return jax.vmap(lambda s: self.env.fingerprint(s, self.env_params, of="state")[0])(
                state
            )
        return jax.vmap(envs.fingerprint)(text.fragments)

    def _read(self, params, cache, transcript, t, observation, running):
        """(hidden state at the last prompt token [B, D], cache, whether the turn fits)."""
        config = self.policy.config
        if self.lives:
            room = cache.length + observation.length + self.reply_tokens <= self.context_tokens
            fits = running & room
            count = jnp.where(fits, observation.length, 0)
            hidden, cache = decoder.extend(params, config, cache, observation.tokens, count)
        else:
            pieces = jnp.asarray(self.layout.table)[t, :-1]
            pieces = jnp.broadcast_to(pieces, (running.shape[0], *pieces.shape))
            size = self.context_tokens - self.reply_tokens
            prompt = self.layout.compose(transcript, jnp.arange(running.shape[0]), pieces, size)
            fits = running & ~prompt.cut
            cache = decoder.empty_cache(config, running.shape[0], self.context_tokens)
            count = jnp.where(fits, prompt.length, 0)
            hidden, cache = decoder.extend(params, config, cache, prompt.tokens, count)
        last = jnp.take_along_axis(hidden, jnp.maximum(count - 1, 0)[:, None, None], axis=1)
        return last[:, 0], cache, fits

    def _value_after(self, params, cache, transcript, state, acted):
        """Critic's value of what followed each episode's last turn, f32[B]."""
        _, observation = self._observe(state)
        batch = acted.shape[0]
        config = self.policy.config
        if self.lives:
            hidden, _ = decoder.extend(
                params, config, cache, observation.tokens, observation.length
            )
            count = observation.length
        else:
            slot = (jnp.arange(batch), acted)
            transcript = Transcript(
                transcript.tokens.at[slot[0], slot[1], : self.observation_tokens].set(
                    observation.tokens
                ),
                transcript.lengths.at[slot[0], slot[1], 0].set(observation.length),
            )
            # What follows the last turn may be an observation longer than any row.
            size = self.context_tokens + self.observation_tokens
            pieces = jnp.asarray(self.layout.table)[acted, :-1]
            prompt = self.layout.compose(transcript, jnp.arange(batch), pieces, size)
            cache = decoder.empty_cache(config, batch, size)
            hidden, _ = decoder.extend(params, config, cache, prompt.tokens, prompt.length)
            count = prompt.length
        last = jnp.take_along_axis(hidden, jnp.maximum(count - 1, 0)[:, None, None], axis=1)
        return decoder.values(params, config, last[:, 0])[..., 0]

    def _generate(self, greedy: bool) -> Callable[..., Reply]:
        policy = self.policy
        sampling = dataclasses.replace(policy.sampling, greedy=True) if greedy else policy.sampling

        def reply(params, state, last, cache, key, running):
            constraint = None
            if policy.constrained:
                constraint = command_constraint(
                    policy, self.env, self.env_params, state, self.reply_tokens
                )
            said = generate(
                params,
                policy.config,
                cache,
                last,
                key,
                sampling=sampling,
                max_new_tokens=self.reply_tokens,
                end_token=policy.codec.end,
                active=running,
                constraint=constraint,
                keep=policy.cuts,
            )
            return Reply(
                said.tokens,
                said.length,
                said.ended,
                said.logp,
                said.entropy,
                said.kept,
                said.cache,
            )

        return reply

    def _say_expert(self, params, state, last, cache, key, running) -> Reply:
        env, policy = self.env, self.policy

        def one(state):
            action = env.expert(state, self.env_params)
            fragments = env.commands(state, self.env_params)[action]
            size = max(self.demonstration_tokens, self.reply_tokens)
            return codecs.replies(policy.codec, policy.grammar, fragments, size)

        said = jax.vmap(one)(state)
        zeros = jnp.zeros((running.shape[0], self.reply_tokens))
        length = jnp.minimum(said.length, self.reply_tokens)
        tokens = said.tokens[:, : self.reply_tokens]
        ended = said.length <= self.reply_tokens
        return Reply(tokens, length, ended, zeros, zeros, None, cache)

    def _act(self, state, said: Reply, key, running) -> tuple[chex.ArrayTree, dict]:
        """Parses the replies and steps the environment with their commands."""
        env, params, policy = self.env, self.env_params, self.policy

        def read(state, tokens, length):
            text, size = codecs.to_bytes(policy.codec, tokens, length)
            return parse(policy.grammar, env.view, env.view.slots(state, params), text, size)

        parsed = jax.vmap(read)(state, said.tokens, said.length)
        lists = policy.grammar.name == "answer"
        batch = running.shape[0]
        reward, going = jnp.zeros(batch), running
        legal = jnp.ones(batch, bool)
        terminated = truncated = success = jnp.zeros(batch, bool)
        for i in range(policy.grammar.max_actions):
            action = parsed.actions[:, i]
            runs = going & (action >= 0) if lists else going
            _, following, gained, ends, cuts, info = envs.vector.step(
                env, params, jax.random.fold_in(key, i), state, action
            )
            state = jax.tree.map(
                lambda new, old, runs=runs: jnp.where(
                    runs.reshape(-1, *[1] * (old.ndim - 1)), new, old
                ),
                following,
                state,
            )
            reward = reward + jnp.where(runs, gained, 0.0)
            terminated = terminated | (runs & ends)
            truncated = truncated | (runs & cuts)
            success = success | (runs & info["success"])
            legal = legal & (info["valid"] | ~runs)
            going = going & ~(runs & (ends | cuts))
        return state, {
            "action": parsed.actions[:, 0],
            "well_formed": running & parsed.valid_format & said.ended,
            "known": running & parsed.known,
            "valid": running & parsed.valid_format & said.ended & parsed.known & legal,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "success": success,
        }

    def streams(self, turns: Turns, group: jax.Array, bootstrap: jax.Array | None) -> Streams:
        """The streams of B episodes."""
        mask = turns.mask.T

        def column(x):
            return jnp.where(mask, x.T, jnp.zeros((), x.dtype))

        has_critic = bootstrap is not None
        return Streams(
            mask=mask,
            reward=column(turns.reward),
            group=group,
            episode=jnp.arange(mask.shape[0], dtype=jnp.int32),
            anchor=jnp.swapaxes(turns.anchor, 0, 1),
            value=column(turns.value) if has_critic else None,
            bootstrap=jnp.broadcast_to(bootstrap[:, None], mask.shape) if has_critic else None,
            terminated=column(turns.terminated),
            truncated=column(turns.truncated),
            valid=column(turns.valid),
            success=column(turns.success),
            well_formed=column(turns.well_formed),
            cost=column(turns.length).astype(jnp.float32),
        )

    def rows(self, transcript: Transcript, turns: Turns) -> Rows:
        """The rows that train every reply once: an episode each, or a turn each."""
        batch = turns.mask.shape[1]
        if self.lives:
            stream = jnp.arange(batch, dtype=jnp.int32)
            pieces = jnp.broadcast_to(
                jnp.asarray(self.layout.table)[self.turns - 1],
                (batch, *self.layout.table.shape[1:]),
            )
            own = None
        else:
            stream = jnp.tile(jnp.arange(batch, dtype=jnp.int32), self.turns)
            own = jnp.repeat(jnp.arange(self.turns, dtype=jnp.int32), batch)
            pieces = jnp.asarray(self.layout.table)[own]
        # What was observed in a turn that did not take place stays out.
        there = jnp.swapaxes(turns.mask, 0, 1)
        lengths = transcript.lengths.at[:, : self.turns].multiply(there[..., None])
        lengths = lengths.at[:, self.turns :].set(0)
        transcript = transcript.replace(lengths=lengths)
        composed = self.layout.compose(transcript, stream, pieces, self.context_tokens)
        written = composed.kind == REPLIED
        if own is not None:
            written = written & (composed.turn == own[:, None])
            # A row whose own turn did not take place is empty.
            written = written & there[stream, own][:, None]
        turn = jnp.where(written, composed.turn, 0)
        offset = jnp.where(written, composed.offset, 0)

        def at_replies(x):
            x = jnp.swapaxes(x, 0, 1)
            return x[stream[:, None], turn, offset]

        kept = None
        if turns.kept is not None:
            # Positions that were not drawn have nothing cut: their logits stay finite.
            kept = at_replies(turns.kept) | ~written[..., None]
        return Rows(
            tokens=composed.tokens,
            loss_mask=written,
            stream=stream,
            turn=jnp.where(composed.turn >= 0, composed.turn, -1),
            behaviour_logp=jnp.where(written, at_replies(turns.logp), 0.0),
            span=composed.kind,
            legal=kept,
        )
