"""Itinerary: find out what a traveller prefers, search, and choose for each part of a trip."""
