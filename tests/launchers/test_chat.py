"""Turn by turn in the terminal: watching, taking over, taking back, and bad flags."""

import functools
import types

import jax
import numpy as np
import pytest
import tiny
from commands import call, refused
from in_process import call_here

import envs
from agentrl import advantages, policies
from agentrl.actors import contexts
from agentrl.actors.text_source import text_agent
from agentrl.config import env_section, section
from agentrl.evaluation import chat as chats
from agentrl.evaluation import play
from agentrl.evaluation.conversation import Conversation
from agentrl.evaluation.transcripts import find_turn
from agentrl.policies.codec import decode
from agentrl.policies.typed import reply_text, typed_reply
from agentrl.run import loop, restored
from agentrl.trained.contestants import conversation_of
from envs.text import make_grammar
from envs.vector import World

LAKE = "FrozenLake-v1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A run that has learnt little, so that its replies are random words."""
    path = tmp_path_factory.mktemp("chat") / "run"
    config = tiny.talk_config(
        updates=4,
        warm_start__updates=0,
        objective__kl__weight=0.0,
        policy__grammar="action",
        policy__think="optional",
        context__max_new_tokens=8,
    )
    assert loop.run(config, path, command="test")
    return path


@pytest.fixture(scope="module")
def run(directory):
    return restored.load(directory)


@pytest.fixture(scope="module")
def conversations(run):
    return {how: conversation_of(run, run.experiment.tasks[LAKE], 0, how) for how in (0, 1)}


def key_of(number):
    return play.task_keys(0, number + 1)[number]


def talked(conversation, lines, **options):
    """What was printed, and what a person typed, until the lines end as control-D does."""
    told, lines = [], iter(lines)

    def ask(prompt):
        line = next(lines, None)
        if line is None:
            raise EOFError
        told.append(f"{prompt}{line}")
        return line

    chats.chat(conversation, key_of, ask=ask, tell=told.append, **options)
    return told[1:]


def episode(run, play_, number):
    """(texts, replies, rewards, success) of the first stream that `play_` gives for a task."""
    codec = run.experiment.policy.codec
    *_, streams, rows = jax.device_get(play_(key_of(number)[None], jax.random.key(1)))
    read, replied = [], []
    for t in np.flatnonzero(streams.mask[0]):
        row, seen, written = find_turn(rows, 0, t)
        read.append(decode(codec, rows.tokens[row, seen]))
        replied.append(decode(codec, rows.tokens[row, written]))
    rewards = streams.reward[0][streams.mask[0]].tolist()
    return read, replied, rewards, bool(streams.success[0].any())


def outline(told, read, replied, rewards, success):
    """Checks what was told of an episode of one agent against the episode."""
    assert [line for line in told if line[1:] in read] == [f"\n{text}" for text in read]
    parts = [line.partition(": ")[2] for line in told if line.startswith(("thought:", "action:"))]
    assert "".join("".join(parts).split()) == "".join("".join(replied).split())
    said = [line.removesuffix(", illegal") for line in told if line.startswith("reward")]
    assert said == [f"reward {reward:g}" for reward in rewards]
    count = "1 step" if len(read) == 1 else f"{len(read)} steps"
    assert told[-1].endswith(f" after {count}, return {sum(rewards):g}")
    assert told[-1].startswith("\nsuccess") == success


@pytest.mark.parametrize("greedy", [0, 1])
def test_the_agent_alone_plays_what_evaluation_plays(run, conversations, greedy):
    """Texts, replies, rewards and end, on slippery ice, for the same keys of task and chance."""
    params = jax.tree.map(lambda x: x[0], run.state.params)
    rollout = run.experiment.tasks[LAKE].rollout
    played = jax.jit(lambda *keys: rollout.play(params, *keys, bool(greedy)))
    for number in range(3):
        told = talked(conversations[greedy], [":auto"], task=number)
        outline(told, *episode(run, played, number))


def test_the_replies_of_the_expert_play_its_episode(run, conversations):
    """Typed as whole replies, or as commands, around which the tags are written."""
    demonstrate = jax.jit(run.experiment.tasks[LAKE].rollout.demonstrate)
    solved = 0
    for number in range(4):
        shown = episode(run, demonstrate, number)
        _, replies, _, success = shown
        told = talked(conversations[0], replies, task=number)
        outline(told, *shown)
        commands = [reply.partition("<action>")[2].removesuffix("</action>") for reply in replies]
        again = talked(conversations[0], commands, task=number)
        assert [x for x in again if x[0] != ">"] == [x for x in told if x[0] != ">"]
        assert all(line.endswith(", yours") for line in told if line.startswith("= command"))
        solved += success
    assert solved > 0


