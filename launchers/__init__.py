"""Command lines; `launchers/README.md` has an example of each."""
