"""SocialDeduction-v1: a crew works in rooms, an imposter kills; they talk and vote."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, SimultaneousGame, opening
from envs.social_deduction import rules
from envs.social_deduction.rules import PLAY, TALK, VOTE, World

# Actions before those that name a player.
WAIT, NORTH, SOUTH, WEST, EAST, TASK, REPORT, NAMING = range(8)
KINDS = ("saw", "suspect", "trust")
# Statuses and kinds of evidence in observations.
NOT_SEEN, HERE, BODY, DEAD, SELF = range(5)
FELLOW = 4
COLOURS = ("red", "blue", "green", "pink", "white", "black", "lime")


@struct.dataclass
class SocialDeductionState(GameState):
    """world: rooms, roles, tasks, bodies, evidence and messages."""

    world: World


@struct.dataclass
class SocialDeductionParams(GameParams):
    """tasks: number per crewmate, at most 8. task_steps: duration of each, at most 4.

    cooldown: steps before each kill, also from the start and after a vote.

    win_reward: for each agent of the winning side. event_reward: for finishing a task, reporting a
    body, killing, a crewmate's vote for an imposter, and, when the last imposter is voted out, to
    living crewmates for each of their unfinished tasks.
    """

    max_steps_in_episode: int = 100
    illegal_reward: float = 0.0
    tasks: int = 4
    task_steps: int = 2
    cooldown: int = 2
    win_reward: float = 1.0
    event_reward: float = 0.2


@dataclasses.dataclass(frozen=True)
class SocialDeduction(SimultaneousGame):
    """`players` on a grid of `rows` x `cols` rooms, `imposters` of them, by seat drawn per task.

    In play all act at once: go to a neighbouring room, do one of their tasks here, report a body
    (crewmates), kill a player in the room (imposters, after a cooldown; it also hits players that
    leave in the same step, and all players in the room witness it). After a report the living speak
    one by one in random order, `messages` rounds, then all vote at once; the most votes eject, a
    tie ejects no player; all go back to the first room. The crew wins when the imposters are out,
    or with all tasks of the living done; the imposters win when they are as many as the living
    crew; at the limit there is no winner.

    Messages, true or not: "saw X" (kill), "suspect X", "trust X", or nothing.
    Actions for A players: wait (in a meeting: say nothing, abstain), north, south, west, east, task
    (a step of one), report; then for each player kill, say saw, say suspect, say trust, vote: 7 + 5
    A.

    Observation: uint8; phase (play, talk, vote), whether the agent is an imposter, room + 1,
    cooldown, work left in each room, in steps; for each player: status (0 not in view, 1 here, in a
    meeting alive, 2 body here, 3 known to be dead, 4 the agent itself), evidence (the agent's own
    observations: `rules.suspicion`; 4 for a fellow imposter), votes in the last election, messages
    of the last discussion (1 + kind A + player); abstentions. The dead see nothing. Evidence makes
    up for a policy without memory; where players went is not recorded.

    Reward: `SocialDeductionParams`. Belief questions: `belief_question`.

    Expert: crewmates do the nearest task, report, and speak and vote by their evidence and the
    others' messages; imposters wander, kill a player that is alone with them, or when that wins,
    and join in blaming others. They use only what their seat may know.
    Source: the game of Sarkar et al. (2025), arXiv:2502.06060, from a description of its code.
    Simplified: a step is three of its ticks, the time to walk to a room, so players are never seen
    between rooms; meetings start at once; `report` takes any body; messages are from a table; the
    last discussion stays in view. A task takes two steps, one in the original, because experts know
    where to go: with one, an expert crew wins 94 % of the games by its tasks, with two 65 %.
    """

    players: int = 5
    imposters: int = 1
    rows: int = 2
    cols: int = 2
    messages: int = 2

    num_codes: ClassVar[int] = 32
    sides: ClassVar[tuple[str, ...]] = ("crew", "imposters")
    wordings: ClassVar[str] = "envs.social_deduction.words"
    # Four tasks for each member of the crew and a limit of 100 steps.
    default_params: ClassVar[SocialDeductionParams] = SocialDeductionParams()

    def __post_init__(self):
        if not 3 <= self.players <= len(COLOURS):
            raise ValueError(f"players {self.players}: expected 3 to {len(COLOURS)}")
        if not 1 <= self.imposters < self.players / 2:
            raise ValueError(f"imposters {self.imposters}: expected 1 to less than half of players")
        if not 1 <= self.rows <= 5 or not 1 <= self.cols <= 5 or not 1 <= self.messages <= 4:
            raise ValueError(
                f"rows {self.rows}, cols {self.cols}, messages {self.messages}: expected 1 to 5, "
                "1 to 5 and 1 to 4"
            )

    @property
    def num_agents(self) -> int:
        """Number of players, crewmates and imposters together."""
        return self.players

    @property
    def num_answers(self) -> int:
        """One answer per player: who is the most suspicious?"""
        return self.players

    @property
    def answer_names(self) -> tuple[str, ...]:
        """The players' colours."""
        return COLOURS[: self.players]

    @property
    def speech(self) -> tuple[int, int]:
        """The actions `saw X`, `suspect X` and `trust X`."""
        return NAMING + self.players, len(KINDS) * self.players

    @property
    def action_names(self) -> tuple[str, ...]:
        """Actions alone, then those that name a player."""
        alone = ("wait", "north", "south", "west", "east", "task", "report")
        verbs = ("kill", *KINDS, "vote")
        return (*alone, *(f"{verb} {c}" for verb in verbs for c in COLOURS[: self.players]))

    def initial(self, key: jax.Array, params: SocialDeductionParams) -> SocialDeductionState:
        world = rules.draw(
            key,
            self.players,
            self.imposters,
            (self.rows, self.cols),
            params.tasks,
            params.task_steps,
            self.messages,
            params.cooldown,
        )
        return SocialDeductionState(**opening(), world=world)

    def acting(self, state: SocialDeductionState, params: SocialDeductionParams) -> jax.Array:
        """The living; in a discussion the speaker."""
        world = state.world
        free = world.alive & ((world.phase != TALK) | rules.speaker(world))
        return free & self.is_running(state, params)

    def legal_actions(
        self, state: SocialDeductionState, params: SocialDeductionParams
    ) -> jax.Array:
        """Actions of the phase; the dead can only wait."""
        world = state.world
        plays = (world.phase == PLAY) & world.alive[:, None]
        others = world.alive & ~np.eye(self.players, dtype=bool)
        reports = jnp.any(rules.bodies(world), axis=1) & ~world.imposter
        says = others & (world.phase == TALK) & rules.speaker(world)[:, None]
        votes = world.alive & world.alive[:, None] & (world.phase == VOTE)
        parts = [
            jnp.ones((self.players, 1), bool),
            rules.exits(world, (self.rows, self.cols)) & plays,
            rules.tasks_here(world)[:, None] & plays,
            reports[:, None] & plays,
            rules.killable(world) & plays,
            *[says] * len(KINDS),
            votes,
        ]
        return jnp.concatenate(parts, axis=1)

    def transition(
        self,
        key: jax.Array,
        state: SocialDeductionState,
        action: jax.Array,
        params: SocialDeductionParams,
    ) -> tuple[SocialDeductionState, jax.Array]:
        """A step of play, a message, or the election."""
        before, players = state.world, self.players
        whom = (action[:, None] - NAMING - np.arange(players * 5)) == 0
        kill, *said, vote = jnp.split(whom, 5, axis=1)
        works, reports = action == TASK, action == REPORT
        moves = jnp.where((action >= NORTH) & (action <= EAST), action, 0)
        played = rules.play(key, before, moves, works, reports, kill, params.cooldown, self.cols)
        code = 1 + np.arange(len(KINDS) * players)
        message = jnp.sum(jnp.where(jnp.concatenate(said, axis=1), code, 0), dtype=jnp.int8)
        talked = rules.talk(before, message)
        votes = jnp.where(jnp.any(vote, axis=1), jnp.argmax(vote, axis=1), players)
        voted = rules.elect(before, votes, params.cooldown, self.cols)
        world = jax.tree.map(
            lambda a, b, c: jnp.where(
                before.phase == PLAY, a, jnp.where(before.phase == TALK, b, c)
            ),
            *(played, talked, voted),
        )
        here = before.room[:, None] == np.arange(self.rows * self.cols)
        rest = jnp.sum(jnp.where(here, world.todo, 0), axis=1)
        finished = works & (rest % params.task_steps == 0)
        left = jnp.sum(-(-world.todo // params.task_steps), axis=1)
        spared = jnp.where((world.winner == rules.CREW) & world.ejected & world.alive, left, 0)
        guessed = jnp.any(vote & before.imposter, axis=1)
        events = finished + reports + jnp.any(kill, axis=1)
        events = events + jnp.where(before.imposter, 0, guessed + spared)
        won = self.won(state.replace(world=world), params)
        reward = params.win_reward * won + params.event_reward * events
        return state.replace(world=world), reward

    def observe_as(
        self, state: SocialDeductionState, agent: jax.Array, params: SocialDeductionParams
    ) -> jax.Array:
        """Content of the agent's room, its evidence and the messages."""
        world, mine = state.world, np.arange(self.players) == agent
        pick = lambda x: jnp.sum(jnp.where(mine, x, 0))  # noqa: E731
        rows = lambda x: jnp.any(x & mine[:, None], axis=0)  # noqa: E731
        imposter, alive = jnp.any(world.imposter & mine), jnp.any(world.alive & mine)
        meeting = world.phase != PLAY
        here = rows(rules.together(world)) | (meeting & world.alive)
        found = rows(rules.bodies(world))
        status = jnp.where(here, HERE, jnp.where(found, BODY, jnp.where(world.gone, DEAD, 0)))
        status = jnp.where(mine, SELF, status)
        evidence = jnp.sum(jnp.where(mine[:, None], rules.suspicion(world), 0), axis=0)
        evidence = jnp.where(imposter, jnp.where(world.imposter & ~mine, FELLOW, 0), evidence)
        head = jnp.stack([world.phase, imposter, pick(world.room) + 1, pick(world.cooldown)])
        todo = jnp.sum(jnp.where(mine[:, None], world.todo, 0), axis=0)
        people = jnp.stack([status, evidence, world.tally[:-1], *world.said], axis=1)
        codes = jnp.concatenate([head, todo, people.reshape(-1), world.tally[-1:]])
        return jnp.where(alive, jnp.clip(codes, 0, self.num_codes - 1), 0).astype(jnp.uint8)

    def side_of(self, state: SocialDeductionState, params: SocialDeductionParams) -> jax.Array:
        return state.world.imposter.astype(jnp.int32)

    def belief_question(
        self, state: SocialDeductionState, params: SocialDeductionParams
    ) -> tuple[jax.Array, jax.Array]:
        """Agents that are asked for the most suspicious player now, bool[A], and the answer, i32[].

        In a meeting living crewmates are asked before the first message and after each one. The
        answer is a seat; with several imposters, that of the first one alive. Training may use it,
        no player sees it.
        """
        world = state.world
        over = self.is_terminated(state, params) | self.is_truncated(state, params)
        asked = world.alive & ~world.imposter & (world.phase != PLAY) & ~over
        return asked, jnp.argmax(world.imposter & world.alive).astype(jnp.int32)

    def is_over(self, state: SocialDeductionState, params: SocialDeductionParams) -> jax.Array:
        return state.world.winner >= 0

    def won(self, state: SocialDeductionState, params: SocialDeductionParams) -> jax.Array:
        """All agents of the winning side, dead or alive."""
        winner = state.world.winner
        return (winner >= 0) & (state.world.imposter == (winner == rules.IMPOSTERS))

    def expert(self, state: SocialDeductionState, params: SocialDeductionParams) -> jax.Array:
        world, players = state.world, self.players
        blamed = rules.blame(world)
        top, worst = jnp.argmax(blamed, axis=1), jnp.max(blamed, axis=1)
        seen = jnp.max(jnp.where(world.alive, rules.suspicion(world), 0), axis=1)
        kind = jnp.where((seen == 3) & ~world.imposter, rules.SAW, rules.SUSPECT)
        first = NAMING + players
        says = jnp.where(worst >= jnp.where(world.imposter, 1, 6), first + kind * players + top, 0)
        enough = jnp.where(world.imposter, 1, 3)
        votes = jnp.where(worst >= enough, first + len(KINDS) * players + top, 0)
        plays = jnp.where(world.imposter, self._hunt(state), self._work(state))
        action = jnp.where(world.phase == PLAY, plays, jnp.where(world.phase == TALK, says, votes))
        return jnp.where(self.acting(state, params), action, WAIT).astype(jnp.int32)

    def _work(self, state: SocialDeductionState) -> jax.Array:
        """Reports, does the task here, or goes to the nearest task."""
        world = state.world
        number = np.arange(self.rows * self.cols)
        down = number // self.cols - (world.room // self.cols)[:, None]
        right = number % self.cols - (world.room % self.cols)[:, None]
        far = jnp.where(world.todo > 0, jnp.abs(down) + jnp.abs(right), 100)
        goal = number == jnp.argmin(far, axis=1)[:, None]
        down, right = (jnp.sum(jnp.where(goal, x, 0), axis=1) for x in (down, right))
        go = jnp.where(down < 0, NORTH, jnp.where(down > 0, SOUTH, WAIT))
        go = jnp.where(right < 0, WEST, jnp.where(right > 0, EAST, go))
        go = jnp.where(jnp.any(world.todo > 0, axis=1), go, WAIT)
        go = jnp.where(rules.tasks_here(world), TASK, go)
        return jnp.where(jnp.any(rules.bodies(world), axis=1), REPORT, go)

    def _hunt(self, state: SocialDeductionState) -> jax.Array:
        """Kills without witnesses, or to win; stays with a lone player; else wanders."""
        world = state.world
        near = rules.together(world)
        company = jnp.sum(near & ~world.imposter, axis=1)
        crew = jnp.sum(world.alive & ~world.imposter)
        wins = crew - 1 <= jnp.sum(world.alive & world.imposter)
        can = rules.killable(world)
        kills = jnp.any(can, axis=1) & ((company == 1) | wins)
        ways = rules.exits(world, (self.rows, self.cols))
        # A different direction at each step and in each room, but always the same.
        turn = (state.time * 5 + world.room * 3 + np.arange(self.players))[:, None]
        go = 1 + jnp.argmax(jnp.where(ways, (turn + 3 * np.arange(4)) % 7 + 1, 0), axis=1)
        go = jnp.where(jnp.any(ways, axis=1), go, WAIT)
        go = jnp.where((company == 1) & (world.cooldown > 0), WAIT, go)
        return jnp.where(kills, NAMING + jnp.argmax(can, axis=1), go)

    def render(self, state: SocialDeductionState, params: SocialDeductionParams) -> str:
        """One line per room with its players, capitals for imposters, x for bodies; then the
        phase."""
        world = jax.tree.map(np.asarray, state.world)
        lines = []
        for room in range(self.rows * self.cols):
            there = [
                (name.upper() if world.imposter[seat] else name) + "x" * dead
                for seat, name in enumerate(COLOURS[: self.players])
                for dead in (0, 1)
                if (
                    world.body[seat] == room
                    if dead
                    else world.room[seat] == room and world.alive[seat]
                )
            ]
            lines.append(f"room {room + 1}: {' '.join(there)}".rstrip())
        return "\n".join([*lines, ("play", "talk", "vote")[int(world.phase)]])
