"""The bank of skills: choice, contents and usefulness against plain loops, and what a teacher that
reads them says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context as given
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.paprika import Arms
from agentrl.methods.skill_distillation import skill_bank, skill_teacher
from agentrl.methods.skills import Skills, chosen, empty, summarised, usefulness, with_summaries
from agentrl.streams import Streams

COMMANDS = np.array([[5, 0], [6, 0], [7, 8]], np.int32)


def skills(steps, use=None, written=None):
    """Skills of tasks that differ in these alone, [C, K]."""
    steps = np.array(steps, np.int32)
    written = steps if written is None else written
    total, count = np.zeros((2, *steps.shape)) if use is None else use
    arms = Arms(jnp.array(total), jnp.array(count))
    return Skills(jnp.zeros((*steps.shape, 2), int), jnp.array(steps), jnp.array(written), arms, 0)


def test_the_published_form_of_the_bound():
    """Means 0.3 and 0.1 of 8 and 2 visits, c = 0.2: 0.3 + 0.2 sqrt(ln 10 / 8) = 0.407298 and
    0.1 + 0.2 sqrt(ln 10 / 2) = 0.314597; with c = 0.5 0.568246 and 0.636492."""
    two = skills([[1, 1]], ([[2.4, 0.2]], [[8.0, 2.0]]))
    assert chosen(two, exploration=0.2)[0] == 0 and chosen(two, exploration=0.5)[0] == 1


def test_choices_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    steps, count = rng.integers(0, 4, (60, 4)), rng.integers(0, 5, (60, 4)) * 1.0
    total, written = count * rng.normal(size=(60, 4)), rng.permutation(240).reshape(60, 4)
    some = skills(steps, (total, count), written)
    found, latest = chosen(some, exploration=0.7), chosen(some, rule="latest")
    for task in range(60):
        best, last = (-np.inf, 0), (-1, 0)
        for k in np.flatnonzero(steps[task]):
            score = np.inf
            if count[task, k]:
                tried = max(count[task].sum(), 1)
                score = total[task, k] / count[task, k]
                score += 0.7 * np.sqrt(np.log(tried) / count[task, k])
            best = max(best, (score, k), key=lambda pair: pair[0])
            last = max(last, (written[task, k], k))
        assert (found[task], latest[task]) == (best[1], last[1])
    with pytest.raises(ValueError, match="rule"):
        chosen(some, rule="first")


def test_usefulness_is_a_difference_of_means():
    """Solved .4 and .2, others -.1: .4. A task without failures is not measured, and what belongs
    to no task is not read; a difference of 3 counts as 1."""
    gain = jnp.array([0.4, -0.1, 0.2, 0.9, jnp.nan, 2.0, -1.0])
    worked = jnp.array([True, False, True, True, True, True, False])
    place = jnp.array([0, 0, 0, 1, 3, 2, 2])
    found, measured = usefulness(gain, worked, place, 3)
    np.testing.assert_array_equal(measured, [True, False, True])
    np.testing.assert_allclose(np.where(measured, found, 0), [0.4, 0, 1], atol=2e-5)


def episodes(rng, count):
    """(streams, actions i32[N, S], tasks) of three tasks; rewards and flags behind the end are
    set, and some actions are none."""
    length = rng.integers(0, 6, count)
    mask = np.arange(5) < length[:, None]
    last = np.arange(5) == length[:, None] - 1
    solved = rng.random(count) < 0.4
    cut = rng.random(count) < 0.3
    streams = Streams(
        reward=np.full(mask.shape, np.nan),
        mask=mask,
        success=(last & solved[:, None]) | ~mask,
        terminated=(last & ~cut[:, None]) | ~mask,
    )
    action = np.where(mask & (rng.random(mask.shape) < 0.8), rng.integers(0, 3, mask.shape), -1)
    task = np.uint32([[7, 1], [7, 2], [8, 1]])[rng.integers(0, 3, count)]
    return streams, action.astype(np.int32), task


def test_the_bank_is_that_of_a_loop():
    """Two places for three tasks, two skills of up to three commands each: the shortest stay, and a
    new task takes the place of the one that came first."""
    rng, bank, expected = np.random.default_rng(1), empty(2, 2, 6, 2), {}
    told = jax.jit(lambda s, a: summarised(jnp.tile(COMMANDS, (40, 1, 1)), a, s, 3))
    add, mistakes = jax.jit(with_summaries), 0
    for _ in range(4):
        streams, action, task = episodes(rng, 40)
        bank = add(bank, task, told(streams, action))
        for n in range(40):
            said = [COMMANDS[a] for a in action[n] if a >= 0]
            text = tuple(int(x) for command in said for x in command if x)
            key, there = tuple(task[n].tolist()), streams.mask[n]
            if (streams.success[n] & there).any():
                held = expected.get(key, ({}, ()))[0]
                longest = max(held.values(), default=0)
                full = len(held) == 2
                if 0 < len(said) <= 3 and text not in held and (not full or len(said) < longest):
                    if full:
                        held.pop(next(t for t in held if held[t] == longest))
                    if key not in expected and len(expected) == 2:
                        expected.pop(next(iter(expected)))
                    expected[key] = held | {text: len(said)}, expected.get(key, ({}, ()))[1]
            elif (streams.terminated[n] & there).any() and key in expected:
                last = tuple(int(x) for x in said[-1] if x) if said else ()
                expected[key] = expected[key][0], last
                mistakes += bool(last)
    assert mistakes and len(expected) == 2
    found = {}
    for at in range(2):
        own = jax.tree.map(lambda x, at=at: np.asarray(x[at]), bank.skills)
        texts = {
            tuple(t[t > 0].tolist()): s for t, s in zip(own.skill, own.steps, strict=True) if s
        }
        key = tuple(np.asarray(bank.task[at]).tolist())
        found[key] = texts, tuple(own.mistake[own.mistake > 0].tolist())
    assert found == expected


def config_of(component, scale=None, **options):
    """Lakes of four cells, which come again."""
    config = talk_config(updates=2, log_every=1, warm_start__updates=0, policy__constrained=True)
    config.env.update(size=2, slippery=False)
    config.objective.kl.weight = 0.0
    config.components[component.__name__] = section(component, **options)
    config.objective.distillation = term(losses.skill_distillation, weight=0.001, scale=scale)
    return config


def test_a_teacher_reads_what_solved_the_task():
    """Nothing in the first update; then, of each task that was solved, the commands of its
    shortest solved episode. With one skill in the bank it is `skill_teacher`'s."""
    options = {"tasks": 16, "per_task": 1, "longest": 3, "warning": "O"}
    experiment = build(config_of(skill_bank, "skill_read", **options))
    component, lexicon = experiment.components["skill_bank"], experiment.env.view.lexicon
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    streams, rows, notes = batch.streams, batch.rows, batch.notes
    mask = np.asarray(rows.loss_mask)
    assert not notes["skill_read"].values.any()
    empty_teacher = np.asarray(notes["teacher_logp"].values)
    np.testing.assert_allclose(empty_teacher[mask], rows.behaviour_logp[mask], atol=1e-4)

    outcome = UpdateResult(state, state.params, streams=streams, rows=rows, notes=notes)
    after = jax.jit(component.after)
    value, metrics = after(state.carry["skill_bank"], outcome)
    bank = jax.device_get(value[0])
    assert metrics["skill_bank/usefulness"][1] == 0 < metrics["skill_bank/tasks"][0]
    solved = np.asarray(streams.success & streams.mask).any(axis=1)
    turns = np.asarray(streams.mask).sum(axis=1)
    known = {tuple(t.tolist()): k for k, t in enumerate(bank.task) if bank.since[k]}
    anchors = [tuple(np.asarray(t).tolist()) for t in streams.anchor[:, 0]]
    assert set(known) == {anchors[n] for n in np.flatnonzero(solved & (turns <= 3))}
    for task, at in known.items():
        own = [n for n in np.flatnonzero(solved) if anchors[n] == task]
        assert bank.skills.steps[at, 0] <= min(turns[own])
        texts = [lexicon[i] for i in bank.skills.skill[at, 0] if i]
        assert set(texts) <= set(experiment.env.action_names)

    # One skill for all, and no mistakes: the same as a text that the config gives.
    skill = np.zeros(bank.skills.skill.shape[-1], np.int32)
    skill[:2] = [lexicon.index(experiment.env.action_names[a]) for a in (1, 2)]
    same = bank.skills.replace(
        skill=np.broadcast_to(skill, bank.skills.skill.shape).copy(),
        mistake=np.zeros_like(bank.skills.mistake),
    )
    value = (bank.replace(skills=same), ())
    annotate = jax.jit(lambda value: component.annotate(given(value, state.params), streams, rows))
    found, _ = annotate(value)
    other = build(config_of(skill_teacher, skill=lambda state, agent, params: jnp.array(skill)))
    expected = jax.jit(other.batches)(jax.jit(other.init)(0))["rollout"]
    # What the policy read and wrote does not depend on a teacher.
    np.testing.assert_array_equal(rows.tokens, expected.rows.tokens)
    read = np.asarray(found["skill_read"].values) > 0
    member = np.array([anchor in known for anchor in anchors])
    np.testing.assert_array_equal(read, mask & member[np.asarray(rows.stream)][:, None])
    teacher, reference = (x["teacher_logp"].values for x in (found, expected.notes))
    np.testing.assert_allclose(teacher[read], reference[read], atol=1e-5)

    def slope(teacher, scale):
        loss = lambda logp: losses.skill_distillation(logp, rows.behaviour_logp, teacher, mask)  # noqa: E731
        return jax.grad(lambda logp: jnp.sum(scale * loss(logp)))(rows.behaviour_logp - 0.1)

    got = slope(teacher, found["skill_read"].values)
    np.testing.assert_allclose(got, np.where(read, slope(reference, 1.0), 0), atol=1e-4)
    assert not got[~read].any()

    # With a warning behind it, the teacher reads another text.
    mistake = same.mistake.copy()
    mistake[:, 0] = skill[0]
    warned, _ = annotate((bank.replace(skills=same.replace(mistake=mistake)), ()))
    apart = np.abs(np.asarray(warned["teacher_logp"].values - teacher))[read].max()
    assert apart > 1e-4

    # What was read in an update counts for that skill, once.
    outcome = outcome._replace(notes=found)
    (_, _), metrics = after(value, outcome)
    assert metrics["skill_bank/usefulness"][1] > 0
