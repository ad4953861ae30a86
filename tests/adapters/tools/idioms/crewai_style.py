"""An object of a class that describes itself and its input."""

from pydantic import BaseModel, Field


class DiscountInput(BaseModel):
    """The input of the calculator."""

    price: float = Field(..., description="The price in euros.")
    percent: float = Field(..., description="The discount, from 0 to 100.", ge=0, le=100)


class DiscountCalculator:
    """Works out a price after a discount."""

    def __init__(self, currency: str) -> None:
        self.currency = currency

    def __call__(self, request: DiscountInput) -> str:
        return f"{request.price * (100 - request.percent) / 100:.2f} {self.currency}"


TOOLS = [DiscountCalculator("EUR")]
