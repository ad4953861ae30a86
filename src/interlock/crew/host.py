"""What a crew may name without defining it: things the host set up, and what Interlock brings along."""

import msgspec

# Tools that Interlock itself gives to agents.
BUILT_IN_TOOLS = (
    "answer_child",
    "answer_message",
    "ask_user",
    "delegate",
    "emit_signal",
    "generate_signal",
    "memory_read",
    "memory_write",
    "query_parent",
    "report",
    "send_message",
    "signal_cancel",
    "signal_schedule",
    "signal_subscribe",
    "signal_unsubscribe",
)

# Who can serve a model. A host adds its own under [providers.<id>] in interlock.toml.
PROVIDERS = (
    "anthropic",
    "azure",
    "bedrock",
    "cohere",
    "deepseek",
    "fireworks",
    "gemini",
    "google",
    "groq",
    "huggingface",
    "llama.cpp",
    "local",
    "mistral",
    "ollama",
    "openai",
    "openai-compatible",
    "openrouter",
    "scripted",
    "together",
    "vllm",
    "xai",
)


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What interlock.toml, or the program that embeds Interlock, has set up. `file` is that interlock.toml, if any."""

    file: str = ""
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    # For the servers of which crews may use some tools alone.
    mcp_tools: dict[str, tuple[str, ...]] = {}
    providers: tuple[str, ...] = ()
    unset_keys: dict[str, str] = {}  # by provider: the environment variable for its key, which is not set here
    installs: dict[str, str] = {}  # by provider: the command that installs what it needs and is not here
    bad_addresses: dict[str, str] = {}  # by provider_url of the crew: what is wrong with it
    priced_models: tuple[str, ...] = ()  # models of the crew whose prices are known here
    has_prices: bool = False  # there is a table of prices; what is not in it has none
