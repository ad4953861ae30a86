"""The run. PURE."""
