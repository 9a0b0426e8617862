"""Drawings of environments as HTML: grids in colour, other drawings as text."""

from collections.abc import Mapping

from agentrl.evaluation.markup import Markup, tag

# Glyph -> (fill, meaning). Colours separate walls, goals, boxes and players for all common kinds of
# colour blindness; each object on the ground also shows its glyph.
GLYPHS: dict[str, tuple[str, str]] = {
    "#": ("#5b6472", "wall"),
    "_": ("#eef1f4", "floor"),
    ".": ("#eef1f4", "floor"),
    " ": ("#eef1f4", "floor"),
    "O": ("#f6c8c0", "target"),
    "X": ("#c98a3d", "box"),
    "P": ("#2f7fd0", "player"),
    "G": ("#3aa76d", "goal"),
    "*": ("#7d5bbe", "solved"),
    "S": ("#1b4f8a", "player on target"),
    "$": ("#f0c541", "coin"),
}
# Deviations from it, by name of the environment without its version.
OF_ENVIRONMENT: dict[str, dict[str, tuple[str, str]]] = {
    "FrozenLake": {
        "_": ("#dff1fa", "ice"),
        "O": ("#22466b", "hole"),
        "X": ("#b5322a", "player in a hole"),
        "*": ("#7d5bbe", "player on the goal"),
    },
    "Sokoban": {"*": ("#7d5bbe", "box on target")},
}
_GROUND = "#_. "
_DARK = frozenset(("#5b6472", "#2f7fd0", "#1b4f8a", "#22466b", "#b5322a", "#7d5bbe"))


def palette(environment: str) -> dict[str, tuple[str, str]]:
    """Glyphs of an environment, named with or without its version."""
    return GLYPHS | OF_ENVIRONMENT.get(environment.partition("-v")[0], {})


def is_grid(text: str, glyphs: Mapping[str, tuple[str, str]]) -> bool:
    """Whether all lines have the same length and consist of known glyphs."""
    rows = text.split("\n")
    return (
        len({len(row) for row in rows}) == 1 and 1 < len(rows[0]) and set(text) <= {*glyphs, "\n"}
    )


def grid(text: str, glyphs: Mapping[str, tuple[str, str]], label: str) -> Markup:
    """The grid as an SVG: one path per kind of cell, and the glyphs of objects on the ground."""
    rows = text.split("\n")
    height, width = len(rows), len(rows[0])
    cells: dict[str, list[tuple[int, int]]] = {}
    for y, row in enumerate(rows):
        for x, glyph in enumerate(row):
            cells.setdefault(glyph, []).append((x, y))
    parts = []
    for glyph, places in cells.items():
        fill, name = glyphs[glyph]
        squares = "".join(f"M{x}.04 {y}.04h.92v.92h-.92z" for x, y in places)
        parts.append(tag("path", tag("title", name), d=squares, fill=fill))
        if glyph not in _GROUND:
            ink = "#fff" if fill in _DARK else "#222"
            parts += [tag("text", glyph, x=x + 0.5, y=y + 0.72, fill=ink) for x, y in places]
    pixels = max(10, min(24, 132 // max(height, width)))
    return tag(
        "svg",
        *parts,
        class_="board",
        viewBox=f"0 0 {width} {height}",
        width=pixels * width,
        height=pixels * height,
        role="img",
        aria_label=label,
    )


def text(lines: str, before: str | None) -> Markup:
    """The text, or, after a text with the same number of lines, only the lines that changed.

    A line that begins with > marks the agent's position and is highlighted.
    """
    rows = lines.split("\n")
    earlier = [] if before is None else before.split("\n")
    shown = rows
    if len(rows) > 1 and len(earlier) == len(rows):
        shown = [row for row, was in zip(rows, earlier, strict=True) if row != was]
    parts = [tag("span", tag("mark", row) if row.startswith(">") else row, "\n") for row in shown]
    return tag("pre", *parts or ["(unchanged)"], class_="board")


def glyph_legend(texts: set[str], glyphs: Mapping[str, tuple[str, str]]) -> Markup:
    """Meaning of the glyphs that occur in the texts."""
    items = []
    for glyph in sorted(set("".join(texts)) - {"\n"}, key=list(glyphs).index):
        fill, name = glyphs[glyph]
        square = tag("rect", width=12, height=12, rx=2, fill=fill)
        picture = tag("svg", square, viewBox="0 0 12 12", class_="swatch", aria_hidden="true")
        shown = "" if glyph in _GROUND else f"{glyph} "
        items.append(tag("li", picture, f"{shown}{name}"))
    return tag("ul", *items, class_="legend")
