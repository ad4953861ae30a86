"""Colours, fonts and strokes. Every rule is scoped, because the picture may be part of a page with its own rules."""

_FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_SHAPES = {
    "text": f"font:400 11px {_FONT};text-anchor:middle",
    ".name": "font-size:13px;font-weight:600",
    ".name.end": "font-size:11px;letter-spacing:1px",
    ".title": "font-size:13px;font-weight:600;text-anchor:start",
    ".subtitle.start": "text-anchor:start",
    ".title,.subtitle.start": "paint-order:stroke;stroke-width:5px;stroke-linejoin:round",
    ".mark": f"font:500 11px {_MONO}",
    ".node": "stroke-width:1.3",
    ".node.entry": "stroke-width:2.6",
    ".node.unknown": "stroke-dasharray:4 3",
    ".line": "fill:none;stroke-width:1.5",
    ".line.member,.line.default,.line.return,.line.error": "stroke-dasharray:5 4",
    ".line.handoff,.line.broadcast,.line.external": "stroke-dasharray:2 3",
    ".line.parallel,.line.sub_crew": "stroke-width:2.2",
}


def _rules(rules: dict[str, str]) -> str:
    return "".join(
        f"{','.join(f'.interlock {each}' for each in selector.split(','))}{{{declarations}}}\n"
        for selector, declarations in rules.items()
    )


def _colors(paper: str, ink: str, soft: str, edge: str, box: str) -> dict[str, str]:
    return {
        ".paper,.halo": f"fill:{paper}",
        ".name,.title": f"fill:{ink}",
        ".subtitle": f"fill:{soft}",
        ".node": f"fill:{box};stroke:{edge}",
        ".node.end": f"fill:{ink};stroke:{ink}",
        ".name.end": f"fill:{paper}",
        ".line": f"stroke:{edge}",
        ".tip,.mark": f"fill:{edge}",
    }


def _accents(**colors: str) -> dict[str, str]:
    """The colour of arrows by what they do, and of the boxes they lead to."""
    strokes = {f".line.{kind}": f"stroke:{color}" for kind, color in colors.items()}
    fills = {f".tip.{kind},.mark.{kind}": f"fill:{color}" for kind, color in colors.items()}
    return strokes | fills


_LIGHT = _rules(
    _colors("#ffffff", "#0f172a", "#64748b", "#475569", "#f8fafc")
    | {
        ".node.entry": "fill:#eef2ff;stroke:#4f46e5",
        ".node.group": "fill:#f5f3ff;stroke:#8b5cf6",
        ".node.sub_crew": "fill:#f0fdfa;stroke:#0d9488",
        ".title.group,.subtitle.group": "stroke:#f5f3ff",
        ".title.sub_crew,.subtitle.sub_crew": "stroke:#f0fdfa",
        ".inside .halo": "fill:#f0fdfa",
        ".inside .node.end": "fill:#0f766e;stroke:#0f766e",
        ".node.waits": "fill:#fffbeb",
        ".node.unknown": "fill:#fff1f2;stroke:#e11d48",
    }
    | _accents(
        terminate="#be123c",
        error="#be123c",
        pause="#b45309",
        parallel="#7c3aed",
        member="#a78bfa",
        next="#7c3aed",
        sub_crew="#0f766e",
        delegate="#1d4ed8",
        broadcast="#0369a1",
        external="#0369a1",
    )
)
_DARK = _rules(
    _colors("#0f172a", "#f1f5f9", "#94a3b8", "#a3b1c6", "#1e293b")
    | {
        ".node.entry": "fill:#272a5c;stroke:#818cf8",
        ".node.group": "fill:#251f47;stroke:#8b5cf6",
        ".node.sub_crew": "fill:#10312f;stroke:#2dd4bf",
        ".title.group,.subtitle.group": "stroke:#251f47",
        ".title.sub_crew,.subtitle.sub_crew": "stroke:#10312f",
        ".inside .halo": "fill:#10312f",
        ".inside .node.end": "fill:#2dd4bf;stroke:#2dd4bf",
        ".node.waits": "fill:#3a2d14",
        ".node.unknown": "fill:#3f1220;stroke:#fb7185",
    }
    | _accents(
        terminate="#fb7185",
        error="#fb7185",
        pause="#fbbf24",
        parallel="#a78bfa",
        member="#8b5cf6",
        next="#a78bfa",
        sub_crew="#2dd4bf",
        delegate="#60a5fa",
        broadcast="#38bdf8",
        external="#38bdf8",
    )
)
STYLE = f"{_rules(_SHAPES)}{_LIGHT}@media (prefers-color-scheme:dark){{\n{_DARK}}}\n"
