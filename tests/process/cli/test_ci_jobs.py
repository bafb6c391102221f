"""The jobs of docs/ci.md on real runs: a leak, its fix, a baseline, a comment."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from tests.support.composite_action import ActionRun, run_action
from tests.support.places import PROGRAMS, ROOT

ACTION = ROOT / "action" / "action.yml"
BINARIES = Path(sys.executable).parent
PROGRAM = "journal_training.py"
TRAIN = f"python src/{PROGRAM}"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout: the program in a folder of its own."""
    (tmp_path / "src").mkdir()
    shutil.copy(PROGRAMS / PROGRAM, tmp_path / "src")
    return tmp_path


def on_github(workspace: Path, command: str, **inputs: str) -> ActionRun:
    """Run the action; ramledger is installed already, so that pip has nothing to do."""
    summary = workspace / "summary.md"
    summary.write_text("")
    environment = {
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(workspace),
    }
    given = {"command": command, "install": "pip", **inputs}
    return run_action(ACTION, workspace, given, environment)


def test_a_change_that_leaks_fails_and_one_that_does_not_passes(workspace: Path) -> None:
    first = on_github(workspace, f"{TRAIN} --fixed", **{"fail-on": "worse"})
    assert first.failed == []
    assert "No baseline yet" in first.log
    assert first.outputs["judge"]["verdict"] == "healthy"
    assert first.outputs["judge"]["change"] == ""

    # the recording of the main branch is there now, as the cache would bring it
    worse = on_github(workspace, TRAIN, **{"fail-on": "worse"})
    assert worse.failed == ["Fail where that was asked for"]
    outputs = worse.outputs["judge"]
    assert (outputs["verdict"], outputs["change"]) == ("leak", "worse")
    line = next(n for n, text in enumerate(source().splitlines(), 1) if "pages.append" in text)
    assert f"::error file=src/{PROGRAM},line={line},title=memory%3A leak::" in worse.log
    comment = Path(outputs["comment-file"]).read_text()
    assert comment.startswith("<!-- ramledger -->\n\n### 🔴 Memory: worse\n")
    assert (workspace / "summary.md").read_text() == comment
    assert Path(outputs["recording"]).exists()

    fixed = on_github(workspace, f"{TRAIN} --fixed", **{"fail-on": "leak"})
    assert fixed.failed == []
    assert fixed.outputs["judge"]["change"] == "fixed"


def source() -> str:
    return (PROGRAMS / PROGRAM).read_text()


def test_a_command_that_fails_is_judged_all_the_same(workspace: Path) -> None:
    run = on_github(workspace, f"{TRAIN} --fails", name="odd 'name'")
    assert run.failed == ["Run the command"]
    assert run.outputs["judge"]["verdict"] == "leak"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [({"baseline": "none.ledger.jsonl"}, "does not exist"), ({"fail-on": "sometimes"}, "fail-on")],
)
def test_inputs_that_are_wrong_are_errors(
    workspace: Path, inputs: dict[str, str], said: str
) -> None:
    run = on_github(workspace, "true", **inputs)
    assert run.failed == ["Judge it"]
    assert said in run.log


def test_the_action_is_what_github_expects() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    steps = action["runs"]["steps"]
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    uses = {step["uses"] for step in steps if "uses" in step}
    assert uses == {"actions/cache/restore@v4", "actions/cache/save@v4"}
    ids = {step.get("id") for step in steps}
    for output in action["outputs"].values():
        found = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}", output["value"])
        assert found is not None and found[1] in ids
        assert f'"{found[2]}=' in (ROOT / "action" / "judge.sh").read_text()
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for name in (*action["inputs"], *action["outputs"]):
        assert f"| `{name}` |" in page


# ---- the pages' own YAML -----------------------------------------------------------------------


def yaml_blocks() -> list[Any]:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    return [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)]


def test_the_workflow_in_the_docs_uses_inputs_that_there_are() -> None:
    workflow, _ = yaml_blocks()
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    (step,) = [
        step
        for step in workflow["jobs"]["memory"]["steps"]
        if step.get("uses", "").startswith("OWNER/ramledger/action@")
    ]
    assert step["with"].keys() <= action["inputs"].keys()


class GitLab(BaseHTTPRequestHandler):
    """Hands out the artifact of the main branch, and takes comments."""

    server: "GitLabServer"

    def do_GET(self) -> None:
        is_known = self.path == self.server.artifact_path and self.server.artifact is not None
        given = (self.headers["JOB-TOKEN"], self.headers["PRIVATE-TOKEN"])
        is_allowed = given in (("job-token", None), (None, "mine"))
        self.send_response(200 if is_known and is_allowed else 404)
        self.end_headers()
        if is_known and self.server.artifact is not None:
            self.wfile.write(self.server.artifact)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.comments.append((self.path, parse_qs(body)["body"][0]))
        self.send_response(201 if self.headers["PRIVATE-TOKEN"] == "mine" else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class GitLabServer(ThreadingHTTPServer):
    artifact: bytes | None = None
    artifact_path = "/projects/7/jobs/artifacts/main/raw/memory.ledger.jsonl?job=memory"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), GitLab)
        self.comments: list[tuple[str, str]] = []


@contextmanager
def gitlab() -> Iterator[GitLabServer]:
    with GitLabServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def on_gitlab(
    server: GitLabServer, workspace: Path, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """The script of the job, but for pip and for which training it is."""
    _, pipeline = yaml_blocks()
    _install, record, *rest = pipeline["memory"]["script"]
    assert "pip install" in _install and "python train.py --iterations 20" in record
    lines = [record.replace("python train.py --iterations 20", variables.pop("command")), *rest]
    environment = {
        **os.environ, **pipeline["memory"]["variables"], **variables,
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}", "CI_JOB_NAME": "memory",
        "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}", "CI_PROJECT_ID": "7",
        "CI_DEFAULT_BRANCH": "main", "CI_JOB_TOKEN": "job-token", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=workspace, env=environment, capture_output=True, text=True, timeout=250,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("curl") is None, reason="the job needs curl")
def test_the_gitlab_job_compares_with_the_main_branch_and_comments(workspace: Path) -> None:
    with gitlab() as server:
        main = on_gitlab(server, workspace, command=f"{TRAIN} --fixed")
        assert main.returncode == 0, main.stderr
        assert "### 🟢 Memory: healthy" in main.stdout
        assert server.comments == []
        server.artifact = (workspace / "memory.ledger.jsonl").read_bytes()
        change = on_gitlab(
            server, workspace, command=TRAIN, CI_MERGE_REQUEST_IID="12",
            MEMORY_TOKEN="mine",
        )  # fmt: skip
    assert change.returncode == 3, change.stderr
    ((path, comment),) = server.comments
    assert path == "/projects/7/merge_requests/12/notes"
    assert "### 🔴 Memory: worse" in comment
    assert comment.strip() == (workspace / "memory.md").read_text().strip()
