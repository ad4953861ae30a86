"""A program with a typed crew, in a process of its own: `python -m tests.compose.typed_child FOLDER`."""

import asyncio
import sys
from pathlib import Path

from pydantic import BaseModel, field_validator

from interlock import END, Agent, Crew, Interlock
from interlock.ports import ModelRequest


class Payment(BaseModel):
    order: str
    amount: float

    @field_validator("amount")
    @classmethod
    def require_small(cls, amount: float) -> float:
        if amount > 100:
            raise ValueError("too much")
        return amount


CREW = Crew("payments", [Agent("cashier", "Pay.", on={"[DONE]": END})], output=Payment)


def pay(request: ModelRequest) -> str:
    """Pays too much, and what is due when it was told so."""
    amount = 24.5 if "not taken" in request.messages[-1].text else 240
    return f'{{"order": "A-17", "amount": {amount}}}\n[DONE]'


async def main(folder: Path) -> None:
    async with Interlock(folder, models=pay) as box:
        await (await box.start(CREW, "hello", run_id="r")).result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
