"""How big anything may get. Every number stands next to its reason."""

# A mark is a name, not a paragraph; a longer bracket is prose. Counts both brackets.
MARK_CHARS_MAX = 200

# Link texts that nest brackets deeper than this do not exist outside of attacks.
LINK_NESTING_MAX = 64

# Crew files are written by people. The largest real one seen has 14 kB.
CREW_FILE_BYTES_MAX = 256 * 1024

# Mappings within sequences within mappings: real crews stop at seven.
YAML_DEPTH_MAX = 32

# A crew of 1,000 agents and 5,000 routes has 30,000 nodes, and files are cut off by size first.
YAML_NODES_MAX = 100_000

# Agent, group and sub-crew ids become file names and parts of broadcast types.
ID_CHARS_MAX = 64

# Crews calling crews. Real ones nest two deep; past ten we are surely in a loop.
CREW_DEPTH_MAX = 10

# One sub-crew may be used many times on every level, so what is drawn can outgrow what was written without end.
NESTED_NODES_MAX = 2_000

# Problems shown for one crew; whoever has more mends these first.
PROBLEMS_MAX = 1_000

# What the crews of one task remember together: notes, not documents. Every child gets a copy.
MEMORY_KEY_CHARS_MAX = 200
MEMORY_KEYS_MAX = 1_000
MEMORY_VALUE_BYTES_MAX = 64 * 1024

# Tokens of one model call, or millionths of a dollar. No call has more, and sums of these fit into 64 bits.
USAGE_MAX = 2**40

# One broadcast type or pattern.
BROADCAST_TYPE_CHARS_MAX = 256
BROADCAST_SEGMENTS_MAX = 16
