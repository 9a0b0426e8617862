"""Suite `text`: text environment steps per second: render, parse and step, with scripted replies.

One step of one episode: the state is described, packed and rendered to tokens; a uniformly random
legal command is written as tokens; these are expanded to bytes, parsed, and the environment is
stepped with the parsed action. Tokens of observations are summed into the carry, so that no
rendering can be eliminated. Resets are as in suite `envs`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import envs
from agentrl.policies import codec as codecs
from envs.text import make_grammar, parse
from launchers.benchmarks import environments, peers
from launchers.benchmarks.environments import LENGTH, drawing, ready
from launchers.benchmarks.simulator import Simulator
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, interleave


class Case(NamedTuple):
    """An environment in a wording, through a codec."""

    name: str
    wording: str
    codec: str
    options: dict[str, Any]

    @property
    def label(self) -> str:
        """Environment, wording and unit of the tokens, as the first column shows them."""
        return f"{self.name}, {self.wording}, {self.codec}s"


CASES = tuple(
    Case(name, wording, codec, {})
    for name in ("Coin-v1", "Household-v1", "Sokoban-v1", "Shop-v1")
    for wording, codec in (("compact", "word"), ("faithful", "byte"))
)
PEER = "textworld coin collector"


class Words(NamedTuple):
    """Text interface of an environment, for the agent that acts.

    read: (state) -> tokens i32[T] of its description. relay: (state, action) -> the action obtained
    by writing and parsing the command of an action.
    """

    read: Callable[[Any], jax.Array]
    relay: Callable[[Any, jax.Array], jax.Array]


def words(env: Any, params: Any, codec_name: str) -> Words:
    """The interface of an environment of one agent, or of a game in turns."""
    view, grammar = env.view, make_grammar("bare")
    codec = codecs.CODECS[codec_name](view)
    size = codec.observation_tokens(view)

    def agent_of(state):
        return env.views(state, None, params).agent[0]

    state = jax.eval_shape(env.initial, jax.random.key(0), params)
    width = jax.eval_shape(env.commands_as, state, jnp.int32(0), params).shape[-1]
    reply_size = codecs.reply_tokens(codec, grammar, view, width)

    def read(state):
        return codecs.render(codec, env.describe_as(state, agent_of(state), params), size).tokens

    def say_and_understand(state, action):
        agent = agent_of(state)
        fragments = env.commands_as(state, agent, params)[action]
        said = codecs.replies(codec, grammar, fragments, reply_size)
        text, count = codecs.to_bytes(codec, said.tokens, said.length)
        slots = env.slots_as(state, agent, params)
        return parse(grammar, view, slots, text, count).actions[0]

    return Words(read, say_and_understand)


def simulator(case: Case, batch: int) -> Simulator:
    """The environment behind its text, as a simulator of the environment suite."""
    env, params = envs.make(case.name, wording=case.wording, **case.options)
    through = words(env, params, case.codec)
    return environments.ours(
        env,
        params,
        batch,
        environments.FIRST,
        observe=jax.vmap(through.read),
        relay=jax.vmap(through.relay),
    )


def run(
    plan: Plan, *, with_peers: bool, batches: Sequence[int], cases: Sequence[Case] = CASES
) -> dict[str, Any]:
    """Measures: {"rows", "skipped", "length"}."""
    rows, skipped = [], []
    for batch in batches:
        contenders: list[tuple[str, Ready]] = []
        for case in cases:
            contenders.append((case.label, ready(simulator(case, batch), batch)))
            env, params = envs.make(case.name, **case.options)
            if case.wording == "compact":
                plain = environments.ours(env, params, batch, environments.FIRST)
                contenders.append((f"{case.name}, without text", ready(plain, batch)))
                if plain.drawn:
                    contenders.append((f"{case.name}, tasks", drawing(env, params, plain.drawn)))
        if with_peers:
            try:
                contenders.append((PEER, peers.textworld_coin(LENGTH)))
            except peers.MissingError as error:
                skipped.append(str(error))
        timings = interleave(contenders, plan)
        peer = next((t for t in timings if t.name == PEER), None)
        for timing in timings:
            row = {"environment": timing.name, "batch": batch, **timing.record()}
            row["range"] = spread(row["rate_low"], row["rate_high"])
            if peer is not None and timing is not peer:
                row["ratio_to_peer"] = timing.rate / peer.rate
            rows.append(row)
    return {"rows": rows, "skipped": list(dict.fromkeys(skipped)), "length": LENGTH}


COLUMNS = (
    ("environment", ""),
    ("batch", ","),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_peer", ",.0f"),
    ("mean_episode_steps", ".1f"),
    ("compile_seconds", ".1f"),
)


def report(result: dict[str, Any]) -> str:
    """Steps per second of each environment in words, as a Markdown table."""
    title = f"Text environment steps/s (rate), {result['length']} steps a call, median and range"
    return table(title, COLUMNS, result["rows"])
