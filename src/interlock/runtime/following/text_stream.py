"""The text of a run while its models reply: without marks, reply after reply.

Rule 1: replies come in the order of their calls, also where several models reply at the same time: of the first one
that is not complete the pieces are given as they come, the others wait. So the joined text depends on the journal only.
Rule 2: nothing is lost: a piece tells that there is more, and the text is read from the reply itself or the journal.
Rule 3: a reply that breaks off stays, and the next attempt is a reply of its own.
Rule 4: reasoning is no text. What was shown as text before it turned out to be reasoning stays; the reply follows it.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from interlock.engine.events import RunStarted
from interlock.engine.routing.decision import RoutingTable
from interlock.ports import Journal
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.following import Following
from interlock.runtime.stored_crews import StoredCrews
from interlock.runtime.watchers import OpenReply, PublicEvent, SequencedEvent, Watchers

# Between two replies.
BLANK_LINE = "\n\n"


class TextPiece(str):
    """A piece of the text of a run, with the agent that says it and the run that it is said in."""

    agent: str
    run: str

    __slots__ = ("agent", "run")

    def __new__(cls, text: str, *, agent: str, run: str) -> "TextPiece":
        piece = super().__new__(cls, text)
        piece.agent, piece.run = agent, run
        return piece


async def stream_text(
    run_id: str, after: int = 0, *, following: Following, watchers: Watchers, crews: StoredCrews
) -> AsyncGenerator[TextPiece]:
    """The text of a run and the runs below it that is said after a seq, until it is over or paused."""
    replies = _Replies(following.journal, watchers, crews)
    async with aclosing(following.follow_sequenced(run_id, after)) as followed:
        async for sent in followed:
            await replies.add_event(sent)
            for piece in replies.new_pieces():
                yield piece
    for piece in replies.last_pieces():
        yield piece


class _SpokenReply:
    """One reply: what was read of it, and what of that can be shown."""

    def __init__(self, agent: str, run: str, table: RoutingTable) -> None:
        self.agent, self.run, self._table = agent, run, table
        self._filter = table.mark_filter()
        self._read: list[str] = []
        self._whole: str | None = None  # as the journal has it
        self.open: OpenReply | None = None
        self.is_over = self.has_text = False

    def end_reply(self, whole: str | None) -> None:
        """The reply is complete, or broke off (None)."""
        self._whole, self.is_over = whole, True

    def start_again(self) -> None:
        """What was read was reasoning, not the reply."""
        self._filter, self._read, self.open, self.has_text = self._table.mark_filter(), [], None, False

    def new_texts(self) -> Iterator[str]:
        """The texts that can be shown now and were not; some may be empty."""
        if self.is_over:
            yield from self._last_texts()
        elif self.open is not None:
            for piece in self.open.pieces[len(self._read) :]:
                self._read.append(as_storable(piece))
                yield self._filter.feed(self._read[-1])

    def _last_texts(self) -> Iterator[str]:
        read = "".join(self._read)
        if self._whole is None or self._whole.startswith(read):
            yield self._filter.feed((self._whole or read)[len(read) :])
            yield self._filter.end()
        else:  # the model said other pieces than its reply: the reply counts
            self.has_text = False
            yield self._table.without_marks(self._whole)


class _Replies:
    """The replies of a run and the runs below it that are not shown to their end, in the order of their calls."""

    def __init__(self, journal: Journal, watchers: Watchers, crews: StoredCrews) -> None:
        self._journal, self._watchers, self._crews = journal, watchers, crews
        self._tables: dict[str, RoutingTable] = {}
        self._replies: dict[tuple[str, str], _SpokenReply] = {}
        self._has_text = False

    async def add_event(self, sent: SequencedEvent) -> None:
        event, run = sent.event, sent.event["run"]
        match event["type"]:
            case "run.started":
                self._tables[run] = await self._table_of(event["crew_sha"], event["rules"])
            case "model.called" if not event["purpose"]:
                if run not in self._tables:
                    self._tables[run] = await self._table_in_journal(run)
                self._add_reply(run, event)
            case "model.delta" if sent.reply is not None:
                if (reply := self._replies.get((run, sent.reply.call))) is not None:
                    reply.open = sent.reply
            case "reasoning.delta" if sent.reply is not None:
                if (reply := self._replies.get((run, sent.reply.call))) is not None:
                    reply.start_again()
            case "model.replied":
                self._end_reply(run, event["call"], event["text"])
            case "model.failed" | "model.cancelled":
                self._end_reply(run, event["call"], None)
            case _:
                pass  # no reply begins or ends

    def new_pieces(self) -> Iterator[TextPiece]:
        """What can be shown now of the first reply, and of the next ones if it is over."""
        for key, reply in list(self._replies.items()):
            for text in reply.new_texts():
                if text:
                    yield self._piece_of(reply, text)
            if not reply.is_over:
                return
            del self._replies[key]

    def last_pieces(self) -> Iterator[TextPiece]:
        """What is left: the run is over or paused, so no reply goes further."""
        for reply in self._replies.values():
            if not reply.is_over:
                reply.end_reply(None)
        return self.new_pieces()

    def _piece_of(self, reply: _SpokenReply, text: str) -> TextPiece:
        if self._has_text and not reply.has_text:
            text = f"{BLANK_LINE}{text}"
        self._has_text = reply.has_text = True
        return TextPiece(text, agent=reply.agent, run=reply.run)

    def _add_reply(self, run: str, event: PublicEvent) -> None:
        reply = _SpokenReply(event["agent"], run, self._tables[run])
        reply.open = self._watchers.open_reply(run, event["call"])
        self._replies[run, event["call"]] = reply

    def _end_reply(self, run: str, call: str, whole: str | None) -> None:
        """Ends a reply; one that is not awaited, such as the late reply to a cancelled call, is not shown."""
        reply = self._replies.get((run, call))
        if reply is not None and not reply.is_over:
            reply.end_reply(whole)

    async def _table_in_journal(self, run: str) -> RoutingTable:
        """The table of a run that began before the text that is asked for."""
        started = (await self._journal.records(run))[0].events[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        return await self._table_of(started.crew_sha, started.rules)

    async def _table_of(self, crew_sha: str, rules: int) -> RoutingTable:
        return RoutingTable(await self._crews.of(crew_sha)).for_rules(rules)
