"""Connect Four: two players drop discs, and four in a line win."""
