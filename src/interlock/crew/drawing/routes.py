"""The way of each line, from port or slot over tracks and lanes to the tip."""

from dataclasses import dataclass

from interlock.crew.drawing.channels import Channels
from interlock.crew.drawing.curves import at, curve, direction, loop, rounded
from interlock.crew.drawing.lanes import Lanes
from interlock.crew.drawing.lines import Line, Point
from interlock.crew.drawing.ports import Ports
from interlock.crew.drawing.sides import Sides


@dataclass(frozen=True, slots=True)
class Routes:
    sides: Sides
    ports: Ports
    channels: Channels
    lanes: Lanes

    def path(self, line: Line) -> tuple[str, Point, Point]:
        """The way of a line, where it ends, and in which direction."""
        match line.way:
            case "loop":
                return loop(line.source)
            case "direct":
                return self._direct(line)
            case "beside":
                points = self.sides.beside(line)
            case "under":
                points = self._under(line)
            case "around":
                points = [*self._leaving(line), *self._arriving(line)]
        return rounded(points), points[-1], direction(points[-2], points[-1])

    def _direct(self, line: Line) -> tuple[str, Point, Point]:
        source, target, down = line.source, line.target, line.goes_down
        start_x, end_x = self.ports.ends(line)
        start = (start_x, source.bottom if down else source.top)
        end = (end_x, target.top if down else target.bottom)
        leaving = (start_x, self.channels.bands[source.block.rank][down])
        arriving = (end_x, self.channels.bands[target.block.rank][not down])
        middle = curve(leaving, line.label_at if line.labels else None, arriving)
        return f"M{at(start)} L{at(leaving)} {middle} L{at(end)}", end, (0.0, 1.0 if down else -1.0)

    def _under(self, line: Line) -> list[Point]:
        sx, tx = self.ports.below(line.source, line), self.ports.below(line.target, line)
        y = self.channels.track(line.channel, line)
        return [(sx, line.source.bottom), (sx, y), (tx, y), (tx, line.target.bottom)]

    def _leaving(self, line: Line) -> list[Point]:
        lane = self.lanes.places[line.bundle]
        if line.leaves_aside:
            start = self.sides.slot(line.source, line.side, line)
            return [start, (lane, start[1])]
        x, y = self.ports.below(line.source, line), self.channels.track(line.channel, ("out", line.bundle))
        return [(x, line.source.bottom), (x, y), (lane, y)]

    def _arriving(self, line: Line) -> list[Point]:
        lane = self.lanes.places[line.bundle]
        if line.arrives_aside:
            end = self.sides.slot(line.target, line.side, line.bundle)
            return [(lane, end[1]), end]
        x = self.ports.above(line.target, line.bundle)
        y = self.channels.track(line.target.block.rank, ("in", line.bundle))
        return [(lane, y), (x, y), (x, line.target.top)]
