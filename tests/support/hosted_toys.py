"""Environments for tests of host rollouts: they need the standard library only."""

import os
import random
import subprocess
import sys
import time


class Sum:
    """Says a digit each turn, a reply's length is the reward; ends after as many turns as drawn.

    Of replies of fewer than four characters it reports the length.
    """

    has_success = True
    metrics = ("length",)

    def __init__(self, turns=3):
        self.turns = turns

    def reset(self, *, seed):
        self.drawn = random.Random(seed)
        self.left = 1 + self.drawn.randrange(self.turns)
        return self._say(), {}

    def _say(self):
        return f"{self.left} {self.drawn.randrange(10)}"

    def step(self, action):
        self.left -= 1
        done = self.left == 0
        reward = len(action.encode()) / 4
        info = {"valid": len(action) > 1, "success": done and reward > 0.5}
        if len(action) < 4:
            info["metrics"] = {"length": len(action)}
        return self._say(), reward, done, False, info


class Trouble(Sum):
    """As `Sum`; the episode of some tasks goes wrong in its second turn, if there is one.

    With `how="rest"` it is the reset after the first episode of a process.

    modulus: tasks whose seed is 0 modulo it. once: a path; the first such episode leaves a file
    there, and those after go well. marks: a directory in which each process leaves its id.
    """

    def __init__(self, how, modulus=2, once="", marks="", turns=3):
        super().__init__(turns)
        self.how, self.modulus, self.once = how, modulus, once
        self.marks = marks
        self._mark(os.getpid())

    def _mark(self, number):
        if self.marks:
            open(os.path.join(self.marks, str(number)), "w").close()

    def _first(self):
        """Whether no process has left the file yet; always, where there is none to leave."""
        try:
            if self.once:
                open(self.once, "x").close()
        except FileExistsError:
            return False
        return True

    def reset(self, *, seed):
        if self.how == "rest" and getattr(self, "turn", 0) and self._first():
            raise KeyError("no further task")
        said = super().reset(seed=seed)
        self.wrong = self.how != "rest" and seed % self.modulus == 0
        self.turn = 0
        if self.wrong and self.how != "stall":
            self.left = max(self.left, 2)
        return said

    def step(self, action):
        self.turn += 1
        if self.wrong and self.turn == 2 and self._first():
            self.go_wrong()
            if self.how == "nan":
                return "", float("nan"), False, False, {}
        return super().step(action)

    def go_wrong(self):
        if self.how == "raise":
            raise KeyError("nothing there")
        if self.how == "die":
            print("about to die", file=sys.stderr, flush=True)
            os._exit(7)
        if self.how == "hang":
            sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
            child = subprocess.Popen(sleep, start_new_session=True)
            self._mark(child.pid)
            time.sleep(600)
        if self.how == "garble":
            self._into_the_pipe(b"\xff\xff\xff\xff no frame")
        if self.how == "forge":
            self._into_the_pipe(b"\0\0\0\x02{}")
        if self.how == "flee":
            # Through a process that ends, so that nobody knows its parent.
            sleep = "[sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True"
            quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
            start = f"import subprocess, sys; print(subprocess.Popen({sleep}, {quiet}).pid)"
            started = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
            self._mark(int(started.stdout))
            raise KeyError("nothing there")

    def _into_the_pipe(self, data):
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, data)
            except OSError:
                pass


class Race:
    """A game of two: whoever says more bytes in its turn gets ahead; three turns each, in turns.

    Answers come after a while that depends on nothing that is seen.
    """

    seats = 2
    has_success = True

    def __init__(self, slow=0.0):
        self.slow = slow

    def reset(self, *, seed):
        self.start = seed % 10
        self.said = []
        return f"0 {self.start}", {"seat": 0}

    def step(self, action):
        time.sleep(self.slow * random.SystemRandom().random())
        self.said.append(len(action.encode()))
        seat = len(self.said) % 2
        if action.startswith("x"):
            reward = [1.0, -1.0] if seat == 0 else [-1.0, 1.0]
            return "", reward, True, False, {"valid": False, "offender": 1 - seat}
        done = len(self.said) == 6
        reward = [0.0, 0.0]
        if done:
            lead = sum(self.said[::2]) - sum(self.said[1::2])
            reward = [float(lead > 0) - (lead < 0), float(lead < 0) - (lead > 0)]
        won = [r > 0 for r in reward]
        return f"{seat} {self.start}", reward, done, False, {"seat": seat, "success": won}


