"""Language policies: a decoder with a codec, a reply grammar and a sampling method."""

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import gathered
from agentrl.policies import decoder, lora
from agentrl.policies.chunks import in_chunks, where_needed
from agentrl.policies.codec import CODECS, Codec, vocabulary
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.decoder_config import PROJECTIONS
from agentrl.policies.formulas import Formula, parse
from agentrl.policies.output_heads import ENTRY as HEADS
from agentrl.policies.sampling import Sampling
from agentrl.policies.scoring import Adapters, Scored, score_logits
from agentrl.streams import Rows
from envs.text import Grammar, View, make_grammar

if TYPE_CHECKING:
    from envs.agents import Agents

ALPHA = 16.0
# Entries of params that are frozen when adapters are trained.
WEIGHTS = ("embed_tokens", "layers", "norm", "lm_head")


class LanguagePolicy(NamedTuple):
    """A policy over text as pure functions and tables.

    init: (key) -> params. config: the decoder's. codec: between the environment's fragments,
    tokens and bytes. grammar: format of a reply. sampling: sampling method, which is part of the
    policy's definition. constrained: only tokens that continue a currently legal command can be
    drawn. behaviour: specification of the turns of an episode; enforce: only replies after which it
    can still be kept can be drawn. has_critic: the decoder has a value head. bind: (view) -> the
    codec of another environment's text, with the same tokens.
    load: (sharding=None) -> published initial weights, the frozen part of params or all but value
    heads, sharded as by `huggingface.load`; None: there are none. frozen: entries of params that
    are not trained. shares_opening: all rows that it scores begin with its codec's opening, which
    is computed once; False if rows are of several environments.
    """

    init: Callable[[jax.Array], chex.ArrayTree]
    config: DecoderConfig
    codec: Codec
    grammar: Grammar
    sampling: Sampling
    constrained: bool
    has_critic: bool
    bind: Callable[[View], Codec]
    load: Callable[..., chex.ArrayTree] | None = None
    frozen: tuple[str, ...] = ()
    shares_opening: bool = True
    behaviour: Formula | None = None
    enforce: bool = True

    def on(self, view: View) -> "LanguagePolicy":
        """The same policy on another environment's text. ValueError if words are missing."""
        return self._replace(codec=self.bind(view))

    @property
    def cuts(self) -> bool:
        """Whether some tokens may have probability 0 (top-k, top-p, min-p, constrained replies).

        Rows then have a sampling mask (`Rows.legal`).
        """
        sampling = self.sampling
        cut = sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
        return self.constrained or (self.behaviour is not None and self.enforce) or cut

    @property
    def reads_text(self) -> Literal[True]:
        """True: it reads and writes text. A `Policy` over arrays has False."""
        return True

    @property
    def kind(self) -> Literal["language"]:
        """Its kind, as components name those that they need."""
        return "language"

    @property
    def num_answers(self) -> int:
        """0: it has no head for the belief question, which it is asked in words."""
        return 0

    @property
    def adapters(self) -> Adapters:
        """The decoder's low-rank adapters."""
        config = self.config
        apart = config.lora_rank and not config.lora_blocks and "lora" not in self.frozen
        return Adapters(adapters_of(config), config.lora_roles, config.lora_roles if apart else 1)

    @property
    def heads(self) -> dict[str, int]:
        """The decoder's heads, by the option that sets their number."""
        return {"heads": self.config.heads, "kv_heads": self.config.kv_heads}

    @property
    def attention(self) -> str:
        """How the decoder computes its attention."""
        return self.config.attention

    def memory(self, batch: int) -> None:
        """None: what it has read is in its context, which its actor keeps."""

    def within(self, env: "Agents") -> "LanguagePolicy":
        """The policy as it acts in an environment. ValueError if words are missing."""
        return self.on(env.view)

    def elsewhere(self, env: "Agents", played: Iterable[str]) -> "LanguagePolicy":
        """The same in an environment that it was not trained in."""
        return self.within(env)

    def among_several(self) -> "LanguagePolicy":
        """The policy whose rows are of several environments, each with an opening of its own."""
        return self._replace(shares_opening=False)

    def step_counts(self, trained: Iterable[jax.Array]) -> dict[str, jax.Array]:
        """What is counted of an optimizer step beside the step: the tokens that it learns from.

        trained: the mask of each source's rows, bool[R, L].
        """
        return {"trained_tokens": sum(jnp.sum(mask) for mask in trained) * 1.0}

    @property
    def outputs(self) -> dict[str, Callable[..., jax.Array]]:
        """What the policy says of rows beside `score`: nothing."""
        return {}

    def score(self, params: chex.ArrayTree, rows: Rows, needed: jax.Array | None = None) -> Scored:
        """Log-probability, entropy and value at each position; 0 at the first, which has no prefix.

        needed: bool[R, L], positions whose scores are needed; the others' are 0. Most positions
        have been read, and are neither needed nor cheap: logits are the largest product of a small
        model with a large vocabulary.

        The distribution is the one that was sampled from: the same temperature and the recorded
        sampling mask (rows.legal). At the sampling parameters, these log-probabilities therefore
        equal the behaviour's. Logits of large batches are computed in chunks, see
        `agentrl.policies.chunks`.
        """
        config, read, told = self.config, rows.tokens[:, :-1], rows.tokens[:, 1:]
        given = rows.legal, rows.output_head, needed
        legal, of_head, needed = (None if x is None else x[:, 1:] for x in given)
        said_by = ("embed_tokens", "lm_head", HEADS)
        head = gathered({name: params[name] for name in said_by if name in params})

        def scored(hidden, tokens, legal, of_head, needed):
            value = jnp.zeros(hidden.shape[:2])
            if self.has_critic:
                value = decoder.values(params, config, hidden)[..., 0]
            arrays, width = (hidden, tokens, legal, of_head), config.vocab_size
            if needed is None:
                out = in_chunks(functools.partial(of_logits, head), *arrays, width=width)
            else:
                out = where_needed(of_logits, head, *arrays, needed=needed, width=width)
            return Scored(*out, value)

        def of_logits(head, hidden, tokens, legal, of_head):
            logits = decoder.unembed(head, config, hidden, of_head) / self.sampling.temperature
            if legal is not None:
                logits = jnp.where(legal, logits, -jnp.inf)
            return score_logits(logits, tokens)

        def finished(x):
            x = x if needed is None else jnp.where(needed, x, 0.0)
            return jnp.pad(x, ((0, 0), (1, 0)))

        shared = self.shared_positions(rows.tokens.shape[1])
        if not shared:
            role = rows.role if rows.speaker is None else rows.speaker[:, :-1]
            hidden = decoder.hidden(params, config, read, role=role)
            out = scored(hidden, told, legal, of_head, needed)
            return jax.tree.map(finished, out)
        opening = jnp.asarray(self.codec.opening, jnp.int32)
        first, rest = decoder.hidden_after(params, config, opening[:shared], read[:, shared:])
        # Outside of replies nothing is cut from the distribution, and nothing is of one head.
        some = None if needed is None else jnp.any(needed[:, :shared], axis=0, keepdims=True)
        first = scored(first, opening[None, 1 : shared + 1], None, None, some)
        after = (told, legal, of_head, needed)
        after = [None if x is None else x[:, shared:] for x in after]
        rest = scored(rest, *after)

        def together(first, rest):
            first = jnp.broadcast_to(first, (rest.shape[0], shared))
            return finished(jnp.concatenate([first, rest], axis=1))

        return jax.tree.map(together, first, rest)

    def shared_positions(self, length: int) -> int:
        """Leading positions of rows of this length whose forward pass all rows share."""
        config, opening = self.config, self.codec.opening
        # The last token of the opening predicts another token in each row, and the last one of a
        # row none.
        fits = 1 < len(opening) < length
        each_role = config.lora_rank and config.lora_roles > 1
        alike = self.shares_opening and not each_role and config.attention != "cudnn"
        return len(opening) - 1 if alike and fits else 0


