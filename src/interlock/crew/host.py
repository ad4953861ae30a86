"""What a crew may name without defining it: things the host set up, and what Interlock brings along."""

import msgspec

from interlock.crew.definition import ModelRef

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


# Those that run at the user's own place: free, unless prices are given. Scripts say themselves what they cost.
FREE_PROVIDERS = ("llama.cpp", "local", "ollama", "scripted", "vllm")


class ProviderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What checks need to know of a provider in interlock.toml."""

    url: str = ""
    hosts: tuple[str, ...] = ()
    constrains: str = ""
    constrains_with_tools: bool = False
    has_prices: bool = False


class UncallableTool(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the host's modules that no model can call."""

    name: str
    file: str
    line: int
    parameter: str


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What interlock.toml, or the program that embeds Interlock, has set up. `file` is that interlock.toml, if any."""

    file: str = ""
    searched: tuple[str, ...] = ()  # the folders in which there is no such file
    model: ModelRef | None = None  # for agents of crews that name none
    needs_models: bool = False  # runs call what files name; False where a program may give models of its own
    tools: tuple[str, ...] = ()
    uncallable_tools: tuple[UncallableTool, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    # For the servers of which crews may use some tools alone.
    mcp_tools: dict[str, tuple[str, ...]] = {}
    providers: tuple[str, ...] = ()
    provider_facts: dict[str, ProviderFacts] = {}
    unset_keys: dict[str, str] = {}  # by provider: the environment variable for its key, which is not set here
    installs: dict[str, str] = {}  # by provider: the command that installs what it needs and is not here
    bad_addresses: dict[str, str] = {}  # by provider_url of the crew: what is wrong with it
    unlisted_addresses: dict[str, str] = {}  # by server of a model of the crew: why it is not asked there, and the fix
    unconstrained: tuple[str, ...] = ()  # servers of models of the crew that cannot be held to marks
    unconstrained_with_tools: tuple[str, ...] = ()  # those that cannot in a call that offers tools
    priced_models: tuple[str, ...] = ()  # models of the crew, and of those it calls, whose prices are known here
    table_install: str = ""  # the command that installs a table of prices
    has_prices: bool = False  # there is a table of prices; what is not in it has none

    @property
    def file_to_edit(self) -> str:
        """The interlock.toml, for a fix; without one, where it was looked for and how another is named."""
        if self.file or not self.searched:
            return self.file or "interlock.toml"
        return f"interlock.toml (there is none in {' or '.join(self.searched)}; --config FILE names another)"
