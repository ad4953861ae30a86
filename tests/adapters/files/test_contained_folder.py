"""A folder that nothing leaves (FAULTS.md F2): names that lead out, links that lead out, things that are no files."""

import os
from pathlib import Path

import pytest

from interlock.adapters.files.contained_folder import ContainedFolder, LeavesFolder, UnreadablePath
from interlock.limits import CREW_FILE_BYTES_MAX


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A folder with one file, and a secret beside it."""
    (tmp_path / "secret.yaml").write_text("secret", encoding="utf-8")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a.yaml").write_text("secret", encoding="utf-8")
    root = tmp_path / "crew"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.yaml").write_text("a: 1", encoding="utf-8")
    return root


def test_a_file_inside_is_read(inside: Path) -> None:
    assert ContainedFolder(inside).read("sub/a.yaml") == b"a: 1"


@pytest.mark.parametrize("name", ["./sub/a.yaml", "sub/../sub/a.yaml", "sub//a.yaml", "../crew/sub/a.yaml"])
def test_a_name_that_comes_back_inside_is_fine(inside: Path, name: str) -> None:
    assert ContainedFolder(inside).read(name) == b"a: 1"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../secret.yaml",
        "sub/../../secret.yaml",
        "../crew-2/a.yaml",
        "./../secrets/a.yaml",
        "missing/../../secret.yaml",
    ],
)
def test_a_name_that_leaves_is_refused(inside: Path, name: str) -> None:
    with pytest.raises(LeavesFolder, match="leaves the crew's folder"):
        ContainedFolder(inside).read(name)


def test_a_sibling_whose_name_begins_the_same_is_outside(tmp_path: Path) -> None:
    for name in ("crew", "crew-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text("a: 1", encoding="utf-8")
    with pytest.raises(LeavesFolder):
        ContainedFolder(tmp_path / "crew").read("../crew-2/a.yaml")


def test_an_absolute_name_is_refused_even_if_it_lies_inside(inside: Path) -> None:
    with pytest.raises(LeavesFolder, match="absolute"):
        ContainedFolder(inside).read(str(inside / "sub" / "a.yaml"))
    with pytest.raises(LeavesFolder, match="absolute"):
        ContainedFolder(inside).read("/dev/zero")


def test_a_nul_in_a_name_is_refused(inside: Path) -> None:
    with pytest.raises(LeavesFolder, match="NUL"):
        ContainedFolder(inside).read("sub/a.yaml\0.txt")


@pytest.mark.parametrize("name", ["%2e%2e/secret.yaml", "sub/%2e%2e%2f%2e%2e/secret.yaml", "..%2fsecret.yaml"])
def test_percent_signs_are_letters(inside: Path, name: str) -> None:
    """Nothing decodes a name; such a file is simply not there."""
    with pytest.raises(UnreadablePath, match="No such file") as refusal:
        ContainedFolder(inside).read(name)
    assert not isinstance(refusal.value, LeavesFolder)


@pytest.mark.parametrize("name", ["~/secret.yaml", "$HOME/a.yaml", "..\\secret.yaml", "SUB/A.YAML"])
def test_names_are_taken_literally(inside: Path, name: str) -> None:
    with pytest.raises(UnreadablePath, match="No such file"):
        ContainedFolder(inside).read(name)


def test_a_link_that_stays_inside_is_followed(inside: Path) -> None:
    (inside / "link.yaml").symlink_to("sub/a.yaml")
    (inside / "folder").symlink_to(inside / "sub")
    assert ContainedFolder(inside).read("link.yaml") == b"a: 1"
    assert ContainedFolder(inside).read("folder/a.yaml") == b"a: 1"


def test_a_folder_that_is_itself_a_link_is_read(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(inside)
    assert ContainedFolder(tmp_path / "alias").read("sub/a.yaml") == b"a: 1"


@pytest.mark.parametrize("target", ["../secret.yaml", "/etc/passwd", "/dev/zero", "sub/../../secret.yaml"])
def test_a_linked_file_that_leaves_is_refused(inside: Path, target: str) -> None:
    (inside / "link.yaml").symlink_to(target)
    with pytest.raises(LeavesFolder):
        ContainedFolder(inside).read("link.yaml")


def test_a_linked_folder_that_leaves_is_refused(inside: Path) -> None:
    (inside / "out").symlink_to("../secrets")
    with pytest.raises(LeavesFolder):
        ContainedFolder(inside).read("out/a.yaml")
    with pytest.raises(LeavesFolder):
        ContainedFolder(inside).yaml_files("out")


def test_a_link_to_a_link_that_leaves_is_refused(inside: Path) -> None:
    (inside / "one").symlink_to("two")
    (inside / "two").symlink_to("../secret.yaml")
    with pytest.raises(LeavesFolder):
        ContainedFolder(inside).read("one")


def test_links_in_a_loop_are_refused(inside: Path) -> None:
    (inside / "one").symlink_to("two")
    (inside / "two").symlink_to("one")
    (inside / "self").symlink_to("self/deeper")
    for name in ("one", "two", "self", "one/a.yaml"):
        with pytest.raises(UnreadablePath):
            ContainedFolder(inside).read(name)


def test_a_dangling_link_cannot_be_read(inside: Path) -> None:
    (inside / "link.yaml").symlink_to("nothing")
    with pytest.raises(UnreadablePath, match="No such file"):
        ContainedFolder(inside).read("link.yaml")


def test_a_pipe_is_refused_and_nobody_waits_for_a_writer(inside: Path) -> None:
    os.mkfifo(inside / "pipe.yaml")
    with pytest.raises(UnreadablePath, match="not a regular file"):
        ContainedFolder(inside).read("pipe.yaml")


def test_a_folder_is_no_file(inside: Path) -> None:
    for name in ("sub", ".", ""):
        with pytest.raises(UnreadablePath, match="not a regular file"):
            ContainedFolder(inside).read(name)


def test_a_missing_file_cannot_be_read(inside: Path) -> None:
    with pytest.raises(UnreadablePath, match="No such file"):
        ContainedFolder(inside).read("sub/b.yaml")


def test_a_missing_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadablePath, match="No such file"):
        ContainedFolder(tmp_path / "nowhere").read("crew.yaml")


def test_a_name_that_is_too_long_cannot_be_read(inside: Path) -> None:
    with pytest.raises(UnreadablePath):
        ContainedFolder(inside).read("a" * 5000)


def test_a_file_below_a_file_cannot_be_read(inside: Path) -> None:
    with pytest.raises(UnreadablePath, match="cannot be read"):
        ContainedFolder(inside).read("sub/a.yaml/b.yaml")


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_refused(inside: Path) -> None:
    assert CREW_FILE_BYTES_MAX == 256 * 1024
    file = inside / "large.yaml"
    file.write_bytes(b"#" * CREW_FILE_BYTES_MAX)
    assert len(ContainedFolder(inside).read("large.yaml")) == CREW_FILE_BYTES_MAX
    file.write_bytes(b"#" * (CREW_FILE_BYTES_MAX + 1))
    with pytest.raises(UnreadablePath, match="larger than 256 kB"):
        ContainedFolder(inside).read("large.yaml")


def test_a_huge_file_is_refused_without_reading_it_all(inside: Path) -> None:
    with (inside / "sparse.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnreadablePath, match="larger than 256 kB"):
        ContainedFolder(inside).read("sparse.yaml")


def test_a_file_swapped_for_a_link_after_it_was_looked_up_is_not_followed(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking a name up and opening it, a part of it is replaced with a link that leaves."""
    folder = ContainedFolder(inside)
    looked_up = folder.resolve("sub/a.yaml")

    def resolve_then_swap(self: ContainedFolder, name: str) -> Path:
        (inside / "sub" / "a.yaml").unlink(missing_ok=True)
        (inside / "sub" / "a.yaml").symlink_to("../../secret.yaml")
        return looked_up

    monkeypatch.setattr(ContainedFolder, "resolve", resolve_then_swap)
    with pytest.raises(UnreadablePath, match="cannot be read"):
        folder.read("sub/a.yaml")


