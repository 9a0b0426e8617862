"""Policies: pure functions over parameter pytrees.

`actor_critic.Policy` acts on arrays, `language.LanguagePolicy` on text; they are the types that
cross the border. Read `actor_critic.py` first, for text `language.py` and `decoder.py`.

Names that need the decoder are imported when they are first used: a run of a small network over
arrays does not load it.
"""

import importlib
from typing import Any

from agentrl.policies.actor_critic import Policy as Policy
from agentrl.policies.actor_critic import cnn as cnn
from agentrl.policies.actor_critic import gru as gru
from agentrl.policies.actor_critic import mlp as mlp
from agentrl.policies.actor_critic import parameter_count as parameter_count
from agentrl.policies.factored import factored as factored
from agentrl.policies.hierarchy import hierarchy as hierarchy

POLICIES = ("cnn", "factored", "gru", "hierarchy", "mlp")
LANGUAGE_POLICIES = ("pretrained", "transformer")
_LAZY = {"LanguagePolicy": "language", "transformer": "language", "pretrained": "published"}
__all__ = [*POLICIES, *_LAZY, "Policy", "parameter_count"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
