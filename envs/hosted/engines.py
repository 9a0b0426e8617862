"""TextWorld and ScienceWorld with the interface that `envs.hosted.worker` describes.

Runs under the Python of the worker, from 3.9 on; each class imports the package that it needs.
Both engines list the commands that a state admits. Options of both:

commands  "none"      the observation does not list them;
          "listed"    one per line;
          "lettered"  one per line after a letter or digit, and the reply is that character.
                      The order is drawn anew for every turn, so that no letter is better than
                      another before its line is read; it depends on the seed, the turn and the
                      commands alone.
limit     at most so many are listed (62 with letters); of more, some are drawn likewise.
state     True: every observation has the place, the inventory and the task; False: after the
          first one only what the engine answers to the command.

The task and the commands come last, since a host cuts long observations at their beginning.
A reply is valid if it is one of the commands that the state admits (with letters: of those listed).
Any other text is passed to the engine, which may understand it; an unlisted letter is not.
"""

import fcntl
import hashlib
import os
import random
import shutil
import string
import tempfile

LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits


class Menu:
    """The commands that a state admits: how they are listed and how a reply is read."""

    def __init__(self, commands, limit):
        if commands not in ("none", "listed", "lettered"):
            raise ValueError(f"commands={commands!r}: expected 'none', 'listed' or 'lettered'")
        most = len(LETTERS) if commands == "lettered" else 1 << 30
        if not 1 <= limit <= most:
            raise ValueError(f"limit={limit} with commands={commands!r}: expected 1 to {most}")
        self._how, self._limit = commands, limit
        self._seed, self._turn = 0, 0
        self._admitted, self._listed = [], []

    def begin(self, seed):
        """Begins an episode, whose seed decides which commands are listed and in which order."""
        self._seed, self._turn = seed, 0

    def update(self, admitted):
        """Sets the commands of a new state."""
        self._admitted = sorted(set(admitted))
        self._turn += 1
        draw = random.Random(repr((self._seed, self._turn, self._admitted)))
        drawn = draw.sample(self._admitted, min(self._limit, len(self._admitted)))
        if self._how == "lettered":
            self._listed = drawn
        else:
            self._listed = self._admitted if self._how == "none" else sorted(drawn)

    def text(self):
        """The list, or "" where none is shown."""
        if self._how == "none":
            return ""
        if self._how == "listed":
            return "Commands:\n" + "\n".join(self._listed)
        lines = [f"{LETTERS[i]}) {command}" for i, command in enumerate(self._listed)]
        return "Commands:\n" + "\n".join(lines)

    def read(self, reply):
        """(command or None, whether the state admits it)."""
        reply = reply.strip()
        if self._how == "lettered":
            place = LETTERS.find(reply) if len(reply) == 1 else -1
            known = 0 <= place < len(self._listed)
            return (self._listed[place] if known else None), known
        return reply, reply in self._admitted


def joined(*pieces):
    """The pieces one below the other, without empty lines."""
    lines = [line.rstrip() for piece in pieces for line in (piece or "").strip().splitlines()]
    return "\n".join(line for line in lines if line)


class TextWorld:
    """Games that TextWorld generates, one per seed.

    rooms, objects, quest_length: of a game. games: how many different ones there are, by the seed's
    remainder; 0 for one per seed. directory: where their files are kept and found again, by all
    workers; default: textworld-games-USER in the directory for temporary files.

    The reward is the change of the score as a share of the highest score; success is to win.
    """

    has_success = True

    def __init__(
        self,
        name="generated",
        rooms=1,
        objects=3,
        quest_length=1,
        games=0,
        directory="",
        commands="listed",
        limit=62,
        state=True,
    ):
        import textworld

        if name != "generated":
            raise ValueError(f"textworld:{name}: expected textworld:generated")
        self._textworld, self._state, self._games = textworld, state, games
        self._sizes = {"nb_rooms": rooms, "nb_objects": objects, "quest_length": quest_length}
        self._menu = Menu(commands, limit)
        own = f"textworld-games-{os.getuid()}"
        self._directory = directory or os.path.join(tempfile.gettempdir(), own)
        os.makedirs(self._directory, exist_ok=True)
        names = ("admissible_commands", "objective", "description", "inventory", "feedback")
        scores = ("score", "max_score", "won", "lost")
        self._infos = textworld.EnvInfos(**dict.fromkeys(names + scores, True))
        self._env, self._seen, self._score = None, None, 0

    def _file(self, seed):
        """The file of the game of a seed, generated where there is none."""
        settings = (self._textworld.__version__, sorted(self._sizes.items()), seed)
        name = hashlib.sha256(repr(settings).encode()).hexdigest()[:24]
        path = os.path.join(self._directory, name)
        # Members of a group begin the same game at the same time, in workers of their own: one of
        # them generates it.
        with open(path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path + ".z8"):
                self._generate(seed, path)
        return path + ".z8"

    def _generate(self, seed, path):
        # A worker may be ended at any time: the game is there once its file, moved last, is.
        with tempfile.TemporaryDirectory(dir=self._directory) as beside:
            options = self._textworld.GameOptions()
            for option, value in self._sizes.items():
                setattr(options, option, value)
            options.seeds, options.path = seed, os.path.join(beside, "game.z8")
            self._textworld.make(options)
            for end in (".json", ".z8"):
                os.replace(os.path.join(beside, "game" + end), path + end)

    def reset(self, *, seed):
        """Starts the game of the seed."""
        self.close()
        game = seed % self._games if self._games else seed
        self._env = self._textworld.start(self._file(game), self._infos)
        self._menu.begin(seed)
        self._seen, self._score = self._env.reset(), 0
        self._menu.update(self._seen.admissible_commands)
        seen = self._seen
        # The first message is a banner and what follows here.
        first = joined(seen.description, seen.inventory, seen.objective, self._menu.text())
        return first, {}

    def _shown(self, message):
        if not self._state:
            return joined(message, self._menu.text())
        seen = self._seen
        # A command that looks says nothing that is not there already.
        message = "" if message == seen.description.strip() else message
        state = (seen.description, seen.inventory)
        return joined(*state, message, seen.objective, self._menu.text())

    def step(self, action):
        """Plays a reply: (text, share of the highest score that it gained, over, False, info)."""
        command, valid = self._menu.read(action)
        if command is None:
            return self._shown("That is no choice."), 0.0, False, False, {"valid": False}
        self._seen, score, over = self._env.step(command or "wait")
        self._menu.update(self._seen.admissible_commands)
        # A prompt and the status line follow.
        message = self._seen.feedback.partition("\n>")[0].strip()
        score = 0 if score is None else score
        reward = (score - self._score) / (self._seen.max_score or 1)
        self._score = score
        info = {"valid": valid, "success": bool(self._seen.won)}
        return self._shown(message), reward, bool(over), False, info

    def close(self):
        """Ends the game that is played, if one is; the game's file stays."""
        if self._env is not None:
            self._env.close()
        self._env = None


