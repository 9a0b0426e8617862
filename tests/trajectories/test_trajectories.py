"""Episodes as files: written by a run, read, and played again bit for bit."""

import dataclasses
import json
import types

import jax
import memory_source
import numpy as np
import pytest
import tiny
from in_process import call_here

from agentrl import losses, rollout
from agentrl.actors import contexts
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.config.tasks import context_of
from agentrl.methods.labelled import labelled
from agentrl.methods.pairs import pairs
from agentrl.run import loop, trajectories
from agentrl.streams import SPANS
from agentrl.trajectories import adp, files, schema, source
from agentrl.trajectories.encode import encoded
from agentrl.trajectories.replay import ReplayError, replay


def arrays():
    return tiny.groups_config(updates=2)


def words():
    return tiny.talk_config(updates=2, warm_start__updates=0)


def game():
    config = tiny.groups_config(updates=2, learner__minibatches=1)
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.rollout = section(rollout.episodes, num_groups=4, group_size=2, mask_illegal=True)
    config.advantage = {"name": "rae_by_turn", "gamma": 0.95}
    return config


def calls():
    """A planner and the workers that it calls."""
    config = tiny.groups_config(updates=2, learner__minibatches=1)
    config.env = env_section("Research-v1", facts=(1, 1), calls=1, max_steps_in_episode=6)
    config.rollout = section(rollout.episodes, num_groups=2, group_size=4, mask_illegal=True)
    return config


def written(config, workdir):
    """(the file, the batch that it is of) of a run before its first update."""
    config.trajectories.update(every=2, most=0)
    experiment = build(config)
    one = jax.jit(experiment.init)(np.int32(0))
    state = jax.tree.map(lambda x: x[None], one)
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    path = trajectories.write(config, experiment, state, 0, workdir, here)
    return path, jax.device_get(jax.jit(experiment.batches)(one)["rollout"]), experiment


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectories")
    configs = {"arrays": arrays(), "words": words(), "game": game(), "calls": calls()}
    return {name: written(config, folder / name) for name, config in configs.items()}


@pytest.mark.parametrize("kind", ["arrays", "words", "game", "calls"])
def test_an_episode_is_written_read_and_replayed_bit_for_bit(runs, kind):
    path, batch, experiment = runs[kind]
    episodes = list(files.read(path))
    streams, rows = batch.streams, batch.rows
    assert len(episodes) == streams.mask.shape[0] // experiment.rollout.agents
    assert [schema.to_line(e) for e in episodes] == path.read_text().splitlines()
    called = [agent.parent for episode in episodes for agent in episode.agents if agent.turns]
    assert any(parent is not None for parent in called) == (kind == "calls")
    number = {episode.id: i for i, episode in enumerate(episodes)}
    for episode in episodes:
        for a, agent in enumerate(episode.agents):
            i = number[episode.id] * len(episode.agents) + a
            assert [turn.number for turn in agent.turns] == np.flatnonzero(streams.mask[i]).tolist()
            for name in ("reward", "terminated", "truncated", "valid", "success"):
                mine = np.array([getattr(t, name) for t in agent.turns])
                there = getattr(streams, name)[i][streams.mask[i]]
                np.testing.assert_array_equal(mine.astype(there.dtype), there)
            credit = np.array([t.advantage for t in agent.turns], np.float32)
            np.testing.assert_array_equal(credit, batch.credit.advantage.values[i][streams.mask[i]])
            of_stream = (rows.stream == i)[:, None] & rows.loss_mask
            if kind == "words":
                spans = [span for row in agent.rows for span in row]
                logp = [x for span in spans if span.trained for x in span.logp]
                tokens = [x for span in spans for x in span.tokens]
                row = int(np.flatnonzero(rows.stream == i)[0])
                assert tokens == rows.tokens[row][: len(tokens)].tolist()
                assert {s.kind for s in spans} <= {None, *SPANS}
            else:
                logp = [turn.logp for turn in agent.turns]
            np.testing.assert_array_equal(
                np.array(logp, np.float32), rows.behaviour_logp[of_stream]
            )
    for episode in episodes[:4]:
        assert replay(episode) == []


def supervised(component):
    """Parameters after two supervised updates on the rows of a component."""
    config = tiny.talk_config(updates=2, warm_start__updates=2)
    with config.unlocked():
        config.components.held = component
    config.objective.imitation.source = "held"
    experiment = build(config)
    state = jax.jit(experiment.init)(np.int32(1))
    state, metrics = jax.jit(tiny.train_of(experiment, "warm_start"))(state)
    assert tiny.mean(metrics, "rejected_updates") == 0
    return jax.device_get(state.params)


