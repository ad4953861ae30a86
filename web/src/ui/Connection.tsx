import { link } from "../state/live";
import { useStore } from "../state/store";

const WORDS = { connecting: "connecting…", live: "live", lost: "reconnecting…", out: "not let in" } as const;

export function Connection() {
  const now = useStore(link);
  return (
    <span className={`link link-${now}`} role="status" title="The stream of events from the server">
      {WORDS[now]}
    </span>
  );
}
