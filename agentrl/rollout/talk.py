"""One conversation after the other: B episodes take their turns together, in one loop.

In a turn S agents of an episode read and reply (`envs.mover`): the one, or the one whose turn it
is, S = 1; in games in which all act at once everybody who acts, S = A. What is said is of B * S
places, what happens is of B episodes.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.generation import Generated, generate
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.placement import along_data
from agentrl.rollout import stepping
from agentrl.rollout.constraint import command_constraint
from agentrl.rollout.contexts import Layout, Transcript
from agentrl.rollout.demonstrated import expert_reply, strayed
from agentrl.rollout.reading import read
from agentrl.rollout.turns import Turns
from envs.mover import movers, of_one_agent, places, seat_of, seats
from envs.text import Parsed, parse

# Folded into the key of a step for what opponents do until the next turn, which has fewer actions.
_OTHERS, _NOISE = 1000, 1001


def check_roles(policy: LanguagePolicy, env: Any, roles: int) -> None:
    """ValueError where a language policy has adapters for fewer roles than the environment."""
    if 1 < policy.config.lora_roles < roles:
        raise ValueError(
            f"policy lora_roles={policy.config.lora_roles} with {env.name}, which has {roles} "
            "roles: set it to as many, or to 1 for one adapter for all"
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
        history: int | None,
        keep_first: bool,
        context_tokens: int | None,
        anchor: str,
    ):
        """Sizes follow from the environment's view and the policy's codec; see `conversation`.

        A game is played as those who move meet it: all seats by the same policy, each reading what
        it may see, or one by the policy and the others by an opponent.
        """
        env = of_one_agent(env)
        self.policy, self.env, self.env_params = policy, env, env_params
        self.seats, self.movers = seats(env), movers(env)
        check_roles(policy, env, self.seats)
        if self.seats > 1 and (context != "window" or history != 0):
            raise ValueError(
                f"rollout context={context!r}, history={history} with {env.name}: of games each "
                "turn is read by itself; use context='window' and history=0"
            )
        if self.seats > 1 and policy.grammar.max_actions > 1:
            raise ValueError(
                f"policy max_actions={policy.grammar.max_actions} with {env.name}: in games a "
                "reply is one seat's one move; set it to 1, or use another grammar"
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
        start = jax.eval_shape(self._first_places, jax.random.key(0))
        commands = jax.eval_shape(jax.vmap(env.commands, in_axes=(0, None)), start, env_params)
        self._expert_tokens = functools.partial(
            codecs.reply_tokens, codec, policy.grammar, view, commands.shape[-1]
        )
        self.reply_tokens = self._expert_tokens() if max_new_tokens is None else max_new_tokens
        if self.reply_tokens < 1:
            raise ValueError(f"rollout max_new_tokens={max_new_tokens}: expected at least 1")
        self.observation_tokens = codec.observation_tokens(view)
        self.layout = Layout(
            context,
            turns=self.turns,
            history=history,
            keep_first=keep_first,
            observation_tokens=self.observation_tokens,
            reply_tokens=self.reply_tokens,
            omitted=(*codec.before, *codec.after),
            opening=codec.opening,
            before=codec.before,
        )
        self._read = functools.partial(read, policy, self.layout)
        longest = self.layout.longest()
        self.context_tokens = longest if context_tokens is None else min(context_tokens, longest)
        one_turn = self.layout.added + self.observation_tokens + self.reply_tokens
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
        thoughts: bool = False,
        noise: float = 0.0,
        greedy: bool = False,
        others: stepping.Act | None = None,
    ) -> tuple[Transcript, Turns, jax.Array | None]:
        """Plays episodes from start states [B, ...]: (transcript, turns, bootstrap).

        bootstrap: f32[B], the critic's value of what followed an episode's last turn, in games
        f32[B, A], of what each seat reads then; None without a critic. horizon: turns that an
        episode may take. expert: replies say the command of the environment's expert, with
        `thoughts` in their thoughts, too; params are not read. noise: chance that an expert's turn
        ends otherwise than it says, by a random legal action. greedy: the most likely token each
        time.
        others: how others move in a game, (state, moving bool[B, S], key) -> commands i32[B, S];
        then the policy has seat b % A of match b only, and nothing is written for a seat that
        nobody learns from. In games in turns they move as soon as it is their turn, in between two
        turns of the policy, so a turn is the policy's own and what it brings holds all that came
        until the next.
        """
        batch = jax.tree.leaves(state)[0].shape[0]
        horizon = self.turns if horizon is None else horizon
        criticised = self.policy.has_critic and not expert
        cache = None
        if self._lives and not expert:
            # What follows the last turn is read by the critic only.
            room = self.context_tokens + (self.observation_tokens if criticised else 0)
            cache = self._opened(params, decoder.empty_cache(self.policy.config, batch, room))

        own = jnp.arange(batch, dtype=jnp.int32) % self.seats
        # Where all act at once nobody moves in between.
        waits = others is not None and self.movers == 1

        # Of a list what is unknown is dropped; in a game it is an illegal move: time goes on.
        lists = self.policy.grammar.name == "answer" and self.seats == 1

        until_own_turn = functools.partial(
            stepping.until_own_turn, self.env, self.env_params, own=own, others=others
        )

        def advance(t, carry):
            state, cache, transcript, running = carry
            reply_key, step_key = jax.random.split(jax.random.fold_in(key, t))
            here = places(self.env, state, self.env_params)
            text, observation = self._observe(here)
            transcript = self.layout.observed(transcript, t, observation.tokens, observation.length)
            seat = seat_of(self.env, here)
            value, replies, theirs = jnp.zeros(seat.shape), running, None
            if self.movers > 1:
                acting = jax.vmap(self.env.acting, in_axes=(0, None))(here, self.env_params)
                replies = self._each(running) & acting
                if others is not None:
                    mine = seat == self._each(own)
                    replies, theirs = replies & mine, replies & ~mine
            if expert:
                said = expert_reply(
                    self.policy,
                    self.env,
                    self.env_params,
                    here,
                    room=self.reply_tokens,
                    longest=self._expert_tokens(thoughts=thoughts),
                    thoughts=thoughts,
                )
            else:
                size = self.context_tokens - self.reply_tokens
                last, cache, fits = self._read(
                    params, cache, transcript, t, *observation[:2], replies, size, seat
                )
                kept = (fits | ~replies).reshape(batch, self.movers)
                running = running & jnp.all(kept, axis=1)
                replies = replies & fits
                if criticised:
                    value = decoder.values(params, self.policy.config, last)[..., 0]
                said = self._say(params, here, last, cache, reply_key, replies, greedy, seat)
            transcript = self.layout.replied(
                transcript, t, said.tokens, jnp.where(replies, said.length, 0)
            )
            anchor = self._anchor(here, text)
            parsed = self._parse(here, said)
            well_formed = replies & parsed.valid_format & said.ended
            actions = parsed.actions
            if noise:
                stray_key = jax.random.fold_in(step_key, _NOISE)
                actions = strayed(self.env, self.env_params, here, actions, stray_key, noise)
            actions = actions.reshape(batch, self.movers, -1)
            if theirs is not None:
                moving = theirs.reshape(batch, -1)
                chosen = others(state, moving, jax.random.fold_in(step_key, _OTHERS))
                actions = jnp.where(moving[..., None], chosen[..., None], actions)
            state, outcome = stepping.take(
                self.env, self.env_params, state, actions, step_key, running, lists=lists
            )
            valid = well_formed & parsed.known & outcome["legal"].reshape(-1)
            if waits:
                going = running & ~outcome["terminated"] & ~outcome["truncated"]
                others_key = jax.random.fold_in(step_key, _OTHERS)
                state, _, later = until_own_turn(state, running=going, key=others_key)
                outcome = stepping.together(outcome, later)
            del outcome["legal"]
            out = Turns(
                running=running,
                replied=replies,
                seat=seat,
                length=said.length,
                ended=said.ended,
                logp=said.logp,
                entropy=said.entropy,
                kept=said.kept,
                value=value,
                anchor=anchor,
                cut=observation.cut,
                well_formed=well_formed,
                known=replies & parsed.known,
                valid=valid,
                thinks=None if self.policy.grammar.think == "none" else parsed.thinks,
                **outcome,
            )
            running = running & ~out.terminated & ~out.truncated
            # A context that is put together anew in each turn has no cache to keep.
            return (state, said.cache if self._lives else None, transcript, running), out

        running = along_data(jnp.ones(batch, bool))
        if waits:
            # What others do before the policy's first turn brings it nothing, but may end a match.
            first_key = jax.random.fold_in(key, self.turns)
            state, running, _ = until_own_turn(state, running=running, key=first_key)
        first = (state, cache, self.layout.empty(batch * self.movers), running)
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
        if criticised and self.seats > 1:
            bootstrap = self._values(params, state)
        elif criticised:
            _, after = self._observe(state)
            transcript_after = self.layout.observed(transcript, acted, after.tokens, after.length)
            # It may be longer than what any turn is read from.
            size = self.context_tokens + self.observation_tokens
            everyone = jnp.ones(batch, bool)
            role = seat_of(self.env, state)
            last, _, _ = self._read(
                params, cache, transcript_after, acted, *after[:2], everyone, size, role
            )
            bootstrap = decoder.values(params, self.policy.config, last)[..., 0]
        return transcript, turns, bootstrap

    @property
    def _lives(self) -> bool:
        """Whether the cache lives across turns."""
        return self.layout.context == "whole"

    def _opened(self, params, cache):
        """An empty cache after the rows' opening, which is the same in all: read once."""
        opening, batch = self.layout.opening, cache.length.shape[0]
        if not opening:
            return cache
        one = jax.tree.map(lambda x: x[:1], cache)
        tokens, count = jnp.asarray(opening, jnp.int32)[None], jnp.full(1, len(opening), jnp.int32)
        # Where a cache lives, there is one agent, and so one role.
        role = jnp.zeros(1, jnp.int32)
        _, one = decoder.extend(params, self.policy.config, one, tokens, count, role)
        return along_data(jax.tree.map(lambda x: jnp.repeat(x, batch, axis=0), one))

    def _first_places(self, key):
        state = jax.tree.map(lambda x: x[None], self.env.initial(key, self.env_params))
        return places(self.env, state, self.env_params)

    def _each(self, values):
        """What is of episodes [B], of their places [B * S]."""
        return jnp.broadcast_to(values[:, None], (values.shape[0], self.movers)).reshape(-1)

    def _observe(self, here):
        def one(place):
            text = jax.tree.map(lambda x: x[0], self.env.describe(place, self.env_params))
            return text, codecs.render(self.policy.codec, text, self.observation_tokens)

        return jax.vmap(one)(here)

    def _values(self, params, state):
        """The critic's value of what each seat of a game reads, whosever turn it is, f32[B, A]."""
        codec, game = self.policy.codec, self.env.game

        def one(state):
            texts = game.describe(state, self.env_params)
            return jax.vmap(lambda text: codecs.render(codec, text, self.observation_tokens))(texts)

        seen = jax.vmap(one)(state)
        tokens, length = (x.reshape(-1, *x.shape[2:]) for x in (seen.tokens, seen.length))
        everyone = jnp.ones(length.shape, bool)
        # Of games each turn is read by itself, as in `reply`.
        transcript = self.layout.observed(self.layout.empty(length.size), 0, tokens, length)
        size, first = self.context_tokens, jnp.int32(0)
        role = jnp.tile(jnp.arange(self.seats, dtype=jnp.int32), seen.length.shape[0])
        last, _, _ = self._read(
            params, None, transcript, first, tokens, length, everyone, size, role
        )
        return decoder.values(params, self.policy.config, last)[..., 0].reshape(-1, self.seats)

    def _anchor(self, here, text):
        if self.anchor == "state":
            return jax.vmap(lambda one: self.env.fingerprint(one, self.env_params, of="state")[0])(
                here
            )
        return jax.vmap(envs.fingerprint)(text.fragments)

    def _say(self, params, here, last, cache, key, replies, greedy, role) -> Generated:
        policy = self.policy
        sampling = dataclasses.replace(policy.sampling, greedy=True) if greedy else policy.sampling
        constraint = None
        if policy.constrained:
            constraint = command_constraint(
                policy, self.env, self.env_params, here, self.reply_tokens
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
            active=replies,
            constraint=constraint,
            keep=policy.cuts,
            role=role,
        )

    def reply(
        self,
        params: chex.ArrayTree,
        state: chex.ArrayTree,
        key: jax.Array,
        asked: jax.Array,
        *,
        greedy: bool,
    ) -> jax.Array:
        """What the policy says to states [B, ...] that it reads by themselves: commands i32[B, S].

        Of a game. -1 where a reply names none, or was not asked for (bool[B, S]).
        """
        here, asked = places(self.env, state, self.env_params), asked.reshape(-1)
        _, observation = self._observe(here)
        transcript = self.layout.empty(asked.shape[0])
        transcript = self.layout.observed(transcript, 0, observation.tokens, observation.length)
        size, role = self.context_tokens - self.reply_tokens, seat_of(self.env, here)
        last, cache, fits = self._read(
            params, None, transcript, jnp.int32(0), *observation[:2], asked, size, role
        )
        said = self._say(params, here, last, cache, key, fits, greedy, role)
        return self._parse(here, said).actions.reshape(-1, self.movers)

    def _parse(self, here, said: Generated) -> Parsed:
        env, policy = self.env, self.policy

        def understand(place, tokens, length):
            text, size = codecs.to_bytes(policy.codec, tokens, length)
            slots = env.view.slots(place, self.env_params)
            return parse(policy.grammar, env.view, slots, text, size)

        return jax.vmap(understand)(here, said.tokens, said.length)
