"""Which turn earned the reward? Estimators, losses and buffers over arrays."""
