"""Approvals by rule: which tool calls are denied, asked about or allowed, and how long a person's yes holds."""
