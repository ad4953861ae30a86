"""The root of the error tree."""


class InterlockError(Exception):
    """The root of all errors that Interlock raises on purpose."""

    code = "interlock-error"
