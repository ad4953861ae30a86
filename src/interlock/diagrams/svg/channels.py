"""Channels above, between and below the ranks: rows of labels, and below them tracks of horizontal lines.

The heights of the channels give the vertical positions of the ranks.
"""

from collections.abc import Iterator
from typing import Literal

from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import Bundle, EdgeLine
from interlock.diagrams.svg.measures import GAP, LEEWAY_MAX, MARGIN, NODE_HEIGHT, PAD, TRACK, TRACKS_MAX
from interlock.diagrams.svg.ports import Ports
from interlock.diagrams.svg.spans import Spans, assign_tracks, widen

Run = EdgeLine | tuple[Literal["out", "in"], Bundle]


class Channels:
    """Channel n lies above rank n, the last one below all. `bands` are the upper and lower edges of the ranks."""

    def __init__(self, rows: list[list[Box]], lines: list[EdgeLine], ports: Ports) -> None:
        self.rows, self.lines, self.ports = rows, lines, ports
        self.tracks = [assign_tracks(runs, TRACKS_MAX) for runs in self._runs()]
        self.bands: list[tuple[float, float]] = []
        self.track_tops: list[float] = []
        self.height = self._place_down(self._label_rows())

    def track_y(self, channel: int, run: Run) -> float:
        return self.track_tops[channel] + self.tracks[channel][run] * TRACK

    # What they hold

    def _runs(self) -> list[Spans[Run]]:
        """The horizontal lines in every channel."""
        channels: list[Spans[Run]] = [{} for _ in range(len(self.rows) + 1)]
        for line in self.lines:
            for channel, run, start, end in self._stretches(line):
                widen(channels[channel], run, start, end)
        return channels

    def _stretches(self, line: EdgeLine) -> Iterator[tuple[int, Run, float, float]]:
        source, target, ports = line.source, line.target, self.ports
        if line.way == "under":
            yield line.channel, line, ports.below(source, line), ports.below(target, line)
        if line.way == "around" and not line.leaves_aside:
            yield line.channel, ("out", line.bundle), ports.below(source, line), line.far_aside
        if line.way == "around" and not line.arrives_aside:
            yield target.block.rank, ("in", line.bundle), ports.above(target, line.bundle), line.far_aside

    def _label_rows(self) -> list[list[list[EdgeLine]]]:
        """The labels of every channel in rows, so that none hides another."""
        channels: list[list[EdgeLine]] = [[] for _ in range(len(self.rows) + 1)]
        for line in self.lines:
            if line.labels and (line.way in ("direct", "under") or (line.way == "around" and not line.leaves_aside)):
                line.label_at = (self.ports.label_x(line), 0.0)
                channels[line.channel].append(line)
        return [_in_rows(sorted(lines, key=lambda line: line.label_at[0])) for lines in channels]

    def _extra_heights(self) -> list[float]:
        """The extra height of each channel, so that long arrows are not too flat."""
        leeways = [0.0] * (len(self.rows) + 1)
        for line in self.lines:
            if line.way == "direct":
                start, end = self.ports.ends(line)
                leeways[line.channel] = max(leeways[line.channel], min(abs(end - start) / 12, LEEWAY_MAX))
        return leeways

    # From top to bottom

    def _place_down(self, label_rows: list[list[list[EdgeLine]]]) -> float:
        y = MARGIN
        for channel, (labels, leeway) in enumerate(zip(label_rows, self._extra_heights(), strict=True)):
            y = self._place_channel(channel, labels, y + leeway) + leeway
            if channel < len(self.rows):
                height = max(box.height for box in self.rows[channel])
                self.bands.append((y, y + height))
                for box in self.rows[channel]:
                    _place_in_band(box, y, height)
                y += height
        return y + MARGIN

    def _place_channel(self, channel: int, labels: list[list[EdgeLine]], top: float) -> float:
        tracks = max(self.tracks[channel].values(), default=-1) + 1
        is_outer = channel in (0, len(self.rows))
        if is_outer and not labels and not tracks:
            self.track_tops.append(top)
            return top
        y = top + PAD + 2
        for row in labels:
            height = max(line.label_height for line in row)
            for line in row:
                line.label_at = (line.label_at[0], y + height / 2)
            y += height + 4
        self.track_tops.append(y + TRACK / 2)
        bottom = y + tracks * TRACK
        return bottom if channel == len(self.rows) else max(bottom + PAD + 2, top + GAP)


def _in_rows(lines: list[EdgeLine]) -> list[list[EdgeLine]]:
    rows: list[list[EdgeLine]] = []
    ends: list[float] = []
    for line in lines:
        start = line.label_at[0] - line.label_width / 2
        row = next((n for n, end in enumerate(ends) if end <= start), len(rows))
        if row == len(rows):
            rows.append([])
            ends.append(0.0)
        rows[row].append(line)
        ends[row] = start + line.label_width + 4
    return rows


def _place_in_band(box: Box, top: float, height: float) -> None:
    box.top = top + (height - box.height) / 2
    for member in box.members:
        member.top = box.top + NODE_HEIGHT
