import { useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

interface Props {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** Whether the list stays at its end while it grows, unless the user scrolled up. */
  readonly sticks?: boolean;
  /** For rows that can be chosen: one tab stop for all, arrows move, Enter chooses. */
  readonly choose?: (index: number) => void;
  readonly row: (index: number, option: Option) => ReactNode;
}

/** The attributes of a row that can be chosen, for keyboards and screen readers. */
export interface Option {
  readonly id: string;
  readonly role: "option";
  readonly "data-current": boolean;
}

const OVERSCAN = 8;

/** The row that a key moves to; `page` rows fit the screen. Null for other keys. */
export function rowAfterKey(key: string, from: number, count: number, page: number): number | null {
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count }[key];
  return by === undefined ? null : Math.max(0, Math.min(count - 1, from + by));
}

/** Rows of one height; only the visible ones are rendered. */
export function VirtualList({ count, rowHeight, label, sticks = false, choose, row }: Props) {
  const prefix = useId();
  /** The current row of the keyboard; null is always the last one. */
  const [cursor, setCursor] = useState<number | null>(null);
  const current = Math.min(cursor ?? count, count - 1);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const [view, setView] = useState({ top: 0, height: 600 });

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current;
    if (element && sticks && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, sticks]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>): void => {
    const at = event.currentTarget;
    const to = rowAfterKey(event.key, current, count, Math.floor(at.clientHeight / rowHeight));
    if (to !== null) {
      setCursor(to === count - 1 ? null : to);
      at.scrollTop = Math.min(to * rowHeight, Math.max(at.scrollTop, (to + 1) * rowHeight - at.clientHeight));
    } else if (event.key === "Enter" || event.key === " ") {
      choose?.(current);
    } else return;
    event.preventDefault();
  };
  const isThere = current >= first && current < last;
  const chooses = choose && { role: "listbox", onKeyDown: onKeyDown, "aria-activedescendant": isThere ? `${prefix}${current}` : undefined };
  return (
    <div
      className="virtual"
      ref={box}
      tabIndex={0}
      role="group"
      aria-label={label}
      {...chooses}
      onScroll={({ currentTarget: at }) => {
        isAtEnd.current = at.scrollTop + at.clientHeight >= at.scrollHeight - rowHeight;
        setView({ top: at.scrollTop, height: at.clientHeight });
      }}
    >
      <div className="virtual-whole" style={{ height: count * rowHeight }}>
        <div style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {Array.from({ length: Math.max(0, last - first) }, (_, n) => row(first + n, { id: `${prefix}${first + n}`, role: "option", "data-current": first + n === current }))}
        </div>
      </div>
    </div>
  );
}