class ScienceWorld:
    """A task of ScienceWorld in a variation per seed; one Java process, ended with this one.

    name: the task, such as "find-living-thing". variations: "train", "dev", "test" or "all", or a
    list of numbers. simplifications: as the simulator takes them. verbs: admitted commands are only
    those that begin with one of these; default: all, of which there are hundreds.

    The reward is the change of the score / 100. A score below 0 (a wrong thing was focused on) ends
    the episode and counts as 0. What the score is at the start is no reward. Success is a score
    of 100.
    """

    has_success = True

    def __init__(
        self,
        name,
        variations="train",
        simplifications="easy",
        verbs=(),
        heap="512m",
        commands="listed",
        limit=62,
        state=True,
    ):
        import scienceworld

        if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
            raise ValueError(
                f"scienceworld:{name} needs Java: there is no `java` on the path, and JAVA_HOME is "
                "not set; install a Java runtime, 8 or later"
            )
        self._menu, self._state, self._verbs = Menu(commands, limit), state, tuple(verbs)
        given = os.environ.get("JAVA_TOOL_OPTIONS", "")
        os.environ["JAVA_TOOL_OPTIONS"] = f"{given} -Xmx{heap}".strip()
        # The time limit is the host's.
        self._env = scienceworld.ScienceWorldEnv(name, envStepLimit=1 << 30)
        self._name, self._simplifications = name, simplifications
        self._info, self._score = {}, 0
        subsets = {
            "train": self._env.get_variations_train,
            "dev": self._env.get_variations_dev,
            "test": self._env.get_variations_test,
            "all": lambda: range(self._env.get_max_variations(name)),
        }
        if isinstance(variations, str) and variations not in subsets:
            raise ValueError(
                f"variations={variations!r}: expected one of {sorted(subsets)}, or numbers"
            )
        named = isinstance(variations, str)
        self._variations = list(subsets[variations]() if named else variations)

    def reset(self, *, seed):
        """Starts the variation of the seed."""
        variation = self._variations[seed % len(self._variations)]
        self._env.load(self._name, variation, self._simplifications)
        _, self._info = self._env.reset()
        self._score = self._info["score"]
        self._menu.begin(seed)
        self._admit()
        info = self._info
        return joined(info["look"], info["inv"], info["taskDesc"], self._menu.text()), {}

    def _admit(self):
        valid = self._info["valid"]
        # None where the simulator asks which of several things is meant.
        some = [command for command in valid if command.startswith(self._verbs)]
        self._menu.update(some if self._verbs and some else valid)

    def _shown(self, message):
        if not self._state:
            return joined(message, self._menu.text())
        info = self._info
        message = "" if message.strip() == info["look"].strip() else message
        return joined(info["look"], info["inv"], message, info["taskDesc"], self._menu.text())

    def step(self, action):
        """Plays a reply: (text, change of the score / 100, over, False, info)."""
        command, valid = self._menu.read(action)
        if command is None:
            return self._shown("That is no choice."), 0.0, False, False, {"valid": False}
        message, _, over, self._info = self._env.step(command)
        self._admit()
        score = max(self._info["score"], 0)
        reward, self._score = (score - self._score) / 100, score
        return (
            self._shown(message),
            reward,
            bool(over),
            False,
            {
                "valid": valid,
                "success": score == 100,
            },
        )

    def close(self):
        """Ends the Java process of the simulator."""
        self._env.close()
