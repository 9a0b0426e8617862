"""One conversation after the other: B episodes take their turns together, in one loop."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs
import envs.vector
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.generation import Generated, generate
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.constraint import command_constraint
from agentrl.rollout.contexts import Layout, Transcript
from agentrl.rollout.placement import along_data
from agentrl.rollout.reading import read
from agentrl.rollout.turns import Turns
from envs.mover import of_one_agent, seat_of, seats
from envs.text import parse

# Folded into the key of a step for the moves of random others; a turn has fewer actions.
_DRAW = 1000


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
        history: int | None,
        keep_first: bool,
        context_tokens: int | None,
        anchor: str,
    ):
        """Sizes follow from the environment's view and the policy's codec; see `conversation`.

        A game in turns is played as whose turn it is meets it: all seats by the same policy, each
        reading what it may see.
        """
        env = of_one_agent(env)
        self.policy, self.env, self.env_params = policy, env, env_params
        self.seats = seats(env)
        if self.seats > 1 and (context != "window" or history != 0):
            raise ValueError(
                f"rollout context={context!r}, history={history} with {env.name}: of games each "
                "turn is read by itself; use context='window' and history=0"
            )
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
        self.demonstration_tokens = max(shortest, self.reply_tokens)
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

    def run(
        self,
        params: chex.ArrayTree | None,
        state: chex.ArrayTree,
        key: jax.Array,
        *,
        horizon: jax.Array | int | None = None,
        expert: bool = False,
        greedy: bool = False,
        random_others: bool = False,
    ) -> tuple[Transcript, Turns, jax.Array | None]:
        """Plays episodes from start states [B, ...]: (transcript, turns, bootstrap).

        bootstrap: f32[B], the critic's value of what followed an episode's last turn; None without
        a critic. horizon: turns that an episode may take. expert: replies say the command of the
        environment's expert; params are not read. greedy: the most likely token each time.
        random_others: in a game, the policy has seat b % A of match b only; the others play any
        legal action, in turns that are masked out.
        """
        batch = jax.tree.leaves(state)[0].shape[0]
        horizon = self.turns if horizon is None else horizon
        criticised = self.policy.has_critic and not expert
        cache = None
        if self._lives and not expert:
            # What follows the last turn is read by the critic only.
            room = self.context_tokens + (self.observation_tokens if criticised else 0)
            cache = decoder.empty_cache(self.policy.config, batch, room)

        def advance(t, carry):
            state, cache, transcript, running = carry
            reply_key, step_key = jax.random.split(jax.random.fold_in(key, t))
            text, observation = self._observe(state)
            transcript = self.layout.observed(transcript, t, observation.tokens, observation.length)
            value = jnp.zeros(batch)
            if expert:
                said = self._say_expert(state)
            else:
                size = self.context_tokens - self.reply_tokens
                last, cache, fits = self._read(
                    params, cache, transcript, t, observation, running, size
                )
                running = running & fits
                if criticised:
                    value = decoder.values(params, self.policy.config, last)[..., 0]
                said = self._say(params, state, last, cache, reply_key, running, greedy)
            transcript = self.layout.replied(
                transcript, t, said.tokens, jnp.where(running, said.length, 0)
            )
            anchor = self._anchor(state, text)
            seat = jax.vmap(seat_of, in_axes=(None, 0, None))(self.env, state, self.env_params)
            mine = jnp.ones(batch, bool)
            if random_others:
                mine = seat == jnp.arange(batch) % self.seats
            state, out = self._act(state, said, step_key, running, mine)
            out = Turns(
                running=running,
                mask=running & mine,
                seat=seat,
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
            return (state, said.cache if self._lives else None, transcript, running), out

        first = (state, cache, self.layout.empty(batch), along_data(jnp.ones(batch, bool)))
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

        _, (state, cache, transcript, _), turns = jax.lax.while_loop(
            going, body, (jnp.int32(0), first, turns)
        )
        # Whoever has not ended was cut by the horizon or by a full context.
        ended = jnp.any(turns.running & (turns.terminated | turns.truncated), axis=0)
        acted = jnp.sum(turns.running, axis=0, dtype=jnp.int32)
        is_last = turns.running & (jnp.arange(self.turns)[:, None] == acted - 1)
        turns = turns.replace(truncated=turns.truncated | (is_last & ~ended))
        bootstrap = None
        if criticised:
            _, after = self._observe(state)
            transcript_after = self.layout.observed(transcript, acted, after.tokens, after.length)
            # It may be longer than what any turn is read from.
            size = self.context_tokens + self.observation_tokens
            everyone = jnp.ones(batch, bool)
            last, _, _ = self._read(params, cache, transcript_after, acted, after, everyone, size)
            bootstrap = decoder.values(params, self.policy.config, last)[..., 0]
        return transcript, turns, bootstrap

    @property
    def _lives(self) -> bool:
        """Whether the cache lives across turns."""
        return self.layout.context == "whole"

    def _observe(self, state):
        def one(state):
            text = jax.tree.map(lambda x: x[0], self.env.describe(state, self.env_params))
            return text, codecs.render(self.policy.codec, text, self.observation_tokens)

        return jax.vmap(one)(state)

    def _anchor(self, state, text):
        if self.anchor == "state":
            return jax.vmap(lambda one: self.env.fingerprint(one, self.env_params, of="state")[0])(
                state
            )
        return jax.vmap(envs.fingerprint)(text.fragments)

    def _read(self, params, cache, transcript, turn, observation, reading, size):
        """As `reading.read`."""
        tokens, length = observation.tokens, observation.length
        return read(
            self.policy,
            self.layout,
            params,
            cache,
            transcript,
            turn,
            tokens,
            length,
            reading,
            size,
        )

    def _say(self, params, state, last, cache, key, running, greedy) -> Generated:
        policy = self.policy
        sampling = dataclasses.replace(policy.sampling, greedy=True) if greedy else policy.sampling
        constraint = None
        if policy.constrained:
            constraint = command_constraint(
                policy, self.env, self.env_params, state, self.reply_tokens
            )
        return generate(
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

    def _say_expert(self, state) -> Generated:
        env, policy = self.env, self.policy

        def one(state):
            action = env.expert(state, self.env_params)
            fragments = env.commands(state, self.env_params)[action]
            return codecs.replies(
                policy.codec, policy.grammar, fragments, self.demonstration_tokens
            )

        said = jax.vmap(one)(state)
        tokens = said.tokens[:, : self.reply_tokens]
        return Generated(
            tokens=tokens,
            logp=jnp.zeros(tokens.shape),
            entropy=jnp.zeros(tokens.shape),
            length=jnp.minimum(said.length, self.reply_tokens),
            ended=said.length <= self.reply_tokens,
            kept=None,
            hidden=None,
            cache=None,
        )

    def _act(self, state, said: Generated, key, running, mine) -> tuple[chex.ArrayTree, dict]:
        """Parses the replies and steps the environment with their commands.

        Where it is not the policy's turn (mine bool[B]), with a random legal action.
        """
        env, params, policy = self.env, self.env_params, self.policy

        def understand(state, tokens, length):
            text, size = codecs.to_bytes(policy.codec, tokens, length)
            return parse(policy.grammar, env.view, env.view.slots(state, params), text, size)

        parsed = jax.vmap(understand)(state, said.tokens, said.length)
        lists = policy.grammar.name == "answer"
        batch = running.shape[0]
        shape = (batch,) if self.seats == 1 else (batch, self.seats)
        reward, going = jnp.zeros(shape), running
        legal, success = jnp.ones(batch, bool), jnp.zeros(shape, bool)
        terminated = truncated = jnp.zeros(batch, bool)

        def by_seat(flags):
            """Flags [B] beside values [B] or [B, A]."""
            return flags.reshape(batch, *[1] * (len(shape) - 1))

        for i in range(policy.grammar.max_actions):
            action = parsed.actions[:, i]
            if self.seats > 1:
                any_legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, params)[:, 0]
                drawn = jax.random.categorical(
                    jax.random.fold_in(key, _DRAW + i), jnp.where(any_legal, 0.0, -jnp.inf)
                )
                action = jnp.where(mine, action, drawn)
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
            reward = reward + jnp.where(by_seat(runs), gained, 0.0)
            terminated = terminated | (runs & ends)
            truncated = truncated | (runs & cuts)
            success = success | (by_seat(runs) & info["success"])
            valid = info["valid"] if self.seats == 1 else jnp.all(info["valid"], axis=1)
            legal = legal & (valid | ~runs)
            going = going & ~(runs & (ends | cuts))
        return state, {
            "well_formed": running & parsed.valid_format & said.ended,
            "known": running & parsed.known,
            "valid": running & parsed.valid_format & said.ended & parsed.known & legal,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "success": success,
            "offender": jnp.where(terminated, info.get("offender", -1), -1),
        }
