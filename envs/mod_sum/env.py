"""ModSum-v1: choose a team for a task: how many workers, of which kind."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.mod_sum import rules
from envs.mod_sum.rules import KINDS, Graph, Workers

AXES = ("depth", "horizon", "breadth", "parallel", "robustness")


@struct.dataclass
class ModSumState(EnvState):
    """graph: the task. answered, correct: bool[], a team was chosen, and made no mistake."""

    graph: Graph
    answered: jax.Array
    correct: jax.Array


@struct.dataclass
class TeamParams(EnvParams):
    """Reliability and cost of workers, see `envs.mod_sum.rules.Workers`.

    price: of a unit of cost, subtracted from the reward.
    """

    right: float = 0.98
    tired: float = 0.8
    cap: int = 4
    handed: float = 0.99
    checker: float = 0.9
    call: float = 1.0
    operation: float = 0.1
    price: float = 0.0

    @property
    def workers(self) -> Workers:
        """The workers' values as the argument that `envs.rules` take."""
        return Workers(*(getattr(self, name) for name in Workers._fields))


@struct.dataclass
class ModSumParams(TeamParams):
    """low: the team has one worker."""

    max_steps_in_episode: int = 1
    low: bool = False


@dataclasses.dataclass(frozen=True)
class ModSum(Environment):
    """One decision builds a team for a task of dependent sums; then simulated workers carry it out.

    A task has `nodes` (fewest, most) nodes in `parts` graphs without edges in between, at most
    `breadth` parents per node, and `tampered` (fewest, most) wrong constants; see
    `envs.mod_sum.rules.draw`. A team of k workers takes equal runs of nodes. An operation succeeds
    with probability `right`, beyond a worker's first `cap` ones with `right` times `tired`; a value
    that another worker needs is lost with probability 1 - `handed`. Kinds: "solo"; "vote", three
    draws and a majority; "reflect", a second attempt if a checker complains; "verify", which
    repairs tampered constants. A tampered constant that nobody verifies makes the result wrong.

    Observation: float32, the five axes of MASBENCH over 12 (depth: nodes on the longest chain;
    horizon: values that are asked for, all of them; breadth: largest number of parents; parallel:
    separate graphs; robustness: tampered constants), and whether `low` holds. Actions: teams of 1
    to `workers` of each kind. Illegal: more workers than nodes, and more than one if `low`. Reward:
    1 if no operation failed, less `price` times the cost. Ends with the decision.

    Success counts mistakes, not the answer: two mistakes that cancel are a failure, so that the
    expected success is a product, `envs.mod_sum.rules.accuracy`.

    Expert: the best expected reward, in closed form.

    Source: MAS-Orchestra and MASBENCH (code read): one action is the whole team, and the axes; the
    task and the simulated workers are ours. There a team is a graph of agents, each with a text of
    its own; here its size and one kind for all.
    """

    nodes: tuple[int, int] = (2, 12)
    parts: tuple[int, int] = (1, 1)
    breadth: int = 1
    chained: float = 1.0
    tampered: tuple[int, int] = (0, 0)
    workers: int = 4
    modulus: int = 7

    wordings: ClassVar[str] = "envs.mod_sum.words"
    costly_reset: ClassVar[bool] = False
    default_params: ClassVar[ModSumParams] = ModSumParams()

    def __post_init__(self):
        rules.check_tasks(
            self.nodes, self.parts, self.tampered, breadth=self.breadth, chained=self.chained
        )
        if not 1 <= self.workers <= 8:
            raise ValueError(f"workers {self.workers}: expected 1 to 8")

    @property
    def action_names(self) -> tuple[str, ...]:
        """Teams of one worker of each kind, then of two, and so on."""
        return tuple(f"{k} {kind}" for k in range(1, self.workers + 1) for kind in KINDS)

    def initial(self, key: jax.Array, params: ModSumParams) -> ModSumState:
        """A task whose numbers of nodes, parts and tampered constants are uniform."""
        graph = rules.drawn(
            key, self.nodes, self.parts, self.tampered,
            breadth=self.breadth, chained=self.chained, modulus=self.modulus,
        )  # fmt: skip
        no = jnp.zeros((), bool)
        return ModSumState(time=jnp.zeros((), jnp.int32), graph=graph, answered=no, correct=no)

    def team(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(number of workers, kind) of an action, i32[] each."""
        return action // len(KINDS) + 1, action % len(KINDS)

    def transition(
        self, key: jax.Array, state: ModSumState, action: jax.Array, params: ModSumParams
    ) -> tuple[ModSumState, jax.Array]:
        """The workers carry it out: every operation, and every value that is handed over."""
        size = self.nodes[1]
        chance, handed, cost = rules.chances(state.graph, *self.team(action), params.workers)
        drawn = jax.random.uniform(key, (size + size * size,))
        kept = (drawn[size:] < params.handed) | (np.arange(size * size) >= handed)
        correct = jnp.all(drawn[:size] < chance) & jnp.all(kept)
        state = state.replace(answered=jnp.ones((), bool), correct=correct)
        return state, correct - params.price * cost

    def observe(self, state: ModSumState, params: ModSumParams) -> jax.Array:
        """The axes over 12, and `low`."""
        axes = rules.axes(state.graph)
        seen = [axes[name] / 12.0 for name in AXES]
        return jnp.stack([*seen, jnp.asarray(params.low)]).astype(jnp.float32)

    def is_terminated(self, state: ModSumState, params: ModSumParams) -> jax.Array:
        return state.answered

    def is_success(self, state: ModSumState, params: ModSumParams) -> jax.Array:
        return state.correct

    def legal(self, state: ModSumState, params: ModSumParams) -> jax.Array:
        """Teams of at most as many workers as nodes; with `low`, of one."""
        size, _ = self.team(np.arange(self.num_actions))
        return size <= jnp.where(params.low, 1, state.graph.count)

    def expected(self, state: ModSumState, params: ModSumParams) -> tuple[jax.Array, jax.Array]:
        """(chance of success, reward) that each team is expected to have, f32[num_actions]."""

        def of(action):
            team, workers = self.team(action), params.workers
            _, _, cost = rules.chances(state.graph, *team, workers)
            chance = rules.accuracy(state.graph, *team, workers)
            return chance, chance - params.price * cost

        return jax.vmap(of)(jnp.arange(self.num_actions))

    def expert(self, state: ModSumState, params: ModSumParams) -> jax.Array:
        """The legal team with the highest expected reward."""
        _, reward = self.expected(state, params)
        best = jnp.argmax(jnp.where(self.legal(state, params), reward, -jnp.inf))
        return best.astype(jnp.int32)

    def render(self, state: ModSumState, params: ModSumParams) -> str:
        """One line per node: what it is the sum of, and its value."""
        graph = jax.tree.map(np.asarray, state.graph)
        value = np.asarray(rules.values(state.graph, self.modulus))
        lines = []
        for j in range(int(graph.count)):
            terms = [str(graph.shown[j]), *(f"v{i}" for i in np.flatnonzero(graph.edges[:, j]))]
            mark = " (tampered)" if graph.shown[j] != graph.constants[j] else ""
            lines.append(f"v{j} = {' + '.join(terms)} = {value[j]}{mark}")
        return "\n".join(lines)
