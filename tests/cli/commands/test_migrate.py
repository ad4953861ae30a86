"""`interlock migrate`: what it shows, what it writes, what it refuses, and its exit codes."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

OLD = '# who asks\nversion: "1.0"\nentry_point: a\nagents: [{id: a}]  # one\nsettings:\n  max_handoffs: 3\n'
NEW = OLD.replace("1.0", "2.0").replace(
    "settings:\n", "settings:\n  signal_registration: inferred\n  signal_position: anywhere\n"
)


def run(*words: str) -> Result:
    result = CliRunner().invoke(interlock, ["migrate", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def crew(folder: Path, text: str | bytes = OLD) -> str:
    (folder / "crew.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(folder)


def held(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def patched(before: str, diff: str) -> str:
    """What any program that takes such diffs makes of one."""
    old, new = re.split(r"(?<=\n)", before), ""
    taken = 0
    for hunk in re.split(r"^@@ -", diff, flags=re.MULTILINE)[1:]:
        head, _, body = hunk.partition("\n")
        start = int(re.split(r"[, ]", head)[0]) - 1
        new += "".join(old[taken:start])
        taken = start
        for line in re.split(r"(?<=\n)(?=[-+ ])", body.replace("\n\\ No newline at end of file\n", "")):
            new += line[1:] if line[:1] in "+ " else ""
            taken += line[:1] in "- " and line != ""
    return new + "".join(old[taken:])


def test_it_shows_the_changes_and_writes_nothing(tmp_path: Path) -> None:
    result = run(crew(tmp_path))
    assert (result.exit_code, result.stderr) == (0, "nothing was written; use --write to write it\n")
    assert result.stdout.splitlines()[:2] == [f"--- {tmp_path}/crew.yaml", f"+++ {tmp_path}/crew.yaml"]
    assert [line for line in result.stdout.splitlines()[2:] if line[0] in "+-"] == [
        '-version: "1.0"',
        '+version: "2.0"',
        "+  signal_registration: inferred",
        "+  signal_position: anywhere",
    ]
    assert held(tmp_path) == {"crew.yaml": OLD.encode()}


@pytest.mark.parametrize("text", [OLD, OLD.replace("\n", "\r\n"), OLD.rstrip(), OLD.split("settings")[0].rstrip()])
def test_what_it_shows_is_what_it_writes(tmp_path: Path, text: str) -> None:
    diff = run(crew(tmp_path, text)).stdout_bytes.decode()
    assert run(str(tmp_path), "--write").exit_code == 0
    written = (tmp_path / "crew.yaml").read_bytes().decode()
    assert patched(text, diff) == written
    assert written.replace("\r\n", "\n").startswith('# who asks\nversion: "2.0"\n')


def test_writing_changes_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    result = run(crew(tmp_path), "--write")
    assert (result.exit_code, result.stdout) == (0, f"wrote {tmp_path}/crew.yaml\n")
    assert held(tmp_path) == {"crew.yaml": NEW.encode()}


def test_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    run(crew(tmp_path), "--write")
    for words in ([], ["--write"]):
        result = run(str(tmp_path), *words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"{tmp_path} is already of version 2.0\n"
    assert held(tmp_path) == {"crew.yaml": NEW.encode()}


def test_crews_inside_are_written_with_the_crew(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    crew(tmp_path / "sub")
    result = run(crew(tmp_path, OLD + "sub_crews: {s: {config_path: sub}}\n"), "--write")
    assert result.stdout == f"wrote {tmp_path}/crew.yaml\nwrote {tmp_path}/sub/crew.yaml\n"
    assert held(tmp_path)["sub/crew.yaml"] == NEW.encode()


def test_a_crew_with_errors_is_not_changed(tmp_path: Path) -> None:
    text = OLD.replace("entry_point: a", "entry_point: b")
    result = run(crew(tmp_path, text), "--write")
    assert result.exit_code == 1
    assert "error: unknown-agent" in result.stderr
    assert result.stderr.endswith(f"{tmp_path.name} has errors; fix them first, nothing was changed\n")
    assert held(tmp_path) == {"crew.yaml": text.encode()}


@pytest.mark.parametrize("extra", ["name: &n x\n", "name: !t x\n", "name: *n\n"])
def test_anchors_tags_and_aliases_are_not_changed(tmp_path: Path, extra: str) -> None:
    result = run(crew(tmp_path, OLD + extra), "--write")
    assert (result.exit_code, held(tmp_path)) in [(n, {"crew.yaml": (OLD + extra).encode()}) for n in (1, 2)]
    assert "bad-yaml" in result.stderr


def test_what_2_0_would_refuse_is_not_changed_unless_the_host_has_it(tmp_path: Path) -> None:
    text = OLD.replace("{id: a}", "{id: a, tools: [find_order]}")
    result = run(crew(tmp_path, text), "--write")
    assert result.exit_code == 1
    assert "error: unknown-tool" in result.stderr
    assert result.stderr.endswith(f"2.0 would refuse {tmp_path}; fix this first, nothing was changed\n")
    assert held(tmp_path) == {"crew.yaml": text.encode()}
    assert run(str(tmp_path), "--write", "--config", "examples/desk/interlock.toml").exit_code == 0


def test_what_cannot_be_edited_is_refused_with_what_to_write(tmp_path: Path) -> None:
    text = '? version\n: "1.0"\n? settings\n: max_handoffs: 3\n? entry_point\n: a\n? agents\n: [{id: a}]\n'
    result = run(crew(tmp_path, text), "--write")
    assert result.exit_code == 2
    assert f"interlock: {tmp_path}/crew.yaml is written in a way that cannot be edited safely" in result.stderr
    assert "'signal_registration: inferred' and 'signal_position: anywhere'" in result.stderr
    assert held(tmp_path) == {"crew.yaml": text.encode()}


@pytest.mark.parametrize("text", ["version: [", b"\xff\xfe", "---\na: 1\n---\nb: 1\n"])
def test_what_cannot_be_read_exits_2(tmp_path: Path, text: str | bytes) -> None:
    assert run(crew(tmp_path, text), "--write").exit_code == 2
    assert run(str(tmp_path / "nowhere")).exit_code == 2
