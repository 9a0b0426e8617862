"""Trading Desk: ask tools, then buy, sell or hold."""
