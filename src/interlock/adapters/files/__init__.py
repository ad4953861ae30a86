"""Files of a data folder."""
