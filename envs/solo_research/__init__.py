"""Solo Research: the questions of Research, by one agent alone."""
