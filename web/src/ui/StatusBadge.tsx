const SIGNS: Record<string, string> = {
  running: "▶",
  paused: "‖",
  completed: "✓",
  failed: "✕",
  stopped: "■",
  cancelled: "–",
};

export function StatusBadge({ status }: { status: string }) {
  return (
    <span className={`badge badge-${status}`}>
      <span aria-hidden="true">{SIGNS[status] ?? "·"}</span> {status}
    </span>
  );
}
