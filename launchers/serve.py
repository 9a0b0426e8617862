r"""Serves a run's language policy, or a published model, by the chat-completions protocol.

    python -m launchers.serve --workdir=runs/household
    python -m launchers.serve --model=models/smollm2 --slots=16 --port=8001

Then any client of that protocol talks to it, for example the package openai:

    client = openai.OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    said = [{"role": "user", "content": observation}]
    client.chat.completions.create(model="household", messages=said, seed=0)

The model's id is the directory's name. A run's prompts are those of its context: messages of user
and assistant in turn are observations and replies. What a request does not say of sampling is as in
training. Requests are answered side by side in --slots; a seed gives the same reply whatever else
is answered. return_token_ids=true tells the tokens of prompt and reply, logprobs=true their
log-probabilities. Needs the package aiohttp: pip install 'agentrl[serve]'.
"""

import os
import pathlib
import signal
import threading

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_MODEL = flags.DEFINE_string("model", None, "Directory of a published model, in place of a run.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_SEED = flags.DEFINE_integer("seed", None, "One of the run's seeds; the first by default.")
_ROLE = flags.DEFINE_integer("role", None, "Role whose adapters are used, if each has its own.")
_DTYPE = flags.DEFINE_enum(
    "dtype", "float32", ["float32", "bfloat16"], "Dtype in which a published model computes."
)
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address that is listened on.")
_PORT = flags.DEFINE_integer("port", 8000, "Port.", lower_bound=0, upper_bound=65535)
_SLOTS = flags.DEFINE_integer("slots", 8, "Replies written at the same time.", lower_bound=1)
_TOKENS = flags.DEFINE_integer(
    "tokens",
    None,
    "Most tokens of a prompt and its reply; by default those of training.",
    lower_bound=2,
)
_WAITING = flags.DEFINE_integer("waiting", 256, "Most requests that wait.", lower_bound=0)
_BODY = flags.DEFINE_integer("body_bytes", 2**20, "Most bytes of a request.", lower_bound=1024)
_KEY = flags.DEFINE_string(
    "api_key", None, "Key that clients must send; by default the variable AGENTRL_API_KEY, if set."
)


def main(argv: list[str]) -> None:
    """Restores, compiles, listens until it is told to stop."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=...")
    if (_WORKDIR.value is None) == (_MODEL.value is None):
        cli.fail("give --workdir=, the directory of a run, or --model=, that of a published model")
    cli.use_compilation_cache()
    from agentrl.run import checkpoint, restored

    try:
        from agentrl.serving import app
    except ImportError:
        cli.fail("a server needs the package aiohttp: pip install 'agentrl[serve]'")
    from agentrl.serving.engine import Engine

    try:
        served = _served()
    except (ValueError, OSError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    engine = Engine(
        served.params,
        served.config,
        end_token=served.end,
        slots=_SLOTS.value,
        size=_TOKENS.value or served.row_tokens,
        waiting=_WAITING.value,
        role=served.role,
    )
    key = _KEY.value if _KEY.value is not None else os.environ.get("AGENTRL_API_KEY", "")
    limits = app.Limits(body_bytes=_BODY.value)
    application = app.application(served, engine, api_key=key, limits=limits)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    engine.start()
    try:
        with app.listening(application, host=_HOST.value, port=_PORT.value) as url:
            print(f"{served.name}: {url}/v1", flush=True)
            stopped.wait()
    except OSError as error:
        cli.fail(f"--host={_HOST.value}, --port={_PORT.value}: {error}; take another port")
    finally:
        engine.close()


def _served():
    """What the flags name. Raises what reading a run or a model does."""
    from agentrl.run import restored
    from agentrl.serving import served

    if _MODEL.value is not None:
        name = pathlib.Path(_MODEL.value).absolute().name
        return served.of_directory(_MODEL.value, name, dtype=_DTYPE.value)
    workdir = pathlib.Path(_WORKDIR.value)
    run = restored.load(workdir, _UPDATE.value)
    return served.of_run(run, workdir.absolute().name, seed=_SEED.value, role=_ROLE.value)


if __name__ == "__main__":
    cli.run(main)
