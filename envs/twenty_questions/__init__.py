"""Twenty Questions: guess a thing by its attributes."""
