"""Care of a data folder: doctor, retention, archive."""
