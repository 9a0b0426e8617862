"""Suite `serve`: a server under many clients, some of which behave badly.

A decoder of width 16 with random parameters, letters as tokens, behind a socket of this machine.
Clients, each in a thread, send one request after another: most ask for a seeded reply, whole or as
a stream, which is compared with the one that is generated alone; the others leave in the middle of
a stream, read slowly, or send what is malformed or too long. The memory of this process is taken
after a quarter of the requests and at the end.
"""

import collections
import http.client
import json
import os
import random
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp

import envs
from agentrl import policies
from agentrl.policies import decoder
from agentrl.policies.generation import generate
from agentrl.policies.prefill import read
from agentrl.policies.sampling import Sampling
from agentrl.serving.engine import Engine, reply_key
from agentrl.serving.served import Served
from launchers.benchmarks.tables import table

SIZES = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 2, "hidden": 32}
TOKENS, REPLY, SEEDS, BODY = 64, 24, 50, 20_000
PROMPTS = ((5, 9, 70, 100), (80,) * 20, tuple(range(40, 75)))
# What a client does next, with how many of a hundred requests.
DEEDS = {"whole": 50, "stream": 30, "leaves": 8, "slow": 2, "malformed": 6, "oversized": 4}


def run(*, clients: int, requests: int, slots: int = 16) -> dict[str, Any]:
    """The counts of what became of the requests, requests/s, tokens/s and memory."""
    from agentrl.serving.app import Limits, application, listening  # which need an extra

    served = _served()
    engine = Engine(
        served.params, served.config, end_token=served.end, slots=slots, size=TOKENS, waiting=44
    )
    engine.start()
    expected = _expected(served)
    crowd = _Crowd(expected, requests)
    limits = Limits(body_bytes=BODY, receive_seconds=10, send_seconds=10)
    with listening(application(served, engine, limits=limits)) as url:
        crowd.play(url.removeprefix("http://"), clients)
        for _ in range(100):
            if engine.load() == (0, 0):
                break
            time.sleep(0.05)
        left = engine.load()
    engine.close()
    begun, quarter, end = crowd.times
    return {
        "clients": clients,
        "requests": requests,
        "slots": slots,
        "rows": [{"what": what, "requests": n} for what, n in sorted(crowd.counts.items())],
        "requests_per_second": requests / (end - begun),
        "tokens_per_second": crowd.tokens / (end - begun),
        "memory_mib": [crowd.memory[0], crowd.memory[-1]],
        "growth": crowd.memory[-1] / crowd.memory[0] - 1,
        "left": list(left),
    }


def report(result: dict[str, Any]) -> str:
    """The table of a result."""
    low, high = result["memory_mib"]
    title = (
        f"serve: {result['requests']:,} requests of {result['clients']} clients, "
        f"{result['slots']} slots: {result['requests_per_second']:,.0f} requests/s, "
        f"{result['tokens_per_second']:,.0f} tokens/s; memory {low:,.0f} MiB after a quarter, "
        f"{high:,.0f} at the end ({result['growth']:+.1%}); left in slots and queue: "
        f"{result['left']}"
    )
    return table(title, [("what", ""), ("requests", ",d")], result["rows"])


def _served() -> Served:
    env, _ = envs.make("FrozenLake-v1")
    policy = policies.transformer(env.view, codec="byte", **SIZES)
    params = jax.tree.map(lambda x: 8 * x, policy.init(jax.random.key(0)))
    codec = policy.codec
    lengths = zip(codec.token_bytes, codec.token_lengths, strict=True)
    return Served(
        name="small",
        params=params,
        config=policy.config,
        end=codec.end,
        pieces=[bytes(row[:length]) for row, length in lengths],
        encode=codec.encode,
        prompt=lambda messages: list(codec.encode(messages[-1]["content"])),
        sampling=Sampling(),
        row_tokens=TOKENS,
        reply_tokens=REPLY,
    )


