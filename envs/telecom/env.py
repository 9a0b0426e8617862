"""Telecom-v1: a support desk and a customer repair a phone, each with tools the other lacks."""

import dataclasses
import types
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.telecom import rules
from envs.telecom.manual import advise
from envs.telecom.rules import USER_TOOLS, World

TRANSFER, CLOSE, NOTHING = (len(rules.TOOLS) + i for i in range(3))
OPEN, CLOSED, TRANSFERRED = range(3)
DESK, USER = range(2)
# tau2-bench's users, as parameters of a scripted one.
PERSONAS = types.MappingProxyType(
    {
        "none": types.MappingProxyType({"follow": 1.0, "precise": 1.0}),
        "easy": types.MappingProxyType({"follow": 0.95, "precise": 0.95}),
        "hard": types.MappingProxyType({"follow": 0.7, "precise": 0.8}),
    }
)


@struct.dataclass
class TelecomState(GameState):
    """State of one call.

    world: phone and line. kind: i32[], the problem. hopeless: bool[], it cannot be solved.
    told, seen: u8[facts], knowledge of desk and user, 1 + value as last shown, 0 for unknown.
    asked: i8[], 1 + tool that the desk last asked for. did: i8[], 1 + tool that the user used then,
    1 + NOTHING for none. pending: bool[], it is the user's turn. end: i8[], OPEN to TRANSFERRED.
    """

    world: World
    kind: jax.Array
    hopeless: jax.Array
    told: jax.Array
    seen: jax.Array
    asked: jax.Array
    did: jax.Array
    pending: jax.Array
    end: jax.Array


@struct.dataclass
class TelecomParams(GameParams):
    """Difficulty of the task and behaviour of a scripted user.

    min_faults, max_faults: number of faults. hopeless: probability of an unsolvable task.
    follow: probability that a scripted user does anything when asked. precise: probability that it
    uses the right tool (else any tool of the same kind), and that it reports each shown fact.
    """

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    min_faults: int = 1
    max_faults: int = 3
    hopeless: float = 0.15
    follow: float = 1.0
    precise: float = 1.0


