"""Shop: search, read, choose options, buy."""
