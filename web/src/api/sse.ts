/** Parses server-sent events from chunks of text, cut at any point. */

export interface SseMessage {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

export class SseParser {
  private rest = "";
  private scanned = 0;
  /** The id of the newest message, for the header Last-Event-ID. */
  lastId = "";

  /** For a new connection: what a cut one has left is not the beginning of its first message. */
  startOver(): void {
    this.rest = "";
    this.scanned = 0;
  }

  feed(piece: string): SseMessage[] {
    // Events end their lines with LF, keep-alive comments with CR LF; JSON contains neither.
    this.rest += piece.replaceAll("\r", "");
    const found: SseMessage[] = [];
    let begin = 0;
    for (;;) {
      const end = this.rest.indexOf("\n\n", Math.max(begin, this.scanned - 1));
      if (end < 0) break;
      const message = this.parseBlock(this.rest.slice(begin, end));
      if (message) found.push(message);
      begin = this.scanned = end + 2;
    }
    this.rest = this.rest.slice(begin);
    this.scanned = this.rest.length;
    return found;
  }

  private parseBlock(block: string): SseMessage | null {
    let event = "message";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (name === "id") this.lastId = value;
      else if (name === "event") event = value;
      else if (name === "data") data.push(value);
    }
    return data.length ? { id: this.lastId, event, data: data.join("\n") } : null;
  }
}
