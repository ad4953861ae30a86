import type { Change } from "../forms/changes";

/** The proposed values, and those that would be sent instead. */
export function Changes({ changes, undo }: { changes: readonly Change[]; undo: () => void }) {
  return (
    <div className="changes" role="status" aria-label="Changes">
      {changes.length > 0 && (
        <>
          <p className="changes-head">
            {changes.length === 1 ? "1 change" : `${changes.length} changes`}
            <button type="button" className="small plain" onClick={undo}>
              Undo changes
            </button>
          </p>
          <dl>
            {changes.map((change) => (
              <div key={change.path.join("\u0000")}>
                <dt>
                  <bdi dir="auto">{change.path.join(" › ")}</bdi>
                </dt>
                <dd>
                  <Value of={change.before} as="del" /> <span aria-hidden="true">→</span> <Value of={change.after} as="ins" />
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </div>
  );
}

function Value({ of, as: Tag }: { of: string | null; as: "del" | "ins" }) {
  return (
    <Tag>
      <span className="off-screen">{Tag === "del" ? "proposed: " : "edited: "}</span>
      {of === null ? <span className="quiet">nothing</span> : <bdi dir="auto">{of || "(empty text)"}</bdi>}
    </Tag>
  );
}
