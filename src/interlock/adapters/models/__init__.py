"""Models, one file a kind."""
