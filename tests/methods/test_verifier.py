"""A generative verifier: which token is learnt, what its probability is, and the choice by it."""

import jax
import jax.numpy as jnp
import judged_team
import numpy as np
import pytest
from in_process import call_here

from agentrl.config.build import build
from agentrl.evaluation import selection, sheets
from agentrl.methods.verifier import p_yes, verdict_rows, verdict_tokens
from agentrl.policies.scoring import Scored
from agentrl.streams import Rows


class Told:
    """A policy whose probability of token n is (n + 1) / 55."""

    reads_text = True

    def score(self, params, rows):
        logp = jnp.log((rows.tokens + 1.0) / 55)
        return Scored(logp, logp, logp)


def test_probability_of_yes_of_two_tokens_or_of_all():
    """Tokens 2 and 5 have probabilities 3/55 and 6/55."""
    mask = jnp.array([[False, False, True, False]])
    rows = Rows(tokens=jnp.array([[7, 8, 9, 1]]), loss_mask=mask, stream=jnp.zeros(1, jnp.int32),
                turn=jnp.zeros((1, 4), jnp.int32), behaviour_logp=jnp.zeros((1, 4)))  # fmt: skip
    pair = p_yes(Told(), None, rows, (5, 2))
    np.testing.assert_allclose(pair, [6 / 9], rtol=1e-6)
    np.testing.assert_allclose(p_yes(Told(), None, rows, (5, 2), over="all"), [6 / 55], rtol=1e-6)
    with pytest.raises(ValueError, match="expected"):
        p_yes(Told(), None, rows, (5, 2), over="both")


def test_the_true_verdict_is_the_one_token_that_is_learnt():
    made = build(judged_team.get_config())
    batch = jax.device_get(jax.jit(made.batches)(jax.jit(made.init)(0)))
    (task,) = made.tasks.values()
    yes, no = verdict_tokens(task.policy, task.env)
    streams, rows = batch["verifier"].streams, batch["verifier"].rows
    played = batch["rollout"].rows
    at = np.argwhere(rows.loss_mask)
    # One token of each attempt that was answered, by its validator.
    judged = np.flatnonzero(streams.mask.any(axis=1) & (streams.role == 2))
    assert 1 < len(judged) < 8 and sorted(rows.stream[at[:, 0]]) == judged.tolist()
    solved = (streams.success & streams.mask).any(axis=1)[rows.stream[at[:, 0]]]
    np.testing.assert_array_equal(rows.tokens[tuple(at.T)], np.where(solved, yes, no))
    elsewhere = ~rows.loss_mask
    np.testing.assert_array_equal(rows.tokens[elsewhere], played.tokens[elsewhere])
    again = verdict_rows(played, streams, 2)
    np.testing.assert_array_equal(again.loss_mask, rows.loss_mask)


def test_a_run_is_trained_and_its_attempts_are_chosen_among(tmp_path):
    run = tmp_path / "run"
    done = call_here("train", f"--config={judged_team.__file__}", f"--workdir={run}")
    assert done.returncode == 0, done.stderr
    done = call_here("select", f"--workdir={run}", "--tasks=4", "--attempts=3", "--at_once=2")
    assert done.returncode == 0, done.stderr
    shares = {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()[1:5]}
    assert list(shares) == ["random", "self-consistency", "verifier", "oracle"]
    assert max(shares.values()) == shares["oracle"]
    about, shown = sheets.read(run / "attempts.json")
    assert about["tasks"] == 4 and len(shown) == 2  # of those that were played at once first
    assert {name: round(x["mean"], 3) for name, x in about["shares"].items()} == shares
    for sheet in shown:
        formed = np.array([[draft.formed for draft in sheet.drafts]])
        (best,) = selection.select_best(np.array([sheet.scores]), formed)
        assert sheet.chosen["verifier"] == best
        assert len(sheet.drafts) == len(sheet.scores) == 3
        # The grounder, the generator and the validator of finished attempts.
        roles = [[line[:2] for line in draft.text.splitlines()] for draft in sheet.drafts]
        assert all(
            x == ["0:", "1:", "2:"] for x, d in zip(roles, sheet.drafts, strict=True) if d.formed
        )
    done = call_here("report", f"--workdirs={run}", "--nocredit")
    assert done.returncode == 0, done.stderr
    page = (run / "report.html").read_text()
    assert 'id="drafts"' in page and "chosen by verifier" in page and "attempt 3" in page
    wrong = call_here("select", f"--workdir={run}", "--tasks=5", "--at_once=2")
    assert wrong.returncode and "does not divide" in wrong.stderr
