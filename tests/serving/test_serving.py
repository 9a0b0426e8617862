"""A policy behind a socket: replies are those of generation alone, whatever runs beside them."""

import concurrent.futures
import json
import re
import socket
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("aiohttp")
openai = pytest.importorskip("openai")

import serving_cases  # noqa: E402
from serving_cases import alone, served  # noqa: E402

import envs  # noqa: E402
from agentrl.policies import new_model  # noqa: E402
from agentrl.policies.sampling import Sampling  # noqa: E402
from agentrl.serving.app import Limits, application, listening  # noqa: E402
from agentrl.serving.engine import Engine  # noqa: E402
from agentrl.serving.served import of_directory  # noqa: E402
from agentrl.serving.text import ReplyText  # noqa: E402

SAYS = [{"role": "user", "content": "S.H\n..G\n"}]
# A request, and how it is sampled.
KINDS = [
    ({"temperature": 0}, Sampling(greedy=True)),
    ({}, Sampling()),
    (
        {"temperature": 1.5, "top_p": 0.9, "extra_body": {"top_k": 40, "min_p": 0.05}},
        Sampling(temperature=1.5, top_k=40, top_p=0.9, min_p=0.05),
    ),
]


def started():
    policy = served()
    how = {"end_token": policy.end, "slots": 3, "size": serving_cases.SIZE, "waiting": 6}
    made = Engine(policy.params, policy.config, **how)
    made.start()
    return made


@pytest.fixture(scope="module")
def engine():
    made = started()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(engine):
    limits = Limits(body_bytes=20_000, receive_seconds=0.5, send_seconds=0.5)
    with listening(application(served(), engine, api_key="secret", limits=limits)) as where:
        yield where


@pytest.fixture(scope="module")
def client(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0) as made:
        yield made


def ask(client, *, extra_body=None, **how):
    """A reply of at most 20 tokens, with its tokens."""
    given = {"model": "lake", "messages": SAYS, "max_tokens": 20} | how
    extra = {"return_token_ids": True} | (extra_body or {})
    return client.chat.completions.create(**given, extra_body=extra)


def test_replies_side_by_side_are_those_of_generation_alone(client, engine):
    """27 requests of 3 slots; those that find no place to wait try again."""
    prompt = served().prompt(SAYS)

    def one(number):
        how, _ = KINDS[number % len(KINDS)]
        return ask(client.with_options(max_retries=20), seed=number, **how)

    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        replies = list(pool.map(one, range(27)))
    for number, said in enumerate(replies):
        assert said.prompt_token_ids == prompt
        tokens, _ = alone(prompt, KINDS[number % len(KINDS)][1], 20, number)
        assert said.choices[0].token_ids == tokens, number
        ended = tokens[-1] == served().end
        assert said.choices[0].finish_reason == ("stop" if ended else "length")
        assert said.usage.completion_tokens == len(tokens)
    assert (engine._admit._cache_size(), engine._write._cache_size()) == (len(engine.lengths), 1)


def test_choices_and_logprobs_are_those_of_generation(client):
    prompt = served().prompt(SAYS)
    how = {"seed": 3, "logprobs": True, "top_logprobs": 4, "temperature": 1}
    said = ask(client, n=3, **how)
    assert len({tuple(choice.token_ids) for choice in said.choices}) == 3
    for number, choice in enumerate(said.choices):
        tokens, logp = alone(prompt, Sampling(), 20, 3, number)
        assert choice.token_ids == tokens
        told = choice.logprobs.content
        assert [entry.logprob for entry in told] == pytest.approx(logp, abs=1e-4)
        for entry in told:
            best = [other.logprob for other in entry.top_logprobs]
            assert len(best) == 4 and best == sorted(best, reverse=True)
            assert entry.logprob <= best[0] + 1e-6
        assert bytes(sum((entry.bytes for entry in told), [])).decode(errors="replace") == (
            choice.message.content
        )


def test_completions_take_texts_and_tokens(client):
    prompt = served().prompt(SAYS)
    how = {"model": "lake", "max_tokens": 20, "seed": 1, "logprobs": 2}
    extra = {"extra_body": {"return_token_ids": True}}
    (said,) = client.completions.create(prompt=prompt, **how, **extra).choices
    tokens, logp = alone(prompt, Sampling(), 20, 1)
    assert (said.prompt_token_ids, said.token_ids) == (prompt, tokens)
    assert sum(said.logprobs.token_logprobs) == pytest.approx(sum(logp), abs=1e-4)
    text = SAYS[0]["content"]
    (said,) = client.completions.create(prompt=text, **how, **extra).choices
    assert said.prompt_token_ids == list(served().encode(text))
    parts = client.completions.create(prompt=prompt, stream=True, **how, **extra)
    parts = [part.choices[0] for part in parts]
    assert sum((part.token_ids for part in parts), []) == tokens


def test_a_stream_says_the_same(client):
    whole = ask(client, seed=7, n=2)
    options = {"include_usage": True}
    events = list(ask(client, seed=7, n=2, stream=True, stream_options=options))
    assert events[0].prompt_token_ids == whole.prompt_token_ids
    assert events[-1].usage == whole.usage and not events[-1].choices
    for choice in whole.choices:
        mine = [e.choices[0] for e in events[:-1] if e.choices[0].index == choice.index]
        assert mine[0].delta.role == "assistant"
        assert "".join(part.delta.content or "" for part in mine) == choice.message.content
        tokens = sum((getattr(part, "token_ids", None) or [] for part in mine), [])
        assert tokens == choice.token_ids
        assert mine[-1].finish_reason == choice.finish_reason


