"""Suite `llm`: prefill, decoding and training of a decoder, relative to the machine's limits.

Shapes: "tiny" everywhere; Qwen2.5's 0.5B and 1.5B with random weights on accelerators. bfloat16
there, float32 on a CPU; trained weights are float32.

  read    prompts into an empty cache. write: tokens after them at temperature 1. learn: a step of
  AdamW on log-probabilities of whole rows, for all weights and for adapters of rank 16 on frozen
  weights; on a GPU also with cuDNN's attention. Only logits are recomputed.

Tokens per second; mfu: share, in percent, of the rate of one large matrix product measured here, in
useful operations: 2 per weight and token forward, 6 for a step, 4 for one of adapters, whose
backward pass skips the weights; attention's own products, the adapters' and recomputation are not
counted. bandwidth: for writing, share of the rate at which a large array is summed here, in bytes
of weights and of the average content of the cache; not for "tiny", which fits caches. memory: of
the compiled program, arguments included. transformers in PyTorch runs beside it, in the same
process, without adapters.

A second table: loading of published files, see `launchers.benchmarks.loading`.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from agentrl.policies import decoder, generation, scoring
from agentrl.policies.chunks import in_chunks
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.sampling import Sampling
from agentrl.policies.scoring import join, split
from launchers.benchmarks import loading
from launchers.benchmarks.generation import weights_per_token
from launchers.benchmarks.llama import llama
from launchers.benchmarks.peers import MissingError
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, compiled, interleave

OURS, PEER = "agentrl", "transformers"
QWEN = DecoderConfig(
    vocab_size=151936, width=896, layers=24, heads=14, kv_heads=2, head_dim=64, hidden=4864,
    rope_theta=1e6, qkv_bias=True,
)  # fmt: skip
SHAPES: Mapping[str, DecoderConfig] = {
    "tiny": DecoderConfig(vocab_size=2048, width=256, layers=4, heads=8, kv_heads=2, hidden=704),
    "qwen2.5-0.5b": QWEN,
    "qwen2.5-1.5b": dataclasses.replace(
        QWEN, width=1536, layers=28, heads=12, head_dim=128, hidden=8960
    ),
}


# 149 million parameters, of which 29 million are the embedding.
LOADED = dataclasses.replace(QWEN, vocab_size=32768, layers=8)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Rows of a batch, and tokens that each reads, writes and learns from."""

    rows: int
    prompt: int
    written: int
    learnt: int


SMALL, LARGE = Sizes(8, 64, 32, 64), Sizes(64, 512, 128, 1024)


def _limits(dtype: str, size: int) -> list[tuple[str, Ready]]:
    """A matrix product of size^3, and the sum of a large array: operations and bytes per second."""
    a = jnp.ones((size, size), dtype)
    long = jnp.ones(16 * size * size, dtype)
    multiply, product_seconds = compiled(jax.jit(jnp.matmul), a, a)
    add, sum_seconds = compiled(jax.jit(lambda x: jnp.sum(x, dtype=jnp.float32)), long)
    return [
        ("product", Ready(lambda: multiply(a, a).block_until_ready(), 2.0 * size**3,
                          product_seconds)),
        ("sum", Ready(lambda: add(long).block_until_ready(), float(long.nbytes), sum_seconds)),
    ]  # fmt: skip


def _ready(executable: Any, seconds: float, carry: Any, rest: Sequence[Any], work: int) -> Ready:
    """Calls (carry, *rest) -> (carry, ...) with the carry donated."""
    m = executable.memory_analysis()
    # Results that alias arguments take no memory of their own.
    size = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes
    memory = {"memory_mib": (size + m.temp_size_in_bytes) / 2**20}

    def call():
        nonlocal carry
        carry, *out = executable(carry, *rest)
        jax.block_until_ready(out or carry)

    return Ready(call, float(work), seconds, lambda: memory)


