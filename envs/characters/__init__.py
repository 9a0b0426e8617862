"""Characters: characters answer the same words, each in its own way."""
