"""Suite `generation`: tokens a second that a decoder writes, beside transformers' `generate`.

The decoder of a policy from scratch: width 128, 4 layers of 4 heads, gated MLP of 512, 512 tokens,
1.1 million parameters, float32. Every row reads 16 tokens and writes 240, drawn at temperature 1,
so that contexts grow to 256. Reading is part of the time.

A share is the part of the time that the matrix products alone would take at the rate of the row
"matrix products": the same products of one token after another, batch by batch, without attention
or anything else. Attention's own products are not counted as useful work.

Large batches are bound by how fast keys and values come from memory, at most 4 KiB a token of
context here. Ours is therefore timed with two heads and one of keys and values for the four of
queries besides (N. Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019,
https://arxiv.org/abs/1911.02150), which read a half and a quarter of them, each beside its own
products.

Where this process has several devices, ours is timed with the batch spread over them too. A CPU is
as many as XLA_FLAGS=--xla_force_host_platform_device_count says; the others use what threads they
find.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from agentrl.policies import decoder, generation
from agentrl.policies.decoder import Cache, DecoderConfig, Params
from agentrl.policies.sampling import Sampling
from launchers.benchmarks.llama import llama
from launchers.benchmarks.peers import MissingError
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, compiled, interleave

CONFIG = DecoderConfig(vocab_size=512)
PROMPT, WRITTEN = 16, 240
OURS, PRODUCTS, PEER = "agentrl", "matrix products", "transformers"
KEYS = {2: ", two heads of keys", 1: ", one head of keys"}


def weights_per_token(config: DecoderConfig) -> int:
    """Multiplications of one token's matrix products, attention's own left out."""
    attention = config.width * config.head_dim * 2 * (config.heads + config.kv_heads)
    block = attention + 3 * config.width * config.hidden
    return config.layers * block + config.width * config.vocab_size


def ours(config: DecoderConfig, batch: int, written: int, devices: int = 1) -> Ready:
    """Prompts read and answered; the cache is donated from call to call."""
    params = decoder.init(jax.random.key(0), config)
    rng = np.random.default_rng(0)
    prompt = jnp.asarray(rng.integers(0, config.vocab_size, (batch, PROMPT)), jnp.int32)

    def answer(params: Params, cache: Cache, key: jax.Array, prompt: jax.Array):
        rows = prompt.shape[0]
        cache = cache.replace(length=jnp.zeros_like(cache.length))
        hidden, cache = decoder.extend(params, config, cache, prompt, jnp.full(rows, PROMPT))
        out = generation.generate(
            params,
            config,
            cache,
            hidden[:, -1],
            jax.random.fold_in(key, jax.lax.axis_index("data") if devices > 1 else 0),
            sampling=Sampling(),
            max_new_tokens=written,
            end_token=-1,  # no token: every row writes to the limit
            active=jnp.ones(rows, bool),
        )
        return out.cache, out.tokens, out.logp, out.entropy

    program = answer
    if devices > 1:
        mesh = jax.make_mesh((devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        rows = P("data")
        program = jax.shard_map(
            answer, mesh=mesh, in_specs=(P(), rows, P(), rows), out_specs=rows, check_vma=False
        )
    cache = decoder.empty_cache(config, batch, PROMPT + written)
    key = jax.random.key(1)
    if devices > 1:
        place = functools.partial(jax.sharding.NamedSharding, mesh)
        params, key = jax.device_put((params, key), place(P()))
        cache, prompt = jax.device_put((cache, prompt), place(rows))
    executable, seconds = compiled(jax.jit(program, donate_argnums=1), params, cache, key, prompt)

    def call():
        nonlocal cache
        cache, *out = executable(params, cache, key, prompt)
        jax.block_until_ready(out)

    return Ready(call, float(batch * written), seconds)


def products(config: DecoderConfig, batch: int, written: int) -> Ready:
    """The matrix products of `written` tokens, each step's input made of the last one's output."""
    params = decoder.init(jax.random.key(0), config)
    layers = [params["layers"][str(i)] for i in range(config.layers)]
    embedding = params["embed_tokens"]["weight"]

    def token(_, x):
        for layer in layers:
            q, k, v = (x @ layer["self_attn"][n]["kernel"] for n in ("q_proj", "k_proj", "v_proj"))
            x = (q + jnp.tile(k + v, config.heads // config.kv_heads)) @ layer["self_attn"][
                "o_proj"
            ]["kernel"]
            mlp = layer["mlp"]
            both = x @ mlp["gate_proj"]["kernel"] + x @ mlp["up_proj"]["kernel"]
            x = both @ mlp["down_proj"]["kernel"]
        logits = x @ embedding.T
        return logits[:, : config.width] + logits[:, -config.width :]

    def run(x):
        return jax.lax.fori_loop(0, written, token, x)

    x = jnp.ones((batch, config.width))
    executable, seconds = compiled(jax.jit(run), x)
    return Ready(lambda: jax.block_until_ready(executable(x)), float(batch * written), seconds)


def transformers(batch: int, written: int) -> Ready:
    """`generate` of a Llama of the same sizes in PyTorch, with its dynamic cache."""
    torch, model = llama(CONFIG, pad=0, end=None)
    model.eval()
    prompt = torch.randint(0, CONFIG.vocab_size, (batch, PROMPT))
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": written, "min_new_tokens": written}

    def call():
        with torch.inference_mode():
            model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)

    return Ready(call, float(batch * written), 0.0, lambda: {"threads": torch.get_num_threads()})


def run(
    plan: Plan, *, with_peers: bool, batches: Sequence[int], written: int = WRITTEN
) -> dict[str, Any]:
    """Measures. {"rows", "skipped", "written", "gigaflops" of the products by batch}."""
    out, skipped, gigaflops = [], [], {}
    # As many heads of keys as of queries, and fewer.
    fewer = {KEYS[n]: dataclasses.replace(CONFIG, kv_heads=n) for n in KEYS if n < CONFIG.heads}
    kinds = {"": CONFIG} | fewer
    devices = jax.device_count()
    for batch in batches:
        # By program: how it is made, and the kind of decoder.
        programs: dict[str, tuple[Callable[[], Ready], str]] = {}
        for kind, config in kinds.items():
            make = functools.partial(ours, config, batch, written)
            programs[OURS + kind] = make, kind
            if devices > 1 and batch % devices == 0:
                spread_out = functools.partial(make, devices)
                programs[f"{OURS}{kind}, {devices} devices"] = spread_out, kind
            programs[PRODUCTS + kind] = functools.partial(products, config, batch, written), kind
        if with_peers:
            programs[PEER] = functools.partial(transformers, batch, written), ""
        contenders = []
        for name, (make, _) in programs.items():
            try:
                contenders.append((name, make()))
            except MissingError as error:
                skipped.append(str(error))
        timings = {timing.name: timing for timing in interleave(contenders, plan)}
        flops = {kind: 2 * weights_per_token(config) for kind, config in kinds.items()}
        gigaflops[batch] = timings[PRODUCTS].rate * flops[""] / 1e9
        for name, timing in timings.items():
            kind = programs[name][1]
            row = {"program": name, "batch": batch, **timing.record()}
            row["range"] = spread(*timing.rates)
            row["gigaflops"] = timing.rate * flops[kind] / 1e9
            row["percent_of_products"] = 100 * timing.rate / timings[PRODUCTS + kind].rate
            # The peer has as many heads of keys as of queries.
            if PEER in timings and name != PEER and kind == "":
                row["ratio_to_peer"] = timing.rate / timings[PEER].rate
            out.append(row)
    return {"rows": out, "skipped": skipped, "gigaflops": gigaflops, "written": written}


COLUMNS = (
    ("program", ""),
    ("batch", ",d"),
    ("rate", ",.0f"),
    ("range", ""),
    ("gigaflops", ".1f"),
    ("percent_of_products", ".0f"),
    ("ratio_to_peer", ".2f"),
    ("compile_seconds", ".1f"),
)


def report(result: dict[str, Any]) -> str:
    """The table."""
    title = f"Writing {result['written']} tokens after {PROMPT} (rate: tokens/s)"
    return table(title, COLUMNS, result["rows"])
