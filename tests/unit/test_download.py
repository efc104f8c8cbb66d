"""Fetching files from a server on this machine: good ones, and every way in which they can be bad."""

from __future__ import annotations

import hashlib
import http.server
import threading
from dataclasses import dataclass, field

import pytest

from dragoman import download
from dragoman.download import MULTI30K, DataSet, RemoteFile, fetch_files
from dragoman.errors import DataError

GOOD = b"good day\n" * 1000


@dataclass
class Server:
    """What it answers by path, and what it was asked."""

    address: str = ""
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    mode: str = "whole"

    def data_set(self, *names, content=GOOD, notice="a data set of our own"):
        sha256 = hashlib.sha256(content).hexdigest()
        files = tuple(RemoteFile(name, sha256, len(content)) for name in names)
        return DataSet(self.address, notice, files)


@pytest.fixture
def server(monkeypatch):
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            state.asked.append(self.path)
            answer(self, state)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        state.address = f"http://127.0.0.1:{listening.server_port}/data/"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield state
        listening.shutdown()
        thread.join()


def answer(handler, state):
    content = state.answers.get(handler.path)
    if content is None:
        handler.send_error(404)
        return
    handler.close_connection = True
    if state.mode == "garbage":
        handler.wfile.write(b"this is no HTTP\r\n\r\n")
        return
    if state.mode == "nothing":
        return
    handler.send_response(200)
    if state.mode == "chunks cut":
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n" % len(content) + content[: len(content) // 2])
        return
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2] if state.mode == "cut" else content)


def test_good_files_are_fetched_once(server, tmp_path):
    server.answers = {"/data/a.gz": GOOD, "/data/b.gz": GOOD}
    said = []
    place = tmp_path / "new" / "place"
    paths = fetch_files(server.data_set("a.gz", "b.gz"), place, say=said.append)
    assert paths == [place / "a.gz", place / "b.gz"]
    assert [path.read_bytes() for path in paths] == [GOOD, GOOD]
    assert sorted(path.name for path in place.iterdir()) == ["a.gz", "b.gz"]
    assert said == ["fetching a.gz", "fetching b.gz"]
    assert fetch_files(server.data_set("a.gz", "b.gz"), place, say=said.append) == paths
    assert server.asked == ["/data/a.gz", "/data/b.gz"]
    assert len(said) == 2


def test_a_file_that_is_another_one_is_fetched_anew(server, tmp_path):
    server.answers = {"/data/a.gz": GOOD}
    (tmp_path / "a.gz").write_bytes(b"something else")
    fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None)
    assert (tmp_path / "a.gz").read_bytes() == GOOD


def test_another_address_serves_the_same_files(server, tmp_path):
    server.answers = {"/mirror/a.gz": GOOD}
    address = server.address.replace("/data/", "/mirror/")
    fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None, address=address)
    assert server.asked == ["/mirror/a.gz"]


def test_what_was_fetched_before_a_failure_stays_and_counts(server, tmp_path):
    server.answers = {"/data/a.gz": GOOD}
    with pytest.raises(DataError):
        fetch_files(server.data_set("a.gz", "b.gz"), tmp_path, say=lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]
    server.answers["/data/b.gz"] = GOOD
    fetch_files(server.data_set("a.gz", "b.gz"), tmp_path, say=lambda _: None)
    assert server.asked == ["/data/a.gz", "/data/b.gz", "/data/b.gz"]


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (GOOD.replace(b"good", b"goof", 1), "whole", "SHA-256"),
        (GOOD + b"!", "whole", "longer than the 9,000 bytes"),
        (GOOD * 50, "whole", "longer than the 9,000 bytes"),
        (GOOD[:-1], "whole", "8,999 of 9,000 bytes"),
        (b"", "whole", "0 of 9,000 bytes"),
        (None, "whole", "404"),
        (GOOD, "cut", "4,500 of 9,000 bytes"),
        (GOOD, "chunks cut", "cannot be fetched"),
        (GOOD, "garbage", "cannot be fetched"),
        (GOOD, "nothing", "cannot be fetched"),
    ],
    ids=[
        "other",
        "longer",
        "much longer",
        "shorter",
        "empty",
        "404",
        "cut",
        "chunks cut",
        "garbage",
        "nothing",
    ],
)
def test_a_bad_answer_is_a_data_error_and_nothing_is_kept(server, tmp_path, content, mode, said):
    server.answers = {} if content is None else {"/data/a.gz": content}
    server.mode = mode
    with pytest.raises(DataError) as raised:
        fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None)
    assert said in raised.value.what
    assert raised.value.where == server.address + "a.gz"
    assert "DRAGOMAN_DATA" in raised.value.cure
    assert list(tmp_path.iterdir()) == []


def test_a_bad_answer_leaves_the_file_that_was_there(server, tmp_path):
    (tmp_path / "a.gz").write_bytes(b"something else")
    with pytest.raises(DataError):
        fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None)
    assert (tmp_path / "a.gz").read_bytes() == b"something else"


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/", "no address at all/", "frob://127.0.0.1/"])
def test_a_server_that_is_none_is_a_data_error(tmp_path, address, server):
    with pytest.raises(DataError, match="cannot be fetched"):
        fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None, address=address)


def test_a_server_that_never_answers_is_given_up(server, tmp_path, monkeypatch):
    import socket

    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DataError, match="timed out"):
            fetch_files(server.data_set("a.gz"), tmp_path, say=lambda _: None, address=address)


def test_the_pinned_set_is_over_https_and_whole():
    assert MULTI30K.address.startswith("https://")
    names = [file.name for file in MULTI30K.files]
    wanted = [f"{split}.{side}.gz" for split in ("train", "val", "test_2016_flickr") for side in ("en", "de")]
    assert names == wanted
    assert all(len(bytes.fromhex(file.sha256)) == 32 and file.bytes > 10_000 for file in MULTI30K.files)
    assert "Multi30k" in MULTI30K.notice
    assert "terms" in MULTI30K.notice
