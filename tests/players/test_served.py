"""Players behind a server: what is asked, what becomes of servers that misbehave, and our own."""

import asyncio
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

web = pytest.importorskip("aiohttp.web")

import own_pieces  # noqa: E402
import serving_cases  # noqa: E402
import tiny  # noqa: E402
from in_process import call_here  # noqa: E402
from serving_cases import served  # noqa: E402

import envs  # noqa: E402
from agentrl import losses, rollout  # noqa: E402
from agentrl.config import base_config, section, term  # noqa: E402
from agentrl.config.build import build  # noqa: E402
from agentrl.methods.dagger import dagger  # noqa: E402
from agentrl.methods.teaching import Chances, classroom, outside_teacher  # noqa: E402
from agentrl.methods.turn_actions import turn_actions  # noqa: E402
from agentrl.players.served import Served  # noqa: E402
from agentrl.run import loop  # noqa: E402
from agentrl.run.files import RunError  # noqa: E402
from agentrl.serving.app import application, listening  # noqa: E402
from agentrl.serving.engine import Engine  # noqa: E402

KUHN = envs.make("KuhnPoker-v1")[0]
# What is counted of three turns of which all go wrong in a way.
WAYS = {
    "stalls": {"late": 3},
    "never ends": {"late": 3},
    "fails": {"refused": 3},
    "too long": {"refused": 3},
    "moved": {"refused": 3},
    "hangs up": {"unreachable": 3},
    "prose": {"invalid": 3},
    "a list": {"invalid": 3},
    "no choices": {"invalid": 3},
    "no text": {"invalid": 3},
    "a book": {"invalid": 3},
    "a library": {"invalid": 3},
    "busy": {},
    "good": {},
}


class Fake:
    """A server that plays the first legal command, or misbehaves in a way. bodies: of requests."""

    def __init__(self):
        self.bodies, self.way, self.calls, self.keys = [], "good", 0, set()

    async def models(self, request):
        self.keys.add(request.headers.get("Authorization"))
        return web.json_response({"data": [{"id": "org/one"}, {"id": "two"}]})

    async def chat(self, request):
        body = await request.json()
        self.bodies.append(body)
        self.calls += 1
        return await self.answer(request, body["messages"][-1]["content"])

    async def answer(self, request, said):
        def reply(content):
            return web.json_response({"choices": [{"message": {"content": content}}]})

        match self.way:
            case "stalls":
                await asyncio.sleep(5)
            case "never ends":
                stream = web.StreamResponse()
                await stream.prepare(request)
                while True:
                    await stream.write(b" ")
                    await asyncio.sleep(0.01)
            case "fails":
                return web.Response(status=500, text="no memory")
            case "too long":
                error = {"error": {"message": "shorten the prompt"}}
                return web.json_response(error, status=400)
            case "moved":
                raise web.HTTPFound("/elsewhere")
            case "hangs up":
                request.transport.close()
            case "prose":
                return web.Response(text="hello")
            case "a list":
                return web.json_response([1])
            case "no choices":
                return web.json_response({"choices": []})
            case "no text":
                return reply(None)
            case "a book":
                return reply("check" * 10_000)
            case "a library":
                return web.Response(body=b" " * 200_000)
            case "busy" if self.calls % 2:
                return web.Response(status=429, headers={"Retry-After": "0.01"})
        return reply(said.rpartition(": ")[2].partition(",")[0])


@pytest.fixture(scope="module")
def server():
    fake = Fake()
    app = web.Application()
    app.add_routes(
        [web.get("/v1/models", fake.models), web.post("/v1/chat/completions", fake.chat)]
    )
    with listening(app) as url:
        yield fake, f"{url}/v1"


