"""Wrappers: an environment around an environment, still a pure function over arrays."""

from envs.wrappers.attempts import Attempts as Attempts
from envs.wrappers.clock import Clock as Clock
from envs.wrappers.one_transcript import OneTranscript as OneTranscript
from envs.wrappers.side_by_side import SideBySide as SideBySide
from envs.wrappers.single_step import SingleStep as SingleStep
from envs.wrappers.subgoals import Subgoals as Subgoals
from envs.wrappers.submission import Submission as Submission
from envs.wrappers.turn_budget import TurnBudget as TurnBudget
