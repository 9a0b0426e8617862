"""Tables and formulas of docstrings, indented by two spaces there, as Markdown's literal text."""

import re

import griffe

SECTIONS = re.compile(r"^(?:Args|Attributes|Raises|References|Returns|Yields):$", re.MULTILINE)


class Literal(griffe.Extension):
    """Indents the paragraphs that are indented, all of their lines, by as much as Markdown asks."""

    def on_object(self, *, obj: griffe.Object, **others) -> None:
        """Called for every module, class and function."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        section = SECTIONS.search(text)
        end = section.start() if section else len(text)
        paragraphs = [_literal(paragraph) for paragraph in text[:end].split("\n\n")]
        obj.docstring.value = "\n\n".join(paragraphs) + text[end:]


def _literal(paragraph: str) -> str:
    lines = paragraph.split("\n")
    filled = [line for line in lines if line.strip()]
    if not filled or not all(line.startswith("  ") for line in filled):
        return paragraph
    return "\n".join(f"    {line}" if line.strip() else line for line in lines)
