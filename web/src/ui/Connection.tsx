import { connection } from "../state/eventStream";
import { useStore } from "../state/store";

const LABELS = { connecting: "connecting…", live: "live", reconnecting: "reconnecting…", "signed-out": "signed out" } as const;

export function Connection() {
  const now = useStore(connection);
  return (
    <span className={`link link-${now}`} role="status" title="Event stream from the server">
      {LABELS[now]}
    </span>
  );
}