def test_a_folder_swapped_for_a_link_after_it_was_looked_up_is_not_followed(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ContainedFolder(inside)
    looked_up = folder.resolve("sub/a.yaml")

    def resolve_then_swap(self: ContainedFolder, name: str) -> Path:
        (inside / "sub").rename(inside / "gone")
        (inside / "sub").symlink_to("../secrets")
        return looked_up

    monkeypatch.setattr(ContainedFolder, "resolve", resolve_then_swap)
    with pytest.raises(UnreadablePath, match="cannot be read"):
        folder.read("sub/a.yaml")


def test_a_folder_within_another_reads_its_own_files_only(inside: Path) -> None:
    (inside / "beside.yaml").write_text("b: 1", encoding="utf-8")
    folder = ContainedFolder(inside / "sub", within=ContainedFolder(inside))
    assert folder.read("a.yaml") == b"a: 1"
    with pytest.raises(LeavesFolder):
        folder.read("../beside.yaml")


@pytest.mark.parametrize("name", ["..", "../secrets", "out"])
def test_a_folder_within_another_is_inside_it(inside: Path, name: str) -> None:
    (inside / "out").symlink_to("../secrets")
    with pytest.raises(LeavesFolder):
        ContainedFolder(inside / name, within=ContainedFolder(inside))


@pytest.mark.parametrize("target", ["../secrets", "gone"])
def test_a_folder_within_another_that_was_swapped_for_a_link_is_not_followed(inside: Path, target: str) -> None:
    folder = ContainedFolder(inside / "sub", within=ContainedFolder(inside))
    (inside / "sub").rename(inside / "gone")
    (inside / "sub").symlink_to(target)
    with pytest.raises(UnreadablePath):
        folder.read("a.yaml")


def test_no_descriptor_stays_open(inside: Path) -> None:
    (inside / "dangling").symlink_to("nothing")
    before = _open_descriptors()
    for name in ("sub/a.yaml", "sub", "sub/b.yaml", "dangling", "sub/a.yaml/b", "../secret.yaml"):
        try:
            ContainedFolder(inside).read(name)
        except UnreadablePath:
            continue
    assert _open_descriptors() == before


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_folder_that_cannot_be_listed_is_refused(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UnreadablePath, match="Permission denied"):
        ContainedFolder(inside).yaml_files("sub")


def test_yaml_files_are_listed_sorted_and_hidden_ones_are_not(inside: Path) -> None:
    for name in ("b.yml", "c.txt", ".d.yaml", "e.yaml~", "D.yaml"):
        (inside / "sub" / name).write_text("", encoding="utf-8")
    assert ContainedFolder(inside).yaml_files("sub") == ["sub/D.yaml", "sub/a.yaml", "sub/b.yml"]


def test_a_folder_that_is_not_there_has_no_files(inside: Path) -> None:
    assert ContainedFolder(inside).yaml_files("agents") == []
    assert ContainedFolder(inside).yaml_files("sub/a.yaml") == []
