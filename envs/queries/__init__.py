"""Queries: a grounder, a generator and a validator turn a question into a query."""
