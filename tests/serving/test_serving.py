"""A policy behind a socket: replies are those of generation by itself, whatever runs beside them."""

import pytest

pytest.importorskip("aiohttp")
openai = pytest.importorskip("openai")

import serving_cases  # noqa: E402
from serving_cases import alone, served  # noqa: E402

from agentrl.policies.sampling import Sampling  # noqa: E402
from agentrl.serving.app import Limits, application, listening  # noqa: E402
from agentrl.serving.engine import Engine  # noqa: E402

SAYS = [{"role": "user", "content": "S.H\n..G\n"}]


@pytest.fixture(scope="module")
def engine():
    policy = served()
    size = serving_cases.SIZE
    made = Engine(policy.params, policy.config, end_token=policy.end, slots=3, size=size, waiting=6)
    made.start()
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


def test_a_seeded_reply_is_that_of_generation(client):
    said = client.chat.completions.create(
        model="lake", messages=SAYS, seed=5, max_tokens=20, extra_body={"return_token_ids": True}
    )
    prompt = served().prompt(SAYS)
    assert said.prompt_token_ids == prompt
    tokens, _ = alone(prompt, Sampling(), 20, 5)
    assert said.choices[0].token_ids == tokens
