"""Players that learn against each other: self-play, baselines per role, equilibria."""
