"""Debate: an honest debater and a liar reveal evidence to a frozen judge."""
