import { useId, type ReactNode } from "react";
import { Failed, Loading } from "../ui/Notes";
import { Table } from "../ui/Table";

interface Props<Each> {
  readonly title: string;
  readonly head: readonly string[];
  /** Null while nobody knows. */
  readonly items: readonly Each[] | null;
  readonly empty: ReactNode;
  readonly error: string;
  readonly again: () => void;
  /** Why the server did not do what was asked of it here. */
  readonly refused: string;
  readonly row: (each: Each) => ReactNode;
  readonly children?: ReactNode;
}

/** A table of things that the server keeps. */
export function Listing<Each>({ title, head, items, empty, error, again, refused, row, children }: Props<Each>) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {error && <Failed error={error} again={again} />}
      {!items && !error && <Loading what="the list" />}
      {items?.length === 0 && empty}
      {items && items.length > 0 && <Table head={head}>{items.map(row)}</Table>}
      {children}
      {refused && <Failed error={refused} />}
    </section>
  );
}
