"""Policies: pure functions over parameter pytrees.

Arrays: `Policy` in `actor_critic.py`. Text: `LanguagePolicy` in `language.py`, a decoder with a
codec, a reply grammar and sampling. `README.md` lists the modules.
"""

from agentrl.policies.actor_critic import ACTOR_CRITICS
from agentrl.policies.actor_critic import Policy as Policy
from agentrl.policies.actor_critic import cnn as cnn
from agentrl.policies.actor_critic import gru as gru
from agentrl.policies.actor_critic import mlp as mlp
from agentrl.policies.actor_critic import parameter_count as parameter_count
from agentrl.policies.factored import factored as factored
from agentrl.policies.hierarchy import hierarchy as hierarchy
from agentrl.policies.language import LanguagePolicy as LanguagePolicy
from agentrl.policies.language import transformer as transformer
from agentrl.policies.pretrained import pretrained as pretrained

POLICIES = {**ACTOR_CRITICS, "factored": factored, "hierarchy": hierarchy}
LANGUAGE_POLICIES = {"transformer": transformer, "pretrained": pretrained}
