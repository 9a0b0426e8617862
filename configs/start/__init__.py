"""First runs: seconds to a minute, and PPO beside numbers that everybody knows."""
