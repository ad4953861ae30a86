"""Options and arguments that several commands share."""

import sys

import click

from interlock.compose.interlock import DATA_FOLDER
from interlock.errors import UsageError

data_option = click.option(
    "--data",
    metavar="DIR",
    envvar="INTERLOCK_DATA",
    default=DATA_FOLDER,
    show_default=True,
    help="Data folder with the runs.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
plain_option = click.option("--plain", is_flag=True, help="Human-readable output even when not on a terminal.")
script_option = click.option("--script", metavar="FILE", help="File of scripted replies, used instead of models.")


def text_or_stdin(text: str) -> str:
    """The text itself, or standard input if it is '-'."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise UsageError("standard input is closed; give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error}") from error
