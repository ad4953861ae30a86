"""Scripts on disk: the replies of agents instead of model calls."""

from pathlib import Path

from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.adapters.models.scripted_model import ScriptedAnswer, answers_from
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.errors import UsageError


def read_script(path: Path) -> dict[str, list[ScriptedAnswer | str]]:
    """The answers in the file, by agent."""
    return answers_from(read_plain_yaml(path), str(path))


def read_plain_yaml(path: Path) -> object:
    """A YAML file as plain values; raises `UsageError` with the fault and its place."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; check the path of the script") from error
    problems = Problems()
    node = read_yaml(data, str(path), problems)
    for problem in problems.found:
        raise UsageError(f"{problem.file}:{problem.line}: {problem.message}; {problem.fix}")
    assert node is not None, "a document that cannot be read has a problem"
    return _as_plain(node)


def _as_plain(node: Node) -> object:
    if isinstance(node, Mapping):
        return {name: _as_plain(inner) for name, _, inner in node}
    if isinstance(node, Sequence):
        return [_as_plain(item) for item in node.items]
    assert isinstance(node, Scalar), "a node is one of three"
    return node.value
