"""The path of each line, from port or slot over tracks and lanes to the tip."""

from dataclasses import dataclass

from interlock.diagrams.svg.channels import Channels
from interlock.diagrams.svg.curves import curve_path, direction, loop_path, point_text, polyline_path
from interlock.diagrams.svg.lanes import Lanes
from interlock.diagrams.svg.lines import EdgeLine, Point
from interlock.diagrams.svg.ports import Ports
from interlock.diagrams.svg.sides import BoxSides


@dataclass(frozen=True, slots=True)
class LinePaths:
    sides: BoxSides
    ports: Ports
    channels: Channels
    lanes: Lanes

    def path(self, line: EdgeLine) -> tuple[str, Point, Point]:
        """The path of a line, its end, and its direction there."""
        match line.way:
            case "loop":
                return loop_path(line.source)
            case "direct":
                return self._direct(line)
            case "beside":
                points = self.sides.points_beside(line)
            case "under":
                points = self._under(line)
            case "around":
                points = [*self._departure_points(line), *self._arrival_points(line)]
        return polyline_path(points), points[-1], direction(points[-2], points[-1])

    def _direct(self, line: EdgeLine) -> tuple[str, Point, Point]:
        source, target, down = line.source, line.target, line.is_downward
        start_x, end_x = self.ports.ends(line)
        start = (start_x, source.bottom if down else source.top)
        end = (end_x, target.top if down else target.bottom)
        leaving = (start_x, self.channels.bands[source.block.rank][down])
        arriving = (end_x, self.channels.bands[target.block.rank][not down])
        middle = curve_path(leaving, line.label_at if line.labels else None, arriving)
        return (
            f"M{point_text(start)} L{point_text(leaving)} {middle} L{point_text(end)}",
            end,
            (0.0, 1.0 if down else -1.0),
        )

    def _under(self, line: EdgeLine) -> list[Point]:
        sx, tx = self.ports.below(line.source, line), self.ports.below(line.target, line)
        y = self.channels.track_y(line.channel, line)
        return [(sx, line.source.bottom), (sx, y), (tx, y), (tx, line.target.bottom)]

    def _departure_points(self, line: EdgeLine) -> list[Point]:
        lane = self.lanes.places[line.bundle]
        if line.leaves_aside:
            start = self.sides.slot_point(line.source, line.side, line)
            return [start, (lane, start[1])]
        x, y = self.ports.below(line.source, line), self.channels.track_y(line.channel, ("out", line.bundle))
        return [(x, line.source.bottom), (x, y), (lane, y)]

    def _arrival_points(self, line: EdgeLine) -> list[Point]:
        lane = self.lanes.places[line.bundle]
        if line.arrives_aside:
            end = self.sides.slot_point(line.target, line.side, line.bundle)
            return [(lane, end[1]), end]
        x = self.ports.above(line.target, line.bundle)
        y = self.channels.track_y(line.target.block.rank, ("in", line.bundle))
        return [(lane, y), (x, y), (x, line.target.top)]
