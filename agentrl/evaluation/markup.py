"""HTML and SVG as text in which everything is escaped unless it was built here."""

import html
from collections.abc import Sequence


class Markup(str):
    """Markup that may be inserted without escaping. Only `tag`, `join` and constants create it."""


_VOID = ("br", "meta", "wbr")


def escape(value: object) -> Markup:
    """Text as markup; markup is returned unchanged."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def join(*parts: object) -> Markup:
    """Concatenated parts; None is skipped, lists are flattened."""
    out = []
    for part in parts:
        if isinstance(part, list | tuple):
            out.append(join(*part))
        elif part is not None:
            out.append(escape(part))
    return Markup("".join(out))


def table(head: Sequence[object], rows: Sequence[Markup]) -> Markup:
    """A table of rows (`tr` each) under a head, in a box that scrolls if it is too wide."""
    cells = [tag("th", cell, scope="col") for cell in head]
    body = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows))
    return tag("div", body, class_="scroll")


def stacked(
    head: Sequence[object], rows: Sequence[Sequence[object]], kinds: Sequence[str] = ()
) -> Markup:
    """A table whose rows become cards on a narrow screen, each number beside its column's name.

    rows: one content per column, the first of which names the row. kinds: classes of the columns,
    such as "n" (a number, right-aligned) and "metric".
    """
    kinds = [*kinds, *[""] * (len(head) - len(kinds))]
    body = []
    for first, *cells in rows:
        shown = [tag("th", first, scope="row")]
        for name, kind, cell in zip(head[1:], kinds[1:], cells, strict=True):
            shown.append(tag("td", cell, class_=kind or None, data_label=str(name) or None))
        body.append(tag("tr", *shown))
    cells = [tag("th", n, scope="col", class_=k or None) for n, k in zip(head, kinds, strict=True)]
    whole = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *body), class_="stack")
    return tag("div", whole, class_="scroll")


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element. `class_` is class, `aria_label` is aria-label; None and False are left out."""
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{html.escape(str(value), quote=True)}"')
    opening = Markup(f"<{' '.join(words)}>")
    return opening if name in _VOID else join(opening, *children, Markup(f"</{name}>"))
