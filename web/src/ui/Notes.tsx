import type { ReactNode } from "react";

/** Says that a list is empty, and what to do. */
export function EmptyNotice({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <div>{children}</div>}
    </div>
  );
}

export function ErrorNotice({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div className="failed" role="alert">
      <p>{error}</p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function LoadingNotice({ what }: { what: string }) {
  return (
    <p className="quiet" role="status">
      Loading {what}…
    </p>
  );
}
