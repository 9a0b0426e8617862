"""Options that an environment does not take: what its error says."""

import ast
import inspect

import pytest

import envs

WRONG = [
    ("AgentGraph-v1", {"nodes": (4, 17)}, "expected"),
    ("AgentGraph-v1", {"parts": (1, 3)}, "expected"),
    ("AgentGraph-v1", {"agents": 9}, "expected"),
    ("AgentGraph-v1", {"modulus": 6}, "expected a prime"),
    ("NumberLine-v1", {"length": 300}, "expected 1 to 255"),
    ("Support-v1", {"distance": (0, 8)}, "expected .fewest, most. of 1 to 20"),
    ("Coin-v1", {"quest_length": 0}, "quest_length 0 with 1 distractors"),
    ("Coin-v1", {"distractors": 3}, "expected at least 1 with 0 to 2"),
    ("Coin-v1", {"quest_length": 64, "num_names": 128}, "at most 127 rooms"),
    ("Coin-v1", {"quest_length": 20}, "num_names 32: expected 40"),
    ("ConnectFour-v1", {"rows": 3}, "3 x 7"),
    ("Debate-v1", {"reveals": 26}, "reveals 26"),
    ("Debate-v1", {"honest": 2}, "honest 2"),
    ("Debate-v1", {"labels": 1}, "labels 1"),
    ("DictSum-v1", {"pairs": 17}, "pairs 17: expected 1 to 16"),
    ("DictSum-v1", {"turns": 0}, "turns 0: expected at least 1"),
    ("DictSum-v1", {"turns": 32}, "limit 99: expected 288"),
    ("DictSum-v1", {"recall": 9}, "recall 9: expected 0 to turns=8"),
    ("DictSum-v1", {"reward": "most"}, "reward 'most': expected one of all, index, prefix, step"),
    ("DictSum-v1", {"history": "filled", "recall": 0}, "expected a recall of at least 1"),
    ("Foraging-v1", {"size": 4}, "size 4"),
    ("Foraging-v1", {"foods": 0}, "foods 0"),
    ("FunctionGym-v1", {"modulus": 12}, "modulus 12: expected 2 to 10, or 0"),
    (
        "FunctionGym-v1",
        {"functions": ("a / b",)},
        r"expected a, b and whole numbers with \+ - \* \*\*",
    ),
    ("FunctionGym-v1", {"functions": ("a + c",)}, "function 'a [+] c': expected a, b"),
    ("FunctionGym-v1", {"functions": ("open('x')",)}, "expected a, b and whole numbers"),
    ("FunctionGym-v1", {"functions": ("a +",)}, "is not an expression"),
    (
        "FunctionGym-v1",
        {"functions": ("a + b",), "split": "unseen"},
        "1 functions: a split needs at least 4",
    ),
    ("FunctionGym-v1", {"split": "all"}, "expected 'seen' or 'unseen'"),
    ("FunctionGym-v1", {"memory": -1}, "memory -1 with answers up to 999"),
    ("Household-v1", {"receptacles": 3}, "receptacles 3, objects 7: expected 4 to 32"),
    ("Household-v1", {"objects": 33}, "objects 33: expected"),
    ("Household-v1", {"tasks": ("put", "cook")}, "expected some of put, look"),
    ("Household-v1", {"tasks": ()}, "expected some of put, look"),
    ("Household-v1", {"split": "test"}, "split 'test': expected one of seen, unseen"),
    ("Jobs-v1", {"durations": (1.0,)}, "expected"),
    ("Jobs-v1", {"durations": (0.0, 1.0)}, "expected"),
    ("Jobs-v1", {"chances": ((0.5,),)}, "expected"),
    ("KeyDoor-v1", {"rooms": 0}, "expected"),
    ("KeyDoor-v1", {"keys": 1}, "expected"),
    ("KeyDoor-v1", {"keys": 6, "width": 5}, "expected"),
    ("PlannedKeyDoor-v1", {"rooms": 0}, "expected"),
    ("PlannedKeyDoor-v1", {"keys": 1}, "expected"),
    ("PlannedKeyDoor-v1", {"keys": 6, "width": 5}, "expected"),
    ("Maze-v1", {"layout": "utube"}, "layout 'utube': expected one of random, double_t, umaze"),
    ("Maze-v1", {"sight": "full"}, "sight 'full': expected one of grid, walls, goal, position"),
    ("Maze-v1", {"layout": "umaze", "size": (5, 5)}, "has a fixed size; leave it out"),
    ("Maze-v1", {"size": (8, 9)}, "expected odd numbers"),
    ("Maze-v1", {"size": (3, 3)}, "from 3 x 5"),
    ("Maze-v1", {"size": (9, 15)}, "to 13 x 13"),
    ("ModSum-v1", {"nodes": (0, 3)}, "expected"),
    ("ModSum-v1", {"nodes": (4, 17)}, "expected"),
    ("ModSum-v1", {"parts": (1, 3)}, "expected"),
    ("ModSum-v1", {"breadth": 0}, "expected"),
    ("ModSum-v1", {"workers": 9}, "expected"),
    ("Nim-v1", {"piles": ()}, "piles"),
    ("Nim-v1", {"piles": (3, 0)}, "piles"),
    ("Nim-v1", {"piles": (256,)}, "piles"),
    ("KuhnPoker-v1", {"rounds": 0}, "expected at least 1 round"),
    ("KuhnPoker-v1", {"opener": 2}, "seat 0 to 1"),
    ("KuhnPoker-v1", {"reward": "pot"}, "expected one of chips, most_chips, last_round"),
    ("Research-v1", {"facts": (3, 2)}, "expected"),
    ("Research-v1", {"topics": 0}, "expected"),
    ("Research-v1", {"sources": 9}, "expected"),
    ("Research-v1", {"filler": 99}, "expected"),
    ("Research-v1", {"calls": 0}, "expected"),
    ("Research-v1", {"prices": (2.0,)}, "prices .*expected at most 16"),
    ("Delegation-v1", {"depth": 4}, "depth 4: expected 1 to 8, 1 to 16 and 1 to 3"),
    ("GuidedResearch-v1", {"budget": 0}, "budget 0: expected 1 to 64"),
    ("Retail-v1", {"users": 1}, "users 1: expected 2 to 6"),
    ("Retail-v1", {"orders": 1}, "orders 1: expected 2 to 4"),
    ("Retail-v1", {"variants": 5}, "variants 5: expected 2 to 4"),
    ("Retail-v1", {"products": 2, "items": 3}, "items 3 of 2 products"),
    ("Retail-v1", {"scored": "hash"}, "scored 'hash': expected 'all' or 'database'"),
    ("Screens-v1", {"branching": (4, 4, 4)}, "at most 64 screens"),
    ("Screens-v1", {"branching": ()}, "expected the number of children per level"),
    ("Screens-v1", {"icons": 20}, "icons 20: expected 21 to 61"),
    ("Screens-v1", {"icons": 2, "aliased": True}, "icons 2: expected 3 to 61"),
    ("Screens-v1", {"split": "new"}, "expected one of seen, unseen, icons, graphs"),
    ("SearchQA-v1", {"objectives": 17}, "objectives 17: expected 1 to 16"),
    ("SearchQA-v1", {"relations": 17}, "relations 17: expected 4 to 16"),
    ("SearchQA-v1", {"entities": 62}, "entities 62: expected a multiple of 4"),
    ("SearchQA-v1", {"entities": 256}, "entities 256"),
    ("SearchQA-v1", {"min_hops": 3}, "min_hops 3, max_hops 2: expected 1 to 4, in order"),
    ("SearchQA-v1", {"passages": 5}, "passages 5: expected 1 to 4"),
    ("SearchQA-v1", {"objectives": 6, "entities": 20, "distinct": True}, "at most 5, a fourth"),
    ("SearchQA-v1", {"split": "test"}, "split 'test': expected 'seen' or 'unseen'"),
    (
        "SearchQA-v1",
        {"synthesis": "walk"},
        "synthesis 'walk': expected 'none', 'crawl' or 'harden'",
    ),
    (
        "SearchQA-v1",
        {"synthesis": "crawl", "distinct": True},
        "distinct=True with synthesis 'crawl'",
    ),
    (
        "SearchQA-v1",
        {"synthesis": "harden", "max_hops": 4},
        "max_hops 4, entities 64 with synthesis",
    ),
    ("Shop-v1", {"products": 30}, "products 30: expected a multiple of 4 from 4 to 256"),
    ("Shop-v1", {"products": 512}, "products 512"),
    ("Shop-v1", {"options": 3}, "options 3: expected 1"),
    ("Shop-v1", {"items_per_page": 0}, "items_per_page 0"),
    ("Shop-v1", {"max_results": 99}, "max_results 99"),
    ("Shop-v1", {"split": "test"}, "split 'test': expected 'seen' or 'unseen'"),
    ("SocialDeduction-v1", {"players": 2}, "players 2"),
    ("SocialDeduction-v1", {"imposters": 3}, "imposters 3"),
    ("SocialDeduction-v1", {"rows": 0}, "rows 0"),
    ("Sokoban-v1", {"actions": "nine"}, "expected one of push, gym"),
    ("Sokoban-v1", {"size": 4}, "5 to 32"),
    ("Sokoban-v1", {"size": (6, 40)}, "5 to 32"),
    ("Sokoban-v1", {"boxes": 0}, "expected 1 to 2 for"),
    ("Sokoban-v1", {"boxes": 3}, "expected 1 to 2 for"),
    ("CheckedSum-v1", {"loops": 0}, "loops 0"),
    ("Dispatch-v1", {"attempts": 1}, "attempts 1"),
    ("Drafts-v1", {"agents": 1}, "agents 1"),
    ("Drafts-v1", {"terms": 5}, "terms 5"),
    ("SharedBank-v1", {"needed": 7}, "needed 7"),
    ("Queries-v1", {"turns": 0}, "turns 0"),
    ("Queries-v1", {"grounding": "none"}, "grounding 'none'"),
    ("StepChain-v1", {"hard": 7}, "hard 7"),
    ("LookupCheck-v1", {"entities": 2}, "entities 2"),
    ("Relay-v1", {"agents": 1}, "agents 1"),
    ("TeamGraph-v1", {"needed": 7}, "expected"),
    ("TeamGraph-v1", {"size": 2}, "expected"),
    ("TeamGraph-v1", {"families": 0}, "expected"),
    ("Telecom-v1", {"user": "human"}, "user 'human'"),
    ("ToolCalls-v1", {"tools": 7}, "expected"),
    ("ToolCalls-v1", {"arguments": 0}, "expected"),
    ("ToolCalls-v1", {"needed": 6}, "expected"),
    ("ToolCalls-v1", {"tools": 1, "arguments": 2}, "expected"),
    ("ToolProgram-v1", {"cells": 5}, "cells 5: expected 4, 6 or 8"),
    ("ToolProgram-v1", {"split": "all"}, "split 'all': expected one of seen, unseen"),
    ("ToolProgram-v1", {"families": ("gcd",)}, "family 'gcd': expected some of max, min"),
    ("TradingDesk-v1", {"days": 0}, "days 0: expected at least 1"),
    ("TradingDesk-v1", {"weights": ((1, 1), (1, 1), (1, 1))}, "expected 3 rows"),
    (
        "TradingDesk-v1",
        {"weights": ((1, 0, 0, 0, 0, 0),) * 3},
        "in each regime some signals must give BUY",
    ),
    ("TwentyQuestions-v1", {"entities": 1}, "1 entities with 12 attributes: expected 2 to 44"),
    ("TwentyQuestions-v1", {"attributes": 40}, "32 entities with 40 attributes"),
    ("TwentyQuestions-v1", {"turns": 0}, "turns 0: expected 1 to 100"),
    ("Video-v1", {"frames": 60}, "expected"),
    ("Video-v1", {"scenes": 5}, "expected"),
    ("Video-v1", {"digits": 1}, "expected"),
    ("Video-v1", {"turns": 0}, "expected"),
    ("Volleyball-v1", {"teams": "2v2"}, "teams='2v2'"),
    ("PlanarVolleyball-v1", {"actions": "thrust"}, "actions='thrust'"),
    ("VolleyballSkill-v1", {"skill": "serve"}, "skill='serve'"),
    ("VolleyballSkill-v1", {"teams": "3v3", "only": "smash"}, "only='smash'.*set, "),
    ("PlannedVolleyball-v1", {"teams": "2v2"}, "teams='2v2': expected plane"),
    ("PlannedVolleyball-v1", {"residual": -1.0}, "residual=-1.0: expected at least 0"),
    ("Wordle-v1", {"letters": 7}, "letters 7 without a vocabulary: expected one of 4, 5"),
    ("Wordle-v1", {"vocabulary": ("apple", "pear")}, "word 'pear': expected 5 letters"),
    ("Wordle-v1", {"vocabulary": ("apple", "apple")}, "a word occurs twice"),
    ("Wordle-v1", {"tries": 0}, "tries 0 with 5 letters"),
    ("LiarsDice-v1", {"dice": 0}, "dice=0"),
    ("LiarsDice-v1", {"max_quantity": 0}, "max_quantity=0"),
]


@pytest.mark.parametrize(("name", "options", "message"), WRONG)
def test_options_that_cannot_be_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        envs.make(name, **options)


def only_defaults(source):
    """Fields that a class reads where defaults of other options are made, and nowhere else."""
    found = []
    tree = ast.parse(source)
    for made in [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
        fields = {
            node.target.id
            for node in made.body
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
        }
        methods = [node for node in made.body if isinstance(node, ast.FunctionDef)]
        read = {
            method.name: {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute)}
            for method in methods
        }
        defaults = fields & read.pop("default_params", set())
        read.pop("__post_init__", None)
        found += sorted(defaults.difference(*read.values()))
    return found


@pytest.mark.parametrize("name", envs.registered())
def test_no_option_is_only_a_default_of_another(name):
    """A config holds all options by value: one that others are made of would do nothing there."""
    env, _ = envs.make(name)
    assert not only_defaults(inspect.getsource(inspect.getmodule(type(env))))


def test_such_an_option_is_found():
    source = """
class World:
    rounds: int = 3
    size: int = 2

    def __post_init__(self):
        assert self.rounds

    @property
    def default_params(self):
        return Params(self.rounds * self.size)

    def initial(self):
        return self.size
"""
    assert only_defaults(source) == ["rounds"]
