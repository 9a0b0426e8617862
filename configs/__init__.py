"""One file per experiment, in folders by question; each folder's README.md has the findings."""
