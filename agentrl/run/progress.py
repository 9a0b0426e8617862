"""Progress for people: the metrics that matter and the time left."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence

import chex
import ml_collections
import numpy as np
from rich import console as rich_console
from rich import progress as rich_progress

from agentrl.policies import parameter_count

# Shown if present, in this order.
SHOWN = (
    ("success_rate", "success", ".2f"),
    ("episode_return", "return", ".2f"),
    ("episode_length", "length", ".1f"),
    ("loss/imitation", "loss", ".3f"),
    ("held_out_loss", "held out", ".3f"),
    ("entropy", "entropy", ".2f"),
    ("approx_kl", "kl", ".4f"),
    ("explained_variance", "ev", ".2f"),
    ("rejected_updates", "rejected", ".0%"),
)
# The first of these that there is, where an evaluation followed the update.
EVALUATED = (
    ("evaluation/success_rate", "evaluated success", ".3f"),
    ("evaluation/episode_return", "evaluated return", ".3f"),
)


def title(
    config: ml_collections.ConfigDict, tasks: Iterable[str], params: chex.ArrayTree, update: int
) -> str:
    """What a run says of itself as it begins. params: of all seeds; update: the last done."""
    begins = f" · from {config.init_from}" if config.init_from else ""
    begins = f" · resumes after update {update}" if update else begins
    return (
        f"{' + '.join(tasks)} · {config.advantage.name.rpartition('.')[2]} · "
        f"{config.num_seeds} seed(s) · "
        f"{parameter_count(params) // config.num_seeds:,} parameters{begins}"
    )


def _words(
    shown: Iterable[tuple[str, str, str]], records: Sequence[Mapping[str, float]]
) -> list[str]:
    """What the records have of the metrics that are shown: label and mean."""
    words = []
    for name, label, form in shown:
        values = [record[name] for record in records if name in record]
        if values and not (name == "rejected_updates" and not any(values)):
            words.append(f"{label} {np.mean(values):{form}}")
    return words


class Progress:
    """A bar on a terminal, a line every few seconds and for each evaluation elsewhere, nothing if
    quiet.

    total, done: updates of the run. budget: turns that end the run before (config.env_steps), or 0.
    """

    def __init__(
        self,
        *,
        total: int,
        done: int,
        title: str,
        budget: int = 0,
        seconds_between_lines: float = 10.0,
        quiet: bool = False,
    ):
        self._said: set[str] = set()
        self._console = rich_console.Console(stderr=True, quiet=quiet)
        if self._console.is_jupyter:
            # Lines of text there, too: its cells of output fill the page, one for each line.
            plain = {"force_jupyter": False, "force_terminal": False}
            self._console = rich_console.Console(stderr=True, quiet=quiet, **plain)
        self._terminal = self._console.is_terminal
        self._seconds = seconds_between_lines
        self._total, self._first, self._budget = total, done, budget
        self._start = self._last = time.monotonic()
        self._console.print(title, highlight=False, soft_wrap=True)
        self._bar = rich_progress.Progress(
            rich_progress.MofNCompleteColumn(),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.TextColumn("{task.fields[metrics]}"),
            rich_progress.TimeRemainingColumn(),
            console=self._console,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task("", total=total, completed=done, metrics="compiling")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def say(self, name: str, text: str) -> None:
        """A line for people, once per name."""
        if name not in self._said:
            self._said.add(name)
            self._console.print(f"{name}: {text}", highlight=False, soft_wrap=True)

    def show(
        self, update: int, records: Sequence[Mapping[str, float]], machine: Mapping[str, float]
    ) -> None:
        """Shows the state after `update`; means over the seeds' records."""
        evaluated = _words(EVALUATED, records)[:1]
        words = evaluated + _words(SHOWN, records)
        # Supervised updates take no steps in the environment.
        if "env_steps_per_second" in machine:
            words.append(f"{machine['env_steps_per_second']:,.0f} steps/s")
        elif "trained_tokens_per_second" in machine:
            words.append(f"{machine['trained_tokens_per_second']:,.0f} tokens/s")
        else:
            words.append(f"{machine['updates_per_second']:.2f} updates/s")
        text, total = " · ".join(words), self._expected(update, records)
        self._bar.update(self._task, completed=update, total=total, metrics=text)
        now = time.monotonic()
        last = update >= total
        due = last or evaluated or now - self._last >= self._seconds
        if not self._terminal and due:
            left = (now - self._start) / max(update - self._first, 1) * (total - update)
            line = f"{update}/{total} · {text} · {left:.0f} s left"
            self._console.print(line, highlight=False, soft_wrap=True)
            self._last = now

    def _expected(self, update: int, records: Sequence[Mapping[str, float]]) -> int:
        """The update that a run ends with, as far as its budget of turns tells by now."""
        steps = min((record.get("env_steps", 0) for record in records), default=0)
        if not (self._budget and steps):
            return self._total
        return min(self._total, max(update, math.ceil(update * self._budget / steps)))
