"""A planner picks noisy tools; an executor, a verifier and a generator do the rest."""
