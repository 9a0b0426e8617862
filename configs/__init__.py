"""One file per experiment; `configs/README.md` has the findings."""
