"""A turn: how it starts, calls the model, asks, and ends. PURE."""
