import { useId, type ReactNode } from "react";
import { ErrorNotice, LoadingNotice } from "../ui/Notes";
import { Table } from "../ui/Table";

interface Props<Each> {
  readonly title: string;
  readonly head: readonly string[];
  /** Null while loading. */
  readonly items: readonly Each[] | null;
  readonly empty: ReactNode;
  readonly error: string;
  readonly refresh: () => void;
  /** Why the server refused the last action. */
  readonly refused: string;
  readonly row: (each: Each) => ReactNode;
  readonly children?: ReactNode;
}

/** A titled table of server resources. */
export function Listing<Each>({ title, head, items, empty, error, refresh, refused, row, children }: Props<Each>) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {error && <ErrorNotice error={error} retry={refresh} />}
      {!items && !error && <LoadingNotice what="the list" />}
      {items?.length === 0 && empty}
      {items && items.length > 0 && <Table head={head}>{items.map(row)}</Table>}
      {children}
      {refused && <ErrorNotice error={refused} />}
    </section>
  );
}
