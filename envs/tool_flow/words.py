"""The question, the memory and the turn in words, for each module."""

import jax.numpy as jnp

from envs.research.rules import TOPICS
from envs.text import Lexicon, View, template
from envs.tool_flow.env import EXECUTOR, GENERATOR, PLANNER, TOOLS, VERIFIER, ToolFlow

RULES = (
    "Four modules find the largest value of the facts that are named. The planner is told how many "
    "calls are left and picks a tool; the executor names what is looked up with it; the verifier "
    "reads the result and stops or goes on; the generator says the value. Each tool has some "
    "topics, and may fail. Commands: "
)


def compact(env: ToolFlow) -> View:
    """Planner: `boss 3, heir, | 4 left`. Executor: `boss 3, heir, | with map`. Verifier: `boss 3,
    heir, | heir is 2` or `| nothing`. Generator: `boss 3, heir 2, | say`. With memory=False the
    planner reads the result in place of memory: `boss, heir, | heir is 2 | 4 left`."""
    lexicon = Lexicon()
    names = TOPICS[: env.topics]
    wanted = lexicon.table(f"{name}, " for name in names)
    known = lexicon.table(f"{name} {v}, " for name in names for v in range(env.values))
    results = lexicon.table(f"| {name} is {v} " for name in names for v in range(env.values))
    nothing, say = lexicon("| nothing "), lexicon("| say")
    left = lexicon.table(f"| {n} left" for n in range(env.budget + 1))
    tools = lexicon.table(f"| with {name}" for name in TOOLS[: env.tools])

    def describe(state, params, agent):
        topic = jnp.maximum(state.topic, 0)
        fact = topic * env.values + state.value
        reads = state.found & ((agent != PLANNER) | env.memory)
        memory = jnp.where(reads, jnp.asarray(known)[fact], jnp.asarray(wanted)[topic])
        memory = jnp.where(state.topic >= 0, memory, 0)
        told = jnp.asarray(results)[fact[jnp.maximum(state.result, 0)]]
        told = jnp.where(state.result >= 0, told, nothing)
        # Before the first call there is no result.
        recalled = jnp.where((state.calls > 0) & (not env.memory), told, 0)
        none = jnp.zeros((), told.dtype)
        turn = {
            PLANNER: (recalled, jnp.asarray(left)[env.budget - state.calls]),
            EXECUTOR: (none, jnp.asarray(tools)[state.tool]),
            VERIFIER: (told, none),
            GENERATOR: (none, jnp.asarray(say, told.dtype)),
        }
        own = jnp.stack([jnp.stack(turn[k]) for k in range(4)])[agent]
        return jnp.append(memory, own)

    longest, tool = max(map(len, names)), max(map(len, TOOLS[: env.tools]))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=env.facts[1] + 2,
        max_bytes=env.facts[1] * (longest + 4) + longest + 8 + max(tool + 7, 9),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
