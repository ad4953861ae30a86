"""Types of every kind that an output or an argument may have."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass


class Color(Enum):
    RED = "red"


class Item(BaseModel):
    sku: str
    count: Annotated[int, Field(gt=0, description="How many.")] = 1
    color: Color | None = None
    parts: "list[Item]" = []


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    item: Item


class Small(BaseModel):
    amount: float

    @field_validator("amount")
    @classmethod
    def require_small(cls, amount: float) -> float:
        if amount > 100:
            raise ValueError("too much")
        return amount


class Even(BaseModel):
    count: int

    @model_validator(mode="after")
    def require_even(self) -> "Even":
        if self.count % 2:
            raise ValueError("it is odd")
        return self


class Patterned(BaseModel):
    code: Annotated[str, Field(pattern="^[A-Z]+$")]


class Stripped(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    model_config = ConfigDict(str_strip_whitespace=True)


class Checked(BaseModel):
    code: Annotated[str, AfterValidator(str.upper)]


class Crashing(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def fail(cls, amount: int) -> int:
        raise KeyError("a bug of the program")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


@pydantic_dataclass
class Bag:
    weight: int


class Refund(msgspec.Struct):
    order: str
    amount: float
    note: str | None = None


class Tree(msgspec.Struct):
    below: "list[Tree]" = []


class Cart(msgspec.Struct):
    items: list[Item]
    first: Item | None = None


class SmallCart(msgspec.Struct):
    small: Small


class Coded(msgspec.Struct):
    code: Annotated[str, Meta(pattern="^[A-Z]+$")]
    count: Annotated[int, Meta(ge=1, le=9)] = 1


class Refusing(msgspec.Struct):
    count: int

    def __post_init__(self) -> None:
        if self.count > 9:
            raise ValueError("more than nine")


@dataclass
class Parcel:
    order: str
    item: Item
    sizes: list[int]


@dataclass
class Limited:
    count: int

    def __post_init__(self) -> None:
        if self.count > 9:
            raise ValueError("more than nine")


@dataclass
class Mixed:
    """pydantic cannot read a struct, so msgspec reads the whole."""

    item: Item
    refund: Refund


class Box(BaseModel):
    limited: Limited


class Letter(TypedDict):
    items: list[Item]


class Bounded(TypedDict):
    """What the field says to pydantic, msgspec would drop."""

    count: Annotated[int, Field(gt=3)]
