"""Programs that call the model that they are given, with nothing but the standard library."""

import json
import os
import pathlib
import random
import time
import urllib.request


def ask(model, said):
    body = json.dumps({"model": model.name, "messages": said, "temperature": 0}).encode()
    request = urllib.request.Request(
        f"{model.base_url}/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        reply = json.load(answer)["choices"][0]["message"]["content"]
    said += [{"role": "assistant", "content": reply}]
    return reply


def twice(model, seed, *, trouble="", marks=""):
    """Two calls of which the second continues the first; a reward for the letter a in either.

    trouble: what becomes of tasks with an even seed. marks: a directory in which each run leaves
    its task.
    """
    if marks:
        pathlib.Path(marks, f"{seed}-{time.monotonic_ns()}").touch()
    task = random.Random(seed).choice("xyz")
    said = [{"role": "user", "content": task}]
    replies = [ask(model, said)]
    if trouble and seed % 2 == 0:
        if trouble == "raises":
            raise KeyError("no such thing")
        if trouble == "hangs":
            time.sleep(60)
        if trouble == "ends":
            os._exit(3)
        if trouble == "talks":
            while True:
                ask(model, said + [{"role": "user", "content": task}])
    said += [{"role": "user", "content": task}]
    replies.append(ask(model, said))
    return float("a" in "".join(replies))


async def later(model, seed):
    """The same, awaited."""
    return twice(model, seed)
