"""Twin critics of whole replies in words: a transformer of its own that reads the policy's rows.

Letters: N streams (n drawn ones) of T turns in K rows of L tokens each; G tokens of a reply, D
width.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.records import token_spans
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.text_source import text_agent
from agentrl.learner.component import Setup
from agentrl.methods.by_turn import followed, rows_by_stream
from agentrl.methods.networks import Embedding
from agentrl.methods.utterance_critics import Turns, bare_turns
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.generation import Generated
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.prefill import read
from agentrl.streams import OBSERVATION, SUMMARY, Rows, Streams
from envs.text import lower
from envs.vector import World


class Anew(NamedTuple):
    """A new reply at a turn of each episode.

    turn: i32[n]. there: bool[n], there is a turn to reply in. prompt: i32[n, L]. begin: i32[n], its
    length. said: up to G tokens each.
    """

    turn: jax.Array
    there: jax.Array
    prompt: jax.Array
    begin: jax.Array
    said: Generated

    @property
    def offset(self) -> jax.Array:
        """Each position's place in the reply, i32[n, L]; negative in the prompt."""
        return jnp.arange(self.prompt.shape[1]) - self.begin[:, None]

    @property
    def inside(self) -> jax.Array:
        """The positions of the reply, bool[n, L]."""
        return (self.offset >= 0) & (self.offset < self.said.length[:, None])

    def at_reply(self, x: jax.Array, other: Any) -> jax.Array:
        """Values of the reply's tokens [n, G, ...] at its positions, `other` elsewhere."""
        wide = (*self.inside.shape, *(1,) * (x.ndim - 2))
        offset = jnp.where(self.inside, self.offset, 0).reshape(wide)
        other = jnp.asarray(other, x.dtype)
        return jnp.where(self.inside.reshape(wide), jnp.take_along_axis(x, offset, axis=1), other)

    @property
    def tokens(self) -> jax.Array:
        """The prompts with the replies behind them, i32[n, L]; 0 in padding."""
        before = jnp.where(self.offset < 0, self.prompt, 0)
        return jnp.where(self.inside, self.at_reply(self.said.tokens, 0), before)


