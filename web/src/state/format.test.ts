import { expect, test, vi } from "vitest";
import { cachedShare, costOf, minute, formatDateTime, savedOf, tokenText } from "./format";

test("date and time use the same time zone", () => {
  vi.stubEnv("TZ", "Pacific/Auckland");
  expect(formatDateTime(Date.UTC(2020, 0, 31, 20, 30))).toBe("2020-02-01 09:30");
  expect(minute(Date.UTC(2020, 0, 31, 20, 30))).toBe("2020-02-01 09:30");
  expect(minute(new Date().setHours(20, 17))).toBe("20:17");
});

test("a cost with an unknown part is unknown, never a sum that is too small", () => {
  expect(costOf({ cost_micros: 0, unpriced_calls: 0 })).toBe("$0");
  expect(costOf({ cost_micros: 1_200, unpriced_calls: 0 })).toBe("$0.00120");
  expect(costOf({ cost_micros: 0, unpriced_calls: 1 })).toBe("unknown");
  expect(costOf({ cost_micros: 1_200, unpriced_calls: 1 })).toBe("unknown");
});

test("the part that was cached is rounded down and never more than all", () => {
  expect(cachedShare({ input_tokens: 1_000, cache_read_tokens: 999 })).toBe("99%");
  expect(cachedShare({ input_tokens: 10, cache_read_tokens: 1_000 })).toBe("100%");
  expect(cachedShare({ input_tokens: 10, cache_read_tokens: 0 })).toBe("-");
  expect([tokenText(1_200, 0), tokenText(1_200, 1_000)]).toEqual(["1,200", "1,200 (1,000 cached)"]);
});

test("what caching saved is unknown where one part of it is, and may be a loss", () => {
  const used = { cache_read_tokens: 9, cache_write_tokens: 0 };
  expect(savedOf(used, { saved_micros: 20_000, unknown_calls: 0 })).toBe("$0.020");
  expect(savedOf(used, { saved_micros: -20_000, unknown_calls: 0 })).toBe("-$0.020");
  expect(savedOf(used, { saved_micros: 20_000, unknown_calls: 1 })).toBe("unknown");
  expect(savedOf({ cache_read_tokens: 0, cache_write_tokens: 0 }, { saved_micros: 0, unknown_calls: 0 })).toBe("-");
});
