"""Suite `serve`: a server under many clients, and what it writes beside transformers.

The first table is of `launchers.benchmarks.serve`; this is the second one, at the same batch.

As many clients as rows ask for replies of one length to prompts of one length, each over HTTP, all
at the same time; transformers generates the same in one batch, in the same process and without a
server. Both read the prompts and sample at temperature 1. The decoder is the small one of suite
`llm` with random weights: a reply of the server ends early once in 64, which is not counted.
"""

import concurrent.futures
import contextlib
import functools
import http.client
import json
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from agentrl.policies import decoder
from agentrl.policies.sampling import Sampling
from agentrl.serving.engine import Engine
from agentrl.serving.served import Served
from launchers.benchmarks import serve
from launchers.benchmarks.llm import SHAPES, Sizes, peer_of
from launchers.benchmarks.peers import MissingError
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, interleave

OURS, PEER = "agentrl, server", "transformers, generate"


def run(
    plan: Plan,
    *,
    with_peers: bool,
    clients: int = 64,
    requests: int = 10_000,
    rows: tuple[int, ...] = (8, 32),
) -> dict[str, Any]:
    """Both tables. rows: batches of the second one."""
    crowd = serve.run(clients=clients, requests=requests)
    return {**crowd, "beside": beside(plan, with_peers=with_peers, rows=rows)}


def beside(plan: Plan, *, with_peers: bool, rows: tuple[int, ...]) -> dict[str, Any]:
    """{"rows", "skipped"}: tokens/s at each number of rows."""
    config, out, skipped = SHAPES["tiny"], [], []
    for count in rows:
        sizes = Sizes(count, 64, 32, 64)
        with _server(config, sizes) as call:
            contenders = [(OURS, Ready(call, float(count * sizes.written)))]
            if with_peers:
                try:
                    contenders.append((PEER, peer_of(config, sizes, sizes)["write"]))
                except MissingError as error:
                    skipped.append(str(error))
            timings = interleave(contenders, plan)
        theirs = {timing.name: timing.rate for timing in timings}.get(PEER)
        for timing in timings:
            row = {"rows": count, **timing.record(), "range": spread(*timing.rates)}
            if timing.name == OURS and theirs:
                row["ratio_to_peer"] = timing.rate / theirs
            out.append(row)
    return {"rows": out, "skipped": list(dict.fromkeys(skipped))}


def report(result: dict[str, Any]) -> str:
    """The tables of a result."""
    second = result["beside"]
    columns = [
        ("rows", ""),
        ("name", ""),
        ("rate", ",.0f"),
        ("range", ""),
        ("ratio_to_peer", ".2f"),
    ]
    text = table("serve: tokens/s that are written, prompts included", columns, second["rows"])
    skipped = [f"skipped: {what}" for what in second["skipped"]]
    return "\n".join([serve.report(result), "", text, *skipped])


@contextlib.contextmanager
def _server(config: decoder.DecoderConfig, sizes: Sizes) -> Iterator[Any]:
    """A call by which all clients ask once, and wait for their replies."""
    from agentrl.serving.app import application, listening  # which need an extra

    length, end = sizes.prompt + sizes.written, config.vocab_size - 1
    params = decoder.init(jax.random.key(0), config)
    served = Served(
        name="small",
        params=params,
        config=config,
        end=end,
        pieces=[b"x"] * config.vocab_size,
        encode=lambda text: [],
        prompt=lambda messages: [],
        sampling=Sampling(),
        row_tokens=length,
        reply_tokens=sizes.written,
    )
    engine = Engine(
        params, config, end_token=end, slots=sizes.rows, size=length, waiting=sizes.rows
    )
    engine.start()
    rng = np.random.default_rng(0)
    prompts = rng.integers(1, config.vocab_size, (sizes.rows, sizes.prompt)).tolist()
    with (
        listening(application(served, engine)) as url,
        concurrent.futures.ThreadPoolExecutor(sizes.rows) as pool,
    ):
        ask = functools.partial(_ask, url.removeprefix("http://"))
        yield lambda: list(pool.map(ask, prompts))
    engine.close()


def _ask(address: str, prompt: list[int]) -> None:
    connection = http.client.HTTPConnection(address, timeout=120)
    body = json.dumps({"model": "small", "prompt": prompt, "temperature": 1})
    connection.request("POST", "/v1/completions", body)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the server answered {answer.status}: {said.decode()}")
