"""Tasks, graphs of agents and edits in words."""

import jax.numpy as jnp
import numpy as np

from envs.agent_graph import AgentGraph
from envs.rules import agent_graph as rules
from envs.rules.mod_sum import KINDS
from envs.text import Lexicon, View, template

RULES = (
    "Build a team for a task of steps. You are told each step and those whose results it needs, "
    "the number of doubtful numbers, and the team so far. Add agents, who take the next steps in "
    "order: 'vote 3 <1' adds one of the kind vote that takes three steps and reads agent 1. Kinds: "
    "solo, vote, reflect, verify. An agent knows the results of its own steps and of the agents "
    "that it reads. One agent alone may be read by nobody: it answers. 'drop 2' drops agent 2, "
    "'run' lets the team work. Reading, agents and steps cost."
)


def compact(env: AgentGraph) -> View:
    """`1 2<1 3<2 doubt 0: solo 2, vote 1 <1,`; after a round, `wrong 2 3;` or `invalid` before."""
    lexicon = Lexicon()
    size = env.nodes[1]
    nodes = lexicon.table(f" {j + 1}" for j in range(size))
    parents = lexicon.table(f"<{j + 1}" for j in range(size))
    doubt = lexicon.table(f" doubt {n}:" for n in range(env.tampered[1] + 1))
    kinds = lexicon.table(f" {name}" for name in KINDS)
    commands = lexicon.table(KINDS)
    shares = lexicon.table(f" {n}" for n in range(size + 1))
    readers = lexicon.table(f" <{a + 1}" for a in range(env.agents))
    places = lexicon.table(f" {a + 1}" for a in range(env.agents))
    ends, stage = lexicon(","), lexicon(" /")
    faults = lexicon.table(f" {reason};" for reason in rules.REASONS)
    wrong = lexicon.table(f" !{j + 1}" for j in range(size))
    lexicon("||")  # an expert writes several commands with it, see `Environment.foresees`
    forms = ["{kind}{task}", "drop{place}", *(["layer"] if env.layered else []), "run"]
    templates = tuple(template(lexicon, form) for form in forms)

    def describe(state, params):
        there = np.arange(size) < state.graph.count
        links = jnp.where(state.graph.edges.T, jnp.asarray(parents), 0)
        steps = jnp.concatenate([jnp.where(there, jnp.asarray(nodes), 0)[:, None], links], axis=1)
        active = np.arange(env.agents) < state.count
        read = jnp.where(state.reads, jnp.asarray(readers), 0)
        # A new layer is marked before its first agent.
        previous = jnp.append(0, state.layer[:-1])
        begins = jnp.where((state.layer > previous) & active, stage, 0)
        kind, share = jnp.asarray(kinds)[state.kind], jnp.asarray(shares)[state.share]
        row = jnp.concatenate(
            [jnp.stack([begins, kind, share], axis=1), read,
             jnp.full((env.agents, 1), ends)], axis=1
        )  # fmt: skip
        team = jnp.where(active[:, None], row, 0)
        last = jnp.max(jnp.where(active, state.layer, 0))
        open_layer = jnp.where(state.level > last, stage, 0)
        told = jnp.where(state.round > 0, jnp.asarray(faults)[state.reason], 0)
        mistakes = jnp.where(state.wrong & (state.round > 0), jnp.asarray(wrong), 0)
        head = jnp.asarray(doubt)[env.axes(state)[-1]]
        parts = [steps.reshape(-1), mistakes, told[None], head[None], team.reshape(-1)]
        return jnp.concatenate([*parts, open_layer[None]])

    # Shares and sets in one slot, since a slot's value may not be empty, as the set of nobody is.
    sets = np.tile(np.where(env.sets, readers, 0), (size + 1, 1))
    tasks = np.concatenate([np.repeat(shares, len(env.sets))[:, None], sets], axis=1)
    slots = {"kind": commands[:, None], "task": tasks, "place": places[:, None]}
    links = size * (size - 1) // 2
    longest = max(map(len, KINDS)) + 1
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=templates,
        slots=lambda state, params: slots,
        max_fragments=2 * size + links + 3 + env.agents * (4 + env.agents),
        max_bytes=3 * size + 3 * links + 4 * size + 16 + 10 + env.agents * (longest + 6 + 12) + 2,
        max_command_bytes=max(map(len, env.action_names)),
        rules=RULES,
    )


WORDINGS = {"compact": compact}
