"""IPR: step-level preferences between an expert and the policy that continues its episodes.

Letters: E episodes of the expert, J continuations of each, M = E * J, N samples of a step's reward,
T turns.
"""

from typing import Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor
from agentrl.checks import check_choice, check_range
from agentrl.devices.placement import along_data
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.methods.by_turn import done_if, returns_of, stream_rows
from agentrl.methods.forks import Played, behind, played
from agentrl.methods.pairs import check_one_row
from agentrl.methods.teaching import Classroom, classroom, expert_teacher, taught, told
from agentrl.policies.protocol import AnyPolicy
from agentrl.policies.scoring import join, split
from agentrl.rollout.metrics import mean
from agentrl.rollout.pack import pack
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import fresh, unroll
from agentrl.streams import Rows, Streams

Scorer = Literal["start", "policy"]


class Options(NamedTuple):
    """Options of `ipr` that say what is played and what becomes a pair."""

    episodes: int
    outcomes: int
    steps: int
    samples: int
    margin: float
    threshold: float


class Scene(NamedTuple):
    """A round of play: forks [M] from turn `at` of the expert's episode `lane`, i32[M], with the
    key of their own turns."""

    room: Classroom
    start: Start
    expert_key: jax.Array
    own_key: jax.Array
    at: jax.Array
    lane: jax.Array


def preferred(
    returns: tuple[jax.Array, jax.Array],
    scores: tuple[jax.Array, jax.Array],
    step: jax.Array,
    *,
    margin: float = 0.01,
    threshold: float = 0.01,
) -> jax.Array:
    """Which of two continuations wins, i32[M]: 1 the expert's, -1 the policy's, 0 neither.

    returns, scores: (the expert's, the policy's), f32[M] each: of whole episodes, and of the turns
    in which the two part, as `ipr` estimates them. step: bool[M], the scores have to agree with the
    returns; else the returns decide alone. A difference of at most `margin` (of returns) or
    `threshold` (of scores) is none.
    """
    gaps = ((returns[0] - returns[1], margin), (scores[0] - scores[1], threshold))
    whole, of_step = (jnp.where(jnp.abs(x) > least, jnp.sign(x), 0.0) for x, least in gaps)
    return jnp.where(step & (whole != of_step), 0.0, whole).astype(jnp.int32)


class Hooks(NamedTuple):
    """The hooks of `ipr`, with what they are made of."""

    room: Classroom
    policy: AnyPolicy
    options: Options
    scorer: Scorer
    every: int

    def init(self, start: InitInputs) -> dict[str, Any]:
        """No pairs, and the parameters that score, if they are those of the start."""
        given = [*[self.policy.init(start.key)] * 2, start.key]
        rows = jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(self.play, *given)[0]
        )
        held = jax.tree.map(jnp.copy, start.params) if self.scorer == "start" else ()
        zero = jnp.zeros((), jnp.int32)
        return {"key": start.key, "updates": zero, "turns": zero, "scorer": held, "rows": rows}

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """The pairs of the last round."""
        del sources
        return None, context.value["rows"]

    def after(
        self, value: dict[str, Any], outcome: UpdateResult
    ) -> tuple[dict[str, Any], dict[str, jax.Array]]:
        """The value after another round, if it is due."""
        key, play_key = jax.random.split(value["key"])
        judge = params = outcome.params
        if self.scorer == "start":
            judge = join(value["scorer"], split(params, self.policy.frozen)[1])
        now = value["updates"] % self.every == 0
        rows, metrics = done_if(now, self.play, value["rows"], params, judge, play_key)
        turns = value["turns"] + metrics.pop("ipr/turns").astype(jnp.int32)
        metrics["ipr/turns"] = jnp.stack([turns.astype(jnp.float32), jnp.ones(())])
        new = {"key": key, "updates": value["updates"] + 1, "turns": turns, "rows": rows}
        return value | new, metrics

    def play(
        self, params: chex.ArrayTree, scorer: chex.ArrayTree, key: jax.Array
    ) -> tuple[Rows, dict[str, jax.Array]]:
        """(rows of M pairs, metrics) of a round. scorer: the parameters that score."""
        play_key, score_key = jax.random.split(key)
        room, options = self.room, self.options
        scene, expert, own, there = _forked(room, options, params, play_key)
        streams, rows = _both(scene, expert, own)
        returns, at = returns_of(streams), scene.at
        pair = (returns[scene.lane], returns[options.episodes :])
        each = options.outcomes + options.steps
        is_step = jnp.arange(at.shape[0]) % each >= options.outcomes
        scores, sampled = (jnp.zeros_like(pair[0]),) * 2, jnp.float32(0)
        if options.steps:
            known = expert
            if scorer is not params:
                read = taught(room, scorer)
                known = played(room.world, read, scene.start, scene.expert_key, room.turns)
            wanted = is_step & there
            scores, sampled = step_rewards(
                scene, scorer, (known, own), options.samples, score_key, wanted
            )
        wins = preferred(pair, scores, is_step, margin=options.margin, threshold=options.threshold)
        wins = jnp.where(there, wins, 0)
        sampled += jnp.sum(own.trajectory.turns.running & there)
        learnt = wins != 0
        metrics = {
            "ipr/pairs": mean(learnt, there),
            "ipr/expert": mean(wins > 0, learnt),
            "ipr/turn": mean(at, learnt & is_step),
            "ipr/turns": sampled,
        }
        return paired(rows, wins, at, scene.lane), metrics


