"""The migrations of the schema, as SQL files: numbered, never edited after a release, only added to."""
