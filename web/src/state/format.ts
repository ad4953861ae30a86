/** Formats numbers and times for people. */
import type { CacheSavings, UsageTotals } from "../api/types";

export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(5)}` : dollars < 100 ? `$${dollars.toFixed(3)}` : `$${dollars.toFixed(0)}`;
}

/** The cost of calls; unknown if the price of one of them is. */
export function costOf(used: Pick<UsageTotals, "cost_micros" | "unpriced_calls">): string {
  return used.unpriced_calls > 0 ? "unknown" : money(used.cost_micros);
}

/** The part of the input that was read from a cache, rounded down; "-" if nothing was. */
export function cachedShare(used: Pick<UsageTotals, "cache_read_tokens" | "input_tokens">): string {
  if (!used.cache_read_tokens) return "-";
  return `${Math.floor((used.cache_read_tokens * 100) / Math.max(used.input_tokens, used.cache_read_tokens))}%`;
}

/** What caching saved; unknown if it is for one of the calls, "-" if nothing was cached. */
export function savedOf(used: Pick<UsageTotals, "cache_read_tokens" | "cache_write_tokens">, savings: CacheSavings): string {
  if (!used.cache_read_tokens && !used.cache_write_tokens) return "-";
  if (savings.unknown_calls > 0) return "unknown";
  return savings.saved_micros < 0 ? `-${money(-savings.saved_micros)}` : money(savings.saved_micros);
}

/** A number of tokens, and how many of them came from a cache. */
export function tokenText(tokens: number, cached: number): string {
  return cached ? `${count(tokens)} (${count(cached)} cached)` : count(tokens);
}

export function count(number: number): string {
  return number.toLocaleString("en");
}

export function tokensOf(used: UsageTotals): number {
  return used.input_tokens + used.output_tokens;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60_000) / 1_000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function formatTime(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}

export function formatDateTime(at: number): string {
  return isToday(at) ? formatTime(at) : minute(at);
}

/** To the minute: 20:17, with the date if it is not today. */
export function minute(at: number): string {
  const time = formatTime(at).slice(0, 5);
  return isToday(at) ? time : `${new Date(at).toLocaleDateString("sv-SE")} ${time}`; // sv-SE writes ISO dates
}

function isToday(at: number): boolean {
  return new Date(at).toDateString() === new Date().toDateString();
}

export function plural(number: number, word: string, words = `${word}s`): string {
  return `${count(number)} ${number === 1 ? word : words}`;
}

/** Whether a paused run waits for a resume rather than an answer. */
export function needsResume(reason: string): boolean {
  return reason === "parked" || reason === "set_aside";
}

/** The root of the tree that a run belongs to. */
export function rootOf(run: string): string {
  return run.split("~")[0] ?? run;
}
