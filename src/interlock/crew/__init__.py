"""Crew definitions: parsing and checks. PURE."""