def test_supervised_updates_from_a_file_are_those_from_memory(runs):
    path, batch, _ = runs["words"]
    held = source.text_rows(source.streams_of(list(files.read(path))), 10**6, lambda turn: True)
    size = held.tokens.shape[1]
    assert not batch.rows.loss_mask[:, size:].any()
    memory_source.HELD = batch.streams, jax.device_get(batch.rows.head(size))
    for name in ("tokens", "loss_mask", "turn", "behaviour_logp", "span", "stream"):
        mine, there = getattr(held, name), getattr(memory_source.HELD[1], name)
        np.testing.assert_array_equal(mine, there, err_msg=name)
    options = {"path": str(path), "rows": 0, "episodes": "all", "turns": "all"}
    of_file = supervised({"name": "agentrl.trajectories.file"} | options)
    of_memory = supervised({"name": "memory_source.memory"})
    jax.tree.map(np.testing.assert_array_equal, of_file, of_memory)


PREFERENCES = {
    "labelled": (section(labelled, source="held"), losses.kto),
    "pairs": (section(pairs, source="held"), losses.dpo),
    "drawn": (section(pairs, source="held", count=4), losses.dpo),
}


def offline(component, preference):
    """Parameters after two updates by KTO or DPO on the episodes of a component; nothing is
    played."""
    config = tiny.talk_config(updates=2, warm_start__updates=0)
    config.objective.policy.weight = config.objective.kl.weight = 0.0
    with config.unlocked():
        config.components.held = component
        config.components.preferences, loss = PREFERENCES[preference]
        config.objective.preference = term(loss, source="preferences")
    experiment = build(config)
    assert not experiment.phases[-1][0].collects
    state = jax.jit(experiment.init)(np.int32(1))
    after, metrics = jax.jit(tiny.train_of(experiment))(state)
    assert tiny.mean(metrics, "rejected_updates") == 0 < tiny.mean(metrics, "grad_norm")
    return jax.device_get(after.params)


def paid(episode, more):
    """The episode with so much more for its first turn: none of a random policy is paid."""
    (agent,) = episode.agents
    first, *rest = agent.turns
    turns = dataclasses.replace(first, reward=first.reward + more), *rest
    return dataclasses.replace(episode, agents=(dataclasses.replace(agent, turns=turns),))


@pytest.mark.parametrize("preference", PREFERENCES)
def test_offline_updates_from_a_file_are_those_from_memory(runs, tmp_path, preference):
    path, batch, _ = runs["words"]
    more = np.arange(batch.streams.mask.shape[0], dtype=np.float32) % 3
    streams = batch.streams.replace(
        reward=batch.streams.reward + more[:, None] * (np.arange(4) == 0)
    )
    batch = batch._replace(streams=streams)
    every = list(files.read(path))
    path = tmp_path / "paid.jsonl"
    files.write(path, [paid(e, float(x)) for e, x in zip(every, more, strict=True)])
    rows = source.text_rows(source.streams_of(list(files.read(path))), 10**6, lambda turn: True)
    memory_source.HELD = batch.streams, jax.device_get(batch.rows.head(rows.tokens.shape[1]))
    of_file = {"name": "agentrl.trajectories.file", "path": str(path), "rows": 0}
    of_file = offline(of_file, preference)
    of_memory = offline({"name": "memory_source.memory"}, preference)
    jax.tree.map(np.testing.assert_array_equal, of_file, of_memory)


def test_sources_that_preferences_cannot_have():
    with pytest.raises(ValueError, match="only turns of the rollout are judged"):
        labelled(None, by="judgement", source="held")
    with pytest.raises(ValueError, match="only the rollout's turns are judged"):
        config = tiny.talk_config()
        config.rollout.judge = "expert"
        config.components.pairs = section(pairs, by="judgement", source="held")
        config.objective.dpo = term(losses.dpo, source="pairs")
        build(config)
    config = tiny.talk_config(updates=2, warm_start__updates=0)
    config.objective.kto = term(losses.kto, source="labelled")
    for other in ("no_such", "labelled"):
        with config.unlocked():
            config.components.labelled = section(labelled, source=other)
        with pytest.raises(ValueError, match=f"components.labelled: reads source '{other}'"):
            build(config)


