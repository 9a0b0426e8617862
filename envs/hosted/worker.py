"""One environment in a process of its own, which answers requests over a pipe.

Run as a script by any Python from 3.9 on. It needs the standard library and the environment's own
imports, not agentrl, so an environment may live in a separate virtual environment.

The environment is given by its source (`make`):

  textarena:TicTacToe-v0     TextArena's games; option num_players (default 2), and the game's own.
  textworld:generated        games that TextWorld generates; options: see `engines.py` beside.
  scienceworld:boil          ScienceWorld's tasks, by name; needs Java; options: likewise.
  gymnasium:FrozenLake-v1    Gymnasium's environments of text or small numbers. Options: `actions`,
                             the words for actions 0, 1, ... (default: the numbers); others are
                             those of `gymnasium.make`, such as render_mode="ansi", whose text
                             the agent then reads. With arrays=True observations are numbers and
                             actions Discrete or Box, for policies over arrays.
  openspiel:kuhn_poker       OpenSpiel's games in words. Options: `reads`, `commands`, its own.
  pettingzoo:classic.tictactoe_v3
                             PettingZoo's games as numbers, in turns or (where the module has
                             `parallel_env`) all at once. Options: its own.
  dm_env:my_module.Catch     dm_env's, as numbers: a callable by its dotted path. Options: its own,
                             and `seed`: see `arrays.py` beside.
  verifiers:wordle           environments of the package verifiers, by the id under which they are
                             installed, or their factory, `verifiers:path/to/file.py:load`.
                             Options: `rows`, see `verifiers_environment.py` beside, and its own.
  my_module:MyEnvironment    your own: a callable that takes the options and returns an object
  path/to/file.py:make       as below.
  transcript:my_module:MyGame
                             a game in turns of any of these sources whose seats are one team, as
                             one agent who plays them all: see `one_transcript.py` beside.
  program:my_module:agent    a program that calls the model itself, see `programs.py` beside
  program:path/to/file.py:agent

An environment of your own has Gymnasium's interface with text. A complete one:

    class Guess:
        seats = 1             # number of players; default 1
        has_success = True    # whether it reports info["success"]; default False

        def __init__(self, highest=9):
            self.highest = highest

        def reset(self, *, seed):
            self.number = random.Random(seed).randint(0, self.highest)
            return f"A number from 0 to {self.highest}?", {}

        def step(self, action):
            guess = int(action) if action.isdigit() else None
            right = guess == self.number
            info = {"valid": guess is not None, "success": right}
            if guess is None:
                return "Digits, please.", 0.0, False, False, info
            text = "Right." if right else "More." if guess < self.number else "Less."
            return text, float(right), right, False, info

`reset` -> (observation, info); `step(action)` -> (observation, reward, terminated, truncated,
info). The observation is the text for the next agent to act. In a game info["seat"] is the number
of that agent, after `reset` too (default 0), and reward has one number per seat. Optional in the
info of a step: "valid", the action was legal (default True); "success", one value or one per seat
(default False); "offender", the seat whose illegal action ended the game (default -1).

With `simultaneous = True` all agents act at once: the observation is a list with one per seat, an
action a list with one per seat (None for agents that do not act), and info["acting"] lists who acts
next (default: all).

Where agents call others: `callers`, for each seat the seat that calls it, -1 for none, and `roles`,
the number of each seat's role, so that workers of one role share what they have learnt. A call that
may be made once is a seat; one that was not called just never acts. All seats are then one team.

Where several roles write one transcript, of one agent: `speakers`, how many roles, and in the info
of every observation info["speaker"], the role whose turn it is (default 0). `transcript:SOURCE`
makes this of a game whose seats act in turn.

Arrays instead of text: `observation_shape`, a tuple, declares them. Observations are then numbers
of that shape (nested lists or arrays), actions numbers 0 to `num_actions` - 1, or with
`continuous = True` lists of `num_actions` numbers in [-1, 1].

Numbers of your own: `metrics`, a tuple of names, declares them. The info of a step may then have
"metrics", some of them by name; the run reports the mean of each over the steps that gave it.

The same object is reset many times, with a seed that determines the episode: `random` and, if it
was imported, `numpy.random` are seeded with it too. An action is any text, including the empty one.
An environment that raises, dies or takes too long loses its episode, and the process is replaced.
Its output is discarded, except for the last lines before a failure. `close()`, if it exists, is
called when the run ends.
"""

