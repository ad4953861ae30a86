/** Asks the server. What it refuses becomes a `Refused` that says what to do. */
import type { Refusal } from "./types";

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    /** Whatever else the refusal says. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail);
  }
}

/** Where the server's paths begin: the page may stand below a prefix, and its scripts are in `static` there. */
const BASE = new URL(/* @vite-ignore */ "..", import.meta.url).pathname;

/** A path of the server as this page reaches it. */
export function addressOf(path: string): string {
  return BASE + path.replace(/^\//, "");
}

/** The server could not be asked at all. */
export const UNREACHABLE = new Refused(0, "unreachable", "The server does not answer. Is `interlock serve` running?");

export function get<Shape>(path: string, signal?: AbortSignal): Promise<Shape> {
  return ask<Shape>(path, { method: "GET", ...(signal ? { signal } : {}) });
}

/** One key for each thing that a person does, so that a retry of the browser does it once. */
export function post<Shape>(path: string, body: unknown): Promise<Shape> {
  const headers = { "content-type": "application/json", "idempotency-key": newKey() };
  return ask<Shape>(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export async function remove(path: string): Promise<void> {
  await ask<unknown>(path, { method: "DELETE" });
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function ask<Shape>(path: string, options: RequestInit): Promise<Shape> {
  let answer: Response;
  try {
    answer = await fetch(addressOf(path), { ...options, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    throw error instanceof DOMException && error.name === "AbortError" ? error : UNREACHABLE;
  }
  if (!answer.ok) throw await refusal(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as Shape;
}

export async function refusal(answer: Response): Promise<Refused> {
  try {
    const said = (await answer.json()) as Partial<Refusal>;
    return new Refused(answer.status, said.code ?? "unknown", said.detail ?? said.title ?? answer.statusText, said);
  } catch {
    return new Refused(answer.status, "unknown", answer.statusText || `the server answered ${answer.status}`);
  }
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
