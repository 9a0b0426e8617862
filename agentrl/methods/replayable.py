"""What rollouts require that play parts of an episode again."""

from envs.environment import Environment


def check_replayable(rollout: str, env: Environment, fits: bool, needed: str) -> None:
    """Refuses an environment whose states cannot be gone back to, or that does not fit otherwise.

    Args:
      rollout: its name, for the error. fits: what else it needs of environment and policy holds.
      needed: all that it needs, in words.

    Raises:
      ValueError: an environment in Python, or `fits` is False.
    """
    if env.in_python or not fits:
        raise ValueError(
            f"rollout {rollout!r} with {env.name}: it needs {needed}; use rollout 'episodes'"
        )
