"""Alarms: what in a run's metrics asks for a look, with the config's key to change."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl import advantages

# Alarms compare with the first record that has the metric.
MAX_KL = 0.1
ENTROPY_LEFT = 0.1  # of the first entropy
LENGTH_LEFT, EMPTY = 0.25, 2.0  # of the first length; tokens, of which EOS is one
NO_SPREAD = 0.95


def compares_groups(config: Mapping[str, Any]) -> bool:
    """Whether a config's estimator compares the streams of a group: it needs `group`.

    An estimator with a critic, or with a running baseline, does not, and learns from groups of one.
    Of an estimator from elsewhere than `agentrl.advantages` it is assumed if there is no critic.
    """
    name = str(config.get("advantage", {}).get("name", ""))
    package, _, last = name.rpartition(".")
    if package in ("", "agentrl.advantages") and last in dir(advantages):
        parameter = inspect.signature(getattr(advantages, last)).parameters.get("group")
        return parameter is not None and parameter.kind != parameter.KEYWORD_ONLY
    return config.get("policy", {}).get("critic", "none") == "none"


def alarms(
    record: Mapping[str, float], first: Mapping[str, float], *, groups: bool = True
) -> dict[str, str]:
    """Alarms of a seed's record by name: what happened, and what to change.

    "KL": one update took the policy far from the one that collected, above 0.1 nats per token or
    action. "entropy": a tenth of the first is left. "empty replies": at most two tokens, and a
    quarter of the first length. "no spread": 95 % of the streams are in groups whose returns are
    equal, so that an estimator that compares within groups has nothing to compare.

    Args:
      record: metrics of an update.
      first: those of the run's first update by reinforcement learning.
      groups: the estimator compares within groups (`compares_groups`); without, "no spread" is no
        alarm.
    """
    found = {}
    kl = record.get("approx_kl", 0.0)
    if kl > MAX_KL:
        found["KL"] = (
            f"approx_kl is {kl:.2g}: lower config.optimizer.learning_rate, or bound it by "
            "config.learner.max_kl"
        )
    entropy, before = record.get("entropy"), first.get("entropy")
    if entropy is not None and before is not None and 0 <= entropy < ENTROPY_LEFT * before:
        found["entropy"] = (
            f"entropy fell from {before:.2g} to {entropy:.2g}: lower "
            "config.optimizer.learning_rate, or add a term `entropy` or `kl` to config.objective"
        )
    length, before = record.get("response_length"), first.get("response_length")
    if length is not None and before is not None and length <= min(EMPTY, LENGTH_LEFT * before):
        found["empty replies"] = (
            f"replies have {length:.1f} tokens, {before:.1f} at first: begin again from an earlier "
            "checkpoint with a lower config.optimizer.learning_rate"
        )
    equal = record.get("frac_zero_std_groups", 0.0)
    if groups and equal > NO_SPREAD:
        found["no spread"] = (
            f"{equal:.0%} of the streams are in groups with equal returns: raise "
            "config.rollout.group_size, or choose tasks that are solved at times"
        )
    return found


def begun(
    records: Sequence[Mapping[str, float]], *, groups: bool = True
) -> list[tuple[int, str, str]]:
    """[(update, name, text)] of a seed's records in order, where an alarm begins; groups: as in
    `alarms`."""
    first, before, found = None, {}, []
    for record in records:
        if first is None and "approx_kl" in record:
            first = record
        now = alarms(record, first or {}, groups=groups)
        found += [(int(record["update"]), name, now[name]) for name in now if name not in before]
        before = now
    return found
