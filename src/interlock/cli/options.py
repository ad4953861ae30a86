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


model_option = click.option(
    "--model", metavar="M", help="Model for every agent: the one that the run was begun with, or another one."
)


def script_of(script: str | None, model: str | None) -> str | None:
    """The script given by --script or --model scripted:FILE; None if models answer."""
    if model is None:
        return script
    if script is not None:
        raise UsageError("--script and --model both choose the model; give one of them")
    provider, _, file = model.partition(":")
    return file if provider == "scripted" and file else None


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
