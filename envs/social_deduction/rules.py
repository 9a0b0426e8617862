"""Social deduction on a grid of rooms: A players, some of them imposters, R rooms by rows."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

PLAY, TALK, VOTE = range(3)
SAW, SUSPECT, TRUST = range(3)
CREW, IMPOSTERS = range(2)
# Rows and columns of waiting, north, south, west, east.
STEPS = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)], np.int8)


@struct.dataclass
class World:
    """State of the game.

    imposter, alive: bool[A]. room: i8[A]. todo: i8[A, R], steps of work left by room.
    cooldown: i8[A], steps until an imposter can kill. body: i8[A], room of a body that was not yet
    reported, -1 for none. gone: bool[A], players publicly known to be dead.
    killing: bool[A, A], [a, j] that a saw j kill. company: bool[A, A, A], [a, v, j] that j was
    present when a last saw v alive.
    phase: i8[], PLAY, TALK or VOTE. place: i8[A], position of each in the order of speakers, the
    living first. turn: i8[], messages of this discussion. said: i8[M, A], messages of the last one:
    1 + kind * A + player, 0 for none. tally: i8[A + 1], votes of the last election, abstentions
    last.
    winner: i8[], CREW or IMPOSTERS, -1 for none. ejected: bool[], an imposter was just voted out.
    """

    imposter: jax.Array
    alive: jax.Array
    room: jax.Array
    todo: jax.Array
    cooldown: jax.Array
    body: jax.Array
    gone: jax.Array
    killing: jax.Array
    company: jax.Array
    phase: jax.Array
    place: jax.Array
    turn: jax.Array
    said: jax.Array
    tally: jax.Array
    winner: jax.Array
    ejected: jax.Array


def start_room(width: int) -> int:
    """The room in the middle of the north side."""
    return (width - 1) // 2


def draw(
    key: jax.Array,
    players: int,
    imposters: int,
    shape: tuple[int, int],
    tasks: jax.Array,
    task_steps: jax.Array,
    messages: int,
    cooldown: jax.Array,
) -> World:
    """Random roles; for each crewmate `tasks` tasks in random rooms, of `task_steps` steps each."""
    rows, cols = shape
    role_key, task_key = jax.random.split(key)
    imposter = jax.random.permutation(role_key, players) < imposters
    rooms = jax.random.randint(task_key, (players, 8), 0, rows * cols)
    counted = (jnp.arange(8) < tasks) & ~imposter[:, None]
    inside = rooms[:, :, None] == jnp.arange(rows * cols)
    todo = task_steps * jnp.sum(inside & counted[:, :, None], axis=1)
    nobody, flag = jnp.zeros(players, bool), jnp.zeros((), bool)
    number = jnp.zeros((), jnp.int8)
    world = World(
        imposter=imposter,
        alive=~nobody,
        room=jnp.full(players, start_room(cols), jnp.int8),
        todo=todo.astype(jnp.int8),
        cooldown=jnp.where(imposter, cooldown, 0).astype(jnp.int8),
        body=jnp.full(players, -1, jnp.int8),
        gone=nobody,
        killing=jnp.zeros((players, players), bool),
        company=jnp.zeros((players, players, players), bool),
        phase=number,
        place=jnp.arange(players, dtype=jnp.int8),
        turn=number,
        said=jnp.zeros((messages, players), jnp.int8),
        tally=jnp.zeros(players + 1, jnp.int8),
        winner=number - 1,
        ejected=flag,
    )
    return look(world)


def together(world: World) -> jax.Array:
    """Whether two different living players are in one room, bool[A, A]."""
    living = world.alive[:, None] & world.alive
    return living & (world.room[:, None] == world.room) & ~np.eye(world.alive.shape[0], dtype=bool)


def bodies(world: World) -> jax.Array:
    """Whether a player is in the room of a body, bool[A, A]."""
    return (world.room[:, None] == world.body) & world.alive[:, None]


def look(world: World) -> World:
    """Updates the record of who is with whom in their room."""
    near = together(world)
    with_them = near[:, :, None] & near[:, None, :] & ~np.eye(near.shape[0], dtype=bool)
    return world.replace(company=jnp.where(near[:, :, None], with_them, world.company))


def exits(world: World, shape: tuple[int, int]) -> jax.Array:
    """Directions in which each player can go: bool[A, 4], north, south, west, east."""
    row, col = world.room // shape[1], world.room % shape[1]
    return jnp.stack([row > 0, row < shape[0] - 1, col > 0, col < shape[1] - 1], axis=1)


def killable(world: World) -> jax.Array:
    """Players that each one can kill, bool[A, A]."""
    ready = world.imposter & (world.cooldown == 0)
    return together(world) & ready[:, None] & ~world.imposter


def tasks_here(world: World) -> jax.Array:
    """Whether each player has a task in its room, bool[A]."""
    here = world.room[:, None] == jnp.arange(world.todo.shape[1])
    return jnp.any(here & (world.todo > 0), axis=1)


def speaker(world: World) -> jax.Array:
    """Which player speaks in this turn of the talk, bool[A]."""
    living = jnp.sum(world.alive, dtype=jnp.int8)
    return world.place == world.turn % jnp.maximum(living, 1)


def decide(world: World) -> World:
    """Sets the winner, if there is one."""
    crew, imposters = world.alive & ~world.imposter, world.alive & world.imposter
    caught = ~jnp.any(imposters)
    overrun = jnp.sum(imposters) >= jnp.sum(crew)
    done = ~jnp.any(jnp.where(crew[:, None], world.todo, 0))
    winner = jnp.where(caught, CREW, jnp.where(overrun, IMPOSTERS, jnp.where(done, CREW, -1)))
    return world.replace(winner=winner.astype(jnp.int8))


def play(
    key: jax.Array,
    world: World,
    move: jax.Array,
    works: jax.Array,
    reports: jax.Array,
    kill: jax.Array,
    cooldown: jax.Array,
    cols: int,
) -> World:
    """A step of the living, all legal: moves i8[A] in STEPS, tasks and reports bool[A], kills
    bool[A, A]. Kills come last and also hit players that leave the room in this step.
    """
    players = world.alive.shape[0]
    here = world.room[:, None] == jnp.arange(world.todo.shape[1])
    victim, killer = jnp.any(kill, axis=0), jnp.any(kill, axis=1)
    saw = together(world) & killer & ~victim[:, None]
    step = jnp.asarray(STEPS)[move]
    meeting = jnp.any(reports)
    alive = world.alive & ~victim
    # The living first, in random order, without sorting.
    drawn = jax.random.uniform(key, (players,)) + ~alive
    place = jnp.sum(drawn < drawn[:, None], axis=1, dtype=jnp.int8)
    world = world.replace(
        alive=alive,
        room=(world.room + step[:, 0] * cols + step[:, 1]).astype(jnp.int8),
        todo=world.todo - (here & works[:, None]),
        cooldown=jnp.where(killer, cooldown, jnp.maximum(world.cooldown - 1, 0)).astype(jnp.int8),
        body=jnp.where(meeting, -1, jnp.where(victim, world.room, world.body)),
        gone=jnp.where(meeting, ~alive, world.gone),
        killing=world.killing | saw,
        phase=jnp.where(meeting, TALK, PLAY).astype(jnp.int8),
        place=place,
        turn=jnp.zeros((), jnp.int8),
        said=jnp.where(meeting, 0, world.said).astype(jnp.int8),
    )
    return decide(look(world))


def talk(world: World, message: jax.Array) -> World:
    """The speaker's message, i8[]; the vote comes after the last."""
    messages = world.said.shape[0]
    living = jnp.sum(world.alive, dtype=jnp.int8)
    current = jnp.arange(messages) == world.turn // jnp.maximum(living, 1)
    said = jnp.where(current[:, None] & speaker(world), message, world.said)
    turn = world.turn + jnp.int8(1)
    phase = jnp.where(turn >= messages * living, VOTE, TALK).astype(jnp.int8)
    return world.replace(said=said.astype(jnp.int8), turn=turn, phase=phase)


