"""AgentGraph-v1: build a graph of agents for a task, who does what and who reads whom."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.agent_graph import rules
from envs.agent_graph.rules import Team
from envs.environment import Environment, EnvState
from envs.mod_sum import rules as mod_sum
from envs.mod_sum.env import TeamParams
from envs.mod_sum.rules import KINDS, Graph


@struct.dataclass
class AgentGraphState(EnvState):
    """graph: the task. count: i32[], agents so far. kind, share, layer: i32[A], of each agent its
    kind, number of nodes and layer. reads: bool[A, A]. level: i32[], the layer of the next agent.
    round: i32[], teams that have worked. reason: i32[], what the last one was
    (`envs.agent_graph.rules.REASONS`). began: i32[], the time when it had worked. wrong: bool[H],
    nodes of which it had wrong values. correct: bool[]."""

    graph: Graph
    count: jax.Array
    kind: jax.Array
    share: jax.Array
    layer: jax.Array
    reads: jax.Array
    level: jax.Array
    round: jax.Array
    reason: jax.Array
    began: jax.Array
    wrong: jax.Array
    correct: jax.Array


@struct.dataclass
class AgentGraphParams(TeamParams):
    """reading: cost of an edge. invalid: reward of a graph that is not valid. dense: weight of the
    density above its bound, which is `easy` for tasks of up to 3 nodes, `medium` up to 6, `hard`
    for larger ones."""

    max_steps_in_episode: int = 8
    reading: float = 0.2
    invalid: float = 0.0
    dense: float = 0.0
    easy: float = 0.35
    medium: float = 0.6
    hard: float = 0.9


@dataclasses.dataclass(frozen=True)
class AgentGraph(Environment):
    """Edits build a graph of agents for a task of dependent sums; then it works and answers.

    Tasks are drawn as in ModSum-v1 (`nodes`, `parts`, `breadth`, `chained`, `tampered`); the
    question is the sum of the nodes on which no other depends, modulo `modulus`, a prime. An agent
    takes the next nodes in order, and knows their values and those of the agents that it reads.
    What it does not know, or what is lost on the way, is guessed; mistakes go on as wrong values
    (`envs.agent_graph.rules.execute`). The one agent that nobody reads answers.

    Observation: float32, the axes of MASBENCH over 12, the task's edges, the team so far, and of
    the last team whether it was valid and which nodes it had wrong. With several rounds the number
    of tampered constants is not told. Actions: add an agent of a kind that takes the next 0 to
    `nodes` nodes and reads a set of agents; drop an agent, whose nodes the later ones take; with
    `layered`, begin the next layer, and an agent reads earlier layers only; run. Illegal: a fifth
    agent (`agents` is 4), more nodes than are left, dropping whom there is not, an empty layer;
    with `forward`, reading who is not there yet, so that there are no cycles and loops. What else
    makes a graph invalid `envs.agent_graph.rules.valid` finds when it runs.

    Reward, with run: 1 for the right answer, less `price` times the cost and `dense` times what the
    density is above its bound; `invalid` for an invalid graph. Ends with the right answer, or after
    `rounds` teams; a new round begins with nobody. What a later round gains is what it is paid,
    since there is one only after a wrong answer. A round has an equal part of the limit, which is
    twice `agents` steps per round: after its last edit the team works as it is.

    A guess is right with probability 1 / `modulus`; above chance the accuracy is a product.

    Expert: of the teams of k agents of one kind with equal runs of nodes and the edges needed the
    one with the best expected reward. With several rounds it believes the constants at first, and
    then knows them.

    Source: MAS-Orchestra (code read) for validity and one reply with the whole team, MasHost and
    AgentConductor (2025, 2026; neither code nor equations could be read) for edits that add an
    agent with its edges, and for layers, density by difficulty and rounds. The world is ours.
    """

    nodes: tuple[int, int] = (2, 6)
    parts: tuple[int, int] = (1, 1)
    breadth: int = 1
    chained: float = 1.0
    tampered: tuple[int, int] = (0, 0)
    agents: int = 4
    modulus: int = 7
    rounds: int = 1
    layered: bool = False
    forward: bool = True

    wordings: ClassVar[str] = "envs.agent_graph.words"
    costly_reset: ClassVar[bool] = False
    # As many as a reply may have.
    foresees: ClassVar[int] = 1 << 30

    def __post_init__(self):
        mod_sum.check_tasks(
            self.nodes, self.parts, self.tampered, breadth=self.breadth, chained=self.chained
        )
        if not 1 <= self.agents <= 6:
            raise ValueError(f"agents {self.agents}: expected 1 to 6")
        if self.modulus not in (2, 3, 5, 7, 11, 13) or self.rounds < 1:
            raise ValueError(
                f"modulus {self.modulus}, rounds {self.rounds}: expected a prime up to 13, and 1 "
                "or more"
            )

    @property
    def default_params(self) -> AgentGraphParams:
        return AgentGraphParams(max_steps_in_episode=2 * self.agents * self.rounds)

    @property
    def sets(self) -> np.ndarray:
        """The sets of agents that one can read, bool[2^A, A], in the order of the actions."""
        return (np.arange(2**self.agents)[:, None] >> np.arange(self.agents)) % 2 > 0

    @property
    def num_adds(self) -> int:
        """Number of actions that add an agent; those after them drop one each, then the others."""
        return len(KINDS) * (self.nodes[1] + 1) * 2**self.agents

    @property
    def action_names(self) -> tuple[str, ...]:
        """`solo 3 <1 <2` and so on, `drop 1` and so on, with layers `layer`, then `run`."""
        sets = ["".join(f" <{a + 1}" for a in np.flatnonzero(row)) for row in self.sets]
        shares = range(self.nodes[1] + 1)
        adds = (f"{kind} {n}{read}" for kind in KINDS for n in shares for read in sets)
        drops = (f"drop {a + 1}" for a in range(self.agents))
        return (*adds, *drops, *(["layer"] if self.layered else []), "run")

    def add(self, kind: jax.Array, share: jax.Array, reads: jax.Array) -> jax.Array:
        """The action that adds an agent; reads: bool[A]."""
        number = jnp.sum(jnp.where(reads, 2 ** np.arange(self.agents), 0))
        return ((kind * (self.nodes[1] + 1) + share) * 2**self.agents + number).astype(jnp.int32)

    def initial(self, key: jax.Array, params: AgentGraphParams) -> AgentGraphState:
        """A task whose numbers of nodes, parts and tampered constants are uniform."""
        graph = mod_sum.drawn(
            key, self.nodes, self.parts, self.tampered,
            breadth=self.breadth, chained=self.chained, modulus=self.modulus,
        )  # fmt: skip
        size = self.nodes[1]
        zero = jnp.zeros((), jnp.int32)
        return AgentGraphState(
            time=zero, graph=graph, **self.nobody(), round=zero, reason=zero, began=zero,
            wrong=jnp.zeros(size, bool), correct=jnp.zeros((), bool),
        )  # fmt: skip

    def nobody(self) -> dict[str, jax.Array]:
        """The fields of a state that say who is in the team, without anybody."""
        none = jnp.zeros(self.agents, jnp.int32)
        reads = jnp.zeros((self.agents, self.agents), bool)
        zero = jnp.zeros((), jnp.int32)
        return {"count": zero, "kind": none, "share": none, "layer": none, "reads": reads,
                "level": zero}  # fmt: skip

    def team(self, state: AgentGraphState) -> Team:
        """The team that a state describes: who is there, of which kind, with which nodes, and who
        reads whom."""
        active = np.arange(self.agents) < state.count
        share = jnp.where(active, state.share, 0)
        end = jnp.cumsum(share)[:, None]
        node = np.arange(self.nodes[1])
        assign = (node < end) & (node >= end - share[:, None])
        return Team(active, state.kind, assign, state.reads, state.layer if self.layered else None)

    def edited(self, state: AgentGraphState, action: jax.Array) -> AgentGraphState:
        """The state after an agent was added or dropped, or a layer begun, or as it is."""
        place, sets = np.arange(self.agents), 2**self.agents
        adds = action < self.num_adds
        kind, share = action // sets // (self.nodes[1] + 1), action // sets % (self.nodes[1] + 1)
        new = adds & (place == state.count)
        reads = (action % sets >> place) % 2 > 0
        victim = jnp.where(adds, self.agents, action - self.num_adds)
        drops = victim < self.agents
        # Later agents move up, and the last place is empty.
        order = jnp.where(drops & (place >= victim), jnp.minimum(place + 1, self.agents - 1), place)
        count = state.count + adds - drops
        left = place < count

        def moved(values, value):
            return jnp.where(left, jnp.where(new, value, values[order]), 0)

        kept = state.reads[order][:, order] & ~(drops & (place == self.agents - 1))
        starts = self.layered & (victim == self.agents)
        return state.replace(
            count=count,
            kind=moved(state.kind, kind),
            share=moved(state.share, share),
            layer=moved(state.layer, state.level),
            reads=jnp.where(new[:, None], reads, kept) & left[:, None],
            level=state.level + (starts & ~adds),
        )

    def transition(
        self, key: jax.Array, state: AgentGraphState, action: jax.Array, params: AgentGraphParams
    ) -> tuple[AgentGraphState, jax.Array]:
        """An edit; or the team works, and a team that is wrong makes room for another."""
        runs = self.works(state, action, params)
        edited = self.edited(state, action)
        team = self.team(edited)
        ok, reason = rules.valid(team, state.graph.count)
        answer, _, held = rules.execute(key, state.graph, team, params.workers, self.modulus)
        right = ok & (answer == rules.answer_of(state.graph, self.modulus))
        value = mod_sum.values(state.graph, self.modulus)
        own = jnp.any(team.assign & (held == value), axis=0)
        there = np.arange(self.nodes[1]) < state.graph.count
        after = state.replace(
            **self.nobody(), round=state.round + 1, reason=reason, began=state.time + 1,
            wrong=~own & there, correct=right,
        )  # fmt: skip
        charge = self.charge(state.graph.count, team, params)
        reward = jnp.where(ok, right - charge, params.invalid)
        following = jax.tree.map(lambda new, old: jnp.where(runs, new, old), after, edited)
        return following, jnp.where(runs, reward, 0.0)

    def works(
        self, state: AgentGraphState, action: jax.Array, params: AgentGraphParams
    ) -> jax.Array:
        """Whether the team works after an action, bool[]: it is `run`, or the last of its round."""
        last = state.time + 1 - state.began >= params.max_steps_in_episode // self.rounds
        return (action == self.num_actions - 1) | last

    def charge(self, nodes: jax.Array, team: Team, params: AgentGraphParams) -> jax.Array:
        """What is subtracted from the reward of a valid team at a task of so many nodes, f32[]:
        its cost and its density."""
        size, edges = jnp.sum(team.active), jnp.sum(team.reads)
        density = rules.density(size, edges, rules.depth(team), self.agents)
        bound = jnp.select([nodes <= 3, nodes <= 6], [params.easy, params.medium], params.hard)
        cost = rules.cost(team, params.workers, params.reading)
        return params.price * cost + params.dense * jnp.maximum(density - bound, 0.0)

    def expected(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        """Reward that the team as it is has to expect if it runs, f32[], in closed form."""
        return self.worth(state, self.team(state), params)

    def worth(self, state: AgentGraphState, team: Team, params: AgentGraphParams) -> jax.Array:
        """Reward that a team has to expect at the state's task, f32[]."""
        ok, _ = rules.valid(team, state.graph.count)
        _, right = rules.accuracy(state.graph, team, params.workers, self.modulus)
        charge = self.charge(state.graph.count, team, params)
        return jnp.where(ok, right - charge, params.invalid)

    def observe(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        axes = self.axes(state)
        size = self.nodes[1]
        active = np.arange(self.agents) < state.count
        kinds = (state.kind[:, None] == np.arange(len(KINDS))) & active[:, None]
        seen = [
            axes / 12.0,
            state.graph.edges[np.triu_indices(size, 1)],
            active,
            kinds.reshape(-1),
            state.share / size,
            state.reads.reshape(-1),
            jnp.append(state.layer, state.level) / self.agents,
            jnp.stack([state.round / self.rounds, state.reason != rules.OK]),
            state.wrong,
        ]
        return jnp.concatenate([jnp.asarray(x, jnp.float32) for x in seen])

    def axes(self, state: AgentGraphState) -> jax.Array:
        """The task's axes as the agent is told them, i32[5]."""
        axes = mod_sum.axes(state.graph)
        told = axes["robustness"] if self.rounds == 1 else 0 * axes["robustness"]
        return jnp.stack([*(axes[n] for n in ("depth", "horizon", "breadth", "parallel")), told])

    def is_terminated(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        return state.correct | (state.round >= self.rounds)

    def is_success(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        return state.correct

    def legal(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        """See the class; `run` always is."""
        place = np.arange(self.agents)
        room = state.count < self.agents
        left = state.graph.count - jnp.sum(state.share)
        shares = np.arange(self.nodes[1] + 1) <= left
        there = place < state.count
        earlier = there & ((state.layer < state.level) | (not self.layered))
        readable = jnp.all(~self.sets | earlier | (not self.forward), axis=1)
        adds = room & shares[:, None] & readable
        adds = jnp.broadcast_to(adds, (len(KINDS), *adds.shape)).reshape(-1)
        filled = jnp.any(there & (state.layer == state.level)) & room
        others = [filled[None]] if self.layered else []
        return jnp.concatenate([adds, there, *others, jnp.ones(1, bool)])

    def planned(
        self, state: AgentGraphState, agents: jax.Array, kind: jax.Array
    ) -> AgentGraphState:
        """The state with this many agents of a kind, equal runs of nodes and the edges needed."""
        share, reads, layer = rules.equal_runs(state.graph, agents, self.agents)
        kinds = jnp.where(np.arange(self.agents) < agents, kind, 0)
        return state.replace(
            count=agents, kind=kinds, share=share, reads=reads, layer=layer * self.layered,
            level=0 * agents,
        )  # fmt: skip

    def target(self, state: AgentGraphState, params: AgentGraphParams) -> AgentGraphState:
        """The state with the expert's team."""
        shown = state.graph.shown
        unknown = (self.rounds > 1) & (state.round == 0)
        believed = jnp.where(unknown, shown, state.graph.constants)
        state = state.replace(graph=state.graph._replace(constants=believed))
        number = np.arange(self.agents * len(KINDS))

        def of(i):
            agents = jnp.minimum(i // len(KINDS) + 1, state.graph.count)
            planned = self.planned(state, agents, i % len(KINDS))
            return self.expected(planned, params), planned

        reward, planned = jax.vmap(of)(number)
        best = jnp.argmax(reward)
        return jax.tree.map(lambda x: x[best], planned)

    def expert(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        """The next edit towards the best team: what does not belong to it is dropped, the last
        first."""
        goal = self.target(state, params)
        there = np.arange(self.agents) < state.count
        names = ("kind", "share", "layer")
        same = jnp.all(jnp.stack([getattr(state, n) == getattr(goal, n) for n in names]), axis=0)
        same = same & jnp.all(state.reads == goal.reads, axis=1)
        strays = jnp.any(there & ~same) | (state.count > goal.count)
        at = jnp.minimum(state.count, self.agents - 1)
        add = self.add(goal.kind[at], goal.share[at], goal.reads[at])
        higher = self.layered & (state.level < goal.layer[at])
        run = self.num_actions - 1
        build = jnp.where(state.count == goal.count, run, jnp.where(higher, run - 1, add))
        return jnp.where(strays, self.num_adds + state.count - 1, build).astype(jnp.int32)

    def marginals(self, state: AgentGraphState, params: AgentGraphParams) -> jax.Array:
        """What each agent of a team adds to the expected reward, f32[A]: that of the team less that
        of the team without the agent and its edges, whose nodes nobody calculates."""
        whole = self.expected(state, params)

        def without(a):
            stays = np.arange(self.agents) != a
            team = self.team(state)
            team = team._replace(
                active=team.active & stays,
                assign=team.assign & stays[:, None],
                reads=team.reads & stays[:, None] & stays,
            )
            return self.worth(state, team, params)

        there = np.arange(self.agents) < state.count
        rest = jnp.stack([without(a) for a in range(self.agents)])
        return jnp.where(there, whole - rest, 0.0)

    def edit_marginals(
        self, state: AgentGraphState, params: AgentGraphParams, actions: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(marginal f32[T], added bool[T]) of the edits of an episode of one round from its first
        state: what the agent that an edit added is worth to the team that ran, 0 if it was dropped
        before and for other edits. actions: i32[T], illegal ones and -1 edit nothing; mask:
        bool[T], the turns that were taken."""
        place = np.arange(self.agents)
        run = self.num_actions - 1

        def edit(carry, now):
            state, author = carry
            action, turn, taken = now
            fits = taken & self.is_legal(state, action, params)
            edits = fits & (action != run)
            following = self.edited(state, action)
            drops = action - self.num_adds
            gone = (drops >= 0) & (place >= drops)
            moved = author[jnp.where(gone, jnp.minimum(place + 1, self.agents - 1), place)]
            author_now = jnp.where((place == state.count) & (drops < 0), turn, moved)
            pick = lambda new, old: jnp.where(edits, new, old)  # noqa: E731
            carry = jax.tree.map(pick, (following, author_now), (state, author))
            return carry, (fits, edits & (drops < 0))

        turns = jnp.arange(actions.shape[0])
        none = jnp.full(self.agents, -1)
        (last, author), (fits, added) = jax.lax.scan(edit, (state, none), (actions, turns, mask))
        worth = jnp.where(place < last.count, self.marginals(last, params), 0.0)
        # An illegal command at the limit lets nobody work.
        final = turns + 1 >= params.max_steps_in_episode // self.rounds
        ran = jnp.any(fits & ((actions == run) | final))
        found = jnp.sum(jnp.where(author == turns[:, None], worth, 0.0), axis=1)
        return jnp.where(ran, found, 0.0), added

    def foreseen(
        self, state: AgentGraphState, action: jax.Array
    ) -> tuple[AgentGraphState, jax.Array]:
        """Edits have no chance in them; what comes of `run` has to be seen."""
        return self.edited(state, action), action != self.num_actions - 1

    def render(self, state: AgentGraphState, params: AgentGraphParams) -> str:
        """The nodes with what they add up, then the agents in the words of the actions."""
        edges, shown = np.asarray(state.graph.edges), np.asarray(state.graph.shown)
        lines = []
        for j in range(int(state.graph.count)):
            terms = [str(shown[j]), *(f"v{i + 1}" for i in np.flatnonzero(edges[:, j]))]
            lines.append(f"v{j + 1} = {' + '.join(terms)}")
        for a in range(int(state.count)):
            read = "".join(f" <{b + 1}" for b in np.flatnonzero(np.asarray(state.reads)[a]))
            lines.append(f"{a + 1}: {KINDS[int(state.kind[a])]} {int(state.share[a])}{read}")
        if int(state.round):
            end = "right" if bool(state.correct) else rules.REASONS[int(state.reason)] + ", wrong"
            lines.append(f"round {int(state.round)}: {end}")
        return "\n".join(lines)