def reply_places(rows: Rows, shape: tuple[int, int]) -> dict[str, jax.Array]:
    """Where the replies of N = shape[0] streams stand, by name, i32[N, T].

    row: the number of the reply's row among those of its stream, K = R / N of each, in the order of
    `rows_by_stream`. begin, end: its first position, and the one behind its last; both 0 where the
    agent did not reply. Summaries are no replies.
    """
    rows = rows_by_stream(rows, shape[0])
    there = rows.loss_mask & (rows.turn >= 0)
    if rows.span is not None:
        there &= rows.span != SUMMARY
    count, size = there.shape[1:]
    turn = jnp.where(there, rows.turn, shape[1])  # dropped
    place = jnp.broadcast_to(jnp.arange(count * size).reshape(count, size), there.shape)
    stream = jnp.broadcast_to(jnp.arange(shape[0])[:, None, None], there.shape)
    empty = jnp.zeros(shape, jnp.int32)
    last = empty.at[stream, turn].max(place, mode="drop")
    begin = jnp.full(shape, count * size).at[stream, turn].min(place, mode="drop")
    some = begin < count * size
    return {
        "row": jnp.where(some, last // size, 0),
        "begin": jnp.where(some, begin % size, 0),
        "end": jnp.where(some, last % size + 1, 0),
    }


def trunk_of(vocabulary: int, hidden: int, layers: int) -> DecoderConfig:
    """A transformer of critics of tokens below `vocabulary`; hidden: width, a multiple of 4."""
    return DecoderConfig(
        vocab_size=vocabulary, width=hidden, layers=layers, heads=2, kv_heads=2,
        head_dim=hidden // 2, hidden=2 * hidden,
    )  # fmt: skip


class TextCritics(NamedTuple):
    """`UtteranceCritics` of a language policy's replies: a place of the replay is an episode.

    A causal transformer reads the tokens of the rows. V_j of a turn is a head's output at the last
    token of what the policy read before its reply, Q_j another's at the last token of the reply;
    each head has two outputs, j = 1, 2, and two layers in front of them. In context "whole" one
    pass says all of an episode.

    Each draw of an episode brings one new reply of the policy, at one of its turns, drawn evenly:
    V is fitted there, Q at all turns.

    config: of the transformer. head: of values. agent: the policy with the size of its replies;
    None where it writes nothing.
    """

    config: DecoderConfig
    head: Embedding
    agent: TextAgent | None

    @classmethod
    def of(
        cls, vocabulary: int, hidden: int, layers: int, agent: TextAgent | None = None
    ) -> "TextCritics":
        """Critics of tokens below `vocabulary`, of width `hidden`, a multiple of 4."""
        return cls(trunk_of(vocabulary, hidden, layers), Embedding(hidden, 2, None), agent)

    def init(self, key: jax.Array) -> dict[str, chex.ArrayTree]:
        trunk, q, v = jax.random.split(key, 3)
        example = jnp.zeros((1, self.config.width))
        return {
            "trunk": decoder.init(trunk, self.config),
            "q": self.head.init(q, example),
            "v": self.head.init(v, example),
        }

    def turns(self, streams: Streams, rows: Rows) -> dict[str, Any]:
        """Episodes [N, ...]: tokens i32[N, K, L], `reply_places`, and reward, over, acted [N, T];
        acted: the turn ended the episode, or another one follows, whose observation is V's."""
        mask = streams.mask
        places = reply_places(rows, mask.shape)
        over = streams.terminated & mask
        return places | {
            "tokens": rows_by_stream(rows, mask.shape[0]).tokens,
            "reward": jnp.where(mask, streams.reward, 0.0),
            "over": over,
            "acted": (over | followed(streams)) & (places["end"] > 0),
        }

    def _states(self, params: Any, tokens: jax.Array) -> jax.Array:
        """The transformer's states at i32[n, L], f32[n, L, D]."""
        return decoder.hidden(params["trunk"], self.config, tokens)

    def _told(self, params: Any, head: str, states: jax.Array) -> jax.Array:
        """A head's outputs at states [..., D], f32[..., 2]."""
        told = self.head.apply(params[head], states.reshape(-1, states.shape[-1]))
        return told.reshape(*states.shape[:-1], 2)

    def values(self, params: Any, turns: Turns) -> tuple[jax.Array, jax.Array]:
        tokens = turns["tokens"]
        states = self._states(params, tokens.reshape(-1, tokens.shape[-1]))
        states = states.reshape(*tokens.shape, -1)
        episode = jnp.arange(tokens.shape[0])[:, None]

        def told(head, last):
            at = states[episode, turns["row"], jnp.maximum(last - 1, 0)]
            return self._told(params, head, at)

        return told("q", turns["end"]), told("v", turns["begin"])

    def next_values(self, params: Any, turns: Turns) -> jax.Array:
        return jnp.roll(self.values(params, turns)[1], -1, axis=1)

    @property
    def _agent(self) -> TextAgent:
        assert self.agent is not None  # of a run
        return self.agent

    def anew(self, acting: chex.ArrayTree, turns: Turns, key: jax.Array) -> Anew:
        """New replies, see `Anew`: what is in front of the turn's reply is read as it was."""
        turn_key, key = jax.random.split(key)
        acted, tokens = turns["acted"], turns["tokens"]
        chance = jax.random.uniform(turn_key, acted.shape)
        turn = jnp.argmax(jnp.where(acted, chance, -1.0), axis=1).astype(jnp.int32)
        number = jnp.arange(turn.shape[0])
        there = acted[number, turn]
        prompt = tokens[number, turns["row"][number, turn]]
        begin = jnp.where(there, turns["begin"][number, turn], 0)
        agent = self._agent
        size, config = agent.layout.reply_tokens, agent.policy.config
        role = jnp.zeros(turn.shape, jnp.int32)
        cache = decoder.empty_cache(config, len(turn), prompt.shape[1] + size)
        last, cache = read(acting, config, cache, prompt, begin, role)
        said = agent.generate(acting, cache, last, key, there, role, False, size=size)
        return Anew(turn, there, prompt, begin, said.replace(cache=None, hidden=None))

    def anew_q(self, params: Any, turns: Turns, said: Anew) -> tuple[jax.Array, jax.Array]:
        """(Q at the turns that have a new reply, those turns)."""
        number, shape = jnp.arange(said.turn.shape[0]), turns["acted"].shape
        last = jnp.maximum(said.begin + said.said.length - 1, 0)
        q = self._told(params, "q", self._states(params, said.tokens)[number, last])
        chosen = said.there[:, None] & (jnp.arange(shape[1]) == said.turn[:, None])
        return jnp.where(chosen[..., None], q[:, None], 0.0), chosen

    def learnt(self, acting: chex.ArrayTree, turns: Turns, said: Anew) -> tuple[Streams, Rows]:
        """Streams [n, T] with one turn each, and their rows [n, L]."""
        policy, there = self._agent.policy, said.inside & said.there[:, None]
        number = jnp.arange(said.turn.shape[0], dtype=jnp.int32)

        def spans(tokens, length):
            text, count = codecs.to_bytes(policy.codec, tokens, length)
            return token_spans(policy, lower(text), count, tokens)

        reply = said.said
        of_reply = jax.vmap(spans)(reply.tokens, reply.length).astype(jnp.int32)
        before = jnp.where(said.offset < 0, OBSERVATION, -1)
        rows = Rows(
            tokens=said.tokens,
            loss_mask=there,
            stream=number,
            turn=jnp.where(there, said.turn[:, None], -1),
            behaviour_logp=said.at_reply(reply.logp, 0.0),
            span=jnp.where(there, said.at_reply(of_reply, 0), before),
            legal=None if reply.kept is None else said.at_reply(reply.kept, True),
            role=jnp.zeros_like(number),
        )
        mask = said.there[:, None] & (jnp.arange(turns["acted"].shape[1]) == said.turn[:, None])
        return bare_turns(mask), rows


def text_critics(setup: Setup, hidden: int, layers: int) -> TextCritics:
    """The critics of a run.

    Raises:
      ValueError: another policy than one transformer, replies that are constrained, several roles
        that write one transcript, or a width that two heads cannot share.
    """
    env, params = next(iter(setup.envs.values()))
    policy, name = setup.policy, "config.components.archer.hidden"
    if not isinstance(policy, LanguagePolicy):
        raise ValueError("component 'archer' in words needs one transformer as the policy")
    if hidden % 4:
        raise ValueError(f"{name}={hidden}: in words, expected a multiple of 4, for two heads")
    if setup.rollout.roles > 1:
        raise ValueError(
            f"component 'archer' in words needs one role; here {setup.rollout.roles} write one "
            "transcript"
        )
    world, turns = World(env, params), setup.rollout.turns
    agent = text_agent(policy, world, setup.context, turns=turns, segments=True)
    if agent.source.constraint is not None:
        raise ValueError(
            "component 'archer' has replies to what was read without the environment's state, "
            "which cannot be constrained: set config.policy.constrained=False, and enforce no "
            "behaviour"
        )
    return TextCritics.of(policy.config.vocab_size, hidden, layers, agent)
