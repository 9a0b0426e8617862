"""Numbers that options of the mathematics cannot be, and arrays that a choice needs.

Words that an option cannot be, and arrays of other shapes, are in test_conformance.py, options of
components in test_component_conformance.py.
"""

import arrays_by_name
import pytest

from agentrl import advantages, losses, rewards

OF_STREAMS = [
    (advantages.accepted, {"longest": 0}, "accepted longest"),
    (advantages.accepted, {"revisits": -1}, "accepted revisits"),
    (advantages.bilevel_gae, {"gamma": -1.0}, "bilevel_gae gamma"),
    (advantages.dr_mas, {"statistics": "first_turn"}, "did you mean 'first_turns'"),
    (
        advantages.dr_mas,
        {"statistics": "episode_means", "episode": None},
        "give episode=, the episode of each stream, or use stat",
    ),
    (advantages.dual_level, {"turn_weight": 2.0}, "dual_level turn_weight"),
    (advantages.duration_aware, {"cap": 0.0}, "duration_aware cap"),
    (advantages.gigpo, {"gamma": 2}, "gigpo gamma=2: expected at least 0 and at most 1"),
    (advantages.grpo, {"epsilon": -1}, "epsilon=-1: expected at least 0"),
    (advantages.hgpo, {"history": -1}, "hgpo history"),
    (advantages.hrpo, {"edit_weight": -1.0}, "hrpo edit_weight"),
    (advantages.igpo, {"gamma": 2}, "igpo gamma=2"),
    (advantages.length_adaptive_token_gae, {"alpha": 0.0}, "length_adaptive_token_gae alpha"),
    (advantages.mapo, {"pool": "groups"}, "pool='groups'.*did you mean 'group'"),
    (advantages.mapo, {"turn_weight": 2}, "mapo turn_weight=2: expected at least 0 and at most 1"),
    (advantages.mars, {"count_by": "token", "cost": None}, "give cost=, the tokens of each turn"),
    (advantages.only_roles, {"roles": ()}, "only_roles roles"),
    (advantages.only_roles, {"roles": (-1,)}, "only_roles roles"),
    (advantages.only_roles, {"roles": (0.5,)}, "only_roles roles"),
    (advantages.rae_by_turn, {"decay": 1.5}, "decay=1.5: expected at least 0 and at most 1"),
    (advantages.relevant, {"least": -1.0}, "relevant least"),
    (advantages.stare, {"share": 0}, "stare share=0: expected more than 0"),
    (advantages.token_gae, {"lam": 2.0}, "token_gae lam"),
    (advantages.top_variance, {"fraction": 0.0}, "more than 0 and at most 1"),
    (advantages.top_variance, {"fraction": 1.5}, "more than 0 and at most 1"),
    (advantages.user_rl, {"sharpness": 0.0}, "user_rl sharpness"),
    (rewards.at_end, {"share": 2}, "share=2"),
    (rewards.consolation, {"share": -1.0}, "consolation share"),
    (rewards.gated_turn_rewards, {"format_reward": -1.0}, "format_reward"),
    (rewards.invalid_action_penalty, {"coefficient": -1}, "coefficient=-1: expected at least 0"),
    (rewards.length_penalty, {"limit": 3, "buffer": 4}, "0 < buffer <= limit"),
    (rewards.novelty_bonus, {"coefficient": -1}, "novelty_bonus coefficient=-1"),
    (rewards.progress_reward, {"beta": -1.0}, "progress_reward beta"),
    (rewards.short_reply_bonus, {"coefficient": -1.0}, "short_reply_bonus coefficient"),
    (rewards.steerable_reward, {"pages": 0.0}, "steerable_reward pages=0.0: expected more than 0"),
    (rewards.step_penalty, {"amount": -1}, "amount=-1: expected at least 0"),
    (rewards.turn_bonus, {"coefficient": -1.0}, "coefficient"),
]
OF_POSITIONS = [
    (losses.aepo, {"entropy_weight": -1.0}, "entropy_weight"),
    (losses.cispo, {"clip_low": -0.1}, "cispo clip_low=-0.1: expected at least 0"),
    (losses.clip_cov, {"low": 6.0}, "clip_cov high"),
    (losses.clip_cov, {"share": 2.0}, "clip_cov share"),
    (
        losses.clipped_surrogate,
        {"clip_low": -0.1},
        "clipped_surrogate clip_low=-0.1: expected at least 0",
    ),
    (
        losses.clipped_surrogate,
        {"dual_clip": 1.0},
        "clipped_surrogate dual_clip=1.0: expected more than 1",
    ),
    (losses.dpo, {"beta": 0}, "dpo beta=0: expected more than 0"),
    (losses.epo, {"low": 0.8, "high": 0.5}, "epo high=0.5: expected at least 0.8"),
    (losses.epo, {"smoothing": -1}, "epo smoothing=-1"),
    (losses.gspo, {"clip_low": -0.1}, "gspo clip_low=-0.1: expected at least 0"),
    (losses.gspo, {"ratio_of": "turn", "turn": None}, "give turn="),
    (losses.gspo, {"ratio_of": "turns"}, "did you mean 'turn'"),
    (losses.kl_cov, {"coefficient": -1.0}, "coefficient"),
    (losses.listening_loss, {"focus": -1}, "focus=-1: expected at least 0"),
    (losses.mixed_imitation, {"until": 0.0}, "cosine_share until"),
    (losses.shaped_imitation, {"gamma": 0}, "gamma=0: expected more than 0"),
    (losses.skill_distillation, {"largest_ratio": 1.0}, "largest_ratio"),
    (losses.thought_scaled_surrogate, {"kappa": -1.0}, "kappa"),
]


@pytest.mark.parametrize(("function", "values", "message"), OF_STREAMS + OF_POSITIONS)
def test_what_an_option_cannot_be_is_said(function, values, message):
    of_loss = function.__module__.startswith("agentrl.losses")
    arrays_of = arrays_by_name.positions_for if of_loss else arrays_by_name.arrays_for
    given = arrays_of(function, 0) | arrays_by_name.options_for(function) | values
    with pytest.raises(ValueError, match=message):
        function(**given)
