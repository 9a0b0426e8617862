"""Key Door: fetch the key of each of N doors in a row."""
