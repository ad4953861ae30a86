"""`interlock schema`: JSON Schema for editors."""

import click
import msgspec

from interlock.crew.schema import agent_schema, crew_schema

_DOCUMENTS = {"crew": crew_schema, "agent": agent_schema}


@click.command()
@click.argument("document", type=click.Choice(list(_DOCUMENTS)), default="crew")
def schema(document: str) -> None:
    """Print the JSON Schema (2020-12) of crew files, or with 'agent' of agents/<id>.yaml."""
    body = msgspec.json.encode(_DOCUMENTS[document]())
    click.echo(msgspec.json.format(body, indent=2).decode())
