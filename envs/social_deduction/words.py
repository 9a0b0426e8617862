"""Social deduction in words: players and bodies here, evidence, and messages."""

import jax
import jax.numpy as jnp
import numpy as np

from envs.social_deduction import rules
from envs.social_deduction.env import COLOURS, FELLOW, KINDS, SocialDeduction
from envs.text import Lexicon, View, template

RULES = (
    "You are one of a crew, or an imposter among it, in rooms numbered row by row. The crew wins "
    "with all its work done or the imposters voted out; imposters win when as many as the crew. "
    "Commands: wait; north, south, west, east; task: work in this room; report a body, which calls "
    "a meeting; kill red (imposters). In a meeting the living speak in turn: saw red (kill), "
    "suspect red, trust red, or wait for nothing; then all vote: vote red, or wait for nobody. go "
    "says where you can go, work the steps left in which room (room:steps), saw whom you saw kill; "
    "alone and with say who was with a dead player, alone or among others, when you last saw it."
)
PHASES = ("", "talk: ", "vote: ")
ROLES = ("crew", "imposter")
# Evidence 1 to 4.
EVIDENCE = ("\nwith", "\nalone", "\nsaw", "\nfellow")
WAYS = (" north", " south", " west", " east")
HEADS = ("\ngo", "\nhere", "\nbody", "\ndead", "\nwork", "\nvotes", " nobody")


def _line(head: jax.Array, items: jax.Array, mask: jax.Array) -> jax.Array:
    """The head and the items selected by the mask; empty without any."""
    shown = jnp.where(mask.reshape(mask.shape + (1,) * (items.ndim - mask.ndim)), items, 0)
    return jnp.append(jnp.where(jnp.any(mask), head, 0), shown.reshape(-1))


def _longest(env: SocialDeduction) -> int:
    """The most bytes of a description."""
    colours, rooms = COLOURS[: env.players], env.rows * env.cols
    size = sum(map(len, (*HEADS, *EVIDENCE, *WAYS, "vote: imposter in room 10\nkill in 10")))
    # Every player has one status and one kind of evidence, and the agent itself is named.
    size += 4 * sum(len(f" {name}") for name in colours)
    size += rooms * len(" 10:32") + (env.players + 1) * len(" 1")
    return size + env.messages * env.players * (len("\n: suspect ") + 2 * max(map(len, colours)))


def compact(env: SocialDeduction) -> View:
    """`crew red in room 1`, then lines such as `here blue pink`, `work 1:2 3:4`, `saw blue`.

    Messages are written as `blue: suspect red`. Imposters read `kill in 2`, the steps until they
    can kill.
    """
    lexicon = Lexicon()
    colours = COLOURS[: env.players]
    count, rooms = env.players, env.rows * env.cols
    phases, roles = lexicon.table(PHASES), lexicon.table(ROLES)
    names = lexicon.table(f" {name}" for name in colours)
    speakers = lexicon.table(f"\n{name}:" for name in colours)
    kinds = lexicon.table(f" {kind}" for kind in KINDS)
    ways = lexicon.table(WAYS)
    number = lexicon.table(f" {i}" for i in range(1 + 4 * 8))
    places = lexicon.table(f" {i + 1}:" for i in range(rooms))
    digits = lexicon.table(str(i) for i in range(1 + 4 * 8))
    evidence = lexicon.table(EVIDENCE)
    go, here, body, dead, work, votes, nobody = lexicon.table(HEADS)
    in_room, kill_in, out = lexicon.table((" in room", "\nkill in", "dead"))
    players = lexicon.table(colours)[:, None]
    at = 4 + rooms

    def take(table, index):
        return jnp.asarray(table)[index]

    def describe(state, params, agent):
        codes = env.observe_as(state, agent, params).astype(jnp.int32)
        phase, imposter, room, cooldown = codes[:4]
        todo, people = codes[4:at], codes[at:-1].reshape(count, -1)
        status, seen, tally, said = people[:, 0], people[:, 1], people[:, 2], people[:, 3:].T
        alive = room > 0
        exits = rules.exits(state.world, (env.rows, env.cols))[agent] & (phase == rules.PLAY)
        messages = jnp.stack(
            [
                jnp.broadcast_to(speakers, said.shape),
                take(kinds, jnp.maximum(said - 1, 0) // count),
                take(names, jnp.maximum(said - 1, 0) % count),
            ],
            axis=-1,
        )
        ballots = jnp.append(tally, codes[-1])
        voted = jnp.stack([jnp.append(names, nobody), take(number, ballots)], axis=1)
        own = jnp.sum(jnp.where(np.arange(count) == agent, names, 0))
        waits = jnp.stack([jnp.asarray(kill_in), take(number, cooldown)])
        parts = [
            jnp.stack([take(phases, phase), take(roles, imposter), own]),
            jnp.stack([jnp.asarray(in_room), take(number, room)]),
            jnp.where(imposter > 0, waits, 0),
            _line(go, jnp.asarray(ways), exits),
            _line(here, jnp.asarray(names), status == 1),
            _line(body, jnp.asarray(names), status == 2),
            _line(dead, jnp.asarray(names), status == 3),
            _line(work, jnp.stack([jnp.asarray(places), take(digits, todo)], axis=1), todo > 0),
            *(_line(evidence[k], jnp.asarray(names), seen == k + 1) for k in range(FELLOW)),
            jnp.where((said > 0)[..., None], messages, 0).reshape(-1),
            _line(votes, voted, ballots > 0),
        ]
        return jnp.append(jnp.where(alive, jnp.concatenate(parts), 0), jnp.where(alive, 0, out))

    fixed = 3 + 2 + 2 + 5 + 3 + 1 + 2 * rooms + FELLOW + 3
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(
            *(template(lexicon, name) for name in env.action_names[:7]),
            *(template(lexicon, f"{verb} {{player}}") for verb in ("kill", *KINDS, "vote")),
        ),
        slots=lambda state, params, agent: {"player": players},
        max_fragments=fixed + 4 * count + 3 * env.messages * count,
        max_bytes=_longest(env),
        max_command_bytes=len("suspect ") + max(map(len, colours)),
        rules=RULES,
    )


WORDINGS = {"compact": compact}
