import { useId, useRef, type ReactNode } from "react";

export interface Tab {
  readonly id: string;
  readonly title: string;
}

/** Tabs with the usual keys: arrows move, one tab stop for all. */
export function Tabs({
  tabs,
  current,
  choose,
  label,
  children,
}: {
  tabs: readonly Tab[];
  current: string;
  choose: (id: string) => void;
  label: string;
  children: ReactNode;
}) {
  const prefix = useId();
  const bar = useRef<HTMLDivElement>(null);
  const move = (by: number): void => {
    const now = tabs.findIndex((tab) => tab.id === current);
    const next = tabs[(now + by + tabs.length) % tabs.length];
    if (!next) return;
    choose(next.id);
    bar.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} ref={bar}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            data-tab={tab.id}
            id={`${prefix}${tab.id}`}
            aria-selected={tab.id === current}
            aria-controls={`${prefix}panel`}
            tabIndex={tab.id === current ? 0 : -1}
            onClick={() => choose(tab.id)}
            onKeyDown={({ key }) => (key === "ArrowRight" ? move(1) : key === "ArrowLeft" ? move(-1) : undefined)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div className="panel" role="tabpanel" id={`${prefix}panel`} aria-labelledby={`${prefix}${current}`}>
        {children}
      </div>
    </>
  );
}