def test_a_turn_is_taken_back(conversations):
    """A turn that is taken back leaves no trace: the agent goes on as it does without it."""
    alone = talked(conversations[0], [":auto"])[2:]
    lines = ["", "LEFT", ":undo", "", "up", *[":undo"] * 4, ":auto"]
    told = talked(conversations[0], lines)
    assert "nothing to take back" in told
    assert told[-len(alone) :] == alone
    # After the end, too.
    told = talked(conversations[0], [":auto", ":undo", ""])
    assert told[-1] == alone[-1]


def test_further_keys(conversations):
    told = talked(
        conversations[0], ["?", ":help", "fly to the moon", "up up up up up up up", ":new"]
    )
    assert "left, down, right, up" in told or any("left" in line and "," in line for line in told)
    assert any(line.startswith("no such key: :help") for line in told)
    assert any("has no words for" in line for line in told)
    assert any("expected at most 8" in line for line in told)
    assert [line for line in told if "==" in line] == ["\n== task 0", "\n== task 1"]
    told = talked(conversations[0], [":auto", "left", "", ":quit", "left"])
    assert any(line.startswith("the episode is over") for line in told)
    assert told[-1] == "> :quit"


WORDS = (contexts.SUMMARY_REQUEST, *contexts.BRANCH_TAGS)
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32, "words": WORDS}
CONTEXTS = {
    "whole": (contexts.whole, {}),
    "window": (contexts.window, {"history": 1}),
    "sliding": (contexts.sliding, {"history": 1}),
    "summary": (contexts.summary, {"summary_tokens": 3}),
}


@functools.cache
def made(context, name=LAKE, segments=False, **options):
    """A conversation of a policy without training, in a context."""
    env, params = envs.make(name, **options)
    policy = policies.transformer(env.view, **SMALL)
    make, given = CONTEXTS[context]
    if context == "summary":
        given = {**given, "limit": 2 * policy.codec.observation_tokens(env.view) + 6}
    turns = int(params.max_steps_in_episode)
    world = World(env, params)
    text = text_agent(policy, world, make(**given), turns=turns, segments=segments)
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(0)))
    return Conversation(text, world, weights, jax.random.key(1), turns=turns, greedy=True)


def steps(conversation, given=()):
    """(text, reply) of each turn of an episode; given: replies of the first turns."""
    conversation.begin(key_of(0))
    out, agent = [], conversation.text
    while not conversation.standing.ended:
        text, replies = conversation.read(0), {}
        if len(out) < len(given):
            size = agent.layout.reply_tokens
            replies[0] = typed_reply(agent.policy.codec, given[len(out)], size)
        out.append((text, conversation.step(replies).replies[0]))
    return out


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_given_reply_is_in_the_context(context):
    """As its own reply; from a KV cache the agent writes the same as from the whole text."""
    lake = {"size": 3, "max_steps_in_episode": 5, "slippery": False}
    taken = steps(made(context, **lake), ["up", "up"])
    replies = [reply for _, reply in taken]
    assert [reply.command for reply in replies[:2]] == ["up", "up"]
    assert [reply.chance is None for reply in replies] == [True, True, False, False, False]
    texts = [text for text, _ in taken]
    if context == "whole":
        # What is new; the reply to it is other than without the first two.
        assert not any(">" in text for text in texts)
        again = steps(made(context, segments=True, **lake), ["up", "up"])
        for (_, mine), (_, other) in zip(taken[2:], again[2:], strict=True):
            assert mine.parts == other.parts
            np.testing.assert_allclose(mine.chance, other.chance, rtol=1e-4)
    elif context == "summary":
        # Earlier turns make way for a summary, which is shown with the reply that it precedes.
        first = next(t for t, reply in enumerate(replies) if reply.summary)
        assert texts[first].count("> ") == first and "summary: " in texts[first + 1]
    else:
        shown = {"window": [0, 1, 1, 0], "sliding": [0, 1, 2, 2]}
        assert [text.count("> up") for text in texts[:4]] == shown[context]


def test_a_person_has_one_seat_of_a_game():
    """The person is asked in that seat and reads what is read there; the agent has the other."""
    conversation = made("window", "TicTacToe-v1", illegal_allowance=9, max_steps_in_episode=6)
    names = conversation.env.action_names
    told = talked(conversation, ["?", names[0], ""], seat=0)
    assert told.count(", ".join(names)) == 1
    assert {line[:7] for line in told if "reads:" in line} == {"\nseat 0"}
    assert "seat 0 replies:" in told and "seat 1 replies:" in told
    with pytest.raises(ValueError, match="seat=2: expected 0 to 1, the seats of TicTacToe"):
        talked(conversation, [], seat=2)


