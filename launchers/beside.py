"""What a report shows beside each other: drafts of which one went on, runs with a player replaced,
replies before and after training.

Of the batch that its credit view plays.
"""

import dataclasses
from typing import Any

# Episodes whose drafts are read.
_EPISODES = 64


def drafts(run: Any, state: Any, batch: Any) -> Any:
    """The section on drafts of a batch of source "rollout" that `state` collected, or None if the
    environment has none, or its states are not known."""
    import jax
    import numpy as np

    from agentrl.evaluation.drafts_view import section
    from agentrl.learner.train_step import keys_of
    from envs.agents import Agents

    rollout, shown = run.experiment.rollout, []
    for env, env_params in [(t.env, t.env_params) for t in run.experiment.tasks.values()]:
        shown.append((env, env_params, type(env).drafts_of is not Agents.drafts_of))
    if len(shown) != 1 or not shown[0][2] or rollout.states is None or rollout.needs:
        return None
    env, env_params, _ = shown[0]
    states = jax.jit(rollout.states)(state.params, state.rollout, keys_of(state)[1])
    states = jax.device_get(jax.tree.map(lambda x: x[:, :_EPISODES], states))
    scores = batch.notes.get("draft_scores")
    scores = None if scores is None else np.asarray(scores.values)
    found = []
    for episode in range(jax.tree.leaves(states)[0].shape[1]):
        alone = jax.tree.map(lambda x, episode=episode: x[:, episode], states)
        own = None if scores is None else scores[episode].reshape(-1)
        found += sheets_of(env, env_params, alone, f"episode {episode}", own)
    return section(found, noun="choices") if found else None


def sheets_of(env: Any, env_params: Any, states: Any, title: str, scores: Any = None) -> list[Any]:
    """The drafts of one episode with states [T + 1, ...], where one of them has just gone on.

    scores: of the only ones that there are, f32[drafts], or None.
    """
    import jax

    from agentrl.evaluation.sheets import Sheet, best_formed

    found, before, task = [], -1, ""
    for turn in range(jax.tree.leaves(states)[0].shape[0]):
        state = jax.tree.map(lambda x, turn=turn: x[turn], states)
        # Behind the end there is the last state again.
        drafts = env.drafts_of(state, env_params) if int(state.time) != before else ()
        before = int(state.time)
        if drafts:
            found.append(Sheet(f"{title}, after turn {before}", tuple(drafts), task=task))
        if drafts or turn == 0:
            task = _drawn(env, env_params, state)
    if scores is None or len(found) != 1 or len(scores) != len(found[0].drafts):
        return found
    (sheet,) = found
    model = best_formed(scores, [draft.formed for draft in sheet.drafts])
    chosen = {"the reward model": model}
    return [dataclasses.replace(sheet, scores=tuple(scores.tolist()), chosen=chosen)]


def _drawn(env: Any, env_params: Any, state: Any) -> str:
    try:
        return str(env.render(state, env_params))
    except NotImplementedError:
        return ""


def replaced(run: Any, batch: Any) -> Any:
    """The section on a rollout with counterfactual runs, or None if it is none."""
    import numpy as np

    from agentrl.evaluation.drafts_view import replaced

    streams, options = batch.streams, run.config.rollout
    if streams.runs is None:
        return None
    mask = np.asarray(streams.mask)
    episode, runs = np.asarray(streams.episode), np.asarray(streams.runs)
    numbers, first = np.unique(episode, return_index=True)
    texts = turn_texts(run, streams, batch.rows)
    said = []
    for number in numbers:
        own = np.flatnonzero((episode == number) & mask.any(axis=1))
        turns = sorted((t, i) for i in own for t in np.flatnonzero(mask[i]))
        said.append(", ".join(texts(i, t) for t, i in turns))
    return replaced(
        runs[first],
        said,
        group=np.asarray(streams.group)[first],
        partners=options.partners,
        replacements=options.replacements,
        side=options.side,
    )


def replies(run: Any, collect: Any, state: Any, batch: Any) -> Any:
    """The section on a language policy's replies to the tasks of a batch that `collect` made of
    `state`, before training and after; None for a policy over arrays."""
    import jax

    from agentrl.evaluation.markup import tag
    from agentrl.evaluation.replies_view import section
    from agentrl.run import checkpoint, restored

    experiment = run.experiment
    if experiment.policy.codec is None:
        return None
    try:
        begun = jax.tree.map(lambda x: x[0], restored.initial(run))
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        return tag("p", f"Not shown: {error}", class_="note")
    earlier = collect(state.replace(params=begun))["rollout"]
    return section(
        experiment.policy.codec,
        (earlier.streams, earlier.rows),
        (batch.streams, batch.rows),
        update=run.update,
        tasks=tuple(experiment.tasks),
    )


def turn_texts(run: Any, streams: Any, rows: Any) -> Any:
    """(stream, turn) -> what was done there, in words."""
    import jax
    import numpy as np

    from agentrl.evaluation.credit_view import per_turn
    from agentrl.evaluation.transcripts import find_turn
    from agentrl.policies.codec import decode

    codec, rows = run.experiment.policy.codec, jax.device_get(rows)
    if codec is not None:

        def reply(stream, turn):
            row, _, written = find_turn(rows, stream, turn)
            return decode(codec, rows.tokens[row][written]).strip()

        return reply
    actions = per_turn(rows.tokens, rows, np.asarray(streams.mask).shape)
    return lambda stream, turn: run.experiment.env.action_names[actions[stream, turn]]
