"""All methods under one protocol: what is run, what came of it, and who is ahead."""