def ipr(
    setup: Setup,
    *,
    episodes: int = 16,
    outcomes: int = 1,
    steps: int = 1,
    samples: int = 5,
    margin: float = 0.01,
    threshold: float = 0.01,
    scorer: Scorer = "start",
    every: int = 1,
) -> Component:
    """Source "ipr": in turn the better and the worse of an expert's and the policy's continuations.

    After the first update, in which there is nothing to learn from yet, and after each `every`-th
    one a round is played, whose pairs the next updates learn from. In a round the environment's
    expert plays `episodes` tasks, and the policy continues each from `outcomes` times the start and
    from `steps` different later turns t, drawn evenly: with the expert's turns before t in its
    context, as if it had written them. The reward of a step is the mean return of `samples`
    continuations behind it:

      r(e_<t, a) = mean_n R(e_<t, a, continuation n),   of the expert's a and of its own.

    A pair from the start is won by the larger return; one from a later turn only if return and step
    reward agree, see `preferred`. The policy may win. What is learnt are the turns from t on; the
    prefix is read. For `losses.rpo` (DPO and likelihood of the winner) or `losses.dpo`, with
    source="ipr" and the reference of the start. With steps=0 these are outcome pairs against an
    expert alone (ETO).

    Metrics, of the updates after which a round was played: ipr/pairs, share of the continuations
    that make a pair; ipr/expert, of the pairs that the expert wins; ipr/turn, mean turn from which
    pairs of steps are; and ipr/turns, turns that the policy and its scorer have sampled so far.

    Metrics (Opponents, buffers, tasks):
      ipr/pairs: Pairs [share]; of the continuations of an expert's episodes.
      ipr/expert: Pairs that the expert wins [share].
      ipr/turn: Turn of a step pair [turns]; mean turn from which it is.
      ipr/turns: Turns sampled for pairs [turns]; by the policy and its scorer, since the start of
        the run.

    Args:
      episodes: E, per round.
      outcomes: continuations from the start, per episode. steps: from later turns, as many as there
        are; the released code has each turn of the expert's.
      samples: N. Of few the step rewards are noisy: with rewards of 0 and 1 a threshold of 0.2 or
        more asks for two of five.
      margin, threshold: see `preferred`.
      scorer: who plays the samples: the parameters at the "start" of these updates, for good, which
        is the paper's SFT policy, or the "policy" as it is.
      every: updates from round to round.

    Raises:
      ValueError: several environments or agents, one in Python, no expert, segments, rows of text
        of parts of an episode, a limit of turns below the environment's, nothing to play, or an
        option outside its range.

    References:
      Xiong et al. (2024), Watch every step!, https://arxiv.org/abs/2406.11176 (from notes on paper
      and code WeiminXiong/IPR 93335a3). There a round is of the whole data set and its pairs are
      learnt for three epochs; in one of its environments a shorter success wins, too. ETO: Song et
      al. (2024), https://arxiv.org/abs/2403.02502 (recalled).
    """
    options = Options(episodes, outcomes, steps, samples, margin, threshold)
    room = _room(setup, options, scorer, every)
    hooks = Hooks(room, setup.policy, options, scorer, every)
    return Component(
        init=hooks.init, source=Source(hooks.make, unit=2), after=hooks.after, restarts=True
    )


