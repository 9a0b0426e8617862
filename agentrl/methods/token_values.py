"""The critic's value of each token, for estimators over tokens."""

from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.learner.required import required
from agentrl.streams import PerPosition


def token_values(setup: Setup) -> Component:
    """Supplies `token_value` f32[R, L] for estimators `token_gae` and `bilevel_gae`.

    The value at a position is that of the text before it. It takes a forward pass of the policy
    that collected. With it goes objective.value = term(losses.token_value_loss).

    Raises:
      ValueError: a policy over arrays, which has one decision per turn, or one without a critic.
    """
    required(setup, "token_values", "language", critic=True)
    policy = setup.policy

    def annotate(context, streams, rows):
        options = setup.microbatch, setup.lengths
        found = log_probs(policy, context.params, rows, *options, field="value")
        return {"token_value": PerPosition(found)}

    return Component(annotate=annotate, fills=("token_value",))
