"""Crews on disk: both forms, agents with files, sub-crews, and paths that must not be followed (FAULTS.md F1, F2)."""

import os
from pathlib import Path

import pytest

from interlock.adapters.crews import crew_files
from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.compose.crews import load_definition
from interlock.crew.unsound import UnreadableCrew, UnsoundCrew
from interlock.limits import CREW_DEPTH_MAX, CREW_FILE_BYTES_MAX

SOLO = 'version: "2.0"\nentry_point: a\nagents: [{id: a}]\n'
LISTED = 'version: "2.0"\nentry_point: a\nagents: [a, b]\nrouting: {defaults: {a: b}}\n'
A, B = "id: a\n", "id: b\nis_terminal: true\n"
TWO = {"crew.yaml": LISTED, "agents/a.yaml": A, "agents/b.yaml": B}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def calling(*paths: str) -> str:
    """A crew of one agent that calls sub-crews at these paths."""
    subs = "".join(f'  sub{n}: {{config_path: "{path}"}}\n' for n, path in enumerate(paths))
    routes = "".join(f'{{signal: "[CALL{n}]", type: sub_crew, target_crew: sub{n}}}, ' for n in range(len(paths)))
    return f'{SOLO}sub_crews:\n{subs}routing: {{signals: {{a: [{routes}{{signal: "[END]"}}]}}}}\n'


def found(loaded: LoadedCrew, folder: Path) -> list[tuple[str, str, int]]:
    """Each problem by code, file and line."""
    return [(p.code, os.path.relpath(p.file, folder), p.line) for p in loaded.problems]


def codes(loaded: LoadedCrew) -> list[str]:
    return [problem.code for problem in loaded.problems]


# The two forms


def test_a_folder_with_agent_files(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path / "exam", TWO))
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.name == "exam"
    assert [agent.is_terminal for agent in loaded.crew.agents] == [False, True]


def test_a_folder_with_yml_files(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yml": LISTED, "agents/a.yml": A, "agents/b.yaml": B})
    loaded = read_crew(tmp_path)
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.agent_ids == ("a", "b")


@pytest.mark.parametrize("name", ["crew.yaml", "crew.yml", "team.yaml", "team.txt"])
def test_a_single_file_of_any_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: SOLO})
    loaded = read_crew(tmp_path / name)
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.agent_ids == ("a",)


def test_agents_in_place_beside_agents_with_files(tmp_path: Path) -> None:
    mixed = LISTED.replace("[a, b]", "[a, {id: b, is_terminal: true}]")
    assert read_crew(write(tmp_path, {"crew.yaml": mixed, "agents/a.yaml": A})).problems == ()


def test_a_path_may_be_text_and_the_file_is_shown_as_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"exam/crew.yaml": SOLO + "nmae: x\n"})
    monkeypatch.chdir(tmp_path)
    assert [p.file for p in read_crew("exam").problems] == ["exam/crew.yaml"]


# Nothing to read


def test_a_folder_without_a_crew_is_unreadable(tmp_path: Path) -> None:
    loaded = read_crew(tmp_path)
    assert (codes(loaded), loaded.readable, loaded.crew) == (["unreadable"], False, None)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/crew.yaml", "a\0b", "a" * 5000])
def test_a_path_that_leads_nowhere_is_unreadable(tmp_path: Path, name: str) -> None:
    loaded = read_crew(f"{tmp_path}/{name}")
    assert (codes(loaded), loaded.readable) == (["unreadable"], False)


@pytest.mark.parametrize("data", [b"a: [", b"\xff\xfe", b"a: \0", b"a: 1\n---\nb: 2\n", b"[" * 100_000])
def test_a_crew_that_is_no_yaml_is_unreadable(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "crew.yaml").write_bytes(data)
    loaded = read_crew(tmp_path)
    assert (codes(loaded), loaded.readable, loaded.crew) == (["bad-yaml"], False, None)


def test_a_crew_of_more_than_256_kb_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_bytes(SOLO.encode() + b"#" * CREW_FILE_BYTES_MAX)
    loaded = read_crew(tmp_path)
    assert (codes(loaded), loaded.readable) == (["unreadable"], False)
    assert "256 kB" in loaded.problems[0].message


def test_a_pipe_instead_of_a_crew_is_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "crew.yaml")
    loaded = read_crew(tmp_path)
    assert (codes(loaded), loaded.readable) == (["unreadable"], False)
    assert "not a regular file" in loaded.problems[0].message


