"""Advantage estimators: pure functions from arrays of `Streams` to f32[N, T].

Every estimator returns 0 where the mask is False and never reads a value there. An advantage is a
constant of the loss: every estimator stops the gradient of its result. Arguments stand in one
order: numbers per turn (reward, value), the mask, then what else is needed. An option's range, and
every array's shape and type, are checked before anything compiles.

Exceptions to "f32[N, T]": `rae` and `hae` are about one value per stream and about two streams as
one (`rae_by_turn` and `hae_by_turn` are their estimators), `mars_by_position`, `hae_by_span` and
estimators of tokens return f32[R, L], and filters return the streams to keep, bool[N].

What a function assumes of its streams (whole episodes, a cooperative team) is declared beside it
with `agentrl.declarations.assumes`. Read `group_relative.py` first.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy

if TYPE_CHECKING:
    from agentrl.advantages.acceptance import accepted as accepted
    from agentrl.advantages.agentwise import dr_mas as dr_mas
    from agentrl.advantages.branching import shared_prefix as shared_prefix
    from agentrl.advantages.delegation import aligned as aligned
    from agentrl.advantages.delegation import as_often as as_often
    from agentrl.advantages.delegation import m_grpo as m_grpo
    from agentrl.advantages.delegation import matpo as matpo
    from agentrl.advantages.edits import hrpo as hrpo
    from agentrl.advantages.filtering import dynamic_sampling as dynamic_sampling
    from agentrl.advantages.filtering import helps_all as helps_all
    from agentrl.advantages.filtering import not_truncated as not_truncated
    from agentrl.advantages.filtering import only_roles as only_roles
    from agentrl.advantages.filtering import over_turn_masking as over_turn_masking
    from agentrl.advantages.filtering import relevant as relevant
    from agentrl.advantages.filtering import resample_on_correct as resample_on_correct
    from agentrl.advantages.filtering import top_variance as top_variance
    from agentrl.advantages.group_relative import anchor_segments as anchor_segments
    from agentrl.advantages.group_relative import gigpo as gigpo
    from agentrl.advantages.group_relative import grpo as grpo
    from agentrl.advantages.group_relative import rloo as rloo
    from agentrl.advantages.grouping import group_segments as group_segments
    from agentrl.advantages.grouping import moments as moments
    from agentrl.advantages.hierarchical import Hierarchical as Hierarchical
    from agentrl.advantages.hierarchical import hae as hae
    from agentrl.advantages.hierarchical import hae_by_turn as hae_by_turn
    from agentrl.advantages.hierarchical import switched_hae_by_turn as switched_hae_by_turn
    from agentrl.advantages.history import hgpo as hgpo
    from agentrl.advantages.information_gain import igpo as igpo
    from agentrl.advantages.mixed import mapo as mapo
    from agentrl.advantages.pairwise import pairwise_sign as pairwise_sign
    from agentrl.advantages.reinforce import reinforce_pp as reinforce_pp
    from agentrl.advantages.reinforce import reinforce_pp_baseline as reinforce_pp_baseline
    from agentrl.advantages.reinforce import whiten as whiten
    from agentrl.advantages.role_conditioned import broadcast_to_turns as broadcast_to_turns
    from agentrl.advantages.role_conditioned import rae as rae
    from agentrl.advantages.role_conditioned import rae_by_turn as rae_by_turn
    from agentrl.advantages.sequential import marft as marft
    from agentrl.advantages.sequential import marft_by_position as marft_by_position
    from agentrl.advantages.sequential import marft_by_turn as marft_by_turn
    from agentrl.advantages.similarity import leader_segments as leader_segments
    from agentrl.advantages.similarity import overlap as overlap
    from agentrl.advantages.similarity import similar_segments as similar_segments
    from agentrl.advantages.spans import hae_by_span as hae_by_span
    from agentrl.advantages.spans import standardized_by_decision as standardized_by_decision
    from agentrl.advantages.surprisal import stare as stare
    from agentrl.advantages.temporal import gae as gae
    from agentrl.advantages.temporal import length_adaptive_gae as length_adaptive_gae
    from agentrl.advantages.temporal import spoken_gae as spoken_gae
    from agentrl.advantages.temporal import vtrace as vtrace
    from agentrl.advantages.token_level import bilevel_gae as bilevel_gae
    from agentrl.advantages.token_level import (
        length_adaptive_token_gae as length_adaptive_token_gae,
    )
    from agentrl.advantages.token_level import token_gae as token_gae
    from agentrl.advantages.turn_assignment import dual_level as dual_level
    from agentrl.advantages.turn_assignment import user_rl as user_rl
    from agentrl.advantages.turn_filters import arrived_turns as arrived_turns
    from agentrl.advantages.turn_filters import high_entropy_turns as high_entropy_turns
    from agentrl.advantages.turn_filters import nonzero_turns as nonzero_turns
    from agentrl.advantages.turn_filters import sampled_turns as sampled_turns
    from agentrl.advantages.turn_filters import winner_turns as winner_turns
    from agentrl.advantages.turn_level import mars as mars
    from agentrl.advantages.turn_level import mars_by_position as mars_by_position
    from agentrl.advantages.turn_level import mars_released as mars_released
    from agentrl.advantages.utterance import twin_critics as twin_critics
    from agentrl.advantages.utterance import twin_targets as twin_targets
    from agentrl.advantages.weighting import duration_aware as duration_aware
    from agentrl.advantages.weighting import live_group_scale as live_group_scale
    from agentrl.advantages.weighting import per_rollout_mean as per_rollout_mean
    from agentrl.advantages.weighting import uncertain_turns as uncertain_turns

__getattr__, __dir__ = lazy(__name__)
