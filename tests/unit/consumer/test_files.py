"""Documents of files: streaming, places, complete runs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from publisher.consumer import (
    ConsumerError,
    Delete,
    Delivery,
    DocumentError,
    Inbox,
    Limits,
    Modify,
    Origin,
    part_files,
    read_files,
)
from publisher.xds.document import Envelope, EnvelopeOptions, operation


def document(key: str) -> str:
    return Envelope(EnvelopeOptions()).document([operation("delete", "usr", key)])


def deleted(path: Path, *keys: str) -> list[Delivery]:
    return [
        Delivery((Delete(key, "usr"),), Origin(str(path), line)) for line, key in enumerate(keys, 1)
    ]


def test_a_file_has_a_document_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.xds"
    path.write_text(f"{document('a')}\n{document('b')}\n")
    assert list(read_files([path])) == deleted(path, "a", "b")
    packed = tmp_path / "part.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_files([packed, path])) == deleted(packed, "a", "b") + deleted(path, "a", "b")


def test_a_file_that_is_read_again_is_not_applied_again(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.xds"
    path.write_text(f"{document('a')}\n{document('a')}\n")
    inbox = Inbox()
    assert list(inbox.in_order(read_files([path, path]))) == deleted(path, "a", "a")
    with path.open("a") as file:
        file.write(f"{document('b')}\n")
    assert [d.origin.number for d in inbox.in_order(read_files([path]))] == [3]


def test_documents_before_a_broken_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.xds"
    path.write_text(f"{document('a')}\n\n{document('b')}\n")
    arrived = read_files([path])
    assert next(arrived) == deleted(path, "a")[0]
    with pytest.raises(DocumentError, match=rf"^{re.escape(str(path))}:2: the line is empty"):
        next(arrived)


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(gzip.compress(document("a").encode() * 50)[:-9])
    for path in (cut, tmp_path / "missing", tmp_path):
        with pytest.raises(DocumentError, match="check the path"):
            list(read_files([path]))


def test_limits_hold_in_files(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.xds"
    path.write_text(f"{document('a')}\n")
    with pytest.raises(DocumentError, match="more than 10:"):
        list(read_files([path], Limits(max_bytes=10)))


def test_complete_runs_are_listed_in_order(tmp_path: Path) -> None:
    with pytest.raises(ConsumerError, match="no run is complete"):
        part_files(tmp_path)
    for run in ("hr-000002", "hr-1000000", "hr-000001"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        for name in ("part-00001.xds", "part-00000.xds", "rejects.jsonl"):
            (tmp_path / "runs" / run / name).touch()
    for run in ("hr-000002", "hr-000001"):
        (tmp_path / "runs" / run / "run.json").touch()
    assert [str(path.relative_to(tmp_path / "runs")) for path in part_files(tmp_path)] == [
        "hr-000001/part-00000.xds",
        "hr-000001/part-00001.xds",
        "hr-000002/part-00000.xds",
        "hr-000002/part-00001.xds",
    ]
    assert [path.name for path in part_files(tmp_path / "runs" / "hr-000001")] == [
        "part-00000.xds",
        "part-00001.xds",
    ]


def test_a_part_file_may_begin_with_an_object_of_100000_values(tmp_path: Path) -> None:
    added = "".join(f"<add-value><value>{n}</value></add-value>" for n in range(100_000))
    changes = [f'<modify-attr attr-name="a">{added}</modify-attr>']
    large = Envelope(EnvelopeOptions()).document([operation("modify", "usr", "a", changes)])
    path = tmp_path / "part-00000.xds"
    path.write_text(f"{large}\n{document('b')}\n")
    first, second = read_files([path])
    assert isinstance(first.operations[0], Modify)
    assert len(first.operations[0].changes) == 100_000
    assert second.operations == (Delete("b", "usr"),)
