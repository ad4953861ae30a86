"""Control flow: handoffs, groups, sub-crews, waits. PURE."""
