"""A crew with two levels of crews below it, for tests of whole trees of runs."""

from pathlib import Path

CREWS = {
    "": """\
version: "2.0"
name: master
entry_point: a
agents: [{id: a}]
sub_crews: {alpha: {config_path: alpha}, beta: {config_path: beta}}
routing:
  signals:
    a:
      - {signal: "[RESEARCH]", type: sub_crew, target_crew: alpha}
      - {signal: "[BOTH]", type: sub_crew, target_crew: alpha}
      - signal: "[WRITE]"
        type: sub_crew
        target_crew: beta
        input_template: "{{.PreviousResult}} for {{.OriginalInput}}"
      - {signal: "[END]"}
""",
    "alpha": """\
version: "2.0"
name: alpha-team
entry_point: x
agents: [{id: x}]
sub_crews: {inner: {config_path: inner}}
routing: {signals: {x: [{signal: "[DEEP]", type: sub_crew, target_crew: inner}, {signal: "[END]"}]}}
""",
    "alpha/inner": """\
version: "2.0"
name: inner-team
entry_point: y
agents: [{id: y}]
routing: {signals: {y: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
""",
    "beta": """\
version: "2.0"
name: beta-team
entry_point: z
agents: [{id: z}]
routing: {signals: {z: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
""",
}

SCRIPT = """\
replies:
  a: ["Go.\\n[RESEARCH]", {text: "Now.\\n[WRITE]", usage: {input_tokens: 10, cost: 0.5}}, "All done.\\n[END]"]
  alpha/x: ["Deeper.\\n[DEEP]", "Found it.\\n[END]"]
  alpha/inner/y: ["Which one?\\n[WAIT]", {text: "That one.\\n[END]", usage: {input_tokens: 3, output_tokens: 4}}]
  beta/z: ["Written.\\n[END]"]
"""

# Both crews at once, each asks, and only then does the caller go on.
BOTH = """\
replies:
  a: ["Go.\\n[BOTH] [WRITE]", "All done.\\n[END]"]
  alpha/x: ["Deeper.\\n[DEEP]", "Found it.\\n[END]"]
  alpha/inner/y: ["Which one?\\n[WAIT]", "That one.\\n[END]"]
  beta/z: ["For whom?\\n[WAIT]", "Written.\\n[END]"]
"""


def nested_crew(folder: Path) -> Path:
    """Writes the crews into a folder, and a script that pauses in the innermost."""
    for name, text in CREWS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "crew.yaml").write_text(text, "utf-8")
    (folder / "script.yaml").write_text(SCRIPT, "utf-8")
    (folder / "both.yaml").write_text(BOTH, "utf-8")
    return folder
