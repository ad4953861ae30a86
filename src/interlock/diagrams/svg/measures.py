"""Sizes, and the numbers beyond which something is drawn in another way."""

GAP = 44.0
PAD = 14.0
NODE_HEIGHT = 46.0
END_HEIGHT = 30.0
TITLE_HEIGHT = 30.0
LINE_HEIGHT = 15.0
SLOT = 24.0
TRACK = 10.0
LANE = 14.0
LOOP = 26.0
LEEWAY_MAX = 28.0
MARGIN = 24.0
CORNER = 9.0
SWEEPS = 4

# Mean widths of a column of text, in the fonts of names, of what stands below them, and of marks.
NAME_COLUMN = 8.2
SUBTITLE_COLUMN = 6.1
MARK_COLUMN = 6.7

# Longer names are cut; the whole name is in the tooltip and in the text form.
LABEL_COLUMNS_MAX = 30

# Members of a larger group are drawn below it, on dashed arrows.
HOSTED_MAX = 6

# Boxes do not grow taller for more arrows than this on one side; the rest use the channel.
SLOTS_MAX = 4

# With more horizontal lines in one channel no reader can follow one, so they share tracks.
TRACKS_MAX = 32

# Labels shown on a line with several arrows; the text form lists the rest.
STACK_MAX = 5
