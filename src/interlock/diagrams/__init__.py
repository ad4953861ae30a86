"""Diagrams of a crew: text, Mermaid, SVG. PURE."""
