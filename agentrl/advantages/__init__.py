"""Advantage estimators: pure functions from arrays of `Streams` to f32[N, T].

Every estimator returns 0 where the mask is False and never reads a value there.
"""

from agentrl.advantages.agentwise import dr_mas as dr_mas
from agentrl.advantages.delegation import Alignment as Alignment
from agentrl.advantages.delegation import align as align
from agentrl.advantages.delegation import m_grpo as m_grpo
from agentrl.advantages.delegation import matpo as matpo
from agentrl.advantages.filtering import dynamic_sampling as dynamic_sampling
from agentrl.advantages.filtering import top_variance as top_variance
from agentrl.advantages.group_relative import anchor_owner as anchor_owner
from agentrl.advantages.group_relative import gigpo as gigpo
from agentrl.advantages.group_relative import grpo as grpo
from agentrl.advantages.group_relative import rloo as rloo
from agentrl.advantages.grouping import group_owner as group_owner
from agentrl.advantages.grouping import moments as moments
from agentrl.advantages.hierarchical import Hierarchical as Hierarchical
from agentrl.advantages.hierarchical import hae as hae
from agentrl.advantages.mars import mars as mars
from agentrl.advantages.mars import mars_released as mars_released
from agentrl.advantages.reinforce import reinforce_pp as reinforce_pp
from agentrl.advantages.reinforce import reinforce_pp_baseline as reinforce_pp_baseline
from agentrl.advantages.reinforce import whiten as whiten
from agentrl.advantages.role_conditioned import rae as rae
from agentrl.advantages.role_conditioned import spread as spread
from agentrl.advantages.sequential import marft as marft
from agentrl.advantages.temporal import gae as gae
from agentrl.advantages.temporal import spoken_gae as spoken_gae
