"""Research by one local and one web agent, with false evidence and a refiner that drops it."""
