"""Lookup Check: two lookups by a tool that lies now and then, a suggestion, a check, an answer."""
