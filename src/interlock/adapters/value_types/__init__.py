"""Types of Python as JSON Schemas, and JSON values as values of these types: for tools and for outputs alike."""
