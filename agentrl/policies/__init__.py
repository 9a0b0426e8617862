"""Policies: pure functions over parameter pytrees.

`actor_critic.Policy` acts on arrays, `language.LanguagePolicy` on text; they are the types that
cross the border. Read `actor_critic.py` first, for text `language.py` and `decoder.py`.

Names are imported when they are first used: a run of a small network over arrays does not load the
decoder.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy
from agentrl.policies.actor_critic import Policy as Policy
from agentrl.policies.actor_critic import cnn as cnn
from agentrl.policies.actor_critic import gru as gru
from agentrl.policies.actor_critic import mlp as mlp
from agentrl.policies.actor_critic import parameter_count as parameter_count

if TYPE_CHECKING:
    from agentrl.policies.composed import factored as factored
    from agentrl.policies.composed import hierarchy as hierarchy
    from agentrl.policies.composed import scored_mlp as scored_mlp
    from agentrl.policies.language import LanguagePolicy as LanguagePolicy
    from agentrl.policies.language import transformer as transformer
    from agentrl.policies.published import pretrained as pretrained

POLICIES = ("cnn", "factored", "gru", "hierarchy", "mlp", "scored_mlp")
LANGUAGE_POLICIES = ("pretrained", "transformer")

__getattr__, __dir__ = lazy(__name__)
