import { useLayoutEffect, useRef, useState, type ReactNode } from "react";

interface Props {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** Whether the list stays at its end while it grows, unless somebody scrolled up. */
  readonly sticks?: boolean;
  readonly row: (index: number) => ReactNode;
}

const BEYOND = 8;

/** Rows of one height, of which only those that can be seen exist. */
export function VirtualList({ count, rowHeight, label, sticks = false, row }: Props) {
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
  return (
    <div
      className="virtual"
      ref={box}
      tabIndex={0}
      role="group"
      aria-label={label}
      onScroll={({ currentTarget: at }) => {
        isAtEnd.current = at.scrollTop + at.clientHeight >= at.scrollHeight - rowHeight;
        setView({ top: at.scrollTop, height: at.clientHeight });
      }}
    >
      <div className="virtual-whole" style={{ height: count * rowHeight }}>
        <div style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {Array.from({ length: Math.max(0, last - first) }, (_, n) => row(first + n))}
        </div>
      </div>
    </div>
  );
}