def _speaking(config: DecoderConfig, sizes: Sizes) -> dict[str, Ready]:
    """Prefill and decoding."""
    params = decoder.init(jax.random.key(0), config)
    params = jax.tree.map(lambda x: x.astype(config.dtype), params)
    rows = sizes.rows
    tokens = jax.random.randint(jax.random.key(1), (rows, sizes.prompt), 0, config.vocab_size)

    def read(cache, params, tokens):
        cache = cache.replace(length=jnp.zeros_like(cache.length))
        count = jnp.full(rows, tokens.shape[1], jnp.int32)
        hidden, cache = decoder.extend(params, config, cache, tokens, count)
        return cache, hidden[:, -1]

    def write(carry, params, key):
        cache, hidden = carry
        begun = cache.replace(length=jnp.full_like(cache.length, sizes.prompt))
        out = generation.generate(
            params,
            config,
            begun,
            hidden,
            key,
            sampling=Sampling(),
            max_new_tokens=sizes.written,
            end_token=-1,  # no token: every row writes to the limit
            active=jnp.ones(rows, bool),
        )
        return (out.cache, out.hidden), out.tokens

    def empty():
        return decoder.empty_cache(config, rows, sizes.prompt + sizes.written)

    made = {}
    executable, seconds = compiled(jax.jit(read, donate_argnums=0), empty(), params, tokens)
    made["read"] = _ready(executable, seconds, empty(), (params, tokens), rows * sizes.prompt)
    carry = executable(empty(), params, tokens)
    rest = params, jax.random.key(2)
    executable, seconds = compiled(jax.jit(write, donate_argnums=0), carry, *rest)
    made["write"] = _ready(executable, seconds, carry, rest, rows * sizes.written)
    return made


def supervised(config: DecoderConfig, sizes: Sizes, rank: int) -> Ready:
    """A step of AdamW; rank 0: of all weights."""
    config = dataclasses.replace(config, lora_rank=rank)
    params = decoder.init(jax.random.key(0), config)
    if rank:
        adapters = params.pop("lora")
        params = jax.tree.map(lambda x: x.astype(config.dtype), params) | {"lora": adapters}
    names = tuple(name for name in params if name != "lora") if rank else ()
    trained, frozen = split(params, names)
    transform = optax.adamw(1e-6)
    shape = sizes.rows, sizes.learnt + 1
    tokens = jax.random.randint(jax.random.key(1), shape, 0, config.vocab_size)

    def loss(trained, frozen, tokens):
        params = join(trained, frozen)
        hidden = decoder.hidden(params, config, tokens[:, :-1])

        def score(hidden, tokens):
            logits = decoder.unembed(params, config, hidden)
            return scoring.score_logits(logits, tokens)[0]

        logp = in_chunks(score, hidden, tokens[:, 1:], width=config.vocab_size)
        return -jnp.mean(logp)

    def step(carry, frozen, tokens):
        trained, state = carry
        value, grads = jax.value_and_grad(loss)(trained, frozen, tokens)
        updates, state = transform.update(grads, state, trained)
        return (optax.apply_updates(trained, updates), state), value

    carry = trained, transform.init(trained)
    executable, seconds = compiled(jax.jit(step, donate_argnums=0), carry, frozen, tokens)
    return _ready(executable, seconds, carry, (frozen, tokens), sizes.rows * sizes.learnt)


def peer_of(config: DecoderConfig, sizes: Sizes, learning: Sizes) -> dict[str, Ready]:
    """transformers: a forward pass without gradients, `generate`, and a step of AdamW.

    Writing includes prefill, as in `generate`. On an accelerator the step computes under autocast.
    """
    torch, model = llama(config, pad=0, end=None)
    device = "cuda" if torch.cuda.is_available() and jax.default_backend() == "gpu" else "cpu"
    model.to(device)
    kind = torch.bfloat16 if config.dtype == "bfloat16" else torch.float32
    rows = sizes.rows
    prompt = torch.randint(1, config.vocab_size, (rows, sizes.prompt), device=device)
    shape = learning.rows, learning.learnt
    learnt = torch.randint(1, config.vocab_size, shape, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def finish():
        if device == "cuda":
            torch.cuda.synchronize()

    def at(precision):
        return torch.autocast(device, dtype=precision, enabled=precision != torch.float32)

    def read():
        model.eval()
        with torch.inference_mode(), at(kind):
            model(prompt, logits_to_keep=1)
        finish()

    def write():
        model.eval()
        options = {"max_new_tokens": sizes.written, "min_new_tokens": sizes.written, "top_k": 0}
        with torch.inference_mode(), at(kind):
            model.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=True, **options
            )
        finish()

    def learn():
        model.train()
        with at(kind):
            loss = model(learnt, labels=learnt).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        finish()

    return {
        "read": Ready(read, float(rows * sizes.prompt)),
        "write": Ready(write, float(rows * sizes.written)),
        "learn": Ready(learn, float(learnt.numel())),
    }


