"""Environments that live on the accelerator, made by name."""

from envs.environment import Environment as Environment
from envs.environment import EnvParams as EnvParams
from envs.environment import EnvState as EnvState
from envs.fingerprint import fingerprint as fingerprint
from envs.registry import make as make
from envs.registry import options_of as options_of
from envs.registry import register as register
from envs.registry import registered as registered
