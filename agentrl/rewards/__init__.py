"""Reward terms and returns: pure functions on arrays of `Streams`, f32[N, T].

Every function returns 0 where the mask is False and never reads a value there. A term that reads
`reward` returns another reward; a term that does not returns a penalty, which the estimator
subtracts from the turn's own score. `speaking_reward` and `persuasion_of_turns` are about
discussions, before there are streams. Read `shaping.py` first.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy

if TYPE_CHECKING:
    from agentrl.rewards.counterfactual import answer_gain as answer_gain
    from agentrl.rewards.counterfactual import difference as difference
    from agentrl.rewards.counterfactual import executor_gain as executor_gain
    from agentrl.rewards.counterfactual import mean_of_runs as mean_of_runs
    from agentrl.rewards.games import mars_reward as mars_reward
    from agentrl.rewards.gates import gated_turn_rewards as gated_turn_rewards
    from agentrl.rewards.gates import order_reward as order_reward
    from agentrl.rewards.gates import repetition_penalty as repetition_penalty
    from agentrl.rewards.gates import retrieval_gain as retrieval_gain
    from agentrl.rewards.gates import turn_bonus as turn_bonus
    from agentrl.rewards.gates import verified_reward as verified_reward
    from agentrl.rewards.imitation import imitation_reward as imitation_reward
    from agentrl.rewards.matching import call_similarity as call_similarity
    from agentrl.rewards.matching import matched_calls as matched_calls
    from agentrl.rewards.novelty import novelty_bonus as novelty_bonus
    from agentrl.rewards.outcome import call_bonus as call_bonus
    from agentrl.rewards.outcome import progress_reward as progress_reward
    from agentrl.rewards.outcome import scaled_reward as scaled_reward
    from agentrl.rewards.outcome import steerable_reward as steerable_reward
    from agentrl.rewards.outcome import tool_use_reward as tool_use_reward
    from agentrl.rewards.returns import discounted_return as discounted_return
    from agentrl.rewards.shaping import at_end as at_end
    from agentrl.rewards.shaping import format_penalty as format_penalty
    from agentrl.rewards.shaping import gated_accumulation as gated_accumulation
    from agentrl.rewards.shaping import invalid_action_penalty as invalid_action_penalty
    from agentrl.rewards.shaping import keep_penalty as keep_penalty
    from agentrl.rewards.shaping import length_penalty as length_penalty
    from agentrl.rewards.shaping import persuasion_reward as persuasion_reward
    from agentrl.rewards.shaping import potential_shaping as potential_shaping
    from agentrl.rewards.shaping import reference_penalty as reference_penalty
    from agentrl.rewards.shaping import step_penalty as step_penalty
    from agentrl.rewards.speaking import persuasion_of_turns as persuasion_of_turns
    from agentrl.rewards.speaking import speaking_reward as speaking_reward
    from agentrl.rewards.teams import capability_gain as capability_gain
    from agentrl.rewards.teams import consolation as consolation
    from agentrl.rewards.teams import delegated_reward as delegated_reward
    from agentrl.rewards.teams import local_first as local_first
    from agentrl.rewards.teams import short_reply_bonus as short_reply_bonus
    from agentrl.rewards.teams import thought_scores as thought_scores
    from agentrl.rewards.teams import winner_reward as winner_reward

__getattr__, __dir__ = lazy(__name__)