@pytest.mark.parametrize("target", ["/dev/zero", "../elsewhere.yaml"])
def test_a_crew_file_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"elsewhere.yaml": SOLO})
    (tmp_path / "crew").mkdir()
    (tmp_path / "crew" / "crew.yaml").symlink_to(target)
    loaded = read_crew(tmp_path / "crew")
    assert (codes(loaded), loaded.readable) == (["bad-path"], False)


def test_a_dangling_link_and_a_loop_of_links_are_unreadable(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").symlink_to("nothing.yaml")
    assert codes(read_crew(tmp_path)) == ["unreadable"]
    (tmp_path / "nothing.yaml").symlink_to("crew.yaml")
    assert codes(read_crew(tmp_path)) == ["unreadable"]


@pytest.mark.parametrize("text", ["", "# later\n", "---\n"])
def test_an_empty_crew_lacks_its_required_keys(tmp_path: Path, text: str) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": text}))
    assert (codes(loaded), loaded.readable) == (["missing-key"] * 3, True)


@pytest.mark.parametrize("text", ["[a]\n", "hello\n", "1\n"])
def test_a_crew_that_is_no_mapping_is_one_problem(tmp_path: Path, text: str) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": text}))
    assert (codes(loaded), loaded.crew, loaded.is_sound) == (["bad-value"], None, False)


def test_a_crew_that_reads_with_faults_is_readable_and_not_sound(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": SOLO + "name: &n x\ndescription: *n\n"}))
    assert (codes(loaded), loaded.readable, loaded.is_sound) == (["bad-yaml"] * 2, True, False)


def test_load_crew_raises_what_reading_reports(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCrew, match=r"there is no crew\.yaml in this folder"):
        load_definition(tmp_path)
    write(tmp_path, {"crew.yaml": SOLO + "nmae: x\n"})
    with pytest.raises(UnsoundCrew, match="did you mean 'name'") as refused:
        load_definition(tmp_path)
    assert [problem.code for problem in refused.value.problems] == ["no-model", "unknown-key"]
    assert load_definition(write(tmp_path, {"crew.yaml": SOLO})).entry_point == "a"


# Agent files


def test_an_agent_without_a_file_is_reported_where_it_is_listed(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": LISTED, "agents/a.yaml": A}))
    assert [(p.code, p.path, p.line, p.column) for p in loaded.problems] == [("agent-file", "agents[1]", 3, 13)]


def test_a_file_whose_agent_is_not_listed_is_reported_in_that_file(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path, {**TWO, "agents/c.yaml": "id: c\n"}))
    assert found(loaded, tmp_path) == [("agent-file", "agents/c.yaml", 1)]


def test_files_that_are_no_yaml_files_are_left_alone(tmp_path: Path) -> None:
    extra = {"agents/notes.txt": "x", "agents/.a.yaml.swp": "x", "agents/.hidden.yaml": "x", "agents/a.yaml~": "x"}
    assert read_crew(write(tmp_path, {**TWO, **extra})).problems == ()


@pytest.mark.parametrize("second", ["agents/a.yml", "agents/other.yaml"])
def test_two_files_with_one_id_are_a_problem(tmp_path: Path, second: str) -> None:
    loaded = read_crew(write(tmp_path, {**TWO, second: A}))
    assert found(loaded, tmp_path) == [("agent-file", second, 1)]
    assert "agents/a.yaml" in loaded.problems[0].message


def test_the_id_in_a_file_counts_and_not_the_name_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": LISTED, "agents/first.yaml": A, "agents/second.yaml": B})
    assert read_crew(tmp_path).problems == ()


def test_a_file_without_an_id_is_called_after_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": LISTED, "agents/a.yaml": "role: asker\n", "agents/b.yaml": "is_terminal: true\n"})
    loaded = read_crew(tmp_path)
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.agents[0].role == "asker"


def test_an_agent_in_place_with_a_file_of_its_id_has_no_second_definition_in_silence(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": SOLO, "agents/a.yaml": "id: a\nrole: other\n"})
    loaded = read_crew(tmp_path)
    assert found(loaded, tmp_path) == [("agent-file", "agents/a.yaml", 1)]


@pytest.mark.parametrize(
    ("text", "code"), [("id: [", "bad-yaml"), ("\tid: b\n", "bad-yaml"), ("- b\n", "bad-value"), ("b\n", "bad-value")]
)
def test_an_agent_file_that_cannot_be_read_is_one_problem_in_that_file(tmp_path: Path, text: str, code: str) -> None:
    loaded = read_crew(write(tmp_path, {**TWO, "agents/b.yaml": text}))
    assert [(c, file) for c, file, _ in found(loaded, tmp_path)] == [(code, "agents/b.yaml")]
    assert loaded.readable
    assert not loaded.is_sound


def test_an_agent_file_that_is_a_pipe_is_one_problem(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    (tmp_path / "agents" / "b.yaml").unlink()
    os.mkfifo(tmp_path / "agents" / "b.yaml")
    loaded = read_crew(tmp_path)
    assert found(loaded, tmp_path) == [("unreadable", "agents/b.yaml", 1)]
    assert loaded.readable


def test_an_agent_file_that_is_a_link_within_the_folder_is_fine(tmp_path: Path) -> None:
    write(tmp_path, {**TWO, "prompts/b.yaml": B})
    (tmp_path / "agents" / "b.yaml").unlink()
    (tmp_path / "agents" / "b.yaml").symlink_to("../prompts/b.yaml")
    assert read_crew(tmp_path).problems == ()


@pytest.mark.parametrize("target", ["../../secret.yaml", "/dev/zero"])
def test_an_agent_file_that_is_a_link_out_of_the_folder_is_one_problem(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"secret.yaml": B})
    crew = write(tmp_path / "crew", TWO)
    (crew / "agents" / "b.yaml").unlink()
    (crew / "agents" / "b.yaml").symlink_to(target)
    assert found(read_crew(crew), crew) == [("bad-path", "agents/b.yaml", 1)]


def test_an_agents_folder_within_the_crew_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": LISTED, "people/a.yaml": A, "people/b.yaml": B})
    (tmp_path / "agents").symlink_to("people")
    assert read_crew(tmp_path).problems == ()


def test_an_agents_folder_that_is_a_link_out_of_the_crew_is_one_problem(tmp_path: Path) -> None:
    write(tmp_path, {"crew/crew.yaml": LISTED, "people/a.yaml": A, "people/b.yaml": B})
    (tmp_path / "crew" / "agents").symlink_to("../people")
    loaded = read_crew(tmp_path / "crew")
    assert found(loaded, tmp_path / "crew") == [("bad-path", "agents", 1)]
    assert loaded.crew is not None
    assert not loaded.crew.agents[1].is_terminal  # nothing of the file was taken


def test_problems_come_file_by_file_each_from_top_to_bottom(tmp_path: Path) -> None:
    crew = LISTED + "nmae: x\n"
    loaded = read_crew(write(tmp_path, {**TWO, "crew.yaml": crew, "agents/a.yaml": "rool: x\nid: a\ntemprature: 1\n"}))
    assert found(loaded, tmp_path) == [
        ("unknown-key", "crew.yaml", 5),
        ("unknown-key", "agents/a.yaml", 1),
        ("unknown-key", "agents/a.yaml", 3),
    ]


# Scripts


def test_a_script_is_a_file_inside_the_folder(tmp_path: Path) -> None:
    crew = SOLO.replace("{id: a}", '{id: a, model: "scripted:replies.yaml"}')
    assert read_crew(write(tmp_path, {"crew.yaml": crew, "replies.yaml": "replies: {}\n"})).problems == ()


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ('model: "scripted:../replies.yaml"', "agents[0].model"),
        ('model: "scripted:/dev/zero"', "agents[0].model"),
        ('model: "scripted:missing.yaml"', "agents[0].model"),
        ('primary: {model: "../replies.yaml", provider: scripted}', "agents[0].primary.model"),
        ('backup: {model: "scripted:../replies.yaml"}', "agents[0].backup.model"),
    ],
)
def test_a_script_elsewhere_is_a_bad_path(tmp_path: Path, model: str, path: str) -> None:
    crew = SOLO.replace("{id: a}", f"{{id: a, {model}}}")
    write(tmp_path, {"replies.yaml": "replies: {}\n", "crew/crew.yaml": crew})
    loaded = read_crew(tmp_path / "crew")
    assert [(p.code, p.path, p.line) for p in loaded.problems] == [("bad-path", path, 3)]


# Sub-crews


@pytest.mark.parametrize("path", ["sub", "./sub", "sub/", "sub/crew.yaml", "sub/../sub", "deep/er"])
def test_a_sub_crew_inside_the_folder_is_read(tmp_path: Path, path: str) -> None:
    write(tmp_path, {"crew.yaml": calling(path), "sub/crew.yaml": SOLO, "deep/er/crew.yml": SOLO})
    loaded = read_crew(tmp_path)
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.sub_crews["sub0"].crew is not None


def test_problems_of_a_sub_crew_are_reported_in_its_own_files(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("sub"), "sub/crew.yaml": SOLO + "nmae: x\n"})
    loaded = read_crew(tmp_path)
    assert found(loaded, tmp_path) == [("unknown-key", "sub/crew.yaml", 4)]
    assert not loaded.is_sound


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "../../etc",
        "sub/../../outside",
        "/etc",
        "/dev/zero",
        "linked-folder",
        "linked-folder/crew.yaml",
        "linked-file.yaml",
        "zero.yaml",
        "sub\\0",
        "\\0",
        "%2e%2e/outside",
        "..%2foutside",
        "missing",
        "loop",
        "loop/deeper",
        "empty",
        "~/crew",
    ],
)
def test_a_sub_crew_that_may_not_or_cannot_be_opened_is_a_bad_path(tmp_path: Path, path: str) -> None:
    crew = write(tmp_path / "crew", {"crew.yaml": calling(path), "sub/crew.yaml": SOLO})
    write(tmp_path / "outside", {"crew.yaml": SOLO})
    (crew / "empty").mkdir()
    (crew / "linked-folder").symlink_to("../outside")
    (crew / "linked-file.yaml").symlink_to("../outside/crew.yaml")
    (crew / "zero.yaml").symlink_to("/dev/zero")
    (crew / "loop").symlink_to("loop")
    loaded = read_crew(crew)
    assert [(p.code, p.path, p.line) for p in loaded.problems] == [("bad-path", "sub_crews.sub0.config_path", 5)]
    assert loaded.readable
    assert loaded.crew is not None
    assert loaded.crew.sub_crews["sub0"].crew is None


