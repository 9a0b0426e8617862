"""Number line: move a number to a target."""
