"""Acting: rollouts compiled with the environment inside, and those of environments in Python."""

from agentrl.actors import contexts as contexts
from agentrl.rollout.episodes import episodes as episodes
from agentrl.rollout.processes import processes as processes
from agentrl.rollout.segments import segments as segments
from agentrl.rollout.several import several as several
from agentrl.rollout.types import Rollout as Rollout
from agentrl.rollout.unroll import unroll as unroll
from agentrl.rollout.unroll_host import HostLoop as HostLoop

ROLLOUTS = {"episodes": episodes, "segments": segments}
CONTEXTS = {
    "whole": contexts.whole,
    "window": contexts.window,
    "sliding": contexts.sliding,
    "summary": contexts.summary,
    "fold": contexts.fold,
}
