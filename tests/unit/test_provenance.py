"""What made a file."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from dragoman import provenance as module
from dragoman.provenance import commit, processor, provenance, version_of


@pytest.fixture(autouse=True)
def _fresh():
    cached = (version_of, processor, commit)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def test_versions_are_those_installed():
    facts = provenance()
    for library in ("torch", "sentencepiece", "sacrebleu", "numpy"):
        assert facts[library] == metadata.version(library)
    assert facts["python"] == platform.python_version()
    assert facts["system"] == platform.system()
    assert all(isinstance(value, str) and value for value in facts.values())


def test_a_package_that_is_not_installed_is_absent():
    assert version_of("no-such-package-anywhere") == "absent"


def test_nothing_in_it_says_who_or_where(monkeypatch):
    """No user, no host, no folder: it is in every model that is handed on."""
    monkeypatch.setenv("USER", "canary-user")
    text = " ".join(f"{key} {value}" for key, value in provenance().items())
    for private in (platform.node(), str(Path.home()), str(Path.cwd()), "canary-user"):
        assert private not in text


def test_the_processor_has_a_name_without_proc(monkeypatch):
    def missing(_path: Path, **_options: str) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert processor() == (platform.processor() or platform.machine())


def test_the_processor_from_proc(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_a, **_o: "flags\t: a\nmodel name\t: Some CPU: 3 GHz\n")
    assert processor() == "Some CPU: 3 GHz"


def test_the_commit_of_a_checkout(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        options = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *options, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        git("init", "-q")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("git is not installed")
    source = tmp_path / "src" / "dragoman" / "provenance.py"
    source.parent.mkdir(parents=True)
    source.write_text("1")
    git("add", "-A")
    git("commit", "-qm", "one")
    monkeypatch.setattr(module, "__file__", str(source))
    assert commit() == git("rev-parse", "HEAD")[:12]
    assert provenance()["commit"] == commit()
    commit.cache_clear()
    source.write_text("2")
    assert commit() == git("rev-parse", "HEAD")[:12] + "+"


def test_without_a_checkout_or_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "a" / "b" / "provenance.py"))
    assert commit() is None
    assert "commit" not in provenance()
    commit.cache_clear()
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None
