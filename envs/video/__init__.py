"""Video: look at parts of a long video, then answer."""
