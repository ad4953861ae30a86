"""All limits, each with its reason."""

# A signal is a name, not a paragraph; longer text in brackets is prose. Counts both brackets.
MARK_CHARS_MAX = 200

# Of a reply, 75,000 tokens or half a novel; after it only the last line is searched for signals. The worst text of
# this length is read in less than half a second.
READ_CHARS_MAX = 300_000

# Of the last line of a longer reply. Signals are at its end.
LAST_LINE_CHARS_MAX = 10_000

# Code fence signs in a longer reply. With more of them it takes too long to decide if its last line is code.
FENCE_SIGNS_MAX = 10_000

# Link texts that nest brackets deeper than this do not exist outside of attacks.
LINK_NESTING_MAX = 64

# Crew files are written by people. The largest real one we have seen has 14 kB.
CREW_FILE_BYTES_MAX = 256 * 1024

# Mappings within sequences within mappings: real crews stop at seven.
YAML_DEPTH_MAX = 32

# A crew of 1,000 agents and 5,000 routes has 30,000 nodes; the size limit of files usually applies first.
YAML_NODES_MAX = 100_000

# Agent, group and sub-crew ids become file names and parts of broadcast types.
ID_CHARS_MAX = 64

# Crews calling crews. Real ones nest two deep; past ten we are surely in a loop.
CREW_DEPTH_MAX = 10

# One sub-crew may be used many times on every level, so a diagram can be far larger than its files.
NESTED_NODES_MAX = 2_000

# Problems shown for one crew; an author with more fixes these first.
PROBLEMS_MAX = 1_000

# The shared memory of the crews of one task: notes, not documents. Every child gets a copy.
MEMORY_KEY_CHARS_MAX = 200
MEMORY_KEYS_MAX = 1_000
MEMORY_VALUE_BYTES_MAX = 64 * 1024
# Half of the depth that can be written and read as JSON: in a journal, values are inside events.
MEMORY_VALUE_DEPTH_MAX = 500

# A line by which a tool shows how far it is; more is an output.
TOOL_PROGRESS_CHARS_MAX = 2_000

# Tokens of one model call, or millionths of a dollar. No call has more, and sums of these fit into 64 bits.
USAGE_MAX = 2**40

# One broadcast type or pattern.
BROADCAST_TYPE_CHARS_MAX = 256
BROADCAST_SEGMENTS_MAX = 16

# A message's id is made by Interlock from the run's; others use uuids. Both are far shorter.
MESSAGE_ID_CHARS_MAX = 200

# Open tasks of one agent at once. A crew with more children is a mistake.
FAN_OUT_MAX = 1_000

# Messages of one run. Agents that need more are going in circles.
MESSAGES_MAX = 10_000

# JSON written by models and people. Beyond it, reading could depend on the reader's stack size.
JSON_DEPTH_MAX = 600

# Answers of people; a question may define their form. Patterns and schemas are written by models too.
ANSWER_CHARS_MAX = 20_000
PATTERN_CHARS_MAX = 200
PATTERN_NESTING_MAX = 4
PATTERN_REPEATS_MAX = 1_000
# A pattern is matched only against short answers: its cost grows with the square of the length.
PATTERN_ANSWER_CHARS_MAX = 200
CHOICES_MAX = 100
SCHEMA_DEPTH_MAX = 4
SCHEMA_NODES_MAX = 100
# Broadcast data is read by models and people: an announcement, not a file.
BROADCAST_DATA_BYTES_MAX = 256 * 1024
BROADCAST_DATA_DEPTH_MAX = 64

# Of one agent. A crew that needs more should use a wildcard.
SUBSCRIPTIONS_PER_AGENT_MAX = 1_000

# Broadcasts that cause broadcasts. Real chains have two or three links; past sixteen agents are waking each other.
BROADCAST_HOPS_MAX = 16

# Of one agent, counting only broadcasts with subscribers. Model calls take seconds: more than two per second is a loop.
BROADCASTS_PER_MINUTE_MAX = 120

# Broadcasts that an agent was not shown yet. A model reads a screen of news, not a year of it; the newest are kept.
INBOX_MAX = 1_000

# Of those, so many are shown to one turn; the next turn gets the next ones.
INBOX_TAKEN_MAX = 50

# Undelivered broadcasts that were not handled yet; the newest are kept.
DEAD_LETTERS_MAX = 10_000

# A time further away, in either direction, is a mistake of units.
HORIZON_MS = 10 * 366 * 24 * 3600 * 1000

# A schedule that repeats faster is a loop.
REPEAT_MS_MIN = 1_000

# Schedules of runs in one folder. All of them are looked at whenever one is due.
RUN_SCHEDULES_MAX = 1_000

# A delivery that fails is tried again after these pauses, then it is a dead letter.
DELIVERY_PAUSES_MS = (1_000, 5_000, 30_000, 300_000)

# The wall clock may be set at any time, so it is read at least this often.
WALL_LOOK_MS = 30_000

# Signals that fell due while no process ran go out at no more than 10,000 per second.
DISPATCH_BATCH = 500
DISPATCH_PAUSE_MS = 50

# The file of broadcasts for people and tools: its size, and how many older ones are kept beside it.
EVENTS_FILE_BYTES_MAX = 64 * 1024 * 1024
EVENTS_FILES_KEPT = 4

# The newest broadcasts that one request may ask for.
BROADCASTS_LISTED_MAX = 1_000

# Stored text that is read at once for a page of a list, a stream or an answer; one record always fits.
PAGE_BYTES_MAX = 1024 * 1024

# Of a name in a frame of a prompt. Names are a few words; the rest of a longer one tells nothing.
FRAME_NAME_CHARS_MAX = 100

# Pending orders of one run. A caller that sends more is in a loop.
ORDERS_PER_RUN_MAX = 100

# Orders are kept this long at most, for the process that drives the run and for readers of the outcome.
ORDER_KEPT_MS = 24 * 3600 * 1000

# For a function that decides if a call needs approval. A person is asked if it takes longer.
APPROVAL_FUNCTION_SECONDS_MAX = 30

# Revoked approvals that are kept, with who revoked them. A person reads the newest.
REVOKED_APPROVALS_MAX = 1_000

# Schemas of outputs. Written by people or made from types; models see them in every prompt.
OUTPUT_SCHEMA_BYTES_MAX = 64 * 1024
OUTPUT_SCHEMA_DEPTH_MAX = 32

# A typed value. It is stored with the end of its run and sent with each view of it.
OUTPUT_VALUE_BYTES_MAX = 256 * 1024
OUTPUT_VALUE_DEPTH_MAX = 64
