"""Trade Comm: two players tell each other what they own by numbers without a meaning."""
