"""Function Gym: find a hidden formula by probing."""
