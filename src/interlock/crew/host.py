"""Names that a crew may use without defining them: set up by the host, or built in."""

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

# Known providers. A host adds its own under [providers.<id>] in interlock.toml.
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


# Providers on the user's own machine: free unless prices are given. Scripts state their own costs.
FREE_PROVIDERS = ("llama.cpp", "local", "ollama", "scripted", "vllm")


class SettingFault(msgspec.Struct, frozen=True, kw_only=True):
    """A key of an agent that one of its models does not take."""

    path: tuple[str, ...]
    message: str
    fix: str


class ProviderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a provider in interlock.toml that checks need."""

    url: str = ""
    hosts: tuple[str, ...] = ()
    api: str = ""
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
    """The setup from interlock.toml (`file`, if there is one), or from the program that embeds Interlock."""

    file: str = ""
    searched: tuple[str, ...] = ()  # the folders that were searched for the file
    model: ModelRef | None = None  # for agents of crews without a model
    needs_models: bool = False  # runs call the models of the files; False where a program may provide models
    tools: tuple[str, ...] = ()
    uncallable_tools: tuple[UncallableTool, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    # For servers of which crews may use only some tools.
    mcp_tools: dict[str, tuple[str, ...]] = {}
    providers: tuple[str, ...] = ()
    provider_facts: dict[str, ProviderFacts] = {}
    unset_keys: dict[str, str] = {}  # by provider: the environment variable for its key, if it is not set
    installs: dict[str, str] = {}  # by provider: the command that installs its missing packages
    bad_addresses: dict[str, str] = {}  # by provider_url of the crew: its fault
    unlisted_addresses: dict[str, str] = {}  # by server of a model of the crew: why it is not called there, and the fix
    unconstrained: tuple[ModelRef, ...] = ()  # models of the crew that cannot constrain replies
    unconstrained_with_tools: tuple[ModelRef, ...] = ()  # those that cannot do so in a call with tools
    setting_faults: dict[str, tuple[SettingFault, ...]] = {}  # by agent of the crew
    priced_models: tuple[str, ...] = ()  # models of the crew and its sub-crews whose prices are known
    table_install: str = ""  # the command that installs a price table
    has_prices: bool = False  # there is a price table; a model that is not in it has no price

    @property
    def file_to_edit(self) -> str:
        """The interlock.toml, for a fix; without one, where it was searched and how to name another."""
        if self.file or not self.searched:
            return self.file or "interlock.toml"
        return f"interlock.toml (there is none in {' or '.join(self.searched)}; --config FILE names another)"
