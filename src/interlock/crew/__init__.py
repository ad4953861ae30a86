"""What a crew is, and whether it makes sense. PURE."""
