"""Text as a view of environments: fragments out, bytes in. Tokens belong to the policies."""

from envs.text.lexicon import Lexicon as Lexicon
from envs.text.lexicon import join as join
from envs.text.view import Query as Query
from envs.text.view import Template as Template
from envs.text.view import Text as Text
from envs.text.view import View as View
from envs.text.view import pack as pack
from envs.text.view import template as template

# Imported when words are read: a run over arrays needs no grammar.
_GRAMMAR = frozenset(
    "GRAMMARS Grammar Parsed between contains lower make_grammar parse span thinks".split()
)


def __getattr__(name: str):
    if name not in _GRAMMAR:
        raise AttributeError(f"module 'envs.text' has no attribute {name!r}")
    from envs.text import grammar

    return getattr(grammar, name)
