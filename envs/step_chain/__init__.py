"""Step Chain: one agent works steps at length, one briefly; which steps are worth it?"""
