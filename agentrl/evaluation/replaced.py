"""What would have become of an episode with a player replaced, as a table."""

from collections.abc import Sequence

import numpy as np

from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, stacked


def table_of(runs: np.ndarray, partners: Sequence[str], replacements: Sequence[str]) -> Markup:
    """Return, steps and success of the policy's run and of each replacement's, beside each partner.

    runs: f32[3, E, 1 + K], of one stream, see `Streams.runs`. What a replacement's return is above
    or below the policy's is in brackets. A mean over several draws need not be whole.
    """
    names = [name if ":" in name else name.rpartition(".")[2] for name in replacements]
    rows = []
    for e, partner in enumerate(partners):
        own, cells = float(runs[0, e, 0]), []
        for k in range(1 + len(names)):
            gained, steps, solved = map(float, runs[:, e, k])
            sign = "+" * (gained > own)
            less = f" ({sign}{number(gained - own)})" if k else ""
            cells.append(
                f"return {number(gained)}{less}, {number(steps)} steps, success {number(solved)}"
            )
        rows.append([partner, *cells])
    head = ["beside", "the policy", *(f"{name} in its place" for name in names)]
    return stacked(head, rows)