def elect(world: World, votes: jax.Array, cooldown: jax.Array, cols: int) -> World:
    """Votes i8[A] of the living for a player or, as A, abstentions; a unique maximum is ejected."""
    players = world.alive.shape[0]
    cast = (votes[:, None] == jnp.arange(players + 1)) & world.alive[:, None]
    tally = jnp.sum(cast, axis=0, dtype=jnp.int8)
    top = tally == jnp.max(tally)
    out = top[:players] & (jnp.sum(top) == 1)
    world = world.replace(
        alive=world.alive & ~out,
        gone=world.gone | out,
        company=world.company & ~out[:, None],
        tally=tally,
        room=jnp.full(players, start_room(cols), jnp.int8),
        cooldown=jnp.where(world.imposter, cooldown, 0).astype(jnp.int8),
        phase=jnp.zeros((), jnp.int8),
        ejected=jnp.any(out & world.imposter),
    )
    return decide(look(world))


def suspicion(world: World) -> jax.Array:
    """Evidence that a has observed against j, i8[A, A].

    3: seen killing. 2: alone with a player, when they were last seen together, that a knows to be
    dead. 1: the same, but with others present. 0: none. Ejections give no evidence.
    """
    dead = world.gone | bodies(world)
    counted = world.company & dead[:, :, None]
    alone = jnp.any(counted & (jnp.sum(counted, axis=2, keepdims=True) == 1), axis=1)
    code = jnp.where(world.killing, 3, jnp.where(alone, 2, jnp.any(counted, axis=1)))
    return code.astype(jnp.int8)


def blame(world: World) -> jax.Array:
    """Suspicion of the scripted player a that j is an imposter, i32[A, A].

    Uses its own evidence, the others' messages, and whether j speaks against a. Imposters use the
    messages only and never blame each other. 0 for itself and the dead.
    """
    players = world.alive.shape[0]
    number = np.arange(players)
    seen = jnp.array([0, 1, 6, 40])[suspicion(world)]
    seen = jnp.where(world.imposter[:, None], 0, seen)
    weight = np.array([3, 2, -1])
    told = jnp.zeros((players, players), jnp.int32)
    for kind in (SAW, SUSPECT, TRUST):
        about = world.said[:, :, None] == 1 + kind * players + number
        told += weight[kind] * jnp.any(about, axis=0).astype(jnp.int32)
    accused = told > 0
    heard = jnp.sum(told, axis=0) - told
    # A player that speaks against an innocent agent is wrong, as the agent knows.
    total = seen + heard + 8 * accused.T
    allowed = world.alive & ~np.eye(players, dtype=bool)
    allowed &= ~(world.imposter[:, None] & world.imposter)
    return jnp.where(allowed, total, 0)
