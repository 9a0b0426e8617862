"""Search QA: multi-hop questions over a corpus, several at once."""