def test_a_name_that_is_too_long_is_a_bad_path(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": calling("a" * 5000)}))
    assert codes(loaded) == ["bad-path"]


def test_a_pipe_as_a_sub_crew_is_a_bad_path(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("pipe.yaml", "sub"), "sub/note.txt": ""})
    os.mkfifo(tmp_path / "pipe.yaml")
    os.mkfifo(tmp_path / "sub" / "crew.yaml")
    loaded = read_crew(tmp_path)
    assert found(loaded, tmp_path) == [("bad-path", "crew.yaml", 5), ("bad-path", "crew.yaml", 6)]
    assert all("not a regular file" in problem.message for problem in loaded.problems)


def test_a_sub_crew_that_is_no_yaml_is_a_problem_in_its_own_file(tmp_path: Path) -> None:
    loaded = read_crew(write(tmp_path, {"crew.yaml": calling("sub"), "sub/crew.yaml": "a: 1\nb: ]\n"}))
    assert found(loaded, tmp_path) == [("bad-yaml", "sub/crew.yaml", 2)]
    assert loaded.readable
    assert not loaded.is_sound


def test_a_sub_crew_whose_file_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    crew = write(tmp_path / "crew", {"crew.yaml": calling("sub")})
    write(tmp_path, {"outside.yaml": SOLO})
    (crew / "sub").mkdir()
    (crew / "sub" / "crew.yaml").symlink_to("../../outside.yaml")
    assert codes(read_crew(crew)) == ["bad-path"]


