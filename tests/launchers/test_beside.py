"""Drafts and replaced players in the report of runs that were really trained."""

import re

import jax
import numpy as np
import pytest
from in_process import call_here

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.losses import behaviour_cloning
from agentrl.methods.counterfactual import counterfactual
from agentrl.methods.drafts import by_agent, drafts
from agentrl.run import loop, restored
from envs import make
from launchers import beside


def of_drafts(words):
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 1, 1
    config.env = env_section("Drafts-v1", agents=2, steps=2, numbers=4)
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    if words:
        sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 2, "hidden": 16}
        config.policy = section(policies.transformer, critic="shared", constrained=True, **sizes)
        config.context = section(rollout.contexts.window, history=0)
        config.warm_start.updates = 0
    else:
        config.policy = section(policies.mlp, hidden=(8,), critic="shared")
        config.rollout.mask_illegal = True
    config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
    config.components.drafts = section(drafts)
    config.reward.winner = section(rewards.winner_reward)
    config.filters.winner = section(advantages.winner_turns)
    config.reweighting.by_agent = section(by_agent)
    config.objective.value.weight = 0.1
    config.objective.teacher = term(behaviour_cloning, weight=0.5, source="drafts")
    config.learner.minibatches = 1
    return config


def of_plans():
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 1, 1
    config.env = env_section("GuidedResearch-v1", facts=(1, 2), budget=3)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    silent = "envs.guided_research.env.silent"
    config.rollout = section(
        counterfactual, side="planner", partners=("expert",), replacements=(silent,),
        num_groups=8, group_size=2, mask_illegal=True,
    )  # fmt: skip
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.minibatches = 1
    return config


def report_of(config, workdir):
    loop.run(config, workdir, command="train")
    done = call_here("report", f"--workdirs={workdir}")
    assert done.returncode == 0, done.stderr
    return (workdir / "report.html").read_text()


@pytest.mark.parametrize("words", [False, True], ids=["arrays", "words"])
def test_drafts_with_their_grades_and_scores(words, tmp_path):
    page = report_of(of_drafts(words), tmp_path / "run")
    part = re.split('id="(?:replies|credit)"', page.split('id="drafts"')[1])[0]
    assert "over 8 choices" in part
    for name in ("went on", "the reward model", "any draft"):
        assert f">{name}</th>" in part
    shown = part.split('class="talk"')[1:]
    assert len(shown) == 4
    for sheet in shown:
        cards = sheet.split('class="draft')[1:]
        assert len(cards) == 4 and sum("went on" in card for card in cards) == 1
        assert sum("chosen by the reward model" in card for card in cards) == 1
        assert all(re.search(r"grades? \d · score −?\d", card) for card in cards)


def test_the_drafts_are_those_that_the_states_hold():
    """Of scripted notes and answers: text, form, and the one with the highest grade."""
    env, params = make("Drafts-v1", agents=2, drafts=1, steps=1, terms=1, numbers=4)
    state = env.initial(jax.random.key(0), params)
    names, step = env.action_names, jax.jit(env.step_env)
    right = int(env.solution(state))
    wrong = (right + 1) % 4
    turns = [(f"note {wrong}", "note 2"), (f"answer {wrong}", f"answer {right}"),
             ("grade 3", "grade 1")]  # fmt: skip
    states = [state]
    for turn in turns:
        action = np.array([names.index(x) for x in turn])
        states.append(step(jax.random.key(1), states[-1], action, params)[1])
    states.append(states[-1])  # behind the end
    stacked = jax.device_get(jax.tree.map(lambda *x: np.stack(x), *states))
    (sheet,) = beside.sheets_of(env, params, stacked, "episode 0", np.array([2.0, 1.0]))
    one, other = sheet.drafts
    assert (one.text, other.text) == (f"note {wrong}, answer {wrong}", f"note 2, answer {right}")
    assert (one.grades, other.grades) == ((1.0,), (3.0,))
    assert not one.right and other.right and other.went_on and not one.went_on
    assert sheet.task == f"numbers {right}"
    assert sheet.chosen == {"the reward model": 0} and sheet.title == "episode 0, after turn 3"


def test_drafts_turn_by_turn():
    """Of a wrapper: a sheet for each turn that was played, with what it was about."""
    game = {"name": "CheckedSum-v1", "question": "largest", "terms": 2, "max_steps_in_episode": 9}
    inner = {"name": "envs.wrappers.OneTranscript", "base": game}
    env, params = make("envs.wrappers.SideBySide", base=inner, drafts=2)
    state = env.initial(jax.random.key(0), params)
    largest = int(env.base.base.solution(state.base.base))
    wrong, step = (largest + 1) % 7, jax.jit(env.step_env)
    said = [f"say {wrong}", "say 0", "reject", "zzz", "approve", f"say {largest}", f"say {wrong}"]
    states = [state]
    for word in said:
        action = env.action_names.index(word) if word in env.action_names else -1
        states.append(step(jax.random.key(1), states[-1], action, params)[1])
    stacked = jax.device_get(jax.tree.map(lambda *x: np.stack(x), *states))
    sheets = beside.sheets_of(env, params, stacked, "episode 3")
    assert [s.title for s in sheets] == [f"episode 3, after turn {n}" for n in (2, 5, 7)]
    assert [[d.text for d in s.drafts] for s in sheets] == [
        said[:2],
        ["reject", "approve"],
        said[5:],
    ]
    assert [s.drafts[0].right for s in sheets] == [None, None, True]
    assert sheets[0].task.endswith("= none? (answer 0)")
    assert sheets[1].task.endswith(f"= {wrong}? (answer 1)")


def test_plans_that_were_replaced(tmp_path):
    page = report_of(of_plans(), tmp_path / "run")
    part = page.split('id="replaced"')[1].split('id="credit"')[0]
    assert "in place of the planner" in part and "silent, beside expert" in part
    assert "over the 8 tasks" in part and re.search(r">plan \w+", part)
    # The means are those of the batch.
    assert restored.load(tmp_path / "run").update == 1
    assert "With a player replaced" in page and "drafts" not in re.findall(
        r'section id="(\w+)', page
    )
