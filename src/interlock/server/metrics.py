"""Counters of the server, in the text format of Prometheus.

Rule 1: every name has a HELP and a TYPE.
Rule 2: labels are bounded. A label has at most `VALUES_MAX` values; the next ones count together as `other`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

# Upper bounds of the histogram buckets, in seconds.
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CALL_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

# Values of one label. A host has tens of crews and models; more are made up by a client.
VALUES_MAX = 200
OTHER = "other"


class Sample(NamedTuple):
    """The current value of a gauge; several with one name share a HELP."""

    name: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


class Labels:
    """The values of each label so far."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = defaultdict(set)

    def value(self, label: str, text: str) -> str:
        seen = self._seen[label]
        if text not in seen:
            if len(seen) >= VALUES_MAX:
                return OTHER
            seen.add(text)
        return text

    def key_for(self, labels: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.value(label, value) for label, value in zip(labels, values, strict=True))


class CounterMetric:
    """A growing number, by its labels."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str], bounds: Labels) -> None:  # noqa: A002 - the format's word
        self.name, self.help, self._labels, self._bounds = name, help, labels, bounds
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        key = self._bounds.key_for(self._labels, values)
        self._counts[key] = self._counts.get(key, 0) + by

    def lines(self) -> Iterator[str]:
        for key, count in sorted(self._counts.items()):
            yield f"{self.name}{_labels(zip(self._labels, key, strict=True))} {_number(count)}"


class Histogram:
    """A histogram of durations, by its labels."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002
        buckets: Sequence[float],
        labels: Sequence[str],
        bounds: Labels,
    ) -> None:
        self.name, self.help, self._buckets, self._labels, self._bounds = name, help, buckets, labels, bounds
        self._within: dict[tuple[str, ...], list[int]] = {} if labels else {(): [0] * (len(buckets) + 1)}
        self._sums: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, seconds: float, *values: str) -> None:
        key = self._bounds.key_for(self._labels, values)
        within = self._within.setdefault(key, [0] * (len(self._buckets) + 1))
        within[next((n for n, most in enumerate(self._buckets) if seconds <= most), len(self._buckets))] += 1
        self._sums[key] += seconds

    def lines(self) -> Iterator[str]:
        for key, within in sorted(self._within.items()):
            own = list(zip(self._labels, key, strict=True))
            total = 0
            for most, count in zip((*self._buckets, math.inf), within, strict=True):
                total += count
                bound = "+Inf" if math.isinf(most) else f"{most:g}"
                yield f"{self.name}_bucket{_labels([*own, ('le', bound)])} {total}"
            yield f"{self.name}_sum{_labels(own)} {self._sums[key]:.6f}"
            yield f"{self.name}_count{_labels(own)} {total}"


class Metrics:
    """Counters of one server since it started."""

    def __init__(self) -> None:
        self._families: list[CounterMetric | Histogram] = []
        self._bounds = Labels()
        self.requests = self.counter("http_requests_total", "Requests answered.", "method", "route", "status")
        self.request_seconds = self.histogram("http_request_seconds", "Time until an answer begins.", BUCKETS)
        self.wrong_keys = self.counter("wrong_keys_total", "Requests with a key, code or signature that is not valid.")
        self.dropped = self.counter(
            "slow_readers_dropped_total", "Event streams closed because their client did not read."
        )

    def counter(self, name: str, help: str, *labels: str) -> CounterMetric:  # noqa: A002
        made = CounterMetric(f"interlock_{name}", help, labels, self._bounds)
        self._families.append(made)
        return made

    def histogram(self, name: str, help: str, buckets: Sequence[float], *labels: str) -> Histogram:  # noqa: A002
        made = Histogram(f"interlock_{name}", help, buckets, labels, self._bounds)
        self._families.append(made)
        return made

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.add(method, route, str(status))
        self.request_seconds.add(seconds)

    def text(self, gauges: Iterable[Sample]) -> str:
        return "".join(f"{line}\n" for line in (*self._counter_lines(), *_gauge_lines(gauges)))

    def _counter_lines(self) -> Iterator[str]:
        for family in self._families:
            yield f"# HELP {family.name} {family.help}"
            yield f"# TYPE {family.name} {family.kind}"
            yield from family.lines()


def _gauge_lines(gauges: Iterable[Sample]) -> Iterator[str]:
    by_name: dict[str, list[Sample]] = defaultdict(list)
    for sample in gauges:
        by_name[sample.name].append(sample)
    for name, samples in by_name.items():
        yield f"# HELP interlock_{name} {samples[0].help}"
        yield f"# TYPE interlock_{name} gauge"
        for sample in samples:
            yield f"interlock_{name}{_labels(sample.labels)} {_number(sample.value)}"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{_escape_label(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}"


_REASON = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def reason_group(reason: str) -> str:
    """A reason without names of crews or models: `signal:[DONE]` counts as `signal`."""
    group = reason.partition(":")[0]
    return group if _REASON.fullmatch(group) else OTHER