@pytest.mark.parametrize("kind", ["arrays", "game"])
def test_rows_and_streams_of_arrays_are_those_of_the_batch(runs, kind):
    path, batch, experiment = runs[kind]
    found = source.streams_of(list(files.read(path)))
    held = source.array_rows(found, experiment.policy, lambda turn: True)
    flat = jax.tree.map(lambda x: x[batch.rows.loss_mask[:, 0]], batch.rows)
    order = np.lexsort((flat.turn[:, 0], flat.stream))
    flat = jax.tree.map(lambda x: x[order], flat)
    jax.tree.map(np.testing.assert_array_equal, held, flat)
    streams = source.stacked(found)
    for name in ("mask", "reward", "terminated", "truncated", "anchor", "group", "role"):
        mine, there = getattr(streams, name), getattr(batch.streams, name)
        if there is None:
            assert mine is None
            continue
        if there.ndim > 1:
            there = there[:, : mine.shape[1]]
            acted = streams.mask.reshape(*streams.mask.shape, *[1] * (there.ndim - 2))
            there = np.where(acted, there, 0)
        np.testing.assert_array_equal(mine, there, err_msg=name)


@pytest.mark.parametrize(
    "kind, options, word",
    [
        ("arrays", {}, "without tokens"),
        ("words", {"path": "nowhere"}, "cannot be read"),
        ("words", {"rows": -1}, "config.components.file.rows=-1"),
        ("words", {"turns": "some"}, "config.components.file.turns"),
    ],
)
def test_files_that_are_of_no_use(runs, kind, options, word):
    setup = types.SimpleNamespace(policy=runs["words"][2].policy)
    with pytest.raises(ValueError, match=word):
        source.file(setup, **{"path": str(runs[kind][0])} | options)


def test_what_differs_is_named(runs):
    episode = next(e for e in files.read(runs["arrays"][0]) if len(e.agents[0].turns) > 1)
    (agent,) = episode.agents
    first = agent.turns[0]

    def changed(**fields):
        turns = (dataclasses.replace(first, **fields), *agent.turns[1:])
        return dataclasses.replace(episode, agents=(dataclasses.replace(agent, turns=turns),))

    assert "turn 0: reward 0.5 in the file, 0.0 now" in replay(changed(reward=0.5))[0]
    assert "turn 0: anchor (1, 2) in the file" in replay(changed(anchor=(1, 2)))[0]
    task = dataclasses.replace(episode.task, start=(0, 0))
    assert "task.start" in replay(dataclasses.replace(episode, task=task))[0]
    for wrong, word in (
        (dataclasses.replace(episode, seeds=None), "no seeds"),
        (dataclasses.replace(episode, task=dataclasses.replace(task, environment="No")), "'No'"),
        (changed(action=None), "no action"),
    ):
        with pytest.raises(ReplayError, match=word):
            replay(wrong)


def test_a_run_writes_them_and_so_does_the_launcher(tmp_path):
    config = arrays()
    config.trajectories.update(name="surprising", every=2, most=3)
    loop.run(config, tmp_path, command="")
    (path,) = files.found(tmp_path)
    assert path.name == "update_000002.jsonl"
    assert 0 < len(list(files.read(path))) <= 3
    done = call_here("trajectories", f"--replay={path}")
    assert done.returncode == 0 and "3 equal, 0 different" in done.stdout
    done = call_here("trajectories", f"--workdir={tmp_path}", "--choose=failures")
    assert done.returncode == 0, done.stderr
    found = list(files.read(path))
    assert len(found) > 3 and not any(episode.success for episode in found)


@pytest.mark.parametrize(
    "values, word",
    [
        ({"every": 3}, "not a multiple of config.log_every"),
        ({"most": 4}, "set config.trajectories.every"),
        ({"every": 2, "most": -1}, "config.trajectories.most=-1"),
        ({"every": 2, "name": "failure"}, "did you mean 'failures'"),
        ({"every": 2, "wrong": 1}, "wrong"),
    ],
)
def test_sections_that_cannot_be(values, word):
    config = arrays()
    with config.unlocked():
        config.trajectories.update(values)
    with pytest.raises(ValueError, match=word):
        build(config)


def test_segments_are_no_episodes():
    config = tiny.segments_config()
    config.trajectories.every = 2
    with pytest.raises(ValueError, match="no whole episodes"):
        build(config)