def _expected(served: Served) -> dict[tuple[int, int], list[int]]:
    """The tokens of each (prompt, seed), generated without a server: all seeds in one batch."""

    @jax.jit
    def generated(prompt, length):
        keys = jax.vmap(reply_key)(jnp.arange(SEEDS))
        cache = decoder.empty_cache(served.config, SEEDS, TOKENS)
        rows = jnp.broadcast_to(prompt, (SEEDS, TOKENS))
        count = jnp.full(SEEDS, length)
        hidden, cache = read(served.params, served.config, cache, rows, count)
        how = {"sampling": Sampling(), "max_new_tokens": REPLY, "end_token": served.end}
        active = jnp.ones(SEEDS, bool)
        return generate(served.params, served.config, cache, hidden, keys, active=active, **how)

    out = {}
    for number, prompt in enumerate(PROMPTS):
        padded = jnp.array([*prompt, *[served.end] * (TOKENS - len(prompt))], jnp.int32)
        said = generated(padded, len(prompt))
        for seed in range(SEEDS):
            out[number, seed] = said.tokens[seed, : int(said.length[seed])].tolist()
    return out


class _Crowd:
    """Clients and what became of their requests. times: begin, after a quarter, end."""

    def __init__(self, expected: dict[tuple[int, int], list[int]], requests: int):
        self.expected, self.requests = expected, requests
        self.counts: collections.Counter[str] = collections.Counter()
        self.tokens, self.taken, self.lock = 0, 0, threading.Lock()
        self.memory: list[float] = []
        self.times: list[float] = []

    def play(self, address: str, clients: int) -> None:
        """Starts the clients, each in a thread, and returns when their requests are done."""
        self.times.append(time.monotonic())
        threads = [
            threading.Thread(target=self._client, args=(address, number))
            for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._measure()

    def _measure(self):
        self.memory.append(_resident_mib())
        self.times.append(time.monotonic())

    def _client(self, address: str, number: int) -> None:
        rng = random.Random(number)
        connection = http.client.HTTPConnection(address, timeout=120)
        while True:
            with self.lock:
                self.taken += 1
                if self.taken > self.requests:
                    return connection.close()
                if self.taken == self.requests // 4:
                    self._measure()
            deed = rng.choices(list(DEEDS), list(DEEDS.values()))[0]
            try:
                what = self._do(connection, deed, rng)
            except (OSError, http.client.HTTPException) as error:
                what = f"{deed}: {type(error).__name__}"
                connection.close()
            with self.lock:
                self.counts[what] += 1

    def _do(self, connection: http.client.HTTPConnection, deed: str, rng: random.Random) -> str:
        case = rng.randrange(len(PROMPTS)), rng.randrange(SEEDS)
        given = {
            "model": "small",
            "prompt": PROMPTS[case[0]],
            "seed": case[1],
            "return_token_ids": True,
            "stream": deed in ("stream", "leaves", "slow"),
        }
        body = json.dumps(given).encode()
        if deed == "malformed":
            body = rng.choice([body[:-5], b"[]", b"", b"\xff\xfe", body.replace(b"seed", b"sead")])
        elif deed == "oversized":
            body = body.ljust(2 * BODY) if rng.random() < 0.5 else body.replace(b"[5", b"[5" * 99)
            body = body if len(body) > BODY else body.replace(b"[", b"[" + b"7," * TOKENS, 1)
        connection.request("POST", "/v1/completions", body)
        answer = connection.getresponse()
        if deed == "leaves" and answer.status == 200:
            answer.read(rng.randrange(1, 400))
            connection.close()
            return "leaves: left"
        if deed == "slow" and answer.status == 200:
            time.sleep(0.5)
        said = answer.read()
        if answer.status != 200:
            return f"{deed}: {answer.status}"
        found = _tokens(said, given["stream"])
        with self.lock:
            self.tokens += len(found)
        return f"{deed}: " + ("as alone" if found == self.expected[case] else "OTHER THAN ALONE")


def _tokens(said: bytes, stream: bool) -> list[int]:
    if not stream:
        return json.loads(said)["choices"][0]["token_ids"]
    events = [line.removeprefix(b"data: ") for line in said.split(b"\n\n") if line]
    choices = [json.loads(event)["choices"][0] for event in events[:-1]]
    return sum((choice["token_ids"] for choice in choices), [])


def _resident_mib() -> float:
    """Resident memory of this process; on Linux only."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
