"""`dragoman shortlist` and `--shortlist` from the command line."""

from __future__ import annotations

import json

from command_line import done, refused


def test_learned_and_used(lab, tmp_path):
    likely = tmp_path / "likely"
    result = done("shortlist", lab.prepared, "--out", likely, "--likeliest", 5, "--most-frequent", 10)
    assert result.err.startswith(f"wrote {likely}: up to 5 of ")
    assert len(done("translate", lab.run, lab.dev_source, "--shortlist", likely).lines) == 20
    arguments = ("evaluate", lab.run, lab.dev_source, lab.dev_target, "--json")
    score, *_ = json.loads(done(*arguments, "--shortlist", likely).out)
    assert "|shortlist:5+" in score["signature"]
    assert "shortlist" not in json.loads(done(*arguments).out)[0]["signature"]


def test_what_makes_no_sense_is_refused(lab, tmp_path):
    likely = tmp_path / "likely"
    done("shortlist", lab.prepared, "--out", likely)
    assert "--sample draws" in refused(
        2, "translate", lab.run, lab.dev_source, "--sample", "--shortlist", likely
    )
    assert "shortlist" in refused(3, "translate", lab.run, lab.dev_source, "--shortlist", tmp_path / "none")
    assert "prepared" in refused(3, "shortlist", tmp_path / "nowhere", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