def test_hidden_replies_stay_hidden():
    told = talked(made("window", "KuhnPoker-v1"), ["check", "fold", ":quit"], seat=0)
    assert "seat 1 replies" in told
    assert not any("seat 1 reads" in line or line == "seat 1 replies:" for line in told)


def test_replies_by_grammar():
    forms = {"bare": "go", "action": "<think></think><action>go</action>"}
    forms["answer"] = "<think></think><answer>go</answer>"
    for name, text in forms.items():
        assert reply_text(make_grammar(name), "go") == text


def test_the_command_line(directory):
    done = call(
        "chat", f"--workdir={directory}", "--greedy", "--task=2", text="left\n:auto\n:quit\n"
    )
    assert done.returncode == 0, done.stderr
    assert "== task 2" in done.stdout and "= command 'left', yours" in done.stdout
    assert " after " in done.stdout.splitlines()[-2] + done.stdout.splitlines()[-1]


def test_one_line_says_what_is_wrong(directory, tmp_path):
    refused(call_here("chat"), "--workdir is missing")
    refused(call_here("chat", f"--workdir={tmp_path}"), "holds no run")
    refused(call_here("chat", f"--workdir={directory}", "--update=99"), "99")
    refused(call_here("chat", f"--workdir={directory}", "--seat=1"), "expected 0 to 0")
    arrays = types.SimpleNamespace(policy=types.SimpleNamespace(codec=None))
    with pytest.raises(ValueError, match="reads arrays and writes no text: use launchers.play"):
        conversation_of(None, arrays, 0, False)


@pytest.fixture(scope="module")
def hosted_directory(tmp_path_factory):
    """A run in an environment in Python, whose reward is the length of the reply."""
    config = tiny.host_config(
        env=env_section(f"{tiny.TOYS}:Sum"),
        updates=2,
        host__workers=1,
        rollout__num_groups=4,
        context__history=1,
        context__max_new_tokens=12,
        advantage=section(advantages.grpo),
    )
    path = tmp_path_factory.mktemp("chat") / "hosted"
    assert loop.run(config, path, command="test")
    return path


@pytest.fixture(scope="module")
def hosted(hosted_directory):
    return restored.load(hosted_directory)


def test_an_environment_in_python_that_fails_ends_the_command_with_one_line(hosted_directory):
    # Of no turns none can be drawn.
    options = ("--options=turns=0", "--episodes=2")
    done = call_here("evaluate", f"--workdir={hosted_directory}", *options)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "error: all 2 episodes were lost; the last: seed" in done.stderr


def test_an_environment_in_python(hosted):
    """The agent alone plays what evaluation plays; a person's reply is the environment's action."""
    task = next(iter(hosted.experiment.tasks.values()))
    params = jax.tree.map(lambda x: x[0], hosted.state.params)
    conversation = conversation_of(hosted, task, 0, False)
    try:
        for number in range(3):
            key, codec = key_of(number), hosted.experiment.policy.codec
            _, streams, rows = jax.device_get(
                task.rollout.play(params, key[None], jax.random.key(1), False)
            )
            written = []
            for t in np.flatnonzero(streams.mask[0]):
                row, _, reply = find_turn(rows, 0, t)
                written.append(decode(codec, rows.tokens[row, reply]))
            conversation.begin(key)
            said, rewards = [], []
            while not conversation.standing.ended:
                assert conversation.acting() == [0]
                step = conversation.step({})
                said.append("".join(text for _, text in step.replies[0].parts))
                rewards.append(float(step.reward[0]))
            assert said == written
            np.testing.assert_allclose(rewards, streams.reward[0][streams.mask[0]])
        told = talked(conversation, ["hello", ":undo", "four", "12345678", ":quit"], task=0)
    finally:
        conversation.close()
        task.rollout.close()
    first = told.index("> hello")
    assert told[first + 1 : first + 4] == [
        "action: hello",
        "= command 'hello', yours",
        "reward 1.25",
    ]
    assert "an environment in Python cannot take back a turn" in told
    # The window has the turn before: what was read, and the person's reply.
    assert "\n> hello\n" in told[first + 4] or "after 1 step" in told[first + 4]


def test_a_reply_of_one_token_has_no_room_for_its_end(hosted):
    codec = hosted.experiment.policy.codec
    alone, ended = typed_reply(codec, "a", 1), typed_reply(codec, "a", 2)
    assert alone.length == 1 and decode(codec, alone.tokens) == "a"
    assert ended.tokens.tolist() == [*alone.tokens, codec.end]
    for text, size in (("ab", 1), ("ab", 2)):
        with pytest.raises(ValueError, match=f"expected at most {size}"):
            typed_reply(codec, text, size)
