"""Acting: rollouts compiled with the environment inside."""

from agentrl.rollout.acting import Rollout as Rollout
from agentrl.rollout.conversation import conversation as conversation
from agentrl.rollout.episodes import episodes as episodes
from agentrl.rollout.matches import matches as matches
from agentrl.rollout.segments import segments as segments
from agentrl.rollout.several import several as several

ROLLOUTS = {
    "conversation": conversation,
    "episodes": episodes,
    "matches": matches,
    "segments": segments,
}