def _room(setup: Setup, options: Options, scorer: str, every: int) -> Classroom:
    """The expert and its pupil; raises the errors of `ipr`."""
    path = "config.components.ipr"
    for name, value, least in (
        ("episodes", options.episodes, 1), ("outcomes", options.outcomes, 0),
        ("steps", options.steps, 0), ("samples", options.samples, 1),
        ("margin", options.margin, 0.0), ("threshold", options.threshold, 0.0), ("every", every, 1),
    ):  # fmt: skip
        check_range(f"{path}.{name}", value, least)
    check_choice(f"{path}.scorer", scorer, get_args(Scorer))
    if not options.outcomes + options.steps:
        raise ValueError(f"{path}.outcomes=0, steps=0: expected 1 or more of either")
    room = classroom(setup, "ipr", expert_teacher(), labels=False)
    check_one_row(setup, "ipr")
    limit = int(room.world.params.max_steps_in_episode)
    if room.turns != limit or options.steps >= limit:
        raise ValueError(
            f"component 'ipr' with episodes of {room.turns} turns, steps={options.steps}: expected "
            f"the environment's own limit, {limit} (leave out config.rollout.max_turns), and fewer "
            "steps than that"
        )
    return room


def prefixes(
    length: jax.Array, turns: int, outcomes: int, steps: int, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(turns that continuations are from i32[E, J], whether there is such a turn bool[E, J]).

    length: i32[E], turns of the expert's episodes. The first `outcomes` are 0, the others different
    turns from 1 to length - 1.
    """
    chance = jax.random.uniform(key, (length.shape[0], turns))
    turn = jnp.arange(turns)
    later = (turn >= 1) & (turn < length[:, None])
    found, at = jax.lax.top_k(jnp.where(later, chance, -1.0), steps)
    start = jnp.zeros((length.shape[0], outcomes), jnp.int32)
    there = jnp.concatenate([start == 0, found >= 0], axis=1)
    at = jnp.concatenate([start, at.astype(jnp.int32)], axis=1)
    return jnp.where(there, at, 0), there


def _forked(
    room: Classroom, options: Options, params: chex.ArrayTree, key: jax.Array
) -> tuple[Scene, Played, Played, jax.Array]:
    """(scene, the expert's episodes [E], the policy's forks [M], whether each is one bool[M])."""
    world, turns = room.world, room.turns
    task_key, expert_key, draw_key, own_key = jax.random.split(key, 4)
    start = fresh(world, along_data(jax.random.split(task_key, options.episodes)))
    if not room.bound.reads_arrays:
        start = start._replace(observation=None)
    expert = played(world, taught(room, params), start, expert_key, turns)
    at, there = prefixes(expert.lengths, turns, options.outcomes, options.steps, draw_key)
    number = jnp.arange(options.episodes, dtype=jnp.int32)
    lane = jnp.broadcast_to(number[:, None], at.shape)
    at, there, lane = (x.reshape(-1) for x in (at, there, lane))
    pupil = room.bound.actor(world, params)
    own = played(world, pupil, expert.before(pupil, at, lane), own_key, turns)
    return Scene(room, start, expert_key, own_key, at, lane), expert, own, there


def _both(scene: Scene, expert: Played, own: Played) -> tuple[Streams, Rows]:
    """Streams and rows, one of each, of the expert's episodes and of the forks: [E + M]."""
    env, packing, both = scene.room.world.env, scene.room.bound.packing, []
    old = jax.tree.map(lambda x: x[:, scene.lane], expert.trajectory.turns)
    whole = own.trajectory._replace(turns=behind(old, own.trajectory.turns, scene.at))
    for trajectory in (expert.trajectory, whole):
        seating = seat_all(env, trajectory.turns.running.shape[1])
        streams, rows = pack(env, packing, trajectory, seating.learns)
        both.append((streams, stream_rows(rows, streams)))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *both)


