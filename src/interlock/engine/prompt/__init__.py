"""What an agent is shown. PURE."""
