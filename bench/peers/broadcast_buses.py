"""Matching and notifying in paho's MQTTMatcher, blinker and pyee: the same patterns and types as ours."""

import json
from importlib.metadata import version

from blinker import Signal  # type: ignore[import-not-found]
from paho.mqtt.matcher import MQTTMatcher  # type: ignore[import-untyped,import-not-found,unused-ignore]
from pyee.base import EventEmitter  # type: ignore[import-not-found]

from bench.broadcast_cases import SUBSCRIPTIONS, kinds, patterns
from bench.harness import measure


def matcher() -> MQTTMatcher:
    made = MQTTMatcher()
    for n, pattern in enumerate(patterns(SUBSCRIPTIONS)):
        made["/".join("+" if part == "*" else part for part in pattern.split(":"))] = n
    return made


def say(name: str, what: str, cpu_us: float, found: int = 0) -> None:
    print(json.dumps({"peer": name, "what": what, "cpu_us": cpu_us, "found": found}))


def main() -> None:
    made, topics = matcher(), [kind.replace(":", "/") for kind in kinds()]
    found = sum(len(list(made.iter_match(topic))) for topic in topics)

    def match() -> None:
        for topic in topics:
            for _ in made.iter_match(topic):
                pass

    say(f"paho-mqtt {version('paho-mqtt')}", "match", measure(match, len(topics)).cpu_us, found)
    emitter = EventEmitter()
    heard: list[object] = []
    emitter.on("x", heard.append)
    signal = Signal()

    def take(_sender: object, data: object) -> None:
        heard.append(data)

    signal.connect(take)

    def by_pyee() -> None:
        for n in range(10_000):
            emitter.emit("x", n)
        heard.clear()

    def by_blinker() -> None:
        for n in range(10_000):
            signal.send(None, data=n)
        heard.clear()

    say(f"pyee {version('pyee')}", "emit", measure(by_pyee, 10_000).cpu_us)
    say(f"blinker {version('blinker')}", "emit", measure(by_blinker, 10_000).cpu_us)


if __name__ == "__main__":
    main()
