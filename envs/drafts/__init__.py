"""Drafts: agents write short drafts about numbers that they read badly, and grade each other's."""
