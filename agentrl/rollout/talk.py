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
from agentrl.rollout.opponents import Slots
from agentrl.rollout.placement import along_data
from agentrl.rollout.turns import Turns
from envs.mover import of_one_agent, seat_of, seats
from envs.text import parse

# Folded into the key of a step for what opponents do until the next turn, which has fewer actions.
_OTHERS = 1000


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
        reading what it may see, or one by the policy and the others by an opponent.
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
        opponent: str = "self",
        slots: Slots | None = None,
        members: chex.ArrayTree | None = None,
    ) -> tuple[Transcript, Turns, jax.Array | None]:
        """Plays episodes from start states [B, ...]: (transcript, turns, bootstrap).

        bootstrap: f32[B], the critic's value of what followed an episode's last turn; None without
        a critic. horizon: turns that an episode may take. expert: replies say the command of the
        environment's expert; params are not read. greedy: the most likely token each time.
        opponent: who has the other seats of a game: "self", or one of `OPPONENTS`, and then the
        policy has seat b % A of match b only. The others move as soon as it is their turn, in
        between two turns of the policy, so a turn is the policy's own and what it brings holds all
        that came until the next: nothing is written for a seat that nobody learns from.
        slots, members: of a pool, whose parameters are [members, ...].
        """
        batch = jax.tree.leaves(state)[0].shape[0]
        horizon = self.turns if horizon is None else horizon
        criticised = self.policy.has_critic and not expert
        cache = None
        if self._lives and not expert:
            # What follows the last turn is read by the critic only.
            room = self.context_tokens + (self.observation_tokens if criticised else 0)
            cache = decoder.empty_cache(self.policy.config, batch, room)

        own = jnp.arange(batch, dtype=jnp.int32) % self.seats

        def others(state, running, key):
            """What happens until it is the policy's turn again: (state, running, outcome)."""
            return self._others(state, running, own, key, opponent, slots, members)

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
            actions, out = self._parse(state, said, running)
            state, outcome = self._step(state, actions, step_key, running)
            out["valid"] &= outcome.pop("legal")
            ended = outcome["terminated"] | outcome["truncated"]
            if opponent != "self":
                state, _, later = others(
                    state, running & ~ended, jax.random.fold_in(step_key, _OTHERS)
                )
                outcome = _together(outcome, later)
            out = Turns(
                running=running,
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
                **outcome,
            )
            running = running & ~out.terminated & ~out.truncated
            # A context that is put together anew in each turn has no cache to keep.
            return (state, said.cache if self._lives else None, transcript, running), out

        running = along_data(jnp.ones(batch, bool))
        if opponent != "self":
            # What others do before the policy's first turn brings it nothing, but may end a match.
            state, running, _ = others(state, running, jax.random.fold_in(key, self.turns))
        first = (state, cache, self.layout.empty(batch), running)
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
        """Reads what stands before the replies of a turn, i32[] or [B], in at most `size` tokens.

        Returns (hidden state at its last token [B, D], cache, whether it was read: rows that are
        `reading` and have room).
        """
        config, batch = self.policy.config, reading.shape[0]
        if self._lives:
            tokens, length = observation.tokens, observation.length
            fits = reading & (cache.length + length <= size)
        else:
            pieces = jnp.asarray(self.layout.table)[turn, :-1]
            pieces = jnp.broadcast_to(pieces, (batch, *pieces.shape[-2:]))
            prompt = self.layout.compose(transcript, jnp.arange(batch), pieces, size)
            tokens, length = prompt.tokens, prompt.length
            fits = reading & ~prompt.cut
            cache = decoder.empty_cache(config, batch, size + self.reply_tokens)
        count = jnp.where(fits, length, 0)
        hidden, cache = decoder.extend(params, config, cache, tokens, count)
        last = jnp.take_along_axis(hidden, jnp.maximum(count - 1, 0)[:, None, None], axis=1)
        return last[:, 0], cache, fits

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

    def _parse(self, state, said: Generated, running) -> tuple[jax.Array, dict]:
        """The commands of replies, i32[B, n], and what is wrong with them."""
        env, params, policy = self.env, self.env_params, self.policy

        def read(state, tokens, length):
            text, size = codecs.to_bytes(policy.codec, tokens, length)
            return parse(policy.grammar, env.view, env.view.slots(state, params), text, size)

        parsed = jax.vmap(read)(state, said.tokens, said.length)
        well_formed = running & parsed.valid_format & said.ended
        known = running & parsed.known
        return parsed.actions, {
            "well_formed": well_formed,
            "known": known,
            "valid": well_formed & known,
        }

    def _step(self, state, actions, key, running) -> tuple[chex.ArrayTree, dict]:
        """Steps the running episodes with their commands, i32[B, n], one after the other."""
        env, params = self.env, self.env_params
        lists = self.policy.grammar.name == "answer"
        going, out = running, self._nothing(running.shape[0])

        def by_seat(flags):
            """Flags [B] beside values [B] or [B, A]."""
            return flags.reshape(-1, *[1] * (out["reward"].ndim - 1))

        for i in range(actions.shape[1]):
            action = actions[:, i]
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
            valid = info["valid"] if self.seats == 1 else jnp.all(info["valid"], axis=1)
            now = {
                "reward": jnp.where(by_seat(runs), gained, 0.0),
                "terminated": runs & ends,
                "truncated": runs & cuts,
                "success": by_seat(runs) & info["success"],
                "offender": jnp.where(runs & ends, info.get("offender", -1), -1),
                "legal": valid | ~runs,
            }
            out = _together(out, now)
            going = going & ~(runs & (ends | cuts))
        return state, out

    def _nothing(self, batch: int) -> dict:
        """The outcome of a turn in which nothing happens."""
        shape = (batch,) if self.seats == 1 else (batch, self.seats)
        return {
            "reward": jnp.zeros(shape),
            "terminated": jnp.zeros(batch, bool),
            "truncated": jnp.zeros(batch, bool),
            "success": jnp.zeros(shape, bool),
            "offender": jnp.full(batch, -1, jnp.int32),
            "legal": jnp.ones(batch, bool),
        }

    def _others(self, state, running, own, key, opponent, slots, members):
        """Moves of all seats but `own` i32[B], until those are to move or the match is over.

        Returns (state, running, what it brought). Where seats take turns strictly it is one pass
        for each opponent, and policy and opponents together write as much as in self-play.
        """

        def theirs(state, running):
            seat = jax.vmap(seat_of, in_axes=(None, 0, None))(self.env, state, self.env_params)
            return running & (seat != own)

        def going(carry):
            _, state, running, _ = carry
            return jnp.any(theirs(state, running))

        def move(carry):
            i, state, running, before = carry
            act_key, step_key = jax.random.split(jax.random.fold_in(key, i))
            moving = theirs(state, running)
            actions = self._opponents(state, moving, act_key, opponent, slots, members)
            state, now = self._step(state, actions, step_key, moving)
            running = running & ~now["terminated"] & ~now["truncated"]
            del now["legal"]
            return i + 1, state, running, _together(before, now)

        nothing = self._nothing(running.shape[0])
        del nothing["legal"]
        _, *after = jax.lax.while_loop(going, move, (jnp.int32(0), state, running, nothing))
        return after

    def _opponents(self, state, moving, key, opponent, slots, members) -> jax.Array:
        """Commands of the opponents who are `moving`, i32[B, n]."""
        env, params = self.env, self.env_params
        if opponent == "expert":
            return jax.vmap(env.expert, in_axes=(0, None))(state, params)[:, None]
        if opponent == "random":
            legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, params)[:, 0]
            # Whoever is not moving may have nothing legal left.
            legal = legal | ~moving[:, None]
            drawn = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
            return drawn.astype(jnp.int32)[:, None]

        def one(slot):
            weights, state, moving, key = slot
            _, observation = self._observe(state)
            config, size = self.policy.config, self.observation_tokens
            cache = decoder.empty_cache(config, moving.shape[0], size + self.reply_tokens)
            count = jnp.where(moving, observation.length, 0)
            hidden, cache = decoder.extend(weights, config, cache, observation.tokens, count)
            last = jnp.take_along_axis(hidden, jnp.maximum(count - 1, 0)[:, None, None], axis=1)
            said = self._say(weights, state, last[:, 0], cache, key, moving, greedy=False)
            return self._parse(state, said, moving)[0]

        # One slot after the other: each stops writing when its own replies have ended.
        keys = jax.random.split(key, slots.members)
        return slots.join(jax.lax.map(one, (members, slots.cut(state), slots.cut(moving), keys)))


def _together(first: dict, then: dict) -> dict:
    """The outcome of a turn in two parts."""
    how = {
        "reward": jnp.add,
        "terminated": jnp.logical_or,
        "truncated": jnp.logical_or,
        "success": jnp.logical_or,
        "offender": jnp.maximum,
        "legal": jnp.logical_and,
    }
    return {
        name: how[name](first[name], then[name]) if name in then else first[name] for name in first
    }
