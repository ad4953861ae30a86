"""What the server counts, as text that Prometheus reads."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

# Seconds, up to which requests are counted.
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters of one server since it started."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._within = [0] * len(BUCKETS)
        self._seconds, self._timed = 0.0, 0
        self.counts: dict[str, int] = defaultdict(int)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self._seconds += seconds
        self._timed += 1
        for n, most in enumerate(BUCKETS):
            if seconds <= most:
                self._within[n] += 1
                break

    def text(self, gauges: Mapping[str, float]) -> str:
        return "".join(f"{line}\n" for line in self._lines(gauges))

    def _lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        yield "# TYPE interlock_http_requests_total counter"
        for (method, route, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"interlock_http_requests_total{{{labels}}} {count}"
        yield "# TYPE interlock_http_request_seconds histogram"
        total = 0
        for most, count in zip(BUCKETS, self._within, strict=True):
            total += count
            yield f'interlock_http_request_seconds_bucket{{le="{most:g}"}} {total}'
        yield f'interlock_http_request_seconds_bucket{{le="+Inf"}} {self._timed}'
        yield f"interlock_http_request_seconds_sum {self._seconds:.6f}"
        yield f"interlock_http_request_seconds_count {self._timed}"
        for name, count in sorted(self.counts.items()):
            yield f"# TYPE interlock_{name}_total counter"
            yield f"interlock_{name}_total {count}"
        for name, value in sorted(gauges.items()):
            yield f"# TYPE interlock_{name.partition('{')[0]} gauge"
            yield f"interlock_{name} {value:g}"
