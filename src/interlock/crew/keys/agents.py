"""The keys of an agent."""

from interlock.crew.keys.values import ANY_TEXT, COUNT, MONEY, OLD_INNARDS, SHARE_OF_ONE, legacy_key
from interlock.crew.shapes import (
    Flag,
    JsonMap,
    Key,
    ListOf,
    Number,
    SchemaText,
    Section,
    SignalText,
    Text,
    WordOrNumber,
)

MODEL = Section(
    "a model",
    (
        Key(
            "model",
            Text(),
            "The model, as `provider:name` or just its name beside `provider`.",
            required=True,
        ),
        Key("provider", Text(), "The provider of the model, such as `openai`."),
        Key("provider_url", ANY_TEXT, "The server's address: the provider's own, or one that `interlock.toml` lists."),
    ),
)

COST_LIMITS = Section(
    "cost_limits",
    (
        Key("max_tokens_per_call", COUNT, "Token limit of one model call of this agent."),
        Key("max_tokens_per_day", COUNT, "Token limit of this agent per UTC day."),
        Key("max_cost_per_day_usd", MONEY, "Cost limit of this agent per UTC day, in dollars."),
        Key("alert_threshold", SHARE_OF_ONE, "Warn when this share of a limit is used."),
        Key("block_on_cost_exceed", Flag(), "Stop at a limit; false only warns."),
        Key("enforce", Flag(), "Another name for `block_on_cost_exceed`."),
        Key("input_token_price_per_million", MONEY, "Dollars per million input tokens; 0 is free."),
        Key("output_token_price_per_million", MONEY, "Dollars per million output tokens; 0 is free."),
        Key(
            "cache_read_token_price_per_million",
            MONEY,
            "Dollars per million input tokens that the provider reads from its cache; the input price unless given.",
        ),
        Key(
            "cache_write_token_price_per_million",
            MONEY,
            "Dollars per million input tokens that the provider writes to its cache; the input price unless given.",
        ),
    ),
)

ERROR_LIMITS = Section(
    "error_limits",
    (
        Key("max_consecutive", COUNT, "Limit of failed model calls of this agent in a row."),
        Key("max_per_day", COUNT, "Limit of failed model calls of this agent per UTC day."),
        Key("block_on_error_exceed", Flag(), "Stop at a limit; false only warns."),
        Key("enforce", Flag(), "Another name for `block_on_error_exceed`."),
    ),
)

# How its models are called: the keys of `ModelSettings`. `check` tells which provider takes which.
MODEL_SETTINGS = (
    Key(
        "reasoning",
        WordOrNumber(("off", "low", "medium", "high"), COUNT, "a number of tokens"),
        "How much the model reasons before it replies.",
    ),
    Key("cache", Text(options=("on", "off", "1h")), "Whether, or for how long, the provider caches the prompt; `on`."),
    Key("max_tokens", COUNT, "The longest reply of one call, in tokens, reasoning included."),
    Key(
        "seed",
        Number(most=2_147_483_647, whole=True),
        "The seed of sampling, for replies that repeat as far as can be.",
    ),
    Key("stop", ListOf(ANY_TEXT), "Texts that end a reply where they would begin."),
    Key("parallel_tool_calls", Flag(), "False if a reply may ask for one tool only."),
    Key("service_tier", Text(), "The provider's name of a service tier."),
    Key("extra", JsonMap(), "Further fields of the request, as the provider names them."),
)

AGENT = Section(
    "an agent",
    (
        Key("id", Text(), "The agent's id in the crew."),
        Key("name", Text(), "The agent's name in conversations; the id unless given."),
        Key("role", ANY_TEXT, "Its role, for `{{role}}`."),
        Key(
            "description",
            ANY_TEXT,
            "What it is good at, for `{{description}}` and for agents that delegate to it.",
        ),
        Key("backstory", ANY_TEXT, "Its background, for `{{backstory}}`."),
        Key(
            "system_prompt",
            ANY_TEXT,
            "Its instructions; `{{name}}`, `{{role}}`, `{{description}}` and `{{backstory}}` are filled in.",
        ),
        Key("temperature", Number(most=2), "Sampling temperature; 0 means 0."),
        Key("top_p", Number(above=True, most=1), "Nucleus sampling."),
        Key("top_k", COUNT, "Sampling among the k most likely tokens."),
        *MODEL_SETTINGS,
        Key("model", Text(), "The model, as `provider:name`."),
        Key("provider", Text(), "The provider of `model`, in older files."),
        Key(
            "provider_url", ANY_TEXT, "The server's address for `model`, in older files; the rule of `primary` applies."
        ),
        Key("primary", MODEL, "The model to call."),
        Key("backup", MODEL, "The model to call when the primary one fails."),
        Key("tools", ListOf(Text()), "Tools it may call: names, or `mcp:<server>` or `mcp:<server>/<tool>`."),
        Key(
            "handoff_targets",
            ListOf(Text()),
            "The next agent if a reply has no signal: the first of the list.",
        ),
        Key("is_terminal", Flag(), "A reply without a signal completes the run."),
        Key("cost_limits", COST_LIMITS, "Budgets and prices of this agent."),
        Key("error_limits", ERROR_LIMITS, "When to stop calling its model."),
        Key("signals", ListOf(SignalText()), "The only signals it may emit, if given."),
        Key(
            "output",
            SchemaText(),
            "The JSON value of each reply that ends its turn: a JSON Schema, or a file with one in the crew's folder.",
        ),
        *(
            legacy_key(name, "limits of an agent are under cost_limits")
            for name in (
                "max_tokens_per_call",
                "max_tokens_per_day",
                "max_cost_per_day",
                "cost_alert_threshold",
                "enforce_cost_limits",
                "enforce_quotas",
            )
        ),
        legacy_key("memory_limits", OLD_INNARDS),
        legacy_key("logging", "every event is in the journal, and the host sets up the log"),
    ),
)
