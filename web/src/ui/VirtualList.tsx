import { useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

interface Props {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** Whether the list stays at its end while it grows, unless somebody scrolled up. */
  readonly sticks?: boolean;
  /** Where rows can be chosen: one tab stop for all of them, arrows move, Enter chooses. */
  readonly choose?: (index: number) => void;
  readonly row: (index: number, option: Option) => ReactNode;
}

/** What a row that can be chosen is to a keyboard and to those who hear the page. */
export interface Option {
  readonly id: string;
  readonly role: "option";
  readonly "data-current": boolean;
}

const BEYOND = 8;

/** Where a key leads from one of so many rows, of which so many fit the screen; null for other keys. */
export function moved(key: string, from: number, count: number, page: number): number | null {
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count }[key];
  return by === undefined ? null : Math.max(0, Math.min(count - 1, from + by));
}

/** Rows of one height, of which only those that can be seen exist. */
export function VirtualList({ count, rowHeight, label, sticks = false, choose, row }: Props) {
  const prefix = useId();
  /** The row that keys move; null for the last one, whichever that is. */
  const [stands, setStands] = useState<number | null>(null);
  const current = Math.min(stands ?? count, count - 1);
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

  const first = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  const pressed = (event: KeyboardEvent<HTMLDivElement>): void => {
    const at = event.currentTarget;
    const to = moved(event.key, current, count, Math.floor(at.clientHeight / rowHeight));
    if (to !== null) {
      setStands(to === count - 1 ? null : to);
      at.scrollTop = Math.min(to * rowHeight, Math.max(at.scrollTop, (to + 1) * rowHeight - at.clientHeight));
    } else if (event.key === "Enter" || event.key === " ") {
      choose?.(current);
    } else return;
    event.preventDefault();
  };
  const isThere = current >= first && current < last;
  const chooses = choose && { role: "listbox", onKeyDown: pressed, "aria-activedescendant": isThere ? `${prefix}${current}` : undefined };
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