def check_speech(grammar: Grammar, critic: str, constrained: bool) -> None:
    """ValueError for an unknown critic, or for a grammar that cannot be constrained."""
    if critic not in ("none", "shared"):
        raise ValueError(f"policy critic={critic!r}: expected 'none' or 'shared'")
    if constrained and (grammar.think == "required" or grammar.max_actions > 1):
        raise ValueError(
            f"policy constrained=True with grammar {grammar.name!r}: thoughts and lists of actions "
            "are free text; use grammar='bare', or think='none' and max_actions=1"
        )


def specified(behaviour: str, enforce: bool, grammar: Grammar) -> Formula | None:
    """The formula of a specification, None for "". ValueError: not a formula, or not of a reply
    with one command; nothing to enforce."""
    if not behaviour and not enforce:
        raise ValueError("policy enforce=False without a behaviour: leave it out, or set one")
    if behaviour and grammar.max_actions > 1:
        raise ValueError(
            f"policy behaviour with max_actions={grammar.max_actions}: a turn has one command; set "
            "policy.max_actions=1"
        )
    return parse(behaviour) if behaviour else None


def check_adapters(rank: int, alpha: float, targets: tuple[str, ...]) -> None:
    """ValueError if alpha or targets of LoRA adapters are set while their rank is 0."""
    if rank == 0 and (alpha != ALPHA or tuple(targets) != PROJECTIONS):
        raise ValueError(
            f"policy lora_alpha={alpha}, lora_targets={targets} with lora_rank=0, which has no "
            "adapters: set the rank, or leave them out"
        )


def adapters_of(config: DecoderConfig) -> tuple[str, ...]:
    """Entries of the parameters that are adapters."""
    sizes = (config.lora_rank, config.lora_blocks, config.lora_added)
    return tuple(name for name, size in zip(lora.ENTRIES, sizes, strict=True) if size)


