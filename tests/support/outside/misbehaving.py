"""A player in a process of its own that misbehaves in the way that its argument names.

It imports nothing of the project. The good one takes the first legal command.
"""

import json
import os
import signal
import subprocess
import sys
import time


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(request, action):
    write(json.dumps({"id": request["id"], "action": action}) + "\n")


def flood(line):
    while True:
        write(line)


def left_behind(request):
    """A child outside the process group keeps the pipes open."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(597)"], start_new_session=True)
    sys.exit(3)


def once(request, turn, what, at=1):
    if turn == at:
        return what()
    return answer(request, request["commands"][0])


WAYS = {
    "good": lambda r, turn: answer(r, r["commands"][0]),
    "abstains": lambda r, turn: answer(r, None),
    "late": lambda r, turn: time.sleep(60),
    "late once": lambda r, turn: once(r, turn, lambda: time.sleep(0.7) or answer(r, "fold")),
    "silent": lambda r, turn: None,
    "half a line": lambda r, turn: write('{"id": '),
    "prose": lambda r, turn: write("I call.\n"),
    "empty line": lambda r, turn: write("\n"),
    "a list": lambda r, turn: write(f"[{r['id']}]\n"),
    "no id": lambda r, turn: write('{"action": "call"}\n'),
    "id as text": lambda r, turn: write(json.dumps({"id": str(r["id"])}) + "\n"),
    "id to come": lambda r, turn: answer({"id": r["id"] + 1}, "call"),
    "a number": lambda r, turn: answer(r, 1),
    "nested": lambda r, turn: write("[" * 60_000 + "\n"),
    "not UTF-8": lambda r, turn: (
        sys.stdout.buffer.write(b"\xff\xfe\n") and sys.stdout.buffer.flush()
    ),
    "long line": lambda r, turn: answer(r, "x" * 1_000_000),
    "flood": lambda r, turn: flood("hello\n"),
    "flood of old answers": lambda r, turn: flood('{"id": 0}\n'),
    "flood without lines": lambda r, turn: flood("hello" * 1000),
    "unknown command": lambda r, turn: answer(r, "[sing]"),
    "long command": lambda r, turn: answer(r, "call" * 500),
    "half a character": lambda r, turn: write(f'{{"id": {r["id"]}, "action": "\\ud800"}}\n'),
    "dies": lambda r, turn: os.kill(os.getpid(), signal.SIGKILL),
    "exits at times": lambda r, turn: once(r, turn, lambda: sys.exit(1), at=3),
    "leaves a child": lambda r, turn: left_behind(r),
    "closes its output": lambda r, turn: os.close(1) or time.sleep(60),
    "noisy": lambda r, turn: sys.stderr.write("noise\n" * 100_000) and answer(r, r["commands"][0]),
}

if __name__ == "__main__":
    act, turn = WAYS[sys.argv[1]], 0
    for line in sys.stdin:
        request = json.loads(line)
        if request["id"] == 0:
            answer(request, None)
            continue
        turn += 1
        act(request, turn)
