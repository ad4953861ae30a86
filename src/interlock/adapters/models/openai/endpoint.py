"""The address of a model, and the time limits of a call."""

import msgspec

# The APIs that a server may speak.
CHAT, RESPONSES = "chat", "responses"
APIS = (CHAT, RESPONSES)


class Server(msgspec.Struct, frozen=True):
    """The name of a server in messages, `openai:gpt-5 at api.openai.com`, and the source of its key."""

    name: str
    key_env: str = ""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a call: times and size."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0  # models that think are silent for a while
    idle_seconds: float = 60.0
    total_seconds: float = 600.0
    reply_bytes_max: int = 1_000_000


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checked address of a model, and its key, if there is one."""

    server: Server
    url: str
    api: str = CHAT
    provider: str = ""  # its id, which tells how its own fields are called
    source: str = ""  # of reasoning that comes from here, as in `ModelRef.server`: it is sent back to no other
    key: str = ""
    proxy: str = ""
    limits: CallLimits = CallLimits()
    constrains: str = ""  # how the server constrains an ending, if it can
    constrains_with_tools: bool = False  # also in a call that offers tools
    outputs: str = ""  # how a typed value is asked for; empty: in the prompt alone
    takes_bounds: bool = False  # its schemas may have bounds of numbers, texts and lists
    sentences: int = 0  # how many a constrained reply may have; 0 leaves it to the model
    idempotency_header: str = ""  # the header for the idempotency key; empty if the server has none

    def __repr__(self) -> str:
        return f"Endpoint({self.server.name})"
