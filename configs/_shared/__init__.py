"""What several configs share; no config is in here."""
