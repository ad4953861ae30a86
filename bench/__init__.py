"""Measurements. `python -m bench` runs them all and writes RESULTS.md."""
