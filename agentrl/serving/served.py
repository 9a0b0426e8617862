"""What is served: a run's language policy, or a published model by itself."""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax

from agentrl.actors.contexts import Context, whole
from agentrl.actors.prompts import Format, format_of, prompt_of
from agentrl.config.tasks import context_of
from agentrl.policies import decoder, huggingface, subwords, tensor_files
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.sampling import Sampling
from agentrl.run.restored import Run
from agentrl.trained.contestants import spoken_of

Messages = Sequence[Mapping[str, str]]

# Tokens of a row of a published model by default; a cache of what such models allow may not fit.
_PUBLISHED_TOKENS = 2048


class Served(NamedTuple):
    """A policy as a server needs it.

    name: the model's id. params, config: of the decoder. end: the token that ends a reply.
    pieces: the bytes of each token, none for control tokens. encode: (text) -> tokens. prompt:
    (messages) -> tokens of the prompt of the next reply; both raise ValueError for what cannot be
    written in tokens. sampling: how replies are sampled where a request does not say. row_tokens:
    of a prompt and its reply. reply_tokens: of a reply, where a request does not say. role: whose
    adapters are used, if each role has its own.
    """

    name: str
    params: decoder.Params
    config: decoder.DecoderConfig
    end: int
    pieces: Sequence[bytes]
    encode: Callable[[str], Sequence[int]]
    prompt: Callable[[Messages], list[int]]
    sampling: Sampling
    row_tokens: int
    reply_tokens: int
    role: int | None = None


def of_run(run: Run, name: str, *, seed: int | None = None, role: int | None = None) -> Served:
    """The language policy of one of a run's seeds (default: the first), as it was trained.

    Prompts are those of the run's context, its first environment's.

    Raises:
      ValueError: a policy over arrays, no such seed or role, or a policy with an adapter for each
        role and no role.
    """
    policy, first = run.experiment.policy, run.config.seed
    if not isinstance(policy, LanguagePolicy):
        raise ValueError(
            "the run's policy reads arrays and writes no text, so it cannot be served: use "
            "launchers.play, where it is a player (--env=... --players=DIR)"
        )
    seed = first if seed is None else seed
    if not 0 <= seed - first < run.config.num_seeds:
        raise ValueError(f"--seed={seed}: the run has seeds {first} to {_last(run)}")
    roles = policy.config.lora_roles
    if (role is None) != (roles == 1) or not 0 <= (role or 0) < roles:
        given = (
            f"0 to {roles - 1}, since each role has adapters of its own" if roles > 1 else "none"
        )
        raise ValueError(f"--role={role}: expected {given}")
    task = next(iter(run.experiment.tasks.values()))
    context = context_of(run.config)
    assert context is not None  # of every language policy
    params = jax.tree.map(lambda x: x[seed - first], run.state.params)
    if task.env.calls_model:  # the context bounds a program's texts
        row_tokens, reply_tokens = context.context_tokens, context.max_new_tokens
    else:
        agent = spoken_of(run, task).agent
        row_tokens, reply_tokens = int(agent.row_tokens), int(agent.layout.reply_tokens)
    sizes = {"row_tokens": row_tokens, "reply_tokens": reply_tokens}
    return of_policy(task.policy, params, context, name, role=role, **sizes)


def of_policy(
    policy: LanguagePolicy,
    params: decoder.Params,
    context: Context,
    name: str,
    *,
    row_tokens: int,
    reply_tokens: int,
    role: int | None = None,
) -> Served:
    """A language policy whose prompts are those of a context; the rest as in `Served`."""
    codec = policy.codec
    form = format_of(codec)
    return Served(
        name=name,
        params=params,
        config=policy.config,
        end=codec.end,
        pieces=[
            bytes(row[:n]) for row, n in zip(codec.token_bytes, codec.token_lengths, strict=True)
        ],
        encode=form.encode,
        prompt=functools.partial(prompt_of, form, context),
        sampling=policy.sampling,
        row_tokens=row_tokens,
        reply_tokens=reply_tokens,
        role=role,
    )


def _last(run: Run) -> int:
    return run.config.seed + run.config.num_seeds - 1


def of_directory(
    directory: str, name: str, *, chat: str = "auto", dtype: str = "float32"
) -> Served:
    """A published model: config.json, safetensors and tokenizer.json in a directory.

    Prompts are written in the model family's format (`agentrl.policies.chat`); a message of
    "system" at the beginning stands in its opening. The templates that models come with are
    programs, which are not executed.

    Raises:
      ValueError: as `huggingface.load` and `subwords.huggingface`.
    """
    path = pathlib.Path(directory)
    tokenizer = subwords.Tokenizer(path)
    config, params = huggingface.load(path, dtype=dtype, param_dtype=dtype)
    control = {*tokenizer.control.values()}

    def framing(rules: str) -> subwords.Framing:
        return subwords.framing(tokenizer, *subwords.chat_of(tokenizer, chat, rules))

    form = Format(*framing(""), tokenizer.encode, lambda rules: framing(rules).opening)
    fields = tensor_files.read_json(tensor_files.inside(path, "config.json"))
    row_tokens = min(_PUBLISHED_TOKENS, fields.get("max_position_embeddings") or _PUBLISHED_TOKENS)
    pieces = [b"" if t in control else piece for t, piece in enumerate(tokenizer.bytes)]
    return Served(
        name=name,
        params=params,
        config=config,
        end=form.end,
        pieces=[*pieces, *[b""] * (config.vocab_size - len(pieces))],
        encode=tokenizer.encode,
        prompt=functools.partial(prompt_of, form, whole()),
        sampling=Sampling(),
        row_tokens=row_tokens,
        reply_tokens=row_tokens,
    )
