import { expect, test, vi } from "vitest";
import { costOf, minute, formatDateTime } from "./format";

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