def test_stop_strings_end_a_reply(client):
    text = ask(client, seed=2).choices[0].message.content
    stop = re.search(r"\w{2}", text, re.ASCII)[0]
    at = text.index(stop)
    for stream in (False, True):
        said = ask(client, seed=2, stop=["never", stop], stream=stream)
        if stream:
            said = [event.choices[0] for event in said]
            found = "".join(part.delta.content or "" for part in said), said[-1].finish_reason
        else:
            found = said.choices[0].message.content, said.choices[0].finish_reason
        assert found == (text[:at], "stop")


def test_text_waits_for_whole_letters_and_for_what_may_be_a_stop():
    pieces = [bytes([i]) for i in range(256)]
    text = ReplyText(pieces, [b"<end>"])
    said = [text.add(byte) for byte in "é<e<en".encode()]
    assert said == ["", "é", "", "", "<e", "", ""] and not text.stopped
    assert text.rest() == "<en"
    text = ReplyText(pieces, [b"bc", b"cde"])
    assert [text.add(byte) for byte in b"abcd"][:3] == ["a", "", ""]
    assert text.stopped and text.rest() == ""


def post(url, body, *, key="secret", path="/v1/chat/completions"):
    """(status, JSON, headers) of a request with these bytes."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}{path}", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), error.headers


WRONG = {
    "no JSON": (b"{", 400, "no JSON"),
    "no number": (b'{"temperature": NaN}', 400, "NaN"),
    "deep": (b"[" * 5000, 400, "no JSON"),
    "no object": (b"[]", 400, "a list; expected a JSON object"),
    "too long": (b" " * 30_000, 413, "more than 20000 bytes"),
    "no model": ({"model": None}, 400, "model is missing"),
    "model": ({"model": "gpt"}, 404, "expected 'lake'"),
    "messages": ({"messages": "hello"}, 400, "messages='hello': expected a list"),
    "role": ({"messages": [{"role": "system", "content": ""}, *SAYS]}, 400, "no place for one"),
    "content": ({"messages": [{"role": "user", "content": 3}]}, 400, "content of text"),
    "temperature": ({"temperature": "hot"}, 400, "temperature='hot': expected a number of at le"),
    "top_p": ({"top_p": 0}, 400, "more than 0 and at most 1"),
    "n": ({"n": True}, 400, "n=True: expected an integer from 1 to 16"),
    "stop": ({"stop": [""]}, 400, "none empty"),
    "field": ({"max_token": 3}, 400, "did you mean max_tokens"),
    "tools": ({"tools": [{}]}, 400, "not supported"),
    "room": ({"max_tokens": 500}, 400, "the 96 of this server"),
    "prompt": ({"messages": [{"role": "user", "content": "x" * 200}]}, 400, "shorten"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests_have_one_clear_error(url, name):
    given, status, message = WRONG[name]
    if isinstance(given, dict):
        given = json.dumps({"model": "lake", "messages": SAYS} | given).encode()
    found, said, _ = post(url, given)
    assert found == status and message in said["error"]["message"], said


def test_wrong_keys_and_paths(url, client):
    found, said, headers = post(url, b"{}", key="wrong")
    assert found == 401 and said["error"]["code"] == "invalid_api_key"
    found, said, _ = post(url, b"{}", path="/v1/chat")
    assert found == 404 and "POST /v1/chat/completions" in said["error"]["message"]
    assert [model.id for model in client.models.list()] == ["lake"]
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.models.retrieve("other")


def until(holds):
    """Waits until it holds."""
    for _ in range(200):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to hold in 4 seconds")


def test_whoever_leaves_frees_the_slot(url, engine, monkeypatch):
    step = engine._step
    monkeypatch.setattr(engine, "_step", lambda *given: (time.sleep(0.05), step(*given))[1])
    given = {"model": "lake", "messages": SAYS, "max_tokens": 60, "temperature": 0}
    body = json.dumps(given | {"stream": True})
    host, port = url.removeprefix("http://").split(":")
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
    sockets = [socket.create_connection((host, int(port))) for _ in range(9)]
    for one in sockets:
        one.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    for one in sockets[:3]:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
    until(lambda: engine.load() == (3, 6))
    status, said, headers = post(url, json.dumps(given).encode())
    assert (status, headers["Retry-After"]) == (429, "1")
    assert "6 requests wait already" in said["error"]["message"]
    for one in sockets:
        one.close()
    begun = time.monotonic()
    until(lambda: engine.load() == (0, 0))
    assert time.monotonic() - begun < 2  # to the end they would take 9 s
    # A request whose body does not come.
    with socket.create_connection((host, int(port))) as one:
        one.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert one.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_failure_is_told_to_all(monkeypatch):
    broken = started()
    monkeypatch.setattr(broken, "_step", lambda *given: 1 / 0)
    with listening(application(served(), broken)) as url:
        body = json.dumps({"model": "lake", "prompt": [5], "max_tokens": 3}).encode()
        for _ in range(2):
            status, said, _ = post(url, body, path="/v1/completions")
            assert status == 500 and "division by zero" in said["error"]["message"]
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{url}/health", timeout=20)
    broken.close()


def test_a_published_model_by_itself(tmp_path):
    env, _ = envs.make("FrozenLake-v1")
    new_model.write(tmp_path / "m", [env.view], width=16, layers=1)
    model = of_directory(str(tmp_path / "m"), "m")
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|im_end|>?"}]
    tokens = model.prompt(said)
    text = b"".join(model.pieces[token] for token in tokens).decode()
    assert "Be brief." in text and tokens.count(model.end) == 2
    with pytest.raises(ValueError, match="in turn"):
        model.prompt(said[:1])