import importlib
import importlib.util
import json
import math
import numbers
import os
import queue
import random
import re
import signal
import struct
import sys
import threading
import time
import traceback

_HEAD = struct.Struct(">I")
# A frame is one observation or one action; a longer one is treated as invalid.
LONGEST = 1 << 26
# Time limit of the environment's `close`, in seconds.
_GRACE = 2.0
# A variable of the process's environment, which all that it starts inherits.
MARK = "AGENTRL_STARTED_FOR"


def frame(message):
    """A message as bytes: its length in four bytes, then JSON."""
    body = json.dumps(message).encode()
    return _HEAD.pack(len(body)) + body


def unframe(buffer):
    """Removes the first whole message from a bytearray and returns it, or returns None.

    Raises:
      ValueError: the bytes are not a message.
    """
    if len(buffer) < _HEAD.size:
        return None
    (length,) = _HEAD.unpack_from(buffer)
    if length > LONGEST:
        raise ValueError(f"message of {length} bytes, expected at most {LONGEST}")
    end = _HEAD.size + length
    if len(buffer) < end:
        return None
    message = json.loads(buffer[_HEAD.size : end].decode())
    del buffer[:end]
    return message


def end_marked(mark):
    """Ends all processes whose variable MARK is this text, but not the one that calls it.

    Ending a process group misses those that began a session of their own. They are found in /proc,
    where there is one.
    """
    wanted, found = (MARK + "=" + mark).encode(), {os.getpid()}
    while True:
        before = len(found)
        for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
            if not name.isdigit() or int(name) in found:
                continue
            try:
                with open("/proc/" + name + "/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.add(int(name))
                        os.kill(int(name), signal.SIGKILL)
            except OSError:  # it has ended, or is somebody else's
                continue
        # What one of them has started meanwhile is found the next time.
        if len(found) == before:
            return


class Missing(Exception):
    """A package that the environment needs is missing; the message says how to install it."""


# Source -> the package that it needs, file and function in this directory.
_ADAPTERS = {
    "textarena": ("textarena", "adapters.py", "TextArena"),
    "gymnasium": ("gymnasium", "adapters.py", "gymnasium_environment"),
    "openspiel": ("pyspiel", "adapters.py", "OpenSpiel"),
    "pettingzoo": ("pettingzoo", "arrays.py", "pettingzoo_game"),
    "dm_env": ("dm_env", "arrays.py", "DmEnv"),
    "textworld": ("textworld", "engines.py", "TextWorld"),
    "scienceworld": ("scienceworld", "engines.py", "ScienceWorld"),
    "verifiers": ("verifiers", "verifiers_environment.py", "load"),
}


def _require(package, source):
    try:
        importlib.import_module(package)
    except ImportError as error:
        wanted = {"pyspiel": "open_spiel", "verifiers": "'verifiers<0.4'"}.get(package, package)
        raise Missing(
            f"{source} needs the package {package}, but {sys.executable} reports: {error}; "
            f"pip install {wanted} there, or name another interpreter (env.python)"
        ) from None


def _module_of_file(path):
    spec = importlib.util.spec_from_file_location("environment_" + re.sub(r"\W", "_", path), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _beside(file):
    return _module_of_file(os.path.join(os.path.dirname(os.path.abspath(__file__)), file))


def make(source, options):
    """The environment of a source (see the module docstring)."""
    place, colon, name = source.rpartition(":")
    if not (place and name):
        known = ", ".join(f"{name}:ID" for name in _ADAPTERS)
        raise ValueError(f"environment {source!r}: expected {known}, module:f or program:module:f")
    if place in _ADAPTERS:
        package, file, factory = _ADAPTERS[place]
        _require(package, source)
        return getattr(_beside(file), factory)(name, **options)
    if place.startswith("verifiers:"):
        _require("verifiers", source)
        name = source[len("verifiers:") :]
        return _beside("verifiers_environment.py").load(name, named(name), **options)
    if place.startswith("transcript:"):
        inner = source[len("transcript:") :]
        return _beside("one_transcript.py").OneTranscript(make(inner, options), inner)
    if place.startswith("program:"):
        return _beside("programs.py").Program(named(source[len("program:") :]), options)
    return named(source)(**options)


def named(source):
    """What module:name or path/to/file.py:name says.

    Raises:
      Missing: there is no such module, file or name.
    """
    place, _, name = source.rpartition(":")
    if place.endswith(".py"):
        if not os.path.exists(place):
            raise Missing(f"environment {source!r}: no file {place} in {os.getcwd()}")
        module = _module_of_file(place)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise Missing(
                f"environment {source!r}: {sys.executable}: {error}; run where the module is, "
                "pip install it, or name its file: path/to/file.py:factory"
            ) from None
    if not hasattr(module, name):
        raise Missing(f"environment {source!r}: {place} has no {name}")
    return getattr(module, name)


class Server:
    """Answers requests with one environment."""

    def __init__(self):
        self.env = None
        self.seats, self.simultaneous, self.shape, self.metrics = 1, False, None, ()
        self.speakers = 1

    def answer(self, request):
        """The answer to one request, checked here so that errors appear early."""
        if request["op"] == "make":
            return self._make(request)
        if request["op"] == "reset":
            random.seed(request["seed"])
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(request["seed"])
            observation, info = self.env.reset(seed=request["seed"])
            return self._shown(observation, info, False)
        observation, reward, terminated, truncated, info = self.env.step(request["action"])
        valid = info.get("valid", True)
        shown = self._shown(observation, info, bool(terminated) or bool(truncated))
        if self.metrics:
            shown["metrics"] = self._metrics(info.get("metrics", {}))
        return {
            **shown,
            "reward": self._each("reward", reward, float),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "valid": self._each("valid", valid, bool) if self.simultaneous else bool(valid),
            "success": self._each("success", info.get("success", False), bool),
            "offender": int(info.get("offender", -1)),
        }

    def _make(self, request):
        self.env = make(request["source"], request["options"])
        self.seats = int(getattr(self.env, "seats", 1))
        self.simultaneous = bool(getattr(self.env, "simultaneous", False))
        self.speakers = int(getattr(self.env, "speakers", 1))
        if self.speakers < 1 or (self.speakers > 1 and self.seats > 1):
            raise ValueError(
                f"speakers={self.speakers} with seats={self.seats}: expected the roles of the one "
                "agent of an environment"
            )
        shape = getattr(self.env, "observation_shape", None)
        self.shape = None if shape is None else tuple(int(n) for n in shape)
        about = {"seats": self.seats, "has_success": bool(getattr(self.env, "has_success", False))}
        for name in ("simultaneous", "calls_model"):
            if getattr(self.env, name, False):
                about[name] = True
        if self.speakers > 1:
            about["speakers"] = self.speakers
        for name, least in (("callers", -1), ("roles", 0)):
            given = getattr(self.env, name, None)
            if given is not None:
                about[name] = self._seats_of(name, given, least)
        self.metrics = tuple(str(name) for name in getattr(self.env, "metrics", ()))
        if self.metrics:
            about["metrics"] = list(self.metrics)
        if self.shape is not None:
            about["observation_shape"] = list(self.shape)
            about["num_actions"] = int(self.env.num_actions)
            about["continuous"] = bool(getattr(self.env, "continuous", False))
        return about

    def _seats_of(self, name, given, least):
        """One number per seat, `least` or more and below the number of seats."""
        numbers = [int(x) for x in given]
        fits = len(numbers) == self.seats and all(least <= x < self.seats for x in numbers)
        if not fits or (name == "callers" and any(x == i for i, x in enumerate(numbers))):
            raise ValueError(
                f"{name}={numbers}: expected one number per seat, {least} to {self.seats - 1}, of "
                "which none calls itself"
            )
        return numbers

    def _metrics(self, given):
        unknown = sorted(set(given) - set(self.metrics))
        if unknown:
            raise ValueError(
                f"info['metrics'] has {', '.join(unknown)}; declared: {', '.join(self.metrics)}"
            )
        return {name: float(value) for name, value in given.items()}

    def _shown(self, observation, info, ended):
        """Observations of the agents that act next."""
        if not self.simultaneous:
            seat = 0 if ended else self._seat(info)
            shown = {"observation": self._observation(observation), "seat": seat}
            if self.speakers > 1:
                shown["speaker"] = 0 if ended else self._speaker(info)
            return shown
        if not isinstance(observation, (list, tuple)) or len(observation) != self.seats:
            raise ValueError(
                f"observation {observation!r:.200}: expected {self.seats}, one per seat"
            )
        acting = [bool(x) for x in info.get("acting", [True] * self.seats)]
        if len(acting) != self.seats or not (ended or any(acting)):
            raise ValueError(
                f"info['acting']={acting}: expected {self.seats} flags, one of them True"
            )
        return {"observation": [self._observation(x) for x in observation], "acting": acting}

    def _observation(self, observation):
        if self.shape is None:
            if not isinstance(observation, str):
                raise TypeError(f"observation {observation!r:.200}: expected text")
            return observation
        listed = observation.tolist() if hasattr(observation, "tolist") else observation
        if shape_of(listed) != self.shape:
            raise ValueError(f"observation {observation!r:.200}: expected numbers [{self.shape}]")
        return listed

    def _seat(self, info):
        seat = int(info.get("seat", 0))
        if not 0 <= seat < self.seats:
            raise ValueError(f"info['seat']={seat}: expected 0 to {self.seats - 1}")
        return seat

    def _speaker(self, info):
        speaker = int(info.get("speaker", 0))
        if not 0 <= speaker < self.speakers:
            raise ValueError(f"info['speaker']={speaker}: expected 0 to {self.speakers - 1}")
        return speaker

    def _each(self, name, given, kind):
        """One number per seat; a single success value is used for all seats."""
        many = hasattr(given, "__len__")
        if not many and (self.seats == 1 or kind is bool):
            given = [given] * self.seats
        elif not many or len(given) != self.seats:
            raise ValueError(f"{name} {given!r:.200}: expected {self.seats}, one per seat")
        given = [kind(x) for x in given]
        if not all(math.isfinite(x) for x in given):
            raise ValueError(f"{name} {given!r}: expected finite numbers")
        return given


def shape_of(values):
    """The shape of nested lists of finite numbers; None where they have none."""
    if not isinstance(values, (list, tuple)):
        return () if isinstance(values, numbers.Real) and math.isfinite(values) else None
    shapes = {shape_of(value) for value in values}
    if len(shapes) > 1 or None in shapes:
        return None
    return (len(values), *(shapes.pop() if shapes else ()))


def _listen(source, requests):
    """Puts requests into a queue. When the pipe closes, the run has ended."""
    buffer = bytearray()
    while True:
        data = os.read(source, 1 << 16)
        if not data:
            break
        buffer += data
        message = unframe(buffer)
        while message is not None:
            requests.put(message)
            message = unframe(buffer)
    requests.put(None)
    time.sleep(_GRACE)
    end_marked(os.environ.get(MARK, ""))
    # The environment is busy and its caller is gone: end it, and all that it has started.
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main():
    """Serves requests until the other end of the pipe is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers send it to all; the run saves first
    # Output and input of the environment must not mix with the messages.
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    # Modules are looked up where the run was started, not beside this file.
    sys.path[0] = os.getcwd()
    requests = queue.Queue()
    threading.Thread(target=_listen, args=(source, requests), daemon=True).start()
    server = Server()
    while True:
        request = requests.get()
        if request is None:
            break
        try:
            answer = server.answer(request)
        except Missing as error:
            answer = {"error": str(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        data = frame(answer)
        while data:
            data = data[os.write(sink, data) :]
    close = getattr(server.env, "close", None)
    if close is not None:
        close()
    sys.stdout.flush()
    end_marked(os.environ.get(MARK, ""))
    os._exit(0)


if __name__ == "__main__":
    main()
