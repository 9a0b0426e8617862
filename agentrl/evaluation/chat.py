"""A terminal in which a person watches a language policy turn by turn, or replies in its place."""

from collections.abc import Callable, Mapping

import jax

from agentrl.evaluation.conversation import Conversation, Reply
from agentrl.evaluation.terminal import outcome_text, returns_text, reward_lines, steps_text
from agentrl.policies.generation import Given
from agentrl.policies.typed import reply_text, typed_reply

KEYS = """\
Enter     the agent replies
TEXT      you reply in its place; a command alone gets the tags that the agent writes around it
?         the legal commands
:auto     the agent plays to the end
:undo     takes back a turn
:new      the next task
:quit     ends"""


def chat(
    conversation: Conversation,
    key_of: Callable[[int], jax.Array],
    task: int = 0,
    *,
    seat: int | None = None,
    ask: Callable[[str], str] = input,
    tell: Callable[[str], None] = print,
) -> None:
    """Plays tasks from number `task` on, until a person leaves.

    key_of: the key of a task by number. seat: the person is asked in this seat only, and reads what
    is read there; by default in all seats. The end of the input, EOFError, is ":quit".

    Raises:
      ValueError: there is no such seat.
    """
    env = conversation.env
    if seat is not None and not 0 <= seat < env.num_agents:
        raise ValueError(
            f"seat={seat}: expected 0 to {env.num_agents - 1}, the seats of {env.name}"
        )
    session = _Session(conversation, seat, ask, tell)
    tell(f"Keys:\n{KEYS}")
    while session.plays(key_of(task), f"task {task}"):
        task += 1


class _Session:
    """One person's dialogue: replies are read by `ask`, text is shown by `tell`. seat: None for
    all."""

    def __init__(self, conversation, seat, ask, tell):
        self.conversation, self.seat, self.ask, self.tell = conversation, seat, ask, tell
        self.env = conversation.env
        self.game = self.env.num_agents > 1
        self.titles = [f"seat {i}" for i in range(self.env.num_agents)]
        # The others' replies may hold what is hidden from a person in one seat.
        self.hides = seat is not None and self.game and not self.env.perfect_information
        self.auto = False

    def plays(self, key: jax.Array, title: str) -> bool:
        """Plays one task; whether another one follows."""
        self.tell(f"\n== {title}")
        self.conversation.begin(key)
        self.auto = False
        while True:
            ended = self.conversation.standing.ended
            word, given = ("", {}) if ended else self._replies()
            if ended:
                word = self._after_the_end()
            if word == ":undo":
                self._undo()
            elif word == ":quit":
                return False
            elif word == ":new":
                return True
            elif not ended:
                self._step(given)

    def _watched(self) -> list[int]:
        """The acting seats in which the person reads and is asked."""
        acting = self.conversation.acting()
        return [agent for agent in acting if self.seat in (None, agent)]

    def _replies(self) -> tuple[str, dict[int, Given]]:
        """(a key that leaves the turn or "", the person's replies by seat) of the next turn."""
        given = {}
        for agent in self._watched():
            role = self.conversation.role()
            who = self.titles[agent] if role is None else f"role {role}"
            title = "" if role is None and not self.game else f"{who} reads:\n"
            self.tell(f"\n{title}{self.conversation.read(agent)}")
            word, reply = ("", None) if self.auto else self._asked(agent)
            if word:
                return word, {}
            if reply is not None:
                given[agent] = reply
        return "", given

    def _line(self) -> str:
        try:
            return self.ask("> ").strip()
        except EOFError:
            return ":quit"

    def _asked(self, agent: int) -> tuple[str, Given | None]:
        """(a key that leaves the turn or "", the person's reply or None for the agent's own)."""
        while True:
            line = self._line()
            if not line:
                return "", None
            if line == ":auto":
                self.auto = True
                return "", None
            if line in (":undo", ":new", ":quit"):
                return line, None
            if line == "?":
                self.tell(self._legal(agent))
            elif line.startswith(":"):
                self.tell(f"no such key: {line}\n{KEYS}")
            else:
                try:
                    return "", self._typed(agent, line)
                except ValueError as error:
                    self.tell(f"{line!r}: {error}")

    def _legal(self, agent: int) -> str:
        commands, legal = self.conversation.commands(agent)
        known = [command for command, ok in zip(commands, legal, strict=True) if ok]
        return ", ".join(known) or "any text; the environment does not list its commands"

    def _typed(self, agent: int, line: str) -> Given:
        """A typed line as a reply."""
        text = self.conversation.text
        commands, _ = self.conversation.commands(agent)
        command = next((c for c in commands if c.lower() == line.lower()), None)
        grammar = text.policy.grammar
        if not commands and f"<{grammar.name}>" not in line:
            command = line  # the environment takes any text
        if command is not None:
            line = reply_text(grammar, command)
        return typed_reply(text.policy.codec, line, text.layout.reply_tokens)

    def _step(self, given: Mapping[int, Given]) -> None:
        conversation = self.conversation
        step = conversation.step(given)
        for agent, reply in step.replies.items():
            if self.hides and agent != self.seat:
                self.tell(f"{self.titles[agent]} replies")
                continue
            if self.game:
                self.tell(f"{self.titles[agent]} replies:")
            for line in _reply_lines(reply, agent in given):
                self.tell(line)
        if step.replies:
            for line in reward_lines(step.reward, step.valid, self.titles):
                self.tell(line)
        standing = conversation.standing
        if standing.ended:
            how = outcome_text(
                self.env, standing.success, standing.terminated, standing.offender, self.titles
            )
            if standing.full:
                how = "no room in the context for another turn"
            returns = returns_text(standing.total, self.titles)
            self.tell(f"\n{how} after {steps_text(standing.steps)}{returns}")

    def _after_the_end(self) -> str:
        """The key that is typed when an episode is over."""
        while True:
            line = self._line()
            if line in ("", ":new"):
                return ":new"
            if line in (":undo", ":quit"):
                return line
            self.tell("the episode is over: Enter or :new for the next task, :undo, :quit")

    def _undo(self) -> None:
        """Goes back to before the last turn in which the person was asked."""
        self.auto = False
        if not self.conversation.undo():
            self.tell(self.conversation.no_undo)
            return
        while not self._watched() and self.conversation.undo():
            pass


def _reply_lines(reply: Reply, given: bool) -> list[str]:
    """A reply as it was written, and what came of it."""
    lines = [f"summary: {reply.summary}"] if reply.summary else []
    parts = [(span, text.strip()) for span, text in reply.parts]
    lines += [f"{span}: {text}" for span, text in parts if text] or ["(a blank reply)"]
    came_of_it = "no command" if reply.command is None else f"command {reply.command!r}"
    if not reply.well_formed:
        came_of_it += ", not in the format of a reply"
    if not reply.ended:
        came_of_it += ", cut at the longest reply"
    lines.append(f"= {came_of_it}, {'yours' if given else f'p {reply.chance:.2g}'}")
    return lines
