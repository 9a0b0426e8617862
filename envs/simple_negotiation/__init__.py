"""Simple Negotiation: trade of goods with private or public values."""
