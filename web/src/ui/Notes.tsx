import type { ReactNode } from "react";

/** Nothing is there yet, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <div>{children}</div>}
    </div>
  );
}

export function Failed({ error, again }: { error: string; again?: () => void }) {
  return (
    <div className="failed" role="alert">
      <p>{error}</p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p className="quiet" role="status">
      Loading {what}…
    </p>
  );
}