def step_rewards(
    scene: Scene,
    params: chex.ArrayTree,
    known: tuple[Played, Played],
    samples: int,
    key: jax.Array,
    wanted: jax.Array,
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """((step rewards of the expert's and of the own turns f32[M] each), turns sampled f32[]).

    params: who continues. known: the expert's episodes, which these have read, and the forks, of
    whose first turns they read the replies here. wanted: bool[M], forks that are scored.
    """
    room, at, lane = scene.room, scene.at, scene.lane
    (expert, own), actor = known, room.bound.actor(room.world, params)
    first = jax.tree.map(lambda x: x[0], own.trajectory.turns)
    parted = _first_turn(scene, params, expert.before(actor, at, lane), first)
    follows = expert.before(actor, at + 1, lane)
    begins = jax.tree.map(
        lambda *x: jnp.concatenate([jnp.concatenate(x)] * samples), follows, parted
    )
    running = begins.running & jnp.tile(wanted, 2 * samples)
    later, count = _continued(scene, actor, begins._replace(running=running), key)
    later = jnp.mean(later.reshape(samples, 2, -1), axis=0)
    reward = jnp.where(expert.trajectory.turns.running, _rewards(expert.trajectory.turns), 0.0)
    turn = jnp.arange(room.turns)[:, None]
    before = jnp.sum(jnp.where(turn < at, reward[:, lane], 0.0), axis=0)
    here = reward[at, lane]
    both = before + here + later[0], before + first.outcome.reward[:, 0] + later[1]
    return both, count


def _rewards(turns: Turn) -> jax.Array:
    return turns.outcome.reward[..., 0]


def _first_turn(scene: Scene, params: chex.ArrayTree, begins: Start, first: Turn) -> Start:
    """The forks behind their first turn, whose replies these parameters read. The environment draws
    as it did when the turn was played."""
    reader = told(scene.room, params, lambda memory, view, key: first.decision)
    seating = seat_all(scene.room.world.env, scene.at.shape[0])
    limit = scene.room.turns + 1  # so that the episodes go on
    found = unroll(
        scene.room.world, [reader], seating, begins, scene.own_key, length=1, limit=limit
    )
    return found.final._replace(begins=None)


def _continued(
    scene: Scene, actor: Actor, begins: Start, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(return of each from here, turns that were sampled)."""

    def add(totals, turn):
        gained, count = totals
        gained += jnp.where(turn.running, turn.outcome.reward[:, 0], 0.0)
        return (gained, count + jnp.sum(turn.running)), None

    size, world = begins.running.shape[0], scene.room.world
    found = unroll(
        world, [actor], seat_all(world.env, size), begins, key,
        length=scene.room.turns, early_exit=True, keep=add,
        notes=(jnp.zeros(size), jnp.zeros((), jnp.int32)),
    )  # fmt: skip
    return found.notes[0], found.notes[1].astype(jnp.float32)


def paired(rows: Rows, wins: jax.Array, at: jax.Array, lane: jax.Array) -> Rows:
    """Rows of M pairs [2 M, L], in turn the winner and the loser, of which the turns from at[m] on
    are trained; none of a pair that nobody wins.

    rows: [E + M, L], of the expert's episodes and of the forks. wins: i32[M], as `preferred`.
    """
    fork = rows.tokens.shape[0] - at.shape[0] + jnp.arange(at.shape[0])
    pair = jnp.where(wins >= 0, jnp.stack([lane, fork]), jnp.stack([fork, lane]))
    order = pair.T.reshape(-1)
    rows = jax.tree.map(lambda x: x[order], rows)
    trained = (rows.turn >= jnp.repeat(at, 2)[:, None]) & jnp.repeat(wins != 0, 2)[:, None]
    return rows.replace(
        stream=jnp.arange(order.shape[0], dtype=jnp.int32), loss_mask=rows.loss_mask & trained
    )
