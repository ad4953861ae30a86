import { expect, test, vi } from "vitest";
import { costOf, when } from "./words";

test("a day and the time of it are of the same place", () => {
  vi.stubEnv("TZ", "Pacific/Auckland");
  expect(when(Date.UTC(2020, 0, 31, 20, 30))).toBe("2020-02-01 09:30");
});

test("a cost of which a part is unknown is unknown, never a sum that is too small", () => {
  expect(costOf({ cost_micros: 0, unpriced_calls: 0 })).toBe("$0");
  expect(costOf({ cost_micros: 1_200, unpriced_calls: 0 })).toBe("$0.00120");
  expect(costOf({ cost_micros: 0, unpriced_calls: 1 })).toBe("unknown");
  expect(costOf({ cost_micros: 1_200, unpriced_calls: 1 })).toBe("unknown");
});
