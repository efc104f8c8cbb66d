"""The report of a preparation in plain words: what was read, kept, left out, and decided.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.data.manifest import LeftOut, Manifest, Origin, Split

_NUMBERS_SHOWN = 20


def report_lines(manifest: Manifest) -> list[str]:
    """The lines of `report.txt`."""
    languages = f"{manifest.source_language or 'source'} to {manifest.target_language or 'target'}"
    if manifest.one_text:
        languages = f"one text, {manifest.source_language or 'language not known'}"
    lines = [f"prepared corpus, {languages}"]
    if manifest.origin is not None:
        lines += _read_lines(manifest.origin, "lines" if manifest.one_text else "pairs")
    lines += [_split_line(manifest, split) for split in manifest.splits]
    lines += _subword_lines(manifest)
    lines += [_left_out_line(entry) for entry in manifest.left_out] or ["left out   nothing"]
    return lines + [f"note       {note}" for note in manifest.notes]


def _read_lines(origin: Origin, called: str) -> Iterator[str]:
    files = dict.fromkeys((*origin.source_files, *origin.target_files))
    yield f"read       {origin.pairs_read:,} {called} from {', '.join(files)}"
    if origin.dev_source_files:
        files = dict.fromkeys((*origin.dev_source_files, *origin.dev_target_files))
        yield f"read dev   {origin.dev_pairs_read:,} {called} from {', '.join(files)}"


def _split_line(manifest: Manifest, split: Split) -> str:
    record = manifest.splits[split]
    if manifest.one_text:
        mean = record.source_tokens / record.pairs
        return f"{split:<10} {record.pairs:,} lines, {record.source_tokens:,} tokens ({mean:.1f} a line, EOS counted)"
    tokens = f"{record.source_tokens:,} source and {record.target_tokens:,} target tokens"
    means = f"{record.source_tokens / record.pairs:.1f} and {record.target_tokens / record.pairs:.1f} a line"
    return f"{split:<10} {record.pairs:,} pairs, {tokens} ({means}, EOS counted)"


def _subword_lines(manifest: Manifest) -> Iterator[str]:
    records = manifest.vocabularies
    shared = records["source"] == records["target"]
    for side, record in records.items():
        if shared and side == "target":
            continue
        whose = "" if manifest.one_text else "both sides: " if shared else f"{side}: "
        yield f"subwords   {whose}{record.size:,}, SHA-256 {record.digest[:12]}"


def _left_out_line(entry: LeftOut) -> str:
    shown = ", ".join(str(number) for number in entry.numbers[:_NUMBERS_SHOWN])
    more = ", ... (all in left-out.tsv)" if entry.count > _NUMBERS_SHOWN else ""
    return f"left out   {entry.where}: {entry.count:,}, {entry.reason}: lines {shown}{more}"