@pytest.mark.parametrize("target", ["../outside", "../outside/crew.yaml"])
def test_a_sub_crew_swapped_for_a_link_while_it_is_read_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Between the look at the path and the opening of the file, somebody puts a link that leaves in its place."""
    crew = write(tmp_path / "crew", {"crew.yaml": calling("sub"), "sub/crew.yaml": SOLO})
    write(tmp_path / "outside", {"crew.yaml": SOLO + "name: secret\n"})
    find = crew_files.find_crew_file

    def swap_then_find(path: Path) -> Path | None:
        if path.name == "sub" and not path.is_symlink():
            path.rename(crew / "gone")
            path.symlink_to(target)
        return find(path)

    monkeypatch.setattr(crew_files, "find_crew_file", swap_then_find)
    loaded = read_crew(crew)
    assert codes(loaded) == ["bad-path"]
    assert loaded.crew is not None
    assert loaded.crew.sub_crews["sub0"].crew is None


def test_links_that_stay_inside_the_folder_lead_to_sub_crews(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("folder", "file.yaml"), "sub/crew.yaml": SOLO, "other.yaml": SOLO})
    (tmp_path / "folder").symlink_to("sub")
    (tmp_path / "file.yaml").symlink_to("other.yaml")
    assert read_crew(tmp_path).problems == ()


def test_a_sub_crew_may_not_leave_its_own_folder_either(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("one"), "one/crew.yaml": calling("../two"), "two/crew.yaml": SOLO})
    assert found(read_crew(tmp_path), tmp_path) == [("bad-path", "one/crew.yaml", 5)]


def test_a_sub_crew_used_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("sub", "./sub/crew.yaml"), "sub/crew.yaml": SOLO + "nmae: x\n"})
    assert codes(read_crew(tmp_path)) == ["unknown-key"]


# Cycles and depth


def cycle_of(loaded: LoadedCrew) -> str:
    (problem,) = [p for p in loaded.problems if p.code == "crew-cycle"]
    return problem.message.removeprefix("crews contain each other: ")


@pytest.mark.parametrize("path", [".", "./", "crew.yaml", "sub/.."])
def test_a_crew_that_contains_itself_is_a_cycle(tmp_path: Path, path: str) -> None:
    (tmp_path / "sub").mkdir()
    loaded = read_crew(write(tmp_path, {"crew.yaml": calling(path)}))
    assert codes(loaded) == ["crew-cycle"]
    assert cycle_of(loaded) == "crew.yaml -> crew.yaml"


def test_a_crew_that_contains_the_crew_around_it_is_a_cycle_and_leaves_its_folder(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("sub"), "sub/crew.yaml": calling("..")})
    loaded = read_crew(tmp_path)
    assert [(code, file) for code, file, _ in found(loaded, tmp_path)] == [
        ("bad-path", "sub/crew.yaml"),
        ("crew-cycle", "sub/crew.yaml"),
    ]
    assert cycle_of(loaded) == "crew.yaml -> sub/crew.yaml -> crew.yaml"


def test_two_files_that_contain_each_other_are_a_cycle(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("other.yaml"), "other.yaml": calling("crew.yaml")})
    loaded = read_crew(tmp_path)
    assert found(loaded, tmp_path) == [("crew-cycle", "other.yaml", 5)]
    assert cycle_of(loaded) == "crew.yaml -> other.yaml -> crew.yaml"


def test_only_the_crews_in_the_cycle_are_printed(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("a.yaml"), "a.yaml": calling("b.yaml"), "b.yaml": calling("a.yaml")})
    assert cycle_of(read_crew(tmp_path)) == "a.yaml -> b.yaml -> a.yaml"


def test_a_cycle_through_a_link_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"crew.yaml": calling("sub/again")})
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "again").symlink_to("..")
    assert codes(read_crew(tmp_path)) == ["crew-cycle"]


def nested(depth: int) -> dict[str, str]:
    """Crews one in the other, `depth` of them below the outermost."""
    files = {"crew.yaml": calling("1.yaml")}
    files |= {f"{n}.yaml": calling(f"{n + 1}.yaml") for n in range(1, depth)}
    return {**files, f"{depth}.yaml": SOLO}


def test_ten_levels_of_crews_are_fine_and_eleven_are_too_deep(tmp_path: Path) -> None:
    assert CREW_DEPTH_MAX == 10
    assert read_crew(write(tmp_path / "ten", nested(10))).problems == ()
    loaded = read_crew(write(tmp_path / "eleven", nested(11)))
    assert found(loaded, tmp_path / "eleven") == [("too-deep", "10.yaml", 5)]


def test_a_crew_that_was_read_before_is_still_too_deep_on_a_longer_way(tmp_path: Path) -> None:
    files = nested(10)
    write(tmp_path, {**files, "crew.yaml": calling("1.yaml", "detour.yaml"), "detour.yaml": calling("1.yaml")})
    assert found(read_crew(tmp_path), tmp_path) == [("too-deep", "detour.yaml", 5)]


def test_crews_that_use_each_other_many_times_are_read_once_each(tmp_path: Path) -> None:
    """Ten levels of ten calls each are ten files, not ten billion."""
    files = {name: text.replace(text[len(SOLO) :], "") for name, text in nested(10).items()}
    for n in range(10):
        name = f"{n}.yaml" if n else "crew.yaml"
        files[name] = calling(*[f"{n + 1}.yaml"] * 10)
    files["10.yaml"] = SOLO + "nmae: x\n"
    assert codes(read_crew(write(tmp_path, files))) == ["unknown-key"]
