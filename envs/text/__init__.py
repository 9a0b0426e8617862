"""Text as a view of environments: fragments out, bytes in. Tokens belong to the policies."""

from envs.text import reading as reading
from envs.text.grammar import GRAMMARS as GRAMMARS
from envs.text.grammar import Grammar as Grammar
from envs.text.grammar import Parsed as Parsed
from envs.text.grammar import between as between
from envs.text.grammar import contains as contains
from envs.text.grammar import lower as lower
from envs.text.grammar import make_grammar as make_grammar
from envs.text.grammar import parse as parse
from envs.text.grammar import span as span
from envs.text.grammar import thinks as thinks
from envs.text.lexicon import Lexicon as Lexicon
from envs.text.lexicon import join as join
from envs.text.view import Query as Query
from envs.text.view import Template as Template
from envs.text.view import Text as Text
from envs.text.view import View as View
from envs.text.view import pack as pack
from envs.text.view import template as template