class Errand:
    """A planner (seat 0) sends workers (seats 1 and 2), of which the second may send a third (3).

    Text with an odd first byte calls the next worker; any other ends the own work.
    """

    seats, has_success = 4, True
    callers, roles = (-1, 0, 0, 2), (0, 1, 1, 2)

    def __init__(self, callers=None):
        self.callers = self.callers if callers is None else callers

    def reset(self, *, seed):
        self.stack, self.sent = [0], 0
        return f"plan {seed % 10}", {"seat": 0}

    def step(self, action):
        seat, called = self.stack[-1], sum(action.encode()[:1]) % 2
        after = {0: 1 if self.sent == 0 else 2, 2: 3}.get(seat)
        if called and after is not None and self.sent < 3:
            self.stack.append(after)
            self.sent = max(self.sent, after)
        else:
            self.stack.pop()
        done = not self.stack
        info = {"seat": 0 if done else self.stack[-1], "success": done and self.sent == 3}
        return f"{self.sent}", [float(done)] * 4, done, False, info


class Echo:
    """Answers what it was told, and tells of its process; for tests of the pipe."""

    def reset(self, *, seed):
        print("noise on stdout")
        return f"{seed} {random.random()}", {}

    def step(self, action):
        if action == "modules":
            return " ".join(sorted(sys.modules)), 0.0, False, False, {}
        return action, 0.5, action == "end", action == "cut", {}


def refuses(**options):
    raise RuntimeError(f"does not start with {options}")


class Digits:
    """Each agent is shown a digit and is paid for saying it; `kind` says who acts, `arrays` how.

    kind: "one", "turns" or "once" (both at once; each agent rests in every third turn).
    Observations are digits in words, or one-hot arrays with actions 0 to 4.
    """

    has_success = True

    def __init__(self, kind="one", arrays=False, turns=5, slow=0.0):
        self.kind, self.arrays, self.turns, self.slow = kind, arrays, turns, slow
        self.seats = 1 if kind == "one" else 2
        self.simultaneous = kind == "once"
        if arrays:
            self.observation_shape, self.num_actions = (5,), 5

    def reset(self, *, seed):
        self.random = random.Random(seed)
        self.time = 0
        self.length = 1 + self.random.randrange(self.turns)
        return self._shown(), self._info()

    def _shown(self):
        self.digits = [self.random.randrange(5) for _ in range(self.seats)]
        shown = [str(d) for d in self.digits]
        if self.arrays:
            shown = [[float(i == d) for i in range(5)] for d in self.digits]
        return shown if self.simultaneous else shown[self._seat()]

    def _seat(self):
        return self.time % self.seats

    def _info(self):
        acting = [(self.time + i) % 3 > 0 for i in range(self.seats)]
        return {"seat": self._seat(), "acting": acting}

    def step(self, action):
        time.sleep(self.slow * random.SystemRandom().random())
        actions = action if self.simultaneous else [None] * self.seats
        if not self.simultaneous:
            actions[self._seat()] = action
        reward = [float(str(a) == str(d)) for a, d in zip(actions, self.digits, strict=True)]
        info = {"success": [r > 0 for r in reward]}
        self.time += 1
        done = self.time == self.length
        shown = self._shown()
        return shown, reward, done, False, {**info, **self._info()}


class Checked:
    """CheckedSum-v1 with the question "largest", in words, in this process: a solver (seat 0) and a
    verifier (seat 1), two answers at most. Its text is that of the original.

    numbers: of each task, whose number is the seed. An unknown or illegal reply costs its turn.
    """

    seats, has_success = 2, True

    def __init__(self, numbers, modulus=7, roles=None, pay="team"):
        self.numbers, self.modulus, self.pay = numbers, modulus, pay
        if roles is not None:
            self.roles = roles

    def reset(self, *, seed):
        self.terms, self.answer, self.tries = self.numbers[seed % len(self.numbers)], None, 0
        self.checking = False
        return self._read(), {"seat": 0}

    def _read(self):
        text = f"{'check' if self.checking else 'solve'} {' + '.join(map(str, self.terms))}"
        if self.tries:
            text += f"{' is' if self.checking else ' not'} {self.answer}"
        return text

    def _commands(self):
        if self.checking:
            return ["approve", "reject"]
        return [f"say {n}" for n in range(self.modulus)]

    def step(self, action):
        valid, done = action.lower() in self._commands(), False
        if valid and self.checking:
            done, self.checking = action.lower() == "approve", False
        elif valid:
            self.answer, self.tries = int(action.split()[1]), self.tries + 1
            done = self.tries == 2
            self.checking = not done
        right = done and self.answer == max(self.terms)
        reward = [float(right), float(right and self.pay == "team")]
        info = {"seat": int(self.checking), "valid": valid, "success": [right] * 2}
        return self._read(), reward, done, False, info


class Alternating:
    """One agent in three roles, who write one transcript in turn; a turn is as long as its role."""

    speakers = 3

    def __init__(self, speakers=3, seats=1, beyond=0):
        self.speakers, self.seats, self.beyond = speakers, seats, beyond

    def reset(self, *, seed):
        self.turn = 0
        return self._read()

    def _read(self):
        return f"role {self.turn % 3}", {"speaker": self.turn % 3 + self.beyond}

    def step(self, action):
        self.turn += 1
        text, info = self._read()
        return text, 0.0, self.turn == 4, False, info