@pytest.fixture
def fake(server, monkeypatch):
    monkeypatch.setattr("agentrl.players.served.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("agentrl.players.served.ANSWER_BYTES", 100_000)
    server[0].__init__()
    return server


def turn(match=0, seat=0, first=True, observation="J"):
    commands = ["check", "bet"]
    return {
        "match": match,
        "seat": seat,
        "first": first,
        "observation": observation,
        "commands": commands,
    }


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_misbehaves_abstains(fake, way):
    server, url = fake
    server.way = way
    began = time.monotonic()
    with Served(f"served:{url}#two?commands=yes", KUHN, timeout_s=0.2) as player:
        replies = player.answers([turn(match) for match in range(3)])
        assert player.failures == WAYS[way] and player.asked == 3, player.gone
        assert replies == [None if WAYS[way] else b"check"] * 3
        calls = server.calls
        assert bool(player.gone) == bool(WAYS[way])
        if player.gone:
            assert "not asked again" in player.summary()
            assert player.answers([turn()]) == [None] and server.calls == calls
    assert time.monotonic() - began < 3
    # What may succeed later is tried again.
    assert calls == {"fails": 18, "hangs up": 18, "busy": 6}.get(way, 3)


def test_a_match_is_a_chat(fake, monkeypatch):
    server, url = fake
    monkeypatch.setenv("THE_KEY", "secret")
    name = f"served:{url}#org/one?key=THE_KEY&commands=yes&temperature=0.5&seed=1"
    with Served(name, KUHN) as player:
        player.answers([turn(0, 1), turn(5, 0, observation="Q")])
        server.way = "prose"
        player.answers([turn(0, 1, first=False, observation="K")])
        server.way = "good"
        player.answers([turn(0, 1, first=False, observation="L")])
        player.answers([turn(0, 1, observation="new")])
    assert server.keys == {"Bearer secret"} and "secret" not in player.summary()
    legal = "\nLegal commands: check, bet"
    rules, *chat = server.bodies[3]["messages"]
    assert rules["role"] == "system"
    assert rules["content"] == f"{KUHN.view.rules} Answer with one command and nothing else."
    assert chat == [
        {"role": "user", "content": f"J{legal}"},
        {"role": "assistant", "content": "check"},
        # What had no reply is said again, before what is new.
        {"role": "user", "content": f"K{legal}\nL{legal}"},
    ]
    assert len(server.bodies[4]["messages"]) == 2
    assert {body["model"] for body in server.bodies} == {"org/one"}
    assert {body["temperature"] for body in server.bodies} == {0.5}
    assert len({body["seed"] for body in server.bodies}) == 3  # of a seat, a match and a turn


def test_in_the_arena(fake, tmp_path):
    server, url = fake
    name = f"served:{url}#two?commands=yes&rules=no"
    flags = ["--game=KuhnPoker-v1", f"--players={name},random", "--matches=64"]
    done = call_here("arena", *flags, f"--out={tmp_path}")
    assert done.returncode == 0 and "of 64" not in done.stdout, done.stderr
    assert server.calls >= 64 and name in (tmp_path / "arena.json").read_text()
    server.way = "fails"
    done = call_here("arena", *flags, "--matches=4")
    assert "HTTP 500: no memory" in done.stdout


def first_legal(env, state, params):
    """What the fake server plays."""
    return jnp.argmax(env.legal(state, params)).astype(jnp.int32)


def against(opponent, **changes):
    config = tiny.matches_config(updates=4, **changes)
    config.rollout.update(opponent=opponent, members=None, mask_illegal=False)
    config.pool = base_config().pool
    return config


def metrics_of(directory):
    names = ("episode_return", "success_rate", "adv/mean", "adv/std", "entropy", "grad_norm")
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [{name: json.loads(line)[name] for name in names} for line in lines]


def test_training_against_it_is_training_against_what_it_plays(fake, tmp_path, monkeypatch):
    server, url = fake
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)
    for name, opponent in {
        "served": f"served:{url}#two?commands=yes",
        "rule": "test_served.first_legal",
    }.items():
        assert loop.run(against(opponent), tmp_path / name, command="none")
    assert server.calls > 16 and metrics_of(tmp_path / "served") == metrics_of(tmp_path / "rule")


def test_a_run_ends_where_its_opponent_is_gone(fake, tmp_path):
    server, url = fake
    server.way = "fails"
    with pytest.raises(RunError, match=r"HTTP 500.*goes on from the last checkpoint"):
        loop.run(against(f"served:{url}#two"), tmp_path, command="none")


def test_it_is_asked_by_one_seed_on_one_device_in_whole_episodes(fake, tmp_path):
    name = f"served:{fake[1]}#two"
    with pytest.raises(ValueError, match=r"set config.num_seeds=1 and config.mesh.data=1"):
        loop.run(against(name, num_seeds=2), tmp_path, command="none")
    config = against(name)
    config.rollout = section(rollout.segments, num_envs=4, length=4, opponent=name)
    with pytest.raises(ValueError, match="rollout 'episodes'"):
        loop.run(config, tmp_path, command="none")
    with pytest.raises(ValueError, match="program:COMMAND or served:URL#MODEL"):
        loop.run(against("nobody"), tmp_path, command="none")


def takes_the_first(world, turn):
    """The judge that the fake server is."""
    first = world.vmap(lambda state, p: first_legal(world.env, state, p))(turn.before.state)
    return jnp.where(turn.action.reshape(first.shape[0], -1)[:, 0] == first, 1.0, -1.0)