@dataclasses.dataclass(frozen=True)
class Telecom(TurnGame):
    """A customer calls: no service, mobile data fail or are slow, or pictures cannot be sent.

    Seat 0, the desk, uses the office tools, asks the user to use a phone tool, or ends the call:
    transfer (correct if the task cannot be solved) or close. Seat 1, the user, uses a phone tool,
    or nothing, and the desk is told the result. Each seat knows only what it was shown.

    user: "scripted", the user answers at once, as often and as precisely as `TelecomParams` say
    (`PERSONAS`: always, "easy", "hard"), and seat 1 never acts; "learned", seat 1 acts after each
    request; "solo", the desk has all tools, as in tau2-bench (the script without errors).

    Observation: uint8; kind of call (0 service, 1 data, 2 pictures), abroad, 1 + tool last asked
    for, 1 + tool last used by the user (33 for nothing), then every fact of `rules.FACTS` as the
    seat last saw it, 0 for not yet. Actions: 13 repairs, 10 checks, 7 of the office, transfer,
    close, nothing. All of a seat's actions are legal, so legality reveals nothing; tools that do
    not apply have no effect.

    Reward: 1 for both when the call ends with the goal reached (service and no open bill, excellent
    speed, pictures can be sent) or, in a task that cannot be solved, with a transfer. Limit 40
    steps, 80 with a learned user. Task: kind, and one to three faults of it.

    Expert: follows the support manual by the desk's knowledge; the user does as asked.
    Source: tau2-bench's telecom domain (read); repairs and probes of its recorded tasks are
    replayed. Reduced: communication is requests for tools and their results; customers are
    identified, with one line and one bill; at most three faults at once by default.
    """

    user: str = "scripted"

    num_codes: ClassVar[int] = 34
    costly_reset: ClassVar[bool] = False
    cooperative: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.telecom.words"
    # Tools, then the ends of the call, then nothing.
    action_names: ClassVar[tuple[str, ...]] = (*rules.TOOLS, "transfer", "close", "nothing")

    def __post_init__(self):
        if self.user not in ("scripted", "learned", "solo"):
            raise ValueError(f"user {self.user!r}: expected 'scripted', 'learned' or 'solo'")

    @property
    def default_params(self) -> TelecomParams:
        """40 steps, 80 with a learned user."""
        return TelecomParams(max_steps_in_episode=80 if self.user == "learned" else 40)

    def initial(self, key: jax.Array, params: TelecomParams) -> TelecomState:
        bounds = (params.min_faults, params.max_faults, params.hopeless)
        kind, hopeless, world = rules.draw(key, *bounds)
        unknown, none = jnp.zeros(len(rules.FACTS), jnp.uint8), jnp.zeros((), jnp.int8)
        return TelecomState(
            **opening(),
            world=world,
            kind=kind,
            hopeless=hopeless,
            told=unknown,
            seen=unknown,
            asked=none,
            did=none,
            pending=jnp.zeros((), bool),
            end=none,
        )

    def mover(self, state: TelecomState, params: TelecomParams) -> jax.Array:
        """The desk, unless a learned user was asked for something."""
        return state.pending.astype(jnp.int32)

    def legal(self, state: TelecomState, params: TelecomParams) -> jax.Array:
        """All tools of the seat, whatever their effect."""
        action = np.arange(self.num_actions)
        return jnp.where(
            state.pending, (action < USER_TOOLS) | (action == NOTHING), action < NOTHING
        )

    def transition(
        self, key: jax.Array, state: TelecomState, action: jax.Array, params: TelecomParams
    ) -> tuple[TelecomState, jax.Array]:
        requests = ~state.pending & (action < USER_TOOLS)
        tool, reported = action, jnp.ones(len(rules.FACTS), bool)
        if self.user == "scripted":
            tool, reported = self._script(key, action, requests, params)
        waits = requests & (self.user == "learned")
        used = ~waits & (tool < len(rules.TOOLS))
        by_user = used & (tool < USER_TOOLS)
        world = rules.use(state.world, jnp.where(used, tool, -1))
        numbers = np.arange(len(rules.TOOLS))[:, None]
        shown = used & jnp.any((numbers == tool) & rules.SHOWS, axis=0)
        facts = rules.facts(world)
        answered = (requests | state.pending) & ~waits
        end = jnp.where(action == CLOSE, CLOSED, jnp.where(action == TRANSFER, TRANSFERRED, OPEN))
        state = state.replace(
            world=world,
            told=jnp.where(shown & reported, facts, state.told),
            seen=jnp.where(shown & by_user, facts, state.seen),
            asked=jnp.where(requests, action + 1, state.asked).astype(jnp.int8),
            did=jnp.where(answered, tool + 1, jnp.where(waits, 0, state.did)).astype(jnp.int8),
            pending=waits,
            end=end.astype(jnp.int8),
        )
        return state, jnp.where(self.won(state, params), 1.0, 0.0)

    def _script(
        self, key: jax.Array, action: jax.Array, requests: jax.Array, params: TelecomParams
    ) -> tuple[jax.Array, jax.Array]:
        """Tool that a scripted user uses, i32[], and the facts that it reports, bool[facts]."""
        chances = jax.random.uniform(key, (3 + len(rules.FACTS),))
        repairs = len(rules.REPAIRS)
        first = jnp.where(action < repairs, 0, repairs)
        count = jnp.where(action < repairs, repairs, USER_TOOLS - repairs)
        other = first + jnp.floor(chances[0] * count).astype(jnp.int32)
        tool = jnp.where(chances[1] < params.precise, action, other)
        tool = jnp.where(chances[2] < params.follow, tool, NOTHING)
        reported = chances[3:] < params.precise
        return jnp.where(requests, tool, action), reported | ~requests

    def observe_as(self, state: TelecomState, agent: jax.Array, params: TelecomParams) -> jax.Array:
        head = (state.kind, state.world.abroad, state.asked, state.did)
        facts = jnp.where(agent == DESK, state.told, state.seen)
        return jnp.append(jnp.stack([x.astype(jnp.uint8) for x in head]), facts)

    def is_over(self, state: TelecomState, params: TelecomParams) -> jax.Array:
        return state.end != OPEN

    def won(self, state: TelecomState, params: TelecomParams) -> jax.Array:
        """Both seats win if the call ends as the task requires."""
        reached = rules.solved(state.world, state.kind)
        handed = (state.end == TRANSFERRED) & ~reached
        right = jnp.where(state.hopeless, handed, reached) & (state.end != OPEN)
        return jnp.broadcast_to(right, (2,))

    def expert(self, state: TelecomState, params: TelecomParams) -> jax.Array:
        """The manual for the desk; the user does as asked."""
        desk = advise(state.told, state.kind, state.world.abroad, state.time, TRANSFER, CLOSE)
        return jnp.where(state.pending, state.asked - 1, desk).astype(jnp.int32)

    def render(self, state: TelecomState, params: TelecomParams) -> str:
        """Kind of call and the true value of every fact."""
        values = np.asarray(rules.facts(state.world)) - 1
        facts = (
            f"{name}: {texts[value]}"
            for (name, texts), value in zip(rules.FACTS.items(), values, strict=True)
        )
        kind = rules.KINDS[int(state.kind)] + ", abroad" * bool(state.world.abroad)
        return "\n".join([kind + ", hopeless" * bool(state.hopeless), *facts])
