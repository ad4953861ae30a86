"""From a reply to a decision. PURE."""
