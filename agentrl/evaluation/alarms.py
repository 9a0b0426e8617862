"""Alarms: what in a run's metrics asks for a look, with the config's key to change."""

from collections.abc import Mapping, Sequence

# Alarms compare with the first record that has the metric.
MAX_KL = 0.1
ENTROPY_LEFT = 0.1  # of the first entropy
LENGTH_LEFT, EMPTY = 0.25, 2.0  # of the first length; tokens, of which EOS is one
NO_SPREAD = 0.95


def alarms(record: Mapping[str, float], first: Mapping[str, float]) -> dict[str, str]:
    """Alarms of a seed's record by name: what happened, and what to change.

    "KL": one update took the policy far from the one that collected, above 0.1 nats per token or
    action. "entropy": a tenth of the first is left. "empty replies": at most two tokens, and a
    quarter of the first length. "no spread": 95 % of the streams are in groups whose returns are
    equal, so that group-relative estimators have nothing to compare.

    Args:
      record: metrics of an update.
      first: those of the run's first update by reinforcement learning.
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
    if equal > NO_SPREAD:
        found["no spread"] = (
            f"{equal:.0%} of the streams are in groups with equal returns: raise "
            "config.rollout.group_size, or choose tasks that are solved at times"
        )
    return found


def begun(records: Sequence[Mapping[str, float]]) -> list[tuple[int, str, str]]:
    """[(update, name, text)] of a seed's records in order, where an alarm begins."""
    first, before, found = None, {}, []
    for record in records:
        if first is None and "approx_kl" in record:
            first = record
        now = alarms(record, first or {})
        found += [(int(record["update"]), name, now[name]) for name in now if name not in before]
        before = now
    return found
