"""What the figures of the launchers have in common: colours, and files that do not differ."""

import pathlib

from launchers import cli

# Okabe and Ito's palette, which is safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def pyplot():
    """Matplotlib's pyplot, without a display."""
    import matplotlib

    matplotlib.use("Agg")
    # Deterministic output: the same numbers give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "agentrl", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    return plt


def check_format(out: pathlib.Path) -> None:
    """Ends the program if a figure cannot be written under a name with this suffix."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if out.suffix[1:].lower() not in known:
        cli.fail(f"--out={out}: expected a name that ends in one of .{', .'.join(known)}")


def save(figure, out: pathlib.Path) -> None:
    """Writes a figure; the suffix selects the format."""
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)
