"""Where a model is asked, and how long it may take to answer."""

import msgspec


class Server(msgspec.Struct, frozen=True):
    """How a server is called in messages, `openai:gpt-5 at api.openai.com`, and where its key comes from."""

    name: str
    key_env: str = ""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take, and how much it may say."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0  # models that think say nothing for a while
    idle_seconds: float = 60.0
    total_seconds: float = 600.0
    reply_bytes_max: int = 1_000_000


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model is asked: an address that was checked, and the key for it, if there is one."""

    server: Server
    url: str
    key: str = ""
    proxy: str = ""
    limits: CallLimits = CallLimits()
    constrains: str = ""  # how the server is held to an ending, if it can be
    constrains_with_tools: bool = False  # also in a call that offers tools
    sentences: int = 0  # how many a constrained reply may have; 0 leaves it to the model
    idempotency_header: str = ""  # where the server takes the key of a call; empty if it is not known to take one

    def __repr__(self) -> str:
        return f"Endpoint({self.server.name})"
