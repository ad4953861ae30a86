/** Requests to the server. A refused request throws an `ApiError` whose message says what to do. */
import type { Problem } from "./types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    /** The other fields of the problem body. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail);
  }
}

/** The base of the server's paths: the page may be served under a prefix, with its scripts in `static`. */
const BASE = new URL(/* @vite-ignore */ "..", import.meta.url).pathname;

/** The URL of a server path, with the prefix of this page. */
export function urlOf(path: string): string {
  return BASE + path.replace(/^\//, "");
}

/** The request did not reach the server. */
export const UNREACHABLE = new ApiError(0, "unreachable", "The server does not answer. Is `interlock serve` running?");

export function get<Shape>(path: string, signal?: AbortSignal): Promise<Shape> {
  return sendRequest<Shape>(path, { method: "GET", ...(signal ? { signal } : {}) });
}

/** Each user action has its own idempotency key, so that a retry by the browser has no second effect. */
export function post<Shape>(path: string, body: unknown): Promise<Shape> {
  const headers = { "content-type": "application/json", "idempotency-key": newIdempotencyKey() };
  return sendRequest<Shape>(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export async function remove(path: string): Promise<void> {
  await sendRequest<unknown>(path, { method: "DELETE" });
}

function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function sendRequest<Shape>(path: string, options: RequestInit): Promise<Shape> {
  let answer: Response;
  try {
    answer = await fetch(urlOf(path), { ...options, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    throw error instanceof DOMException && error.name === "AbortError" ? error : UNREACHABLE;
  }
  if (!answer.ok) throw await apiErrorOf(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as Shape;
}

export async function apiErrorOf(answer: Response): Promise<ApiError> {
  try {
    const problem = (await answer.json()) as Partial<Problem>;
    return new ApiError(answer.status, problem.code ?? "unknown", problem.detail ?? problem.title ?? answer.statusText, problem);
  } catch {
    return new ApiError(answer.status, "unknown", answer.statusText || `the server answered ${answer.status}`);
  }
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
