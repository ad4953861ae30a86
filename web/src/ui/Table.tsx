import type { ReactNode } from "react";

/** A table. A column without a title contains buttons. */
export function Table({ head, look, children }: { head: readonly string[]; look?: string; children: ReactNode }) {
  return (
    <table className={look}>
      <thead>
        <tr>{head.map((title) => (title ? <th key={title}>{title}</th> : <td key={title} />))}</tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