# Changes of a line of words, and what is said of it. A path that ends with "-" is removed.
WRONG = [
    ("", "{", "not JSON"),
    ("", "[]", "expected a JSON object"),
    ("", "7", "expected a JSON object"),
    ("", "null", "expected a JSON object"),
    ("", '"text"', "expected a JSON object"),
    ("version", 2, "version: 2, expected 1"),
    ("version", True, "version: true"),
    ("version-", None, "version: null"),
    ("id-", None, "id: missing"),
    ("id", 3, "id: 3, expected a text"),
    ("task-", None, "task: missing"),
    ("task", [], "task: [], expected an object"),
    ("task.environment-", None, "task.environment: missing"),
    ("task.options", 1, "task.options: 1, expected an object"),
    ("task.turns", 0, "task.turns: 0, expected at least 1"),
    ("task.turns", 2.5, "task.turns: 2.5, expected an integer"),
    ("task.turns", 1, "task.turns=1"),
    ("task.start", [1], "task.start: 1 entries, expected 2"),
    ("task.start", [1, -1], "task.start: [1, -1]"),
    ("task.start", [1, 2**32], "without a sign"),
    ("task.anchor", "text", "task.anchor"),
    ("task.color", 1, "task.color: unknown key"),
    ("seed", "0", 'seed: "0", expected an integer'),
    ("update", None, "update: null"),
    ("group", 1.0, "group: 1.0"),
    ("seeds.index", -1, "seeds.index: -1"),
    ("seeds.task-", None, "seeds.task: missing"),
    ("seeds.chance", [0, 0, 0], "seeds.chance: 3 entries"),
    ("seeds", 5, "seeds: 5, expected an object"),
    ("agents", [], "agents: empty"),
    ("agents", {}, "agents: {}, expected a list"),
    ("agents.0", 1, "agents[0]: 1, expected an object"),
    ("agents.0.parent", 0, "agents[0].parent: 0"),
    ("agents.0.parent", 4, "agents[0].parent: 4"),
    ("agents.0.turns.0.number", -1, "agents[0].turns[0].number: -1"),
    ("agents.0.turns.0.number", 4, "less than task.turns=4"),
    ("agents.0.turns.0.reward-", None, "agents[0].turns[0].reward: missing"),
    ("agents.0.turns.0.reward", "x", 'agents[0].turns[0].reward: "x", expected a number'),
    ("agents.0.turns.0.reward", True, "expected a number"),
    ("agents.0.turns.0.terminated", 1, "expected true or false"),
    ("agents.0.turns.0", {"number": 0, "reward": 0, "terminated": True, "truncated": True}, "one"),
    ("agents.0.turns.0.anchor", 7, "agents[0].turns[0].anchor: 7, expected a list"),
    ("agents.0.turns.0.anchor", [0.5, 1], "anchor[0]: 0.5, expected an integer"),
    ("agents.0.turns.0.stop", "eos", "expected end or length"),
    ("agents.0.turns.0.references", [[0, 0]], "references: [0, 0], expected [agent, number]"),
    ("agents.0.turns.0.observation", {"dtype": "object", "shape": [], "data": [1]}, "dtype"),
    ("agents.0.turns.0.observation", {"dtype": "int8", "shape": [3], "data": [1]}, "shape [3]"),
    ("agents.0.rows.0.0.kind", "speech", 'rows[0][0].kind: "speech"'),
    ("agents.0.rows.0.0.tokens", [-1], "expected ids from 0 on"),
    ("agents.0.rows.0.0.tokens", "abc", "expected a list"),
    ("agents.0.rows.0.0.turn", 99, "which is no turn of this agent"),
    ("agents.0.rows.0.1.logp", [], "0 numbers, expected one of"),
    ("agents.0.rows.0.0", {"kind": None, "turn": None, "tokens": [], "text": ""}, "neither"),
]


def spoilt(line, path, value):
    if not path:
        return value
    content = json.loads(line)
    *parents, last = path.split(".")
    node = content
    for name in parents:
        node = node[int(name) if isinstance(node, list) else name]
    if last.endswith("-"):
        del node[last[:-1]]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return json.dumps(content)


def test_each_wrong_line_is_told_once_and_the_rest_is_read(runs, tmp_path):
    good = runs["words"][0].read_text().splitlines()
    lines = [text for wrong in WRONG for text in (spoilt(good[0], *wrong[:2]), "")]
    path = tmp_path / "wrong.jsonl"
    data = "\n".join([good[0], *lines, good[1], good[0]]).encode() + b"\n\xff\n"
    path.write_bytes(data)
    rejected = []
    read = list(files.read(path, rejected.append))
    assert [schema.to_line(e) for e in read] == good[:2] and len(WRONG) >= 50
    assert len(rejected) == len(WRONG) + 2
    for i, (one, (*_, word)) in enumerate(zip(rejected, WRONG, strict=False)):
        assert one.line == 2 + 2 * i and word in one.reason and "\n" not in str(one), one
    assert "a second time" in rejected[-2].reason and "not UTF-8" in rejected[-1].reason
    done = call_here("trajectories", f"--check={path}")
    assert done.returncode == 1 and "2 episodes, 55 lines left out" in done.stdout