def frozen_entries(config: DecoderConfig, train: tuple[str, ...]) -> tuple[str, ...]:
    """Entries of the parameters that are frozen: with adapters all weights, and those adapters that
    are not among `train`, if any are named; with output heads the matrix that they differ from.

    Raises:
      ValueError: adapters to train that there are not.
    """
    found = adapters_of(config)
    if not set(train) <= set(found):
        raise ValueError(
            f"policy lora_train={train}: expected some of the adapters {', '.join(found) or 'none'}"
        )
    kept = tuple(name for name in found if train and name not in train)
    if found:
        return (*WEIGHTS, *kept)
    own = "embed_tokens" if config.tie_embeddings else "lm_head"
    return (own,) if config.output_heads else ()


def _codec_binding(
    views: tuple[View, ...], codec: str, words: tuple[str, ...]
) -> Callable[[View], Codec]:
    """(view) -> codec, with the same tokens for each of the views. ValueError for wrong options."""
    if codec not in CODECS:
        raise ValueError(f"policy codec={codec!r}: expected one of {', '.join(CODECS)}")
    if codec == "word":
        return functools.partial(CODECS[codec], texts=vocabulary(*views), words=words)
    if words:
        raise ValueError(
            f"policy words={words!r} with codec={codec!r}, which has tokens for any text: leave it "
            "out"
        )
    return CODECS[codec]


def transformer(
    view: View,
    *others: View,
    codec: str = "word",
    words: tuple[str, ...] = (),
    grammar: str = "bare",
    think: str = "default",
    max_actions: int = 0,
    width: int = 128,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int = 4,
    hidden: int = 512,
    critic: str = "none",
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    constrained: bool = False,
    behaviour: str = "",
    enforce: bool = True,
    remat: bool | None = None,
    unroll: int | None = None,
    decode_unroll: int | None = None,
    output_heads: int = 0,
    head_weights: tuple[float, ...] = (),
    lora_rank: int = 0,
    lora_alpha: float = ALPHA,
    lora_targets: tuple[str, ...] = PROJECTIONS,
    lora_roles: int = 1,
    lora_blocks: int = 0,
    lora_profiles: tuple[str, ...] = (),
    lora_added: int = 0,
    lora_added_for: tuple[int, ...] = (),
    lora_train: tuple[str, ...] = (),
) -> LanguagePolicy:
    """A decoder trained from scratch on an environment's text.

    others: further views whose words get tokens, for `LanguagePolicy.on`.

    Args:
      codec: "word" (one token per fragment) or "byte". words: further texts for which codec "word"
        has a token, as contexts and injected texts need them.
      grammar, think, max_actions: format of replies, see `envs.text.make_grammar`.
      width, layers, heads, kv_heads, hidden: sizes; heads divide the width, kv_heads the heads.
      critic: "none", or "shared": a value head, read at the last token before the reply.
      temperature, top_k, top_p, min_p: see `agentrl.policies.sampling.Sampling`.
      constrained: draw only tokens that continue a legal command (without required thoughts, or
        with a behaviour).
      behaviour: specification of the turns of an episode, see `agentrl.policies.formulas`, such as
        "(before search answer) (always think)"; "": none. enforce: draw only replies after which it
        can still be kept; False: only count those after which it cannot.
      remat, unroll, decode_unroll: see `agentrl.policies.decoder_config.DecoderConfig`.
      output_heads, head_weights: heads on frozen output embeddings (config.init_from), and their
        weights in the mixture that is sampled from, see `agentrl.policies.output_heads`; (): equal.
      lora_rank, ...: as in `agentrl.policies.pretrained`, on frozen parameters (config.init_from).

    Raises:
      ValueError: invalid options.
    """
    bind = _codec_binding((view, *others), codec, tuple(words))
    if width % heads:
        raise ValueError(f"policy width={width}: expected a multiple of heads={heads}")
    rules = make_grammar(grammar, think=think, max_actions=max_actions, view=view)
    formula = specified(behaviour, enforce, rules)
    check_speech(rules, critic, constrained and not (formula and enforce))
    check_adapters(lora_rank, lora_alpha, lora_targets)
    bound = bind(view)
    config = DecoderConfig(
        vocab_size=bound.vocab_size,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        hidden=hidden,
        value_heads=0 if critic == "none" else 1,
        output_heads=output_heads,
        head_weights=tuple(head_weights),
        lora_rank=lora_rank,
        lora_alpha=lora_alpha,
        lora_targets=tuple(lora_targets),
        lora_roles=lora_roles,
        lora_blocks=lora_blocks,
        lora_profiles=tuple(lora_profiles),
        lora_added=lora_added,
        lora_added_for=tuple(lora_added_for),
        remat=remat,
        unroll=unroll,
        decode_unroll=decode_unroll,
    )
    return LanguagePolicy(
        init=lambda key: decoder.init(key, config),
        config=config,
        codec=bound,
        grammar=rules,
        sampling=Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        constrained=constrained,
        has_critic=critic != "none",
        bind=bind,
        frozen=frozen_entries(config, tuple(lora_train)),
        behaviour=formula,
        enforce=enforce,
    )
