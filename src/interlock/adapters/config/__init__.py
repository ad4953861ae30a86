"""interlock.toml and what it configures."""
