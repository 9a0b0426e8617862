"""FunctionGym-v1: identify a hidden function by trying inputs (UserRL's gym)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.function_gym import rules

# The last event that the agent was told about.
EVENTS = (
    *("start", "result", "failed", "refused", "search", "wrong", "right", "finish"),
    *("malformed", "count"),
)
START, RESULT, FAILED, REFUSED, SEARCH, WRONG, RIGHT, FINISH, MALFORMED, COUNT = range(len(EVENTS))


@struct.dataclass
class FunctionGymState(EnvState):
    """function i32[]: its index. case i32[]: the test case, the probe whose result is the answer.

    probes i32[max(memory, 1)]: the latest probes with a result, newest last, -1 for none. searched,
    finished, won bool[]: the case is known; the episode is over; it was answered correctly.
    mistakes i32[]: wrong answers. event u8[]: number in `EVENTS`.
    """

    function: jax.Array
    case: jax.Array
    probes: jax.Array
    searched: jax.Array
    finished: jax.Array
    won: jax.Array
    mistakes: jax.Array
    event: jax.Array


@struct.dataclass
class FunctionGymParams(EnvParams):
    """attempts: number of wrong answers that ends the episode."""

    max_steps_in_episode: int = 12
    attempts: int = 1


@dataclasses.dataclass(frozen=True)
class FunctionGym(Environment):
    """A hidden function; its value at the test case is asked for, which itself cannot be probed.

    With a `modulus` (2 to 10) functions have two numbers 0 to 9, results are taken modulo it, and
    every action is enumerated: 0 search (shows the test case), 1 finish (give up), then the
    `modulus` answers, then 100 probes. With modulus 0 the game is UserRL's: functions of four
    numbers 1 to 10 with floats; only search and finish are enumerated, answers (whole numbers up to
    `largest`, then one for every other answer) and 10^4 probes are written as text, or given as the
    indices that `answer_action` and `probe_action` return.

    Observation: float32, the last event [10] (with a memory the test case counts as a result, since
    it stays visible), the test case once it is known [n * 10], and the latest `memory` probes [n *
    10 each] with their results (indicators of the value, or with modulus 0 sign(v) log(1 + |v|) and
    whether there is one). With memory 0, as in UserRL, the last result and the case are shown only
    directly after they were asked for. Reward: 1 for the right answer, else 0. Ends with it, with
    finish, or with the `attempts`-th wrong answer (1, since ten answers can be tried out; with
    modulus 0 any number, as in UserRL). Probing the test case is refused, and unknown commands are
    illegal; both cost a turn. Limit 12 steps, with modulus 0 20.

    Task: a function of the split (three quarters of all are seen), and a test case whose result is
    a whole number up to `largest`. functions: expressions, see `envs.function_gym.rules`; default:
    48 of our own.

    Expert: search, then the probe that leaves the fewest functions on average, then the answer on
    which all remaining functions agree.
    Source: UserRL's FunctionGym (read), replayed against recorded episodes with their functions. It
    accepts any number as an input or an answer; here only numbers that a command can contain.
    """

    modulus: int = 10
    functions: tuple[str, ...] = ()
    memory: int = 8
    largest: int = 999
    split: str = "seen"

    wordings: ClassVar[str] = "envs.function_gym.words"

    def __post_init__(self):
        if self.modulus != 0 and not 2 <= self.modulus <= 10:
            raise ValueError(f"modulus {self.modulus}: expected 2 to 10, or 0 for UserRL's game")
        if not 0 <= self.memory <= 64 or not 1 <= self.largest <= 10**6:
            raise ValueError(
                f"memory {self.memory} with answers up to {self.largest}: expected 0 to 64 probes "
                "and 1 to 1000000"
            )
        if self.split not in ("seen", "unseen"):
            raise ValueError(f"split {self.split!r}: expected 'seen' or 'unseen'")
        if self.functions and self.split == "unseen" and len(self.functions) < 4:
            raise ValueError(f"{len(self.functions)} functions: a split needs at least 4")
        for expression in self.functions:
            rules.parse(expression, self.variables, self.modulus)

    @property
    def variables(self) -> int:
        """Number of arguments of a function, n."""
        return 2 if self.modulus else 4

    @property
    def tables(self) -> rules.Tables:
        """Values of the functions, computed once."""
        functions = self.functions or (rules.SMALL if self.modulus else rules.FOUR)
        largest = self.modulus - 1 if self.modulus else self.largest
        return rules.tabulate(functions, self.variables, self.modulus, largest)

    @property
    def num_answers(self) -> int:
        """Number of enumerated answers; without a modulus, the last stands for all others."""
        return self.modulus or 2 * self.largest + 2

    @property
    def num_probes(self) -> int:
        """Number of probes, each one setting of all variables to digits: 10 ** variables."""
        return 10**self.variables

    def answer_action(self, value: float) -> int:
        """Action of an answer, on the host. ValueError if there is none."""
        place = round(value) + (0 if self.modulus else self.largest)
        last = self.num_answers - 1
        if abs(value - round(value)) < 1e-6 and 0 <= place <= last - (self.modulus == 0):
            return 2 + place
        if self.modulus:
            raise ValueError(f"answer {value}: expected a whole number 0 to {last}")
        return 2 + last

    def probe_action(self, *numbers: int) -> int:
        """Action of a probe, on the host: 0 to 9 each, or with modulus 0 1 to 10."""
        low = int(self.modulus == 0)
        code = int("".join(str(number - low) for number in numbers))
        return 2 + self.num_answers + code

    @property
    def default_params(self) -> FunctionGymParams:
        """One answer in 12 steps, or UserRL's 20 steps with any number of answers."""
        if self.modulus:
            return FunctionGymParams()
        return FunctionGymParams(max_steps_in_episode=20, attempts=1000)

    @property
    def action_names(self) -> tuple[str, ...]:
        if not self.modulus:
            return ("search", "finish")
        answers = (f"={value}" for value in range(self.modulus))
        return ("search", "finish", *answers, *(f"{p // 10} {p % 10}" for p in range(100)))

    def initial(self, key: jax.Array, params: FunctionGymParams) -> FunctionGymState:
        """A function of the split, and a test case."""
        function_key, case_key = jax.random.split(key)
        numbers = rules.split(len(self.tables.value))[self.split == "unseen"]
        function = jnp.asarray(numbers)[jax.random.randint(function_key, (), 0, len(numbers))]
        cases = jnp.asarray(self.tables.cases)
        case = cases[function, jax.random.randint(case_key, (), 0, cases.shape[1])]
        no = jnp.zeros((), bool)
        return FunctionGymState(
            time=jnp.zeros((), jnp.int32),
            function=function,
            case=case,
            probes=jnp.full(max(self.memory, 1), -1, jnp.int32),
            searched=no,
            finished=no,
            won=no,
            mistakes=jnp.zeros((), jnp.int32),
            event=jnp.zeros((), jnp.uint8),
        )

    def is_legal(
        self, state: FunctionGymState, action: jax.Array, params: FunctionGymParams
    ) -> jax.Array:
        """Enumerated actions, and without a modulus the written ones."""
        last = 2 + self.num_answers + self.num_probes - bool(self.modulus)
        return (action >= 0) & (action <= last)

    def rejected(self, state: FunctionGymState, params: FunctionGymParams) -> FunctionGymState:
        """The event says that the command was not understood."""
        return state.replace(event=jnp.full_like(state.event, MALFORMED))

    def transition(
        self, key: jax.Array, state: FunctionGymState, action: jax.Array, params: FunctionGymParams
    ) -> tuple[FunctionGymState, jax.Array]:
        """Shows a result or the case, or judges an answer."""
        del key
        first_probe = 2 + self.num_answers
        probe = action - first_probe
        probes = (probe >= 0) & (probe < self.num_probes)
        answers = (action >= 2) & (action < first_probe)
        at = jnp.clip(probe, 0, self.num_probes - 1)
        works = jnp.asarray(self.tables.written[..., 0] != 0)[state.function, at]
        expected = jnp.asarray(self.tables.answer)[state.function, state.case]
        lowest = 0 if self.modulus else -self.largest
        right = answers & (action - 2 + lowest == expected)
        if not self.modulus:
            right = right & (action < first_probe - 1)
        tried = jnp.where(works, RESULT, FAILED)
        tried = jnp.where(probe == state.case, REFUSED, tried)
        event = jnp.where(probes, tried, jnp.where(right, RIGHT, WRONG))
        event = jnp.where(action == 0, SEARCH, jnp.where(action == 1, FINISH, event))
        event = jnp.where(probe >= self.num_probes, COUNT, event)
        kept = jnp.append(state.probes[1:], probe)
        mistakes = state.mistakes + (event == WRONG)
        state = state.replace(
            probes=jnp.where(event == RESULT, kept, state.probes),
            searched=state.searched | (event == SEARCH),
            mistakes=mistakes,
            finished=right | (event == FINISH) | (mistakes >= params.attempts),
            won=right,
            event=event.astype(jnp.uint8),
        )
        return state, jnp.where(right, 1.0, 0.0)

    def shown(self, state: FunctionGymState) -> tuple[jax.Array, jax.Array]:
        """The visible (case i32[], probes i32[max(memory, 1)]), -1 for hidden entries."""
        case, probes = state.searched, state.probes >= 0
        if self.memory == 0:
            case, probes = state.event == SEARCH, probes & (state.event == RESULT)
        return jnp.where(case, state.case, -1), jnp.where(probes, state.probes, -1)

    def digits(self, probes: jax.Array) -> jax.Array:
        """Digits of probes i32[..., n], all -1 for -1."""
        places = 10 ** np.arange(self.variables - 1, -1, -1)
        return jnp.where(probes[..., None] < 0, -1, probes[..., None] // places % 10)

    def observe(self, state: FunctionGymState, params: FunctionGymParams) -> jax.Array:
        """Indicators of the event, the case, and the probes with their results."""
        case, probes = self.shown(state)
        digits = self.digits(jnp.append(case, probes))
        tried = (digits[..., None] == np.arange(10)).astype(jnp.float32)
        value = jnp.asarray(self.tables.value)[state.function, jnp.maximum(probes, 0)]
        there = probes >= 0
        if self.modulus:
            results = (value[:, None] == np.arange(self.modulus)) & there[:, None]
        else:
            size = jnp.minimum(jnp.abs(value), 1e30)
            size = jnp.where(there, jnp.sign(value) * jnp.log1p(size), 0.0)
            results = jnp.stack([size, there.astype(jnp.float32)], axis=1)
        # With a memory the event does not say whether the case or a result came last.
        told = jnp.where((state.event == SEARCH) & (self.memory > 0), RESULT, state.event)
        event = np.arange(len(EVENTS), dtype=np.uint8) == told
        parts = [event, tried, results]
        return jnp.concatenate([part.astype(jnp.float32).reshape(-1) for part in parts])

    def is_terminated(self, state: FunctionGymState, params: FunctionGymParams) -> jax.Array:
        """Answered, given up, or too many mistakes."""
        return state.finished

    def is_success(self, state: FunctionGymState, params: FunctionGymParams) -> jax.Array:
        return state.won

    def fingerprint(
        self, state: FunctionGymState, params: FunctionGymParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; of="state" leaves out the last event."""
        if of == "state":
            state = state.replace(event=jnp.zeros_like(state.event))
        return super().fingerprint(state, params, of=of)

    def expert(self, state: FunctionGymState, params: FunctionGymParams) -> jax.Array:
        """Search, probe while the remaining functions disagree about the case, answer."""
        tables = self.tables
        probes = jnp.maximum(state.probes, 0)
        told = jnp.asarray(tables.value)[:, probes]
        same = told == told[state.function]
        left = jnp.all(same | (state.probes < 0), axis=1)
        answers = jnp.asarray(tables.answer)[:, state.case]
        expected = answers[state.function]
        agreed = jnp.all(~left | (answers == expected))
        # Pairs of functions that a probe would not separate.
        weight = left.astype(jnp.float32)
        pairs = jnp.einsum("kfg,f,g->k", jnp.asarray(tables.alike, jnp.float32), weight, weight)
        pairs = jnp.where(tables.tried == state.case, jnp.inf, pairs)
        probe = 2 + self.num_answers + jnp.asarray(tables.tried)[jnp.argmin(pairs)]
        lowest = 0 if self.modulus else -self.largest
        action = jnp.where(agreed, 2 + expected - lowest, probe)
        return jnp.where(state.searched, action, 0).astype(jnp.int32)

    def render(self, state: FunctionGymState, params: FunctionGymParams) -> str:
        """`a*b + 1 at 3 7 | 2 2 -> 5`: the function, the case and what was tried."""
        functions = self.functions or (rules.SMALL if self.modulus else rules.FOUR)
        numbers = rules.inputs(self.variables, self.modulus)
        names = [" ".join(map(str, row)) for row in numbers]
        function = int(state.function)
        tried = [
            f"{names[p]} -> {self.tables.value[function, p]:g}"
            for p in np.asarray(state.probes)
            if p >= 0
        ]
        return " | ".join([f"{functions[function]} at {names[int(state.case)]}", *tried])