def _row(task: str, timing: Any, config: DecoderConfig, sizes: Sizes, limits: dict) -> dict:
    row = {"task": task, **timing.record(), "range": spread(*timing.rates)}
    weights = weights_per_token(config)
    per_token = {"read": 2, "write": 2, "learn": 6, "learn, cudnn": 6, "learn adapters": 4}[task]
    row["mfu_percent"] = 100 * timing.rate * per_token * weights / limits["product"]
    if task == "read":
        # Logits are not computed.
        useful = weights - config.width * config.vocab_size
        row["mfu_percent"] *= useful / weights
    if task == "write":
        item = jnp.dtype(config.dtype).itemsize
        cached = 2 * config.layers * config.kv_heads * config.head_dim
        held = sizes.rows * (sizes.prompt + sizes.written / 2) * cached
        bytes_a_step = item * (weights + held)
        rate = timing.rate / sizes.rows * bytes_a_step
        row["bandwidth_percent"] = 100 * rate / limits["sum"]
    return row


def run(
    plan: Plan,
    *,
    with_peers: bool,
    shapes: Sequence[str] | None = None,
    loaded: tuple[DecoderConfig, Sequence[loading.Case]] = (LOADED, loading.CASES),
) -> dict[str, Any]:
    """Measures. {"rows", "loads", "skipped", "limits" of the machine}.

    shapes: default by the backend. loaded: the cases of the loading benchmark.
    """
    accelerated = jax.default_backend() != "cpu"
    if shapes is None:
        shapes = tuple(SHAPES) if accelerated else ("tiny",)
    dtype = "bfloat16" if accelerated else "float32"
    measured = interleave(_limits(dtype, 8192 if accelerated else 1024), plan)
    limits = {timing.name: timing.rate for timing in measured}
    out, skipped = [], []
    for name in shapes:
        config = dataclasses.replace(SHAPES[name], dtype=dtype)
        sizes = SMALL if name == "tiny" else LARGE
        learning = dataclasses.replace(sizes, rows=8)
        makers = {
            OURS: functools.partial(_ours, config, sizes, learning),
            **({PEER: functools.partial(peer_of, config, sizes, learning)} if with_peers else {}),
        }
        contenders, tasks = [], []
        for program, make in makers.items():
            try:
                for task, ready in make().items():
                    contenders.append((program, ready))
                    tasks.append(task)
            except MissingError as error:
                skipped.append(str(error))
        timings = interleave(contenders, plan)
        peer = {t: x.rate for t, x in zip(tasks, timings, strict=True) if x.name == PEER}
        for task, timing in zip(tasks, timings, strict=True):
            row = _row(task, timing, config, sizes, limits) | {"shape": name}
            if name == "tiny":
                row.pop("bandwidth_percent", None)
            as_theirs = task.partition(",")[0]
            if timing.name == OURS and as_theirs in peer:
                row["ratio_to_peer"] = timing.rate / peer[as_theirs]
            out.append(row)
    loads = loading.run(*loaded)
    return {"rows": out, "loads": loads, "skipped": skipped, "limits": limits}


def _ours(config: DecoderConfig, sizes: Sizes, learning: Sizes) -> dict[str, Ready]:
    made = _speaking(config, sizes) | {"learn": supervised(config, learning, 0)}
    if jax.default_backend() == "gpu":
        flash = dataclasses.replace(config, attention="cudnn")
        made["learn, cudnn"] = supervised(flash, learning, 0)
    return made | {"learn adapters": supervised(config, learning, 16)}


COLUMNS = (
    ("shape", ""),
    ("task", ""),
    ("name", ""),
    ("rate", ",.0f"),
    ("range", ""),
    ("mfu_percent", ".0f"),
    ("bandwidth_percent", ".0f"),
    ("memory_mib", ",.0f"),
    ("ratio_to_peer", ".2f"),
    ("compile_seconds", ".1f"),
)


LOAD_COLUMNS = (
    ("name", ""),
    ("seconds", ".2f"),
    ("files_mib", ",.0f"),
    ("arrays_mib", ",.0f"),
    ("largest_mib", ",.0f"),
    ("above_mib", ",.0f"),
)


def report(result: dict[str, Any]) -> str:
    """The measurements as a Markdown table, one per row, under a title with their sizes."""
    limits = result["limits"]
    title = (
        f"Decoders (rate: tokens/s; this machine: {limits['product'] / 1e9:,.0f} gigaflops, "
        f"{limits['sum'] / 1e9:,.1f} GB/s)"
    )
    loads = table("Loading as float32", LOAD_COLUMNS, result["loads"])
    return f"{table(title, COLUMNS, result['rows'])}\n\n{loads}"
