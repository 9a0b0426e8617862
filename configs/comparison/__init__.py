"""All methods under one protocol: see README.md."""