@pytest.mark.parametrize("config", [tiny.groups_config, tiny.talk_config])
def test_as_a_judge_it_says_what_it_would_have_done(fake, config, monkeypatch):
    server, url = fake
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)
    found = []
    for judge in (f"served:{url}#two?commands=yes", "test_served.takes_the_first"):
        made = config()
        made.rollout.judge = judge
        built = build(made).rollout
        weights = build(made).policy.init(jax.random.key(0))
        _, streams, _, _ = jax.jit(built.collect)(weights, built.init(None), jax.random.key(1))
        found.append((np.asarray(streams.judgement), np.asarray(streams.mask)))
        built.close()
    (given, mask), (expected, _) = found
    np.testing.assert_array_equal(given, expected)
    # It is asked for turns that were played alone, each by itself.
    assert server.calls == mask.sum() and {len(b["messages"]) for b in server.bodies} == {2}
    assert {*np.unique(given[mask])} <= {-1.0, 1.0}


@pytest.mark.parametrize("config", [tiny.groups_config, tiny.talk_config])
def test_as_a_teacher_it_labels_what_the_policy_sees(fake, config):
    server, url = fake
    made = config(warm_start__updates=0)
    made.components.witness = section(own_pieces.witness)
    experiment = build(made)
    setup = own_pieces.SETUPS.pop()
    teacher = outside_teacher(setup, f"served:{url}#two?commands=yes")
    room = classroom(setup, "dagger", teacher, labels=True)
    keys = jax.random.split(jax.random.key(0), 4)
    play = jax.jit(lambda params: room.play(params, keys, jax.random.key(1), Chances()))
    lesson = play(experiment.policy.init(jax.random.key(2)))
    labels = turn_actions(setup, "dagger")(lesson.streams, lesson.rows)[..., 0]
    mask = np.asarray(lesson.streams.mask)
    assert server.calls == mask.sum() > 4
    np.testing.assert_array_equal(np.asarray(labels)[mask], 0)  # all commands are legal there
    assert not lesson.right[mask].all()


def test_a_run_learns_from_it_and_what_does_not_fit(fake, tmp_path):
    server, url = fake
    config = tiny.groups_config(updates=2)
    config.objective.policy.weight = config.objective.kl.weight = 0.0
    options = {"episodes": 4, "size": 16, "rows": 8, "teacher": f"served:{url}#two?commands=yes"}
    config.components.dagger = section(dagger, **options)
    config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
    assert loop.run(config, tmp_path / "run", command="none") and server.calls > 8
    config.num_seeds = 2
    with pytest.raises(ValueError, match="set config.num_seeds=1"):
        loop.run(config, tmp_path / "seeds", command="none")
    config.num_seeds, config.components.dagger.teacher = 1, "minimax"
    with pytest.raises(ValueError, match="expected 'expert', or program:COMMAND"):
        loop.run(config, tmp_path / "other", command="none")


def test_our_own_server():
    """Replies are those of the engine for the chat, which reads what an observation says."""
    policy = served()
    size = {"slots": 2, "size": serving_cases.SIZE, "waiting": 0}
    engine = Engine(policy.params, policy.config, end_token=policy.end, **size)
    engine.start()
    try:
        with listening(application(policy, engine)) as url:
            with Served(f"served:{url}/v1#?rules=no&max_tokens=9&seed=3", KUHN) as player:
                turns = [turn(match, observation=f"J{match}") for match in range(6)]
                replies = player.answers(turns)
                # Four of them found the server busy.
                assert None not in replies and len({*replies}) > 1, player.summary()
                assert player.answers(turns) == replies
                player.answers([turn(0, first=False)])
                assert not player.failures
            with Served(f"served:{url}/v1", KUHN) as player:
                assert player.answers([turn()]) == [None]
                assert player.failures == {"refused": 1}
    finally:
        engine.close()


@pytest.mark.parametrize(
    "name, message",
    [
        ("served:127.0.0.1#two", "expected served:http://HOST:PORT/v1#MODEL"),
        ("served:http://a:secret@h/v1#two", "no key may"),
        ("served:http://h/v1#two?key=A&temprature=1", "unknown option 'temprature'; expected key"),
        ("served:http://h/v1#two?rules=1", "rules=1: expected yes or no"),
        ("served:http://h/v1#two?seed=x", "seed=x: expected an integer"),
        ("served:http://h/v1#two?temperature=-1", "temperature=-1"),
        ("served:http://h/v1#two?grammar=tags", "grammar 'tags': expected one of bare"),
        ("served:http://127.0.0.1:9/v1#two", "127.0.0.1:9/v1/models: "),
        ("served:URL#three", "expected #MODEL .*: org/one, two"),
        ("served:URL", "expected #MODEL .*: org/one, two"),
        ("served:URL/v2#two", "HTTP 404"),
        ("served:URL#two?key=NO_SUCH_KEY", "variable NO_SUCH_KEY is not set"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_played(server, name, message):
    with pytest.raises(ValueError, match=message):
        Served(name.replace("URL", server[1]), KUHN, timeout_s=1.0)
