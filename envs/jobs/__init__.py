"""Jobs: choose quick or slow methods for jobs in a shift of fixed time."""
