"""Agent Graph: build a graph of agents: kinds, shares, who reads whom; it works and answers."""
