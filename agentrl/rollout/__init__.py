"""Acting: rollouts compiled with the environment inside, and one for environments in Python."""

from agentrl.rollout.conversation import conversation as conversation
from agentrl.rollout.episodes import episodes as episodes
from agentrl.rollout.host import host as host
from agentrl.rollout.segments import segments as segments
from agentrl.rollout.several import several as several
from agentrl.rollout.types import Rollout as Rollout
from agentrl.rollout.unroll import unroll as unroll

ROLLOUTS = {
    "conversation": conversation,
    "episodes": episodes,
    "host": host,
    "segments": segments,
}
