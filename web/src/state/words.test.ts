import { expect, test, vi } from "vitest";
import { when } from "./words";

test("a day and the time of it are of the same place", () => {
  vi.stubEnv("TZ", "Pacific/Auckland");
  expect(when(Date.UTC(2020, 0, 31, 20, 30))).toBe("2020-02-01 09:30");
});
