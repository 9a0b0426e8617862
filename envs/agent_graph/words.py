"""Tasks, graphs of agents and edits in words."""

import jax
import jax.numpy as jnp
import numpy as np

from envs.agent_graph import rules
from envs.agent_graph.env import AgentGraph, AgentGraphState
from envs.mod_sum.rules import KINDS
from envs.text import Lexicon, View, template

RULES = (
    "Build a team for a task of steps. You are told each step and those whose results it needs, "
    "the number of doubtful numbers, and the team so far. Add agents, who take the next steps in "
    "order: 'vote 3 <1' adds one of the kind vote that takes three steps and reads agent 1. Kinds: "
    "solo, vote, reflect, verify. An agent knows the results of its own steps and of the agents "
    "that it reads. One agent alone may be read by nobody: it answers. 'drop 2' drops agent 2, "
    "'run' lets the team work. Reading, agents and steps cost."
)


class _Words:
    """Fragments by what they name, of one lexicon, whose order numbers them."""

    def __init__(self, env: AgentGraph):
        self.lexicon = lexicon = Lexicon()
        size = env.nodes[1]
        nodes, places = range(1, size + 1), range(1, env.agents + 1)
        self.nodes = lexicon.table(f" {j}" for j in nodes)
        self.parents = lexicon.table(f"<{j}" for j in nodes)
        self.doubt = lexicon.table(f" doubt {n}:" for n in range(env.tampered[1] + 1))
        self.kinds = lexicon.table(f" {name}" for name in KINDS)
        self.commands = lexicon.table(KINDS)
        self.shares = lexicon.table(f" {n}" for n in range(size + 1))
        self.readers = lexicon.table(f" <{a}" for a in places)
        self.places = lexicon.table(f" {a}" for a in places)
        self.end, self.stage = lexicon(","), lexicon(" /")
        self.faults = lexicon.table(f" {reason};" for reason in rules.REASONS)
        self.wrong = lexicon.table(f" !{j}" for j in nodes)
        lexicon("||")  # an expert writes several commands with it, see `Environment.foresees`

    def slots(self, env: AgentGraph) -> dict[str, np.ndarray]:
        """Of the templates of commands. Shares and sets are in one slot, since a slot's value may
        not be empty, as the set of nobody is."""
        sets = np.tile(np.where(env.sets, self.readers, 0), (env.nodes[1] + 1, 1))
        shares = np.repeat(self.shares, len(env.sets))[:, None]
        tasks = np.concatenate([shares, sets], axis=1)
        return {"kind": self.commands[:, None], "task": tasks, "place": self.places[:, None]}


def _team(words: _Words, env: AgentGraph, state: AgentGraphState) -> jax.Array:
    """The agents so far, fragments: a layer's mark before its first agent, kind, share, whom it
    reads, a comma; at the end the mark of a layer that nobody is in yet."""
    active = np.arange(env.agents) < state.count
    previous = jnp.append(0, state.layer[:-1])
    begins = jnp.where((state.layer > previous) & active, words.stage, 0)
    kind, share = jnp.asarray(words.kinds)[state.kind], jnp.asarray(words.shares)[state.share]
    read = jnp.where(state.reads, jnp.asarray(words.readers), 0)
    commas = jnp.full((env.agents, 1), words.end)
    row = jnp.concatenate([jnp.stack([begins, kind, share], axis=1), read, commas], axis=1)
    last = jnp.max(jnp.where(active, state.layer, 0))
    open_layer = jnp.where(state.level > last, words.stage, 0)
    return jnp.append(jnp.where(active[:, None], row, 0).reshape(-1), open_layer)


def compact(env: AgentGraph) -> View:
    """`1 2<1 3<2 doubt 0: solo 2, vote 1 <1,`; after a round, `wrong 2 3;` or `invalid` before."""
    words, size = _Words(env), env.nodes[1]
    forms = ["{kind}{task}", "drop{place}", *(["layer"] if env.layered else []), "run"]
    templates = tuple(template(words.lexicon, form) for form in forms)

    def describe(state, params):
        there = np.arange(size) < state.graph.count
        links = jnp.where(state.graph.edges.T, jnp.asarray(words.parents), 0)
        nodes = jnp.where(there, jnp.asarray(words.nodes), 0)
        steps = jnp.concatenate([nodes[:, None], links], axis=1)
        told = jnp.where(state.round > 0, jnp.asarray(words.faults)[state.reason], 0)
        mistakes = jnp.where(state.wrong & (state.round > 0), jnp.asarray(words.wrong), 0)
        head = jnp.asarray(words.doubt)[env.axes(state)[-1]]
        team = _team(words, env, state)
        return jnp.concatenate([steps.reshape(-1), mistakes, told[None], head[None], team])

    slots = words.slots(env)
    links = size * (size - 1) // 2
    longest = max(map(len, KINDS)) + 1
    return View(
        lexicon=words.lexicon,
        describe=describe,
        templates=templates,
        slots=lambda state, params: slots,
        max_fragments=2 * size + links + 3 + env.agents * (4 + env.agents),
        max_bytes=3 * size + 3 * links + 4 * size + 16 + 10 + env.agents * (longest + 6 + 12) + 2,
        max_command_bytes=max(map(len, env.action_names)),
        rules=RULES,
    )


WORDINGS = {"compact": compact}
