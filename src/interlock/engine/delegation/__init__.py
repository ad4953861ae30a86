"""Tasks and messages between agents. PURE."""
