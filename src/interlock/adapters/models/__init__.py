"""Models, one file per kind."""
