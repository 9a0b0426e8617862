"""Episodes of environments in Python are played again from the seed of their reset."""

import dataclasses
import pathlib

import jax
import numpy as np
import pytest
import tiny
from in_process import call_here

from agentrl.config import env_section, section
from agentrl.config.build import build
from agentrl.run import trajectories
from agentrl.trajectories import files, schema
from agentrl.trajectories.replay import ReplayError, replay

TOYS = str(pathlib.Path(tiny.__file__).parent / "hosted_toys.py")
MLP = {
    "policy": section(tiny.policies.mlp, hidden=(8,), critic="none"),
    "context": {"name": "none"},
}


def written(workdir, name, changes=None, **options):
    """The file of a collection before the first update."""
    config = tiny.host_config(updates=2)
    config.env = env_section(f"{TOYS}:{name}", **options)
    for key, value in (changes or {}).items():
        config[key] = value
    config.advantage = section(tiny.advantages.grpo)
    config.learner.minibatches = 1
    config.rollout.update(num_groups=3, group_size=2)
    config.host.update(workers=2, max_turns=4)
    config.trajectories.update(every=2, most=0)
    experiment = build(config)
    try:
        state = jax.tree.map(lambda x: x[None], experiment.init(np.int32(0)))
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        return trajectories.write(config, experiment, state, 0, workdir, here)
    finally:
        experiment.rollout.close()


CASES = {
    "words": ("Sum", {}, {"turns": 6}),
    "a game in words": ("Race", {}, {}),
    "arrays, at once": ("Digits", MLP, {"kind": "once", "arrays": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_episodes_are_played_again(tmp_path, case):
    name, changes, options = CASES[case]
    path = written(tmp_path, name, changes, **options)
    episodes = list(files.read(path))
    assert len(episodes) == 6 and len({e.reset_seed for e in episodes}) == 3
    for episode in episodes:
        assert episode.seeds is None and replay(episode) == []
    # What differs is named.
    episode = episodes[0]
    agent = next(a for a in episode.agents if a.turns)
    at = episode.agents.index(agent)
    turn = dataclasses.replace(agent.turns[0], reward=agent.turns[0].reward + 1, anchor=(1, 2))
    if turn.observation is not None:
        zeros = tuple(0.0 for _ in turn.observation.data)
        observed = dataclasses.replace(turn.observation, data=zeros)
        turn = dataclasses.replace(turn, observation=observed)
    agents = list(episode.agents)
    agents[at] = dataclasses.replace(agent, turns=(turn, *agent.turns[1:]))
    told = " ".join(replay(dataclasses.replace(episode, agents=tuple(agents))))
    assert "reward" in told and ("anchor" in told or "observation" in told)
    with pytest.raises(ReplayError, match="does not start"):
        task = dataclasses.replace(episode.task, environment="/nowhere/none.py:Nothing")
        replay(dataclasses.replace(episode, task=task))


def test_the_launcher_replays_them(tmp_path):
    path = written(tmp_path, "Sum")
    done = call_here("trajectories", f"--replay={path}")
    assert "6 equal, 0 different, 0 not played" in done.stdout, done.stderr
    line = path.read_text().splitlines()[0]
    seed = schema.from_line(line).reset_seed
    with pytest.raises(schema.SchemaError, match="reset_seed: -1"):
        schema.from_line(line.replace(f'"reset_seed":{seed}', '"reset_seed":-1'))
