"""Environments of the package verifiers with the interface that `envs.hosted.worker` describes.

Runs under the Python of the worker, from 3.11 on (verifiers asks for it), verifiers 0.1.14 to 0.3.
"""

import asyncio
import json
import re
import signal
import time

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_HOW = (
    'Call a tool by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>, several in one '
    "reply if you like. A reply without a call is your answer."
)
# Ends that the environment's limits cause, and not what was replied.
_LIMITS = ("max_turns_reached", "timeout_reached", "max_total_completion_tokens_reached")


def load(name, make=None, **options):
    """The environment of an id, as `verifiers.load_environment` finds it, or of a factory `make`.

    rows: "train", the rows of its training set, or "eval". Other options are the environment's.
    """
    import verifiers

    if not hasattr(verifiers, "MultiTurnEnv"):
        raise ValueError(
            f"verifiers:{name} is an environment of verifiers 0.1 to 0.3, and verifiers "
            f"{verifiers.__version__} is installed: pip install 'verifiers<0.4'"
        )
    rows = options.pop("rows", "train")
    if rows not in ("train", "eval"):
        raise ValueError(f"rows={rows!r} of verifiers:{name}: expected 'train' or 'eval'")
    handler = signal.getsignal(signal.SIGTERM)
    env = verifiers.load_environment(name, **options) if make is None else make(**options)
    # verifiers exits at a signal that schedulers send to all; this process ends with its pipe.
    signal.signal(signal.SIGTERM, handler)
    if env.requires_group_rollouts:
        raise ValueError(
            f"verifiers:{name} has reward functions over a group of rollouts, but an episode is "
            "scored by itself: expected functions of one rollout"
        )
    return Verifiers(env, env.get_dataset() if rows == "train" else env.get_eval_dataset())


def _functions(rubric):
    inner = getattr(rubric, "rubrics", None)
    return rubric.funcs if inner is None else [f for each in inner for f in _functions(each)]


def _content(message):
    """A message's content as text; parts that are no text are left out."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content)


class Verifiers:
    """An environment of verifiers, which plays and scores an episode by its own rollout.

    Its prompt, and later the messages that it adds, are the observation; a reply is the model's
    message. The reward, at the end, is the rubric's, and each of its functions is a metric. Success
    is a reward of `pass_threshold` (0.5) or more. A limit on turns, tokens or time truncates, but
    for an environment of one turn. A seed's row is that of its remainder.

    Tools are described in the first observation, and called in Hermes' format; of calls that are no
    JSON none is made, and the reply is illegal.
    """

    has_success = True

    def __init__(self, env, rows):
        self._env, self._rows = env, rows
        self.metrics = tuple(dict.fromkeys(f.__name__ for f in _functions(env.rubric)))
        self._loop = asyncio.new_event_loop()
        # Of an episode: its rollout, the model's calls that wait for a reply, and the call now.
        self._rollout, self._calls, self._call = None, None, None

    def reset(self, *, seed):
        """Starts the rollout of a row: (its prompt, {})."""
        self._stop()
        row, self._calls = self._rows[seed % len(self._rows)], asyncio.Queue()
        client = _client()(self._calls)
        self._rollout = self._loop.create_task(
            self._env.rollout(row, client, "policy", dict(self._env.sampling_args))
        )
        self._loop.run_until_complete(self._next())
        if self._call is None:
            raise ValueError(f"row {seed % len(self._rows)} ends before the first reply")
        return self._call.shown, {}

    async def _next(self):
        """Waits for the next call of the model, or None at the end of the rollout."""
        waiting = asyncio.ensure_future(self._calls.get())
        await asyncio.wait([waiting, self._rollout], return_when=asyncio.FIRST_COMPLETED)
        self._call = waiting.result() if waiting.done() else None
        waiting.cancel()

    def step(self, action):
        """Plays a reply: (messages that were added, reward of the rubric or 0, over, ...)."""
        valid = self._call.answer(action)
        self._loop.run_until_complete(self._next())
        if self._call is not None:
            return self._call.shown, 0.0, False, False, {"valid": valid}
        state = self._loop.run_until_complete(self._scored())
        stop = state.get("stop_condition")
        truncated = stop in _LIMITS and self._env.max_turns != 1
        scores = state["metrics"] or {}
        info = {
            "valid": valid,
            "success": state["reward"] >= self._env.pass_threshold,
            "metrics": {name: scores[name] for name in self.metrics if name in scores},
        }
        return "", float(state["reward"]), not truncated, truncated, info

    async def _scored(self):
        """The state of the rollout that has ended, scored as verifiers scores a group of one."""
        state = await self._rollout
        if state.get("error") is not None:
            raise state["error"]
        await self._env.rubric.score_group([state])
        await self._env.rubric.cleanup(state)
        return state

    def _stop(self):
        """Ends a rollout that goes on, with its own cleaning up."""
        if self._rollout is not None and not self._rollout.done():
            self._rollout.cancel()
            self._loop.run_until_complete(asyncio.gather(self._rollout, return_exceptions=True))

    def close(self):
        """Ends the episode, and the environment by its own teardown."""
        self._stop()
        self._loop.run_until_complete(self._env._teardown())


class _Call:
    """A call of the model: its prompt, what of it is new, and the reply to come."""

    def __init__(self, prompt, tools, state):
        self.reply = asyncio.get_running_loop().create_future()
        self._tools = bool(tools)
        steps = state["trajectory"]
        known = [*steps[-1]["prompt"], *steps[-1]["completion"]] if steps else []
        if known and prompt[: len(known)] == known:
            self.shown = "\n\n".join(_content(message) for message in prompt[len(known) :])
            return
        # Whose words they are is said where the prompt has examples of replies.
        named = any(message.role == "assistant" for message in prompt)
        said = [
            (f"{message.role.capitalize()}: " if named else "") + _content(message)
            for message in prompt
        ]
        if tools:
            kept = ("name", "description", "parameters")
            listed = [json.dumps({key: tool[key] for key in kept}) for tool in tools]
            said.insert(prompt[0].role == "system", "\n".join(["Tools:", *listed, _HOW]))
        self.shown = "\n\n".join(said)

    def answer(self, text):
        """Gives the reply, of which calls are taken out; whether they could be read."""
        calls, valid = [], True
        for number, body in enumerate(_CALL.findall(text) if self._tools else ()):
            try:
                call = json.loads(body)
                name, arguments = call["name"], json.dumps(call.get("arguments", {}))
            except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
                calls, valid = [], False
                break
            calls.append({"id": f"call_{number}", "name": str(name), "arguments": arguments})
        content = _CALL.sub("", text).strip() if calls else text
        message = {"content": content, "tool_calls": calls or None, "is_truncated": False}
        message["finish_reason"] = "tool_calls" if calls else "stop"
        self.reply.set_result(message)
        return valid


def _client():
    """The class of a model's client, whose calls wait in a queue until somebody replies."""
    from verifiers.clients import Client
    from verifiers.types import Response, ResponseMessage

    class Waiting(Client):
        async def get_response(self, prompt, model, sampling_args, tools=None, **kwargs):
            call = _Call(list(prompt), tools, kwargs["state"])
            await self.client.put(call)
            message = ResponseMessage(**await call.reply)
            return Response(id="policy", created=int(time.time()), model=model, message=message)

        async def _never(self, *given, **named):
            raise NotImplementedError("verifiers asks this client for replies only")

        setup_client = to_native_tool = to_native_prompt = get_native_response = _never
        raise_from_native_response = from_native_response = close = _never

    return Waiting