def test_numbers_are_read_back_bit_for_bit():
    data = np.random.default_rng(0).integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32)
    data = data[~np.isnan(data)]
    back = np.array([json.loads(json.dumps(schema.number(x))) for x in data], np.float32)
    assert back.tobytes() == data.tobytes()
    assert schema._plain(float("nan")) == "nan"


@pytest.mark.parametrize("arguments", [[], ["--check=a", "--replay=b"], ["--check=nowhere"]])
def test_one_line_says_what_is_wrong(arguments):
    done = call_here("trajectories", *arguments)
    assert done.returncode == 2 and done.stderr.count("error:") == 1, done.stderr


def test_agent_data_protocol_and_back(runs):
    for episode in files.read(runs["words"][0]):
        line = adp.to_adp(episode)
        assert adp.from_adp(line) == episode and adp.to_adp(adp.from_adp(line)) == line
    content = json.loads(line)["content"]
    assert [x["class_"] for x in content[:2]] == ["text_observation", "message_action"]
    with pytest.raises(schema.SchemaError, match="an episode of arrays"):
        adp.to_adp(next(files.read(runs["arrays"][0])))
    user = {"class_": "text_observation", "content": "add 2 3", "source": "user"}
    call = {"class_": "api_action", "function": "add", "kwargs": {"a": 2}, "description": "a tool"}
    five = {"class_": "text_observation", "content": "5", "source": "environment"}
    said = {"class_": "message_action", "content": "5"}
    other = adp.from_adp(json.dumps({"id": "x", "content": [user, call, five, said, five]}))
    ((row,),) = (agent.rows for agent in other.agents)
    assert [span.trained for span in row] == [False, True, False, True, False]
    assert row[1].text == 'a tool\n\nadd{"a": 2}' and len(other.agents[0].turns) == 2
    assert schema.from_line(schema.to_line(other)) == other
    for wrong, word in (
        ("{", "not JSON"),
        ("{}", "id"),
        ('{"id": "x", "content": []}', "content"),
        ('{"id": "x", "content": [{"content": "no class"}]}', "class_ None"),
        (json.dumps({"id": "x", "content": [user]}), "no action"),
    ):
        with pytest.raises(schema.SchemaError, match=word):
            adp.from_adp(wrong)


def test_texts_become_the_tokens_that_the_policy_had(runs):
    """A file of texts alone, encoded again: the rows of the run, but for log-probabilities."""
    path, _, experiment = runs["words"]
    codec = next(iter(experiment.tasks.values())).policy.codec
    context = context_of(experiment.config)

    def bare(row):
        return tuple(dataclasses.replace(s, tokens=(), logp=None, advantage=None) for s in row)

    def parts(row, turns):
        """A policy that has not learnt writes control tokens, too, which have no text."""
        out = []
        for span in row:
            tokens = list(span.tokens)
            if span.trained:
                ended = [codec.end] if turns[span.turn].stop == "end" else []
                tokens = [t for t in tokens if codec.token_lengths[t]] + ended
            out.append((span.kind, span.turn, tokens, span.trained))
        return [part for part in out if part[2]]

    for episode in files.read(path):
        (agent,) = episode.agents
        of_text = dataclasses.replace(agent, rows=tuple(map(bare, agent.rows)))
        (made,) = encoded(dataclasses.replace(episode, agents=(of_text,)), codec, context).agents
        turns = {turn.number: turn for turn in agent.turns}
        for one, other in zip(made.rows, agent.rows, strict=True):
            assert parts(one, turns) == parts(other, turns)
        # The rows of turns that continue each other are one, with every reply trained.
        alone, joined = (
            encoded(dataclasses.replace(episode, agents=(of_text,)), codec, context).agents[0].rows
            for context in (contexts.sliding(history=1), contexts.sliding(history=1, stride=2))
        )
        assert len(joined) == 1 + max(0, -(-(len(alone) - 2) // 2)) < max(2, len(alone))
        for n, row in enumerate(joined):
            own = [[s for s in one if s.trained] for one in alone[2 * n : 2 * n + 2]]
            assert [s for s in row if s.trained] == [s for one in own for s in one]
    with pytest.raises(ValueError, match="context 'fold': .* expected 'whole', 'window'"):
        encoded(episode, codec, contexts.fold())
    bare = dataclasses.replace(episode, agents=(dataclasses.replace(episode.agents[0], rows=()),))
    with pytest.raises(schema.SchemaError, match="turn 0: no text that was written"):
        encoded(bare, codec, context)
