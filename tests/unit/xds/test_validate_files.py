"""Files are cut into documents, and no content of a file raises an error."""

from __future__ import annotations

import gzip
import json
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from publisher.xds import framing
from publisher.xds.validate import Finding, json_line, text_line, validate_files

GOOD = b'<nds dtdversion="4.0"><input><delete><association>a</association></delete></input></nds>'
LINE = GOOD + b"\n"
BAD_LINE = LINE.replace(b"delete", b"replace")
PRETTY = LINE.replace(b"><", b">\n<")
LAUGHS = b"""<!DOCTYPE nds [
<!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">
<!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">
<!ENTITY f "&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;">
]><nds dtdversion="&f;"><input/></nds>"""

FINE = {
    "one document on one line": LINE,
    "no line feed at the end": GOOD,
    "one on each line": LINE * 3,
    "lines that end with CR LF": (GOOD + b"\r\n") * 3,
    "a byte order mark": b"\xef\xbb\xbf" + LINE * 2,
    "a document over several lines": PRETTY,
    "an XML declaration on its own line": b'<?xml version="1.0"?>\n' + LINE,
    "an XML declaration in each line": (b'<?xml version="1.0" encoding="utf-8"?>' + LINE) * 2,
    "a comment after the document": LINE + b"<!-- end -->\n",
    "blank lines before a document": b"\n\n" + PRETTY,
    "lines of other documents inside CDATA": (
        b'<nds dtdversion="4.0"><input><status level="error"><![CDATA[\n'
        + LINE * 3
        + b"]]></status></input></nds>\n"
    ),
    "gzip": gzip.compress(LINE * 3),
    "gzip of several members": gzip.compress(LINE) + gzip.compress(LINE),
    "other separators of lines inside a document": LINE.replace(b">a<", ">\u2028\x85\r<".encode()),
}

BROKEN: dict[str, tuple[bytes, list[tuple[int, int, str]]]] = {
    "empty, as the part file of a lane without documents": (b"", []),
    "blank": (b" \n\t\n", [(1, 1, "the file is blank")]),
    "not XML": (b"hello\nworld\n", [(1, 1, "not XML: Start tag expected")]),
    "a line that is not XML": (LINE + b"hello\n" + LINE, [(2, 2, "not XML: ")]),
    "an empty line": (LINE + b"\n" + LINE, [(2, 2, "the line is empty")]),
    "a cut first line": (GOOD[:40] + b"\n" + LINE * 2, [(1, 1, "not XML: ")]),
    "a first line cut between elements": (GOOD[:29] + b"\n" + LINE * 2, [(1, 1, "not XML: ")]),
    "a cut last line": (LINE * 2 + GOOD[:40], [(3, 3, "not XML: ")]),
    "a cut document": (PRETTY[:60], [(4, 1, "not XML: ")]),
    "two documents on a line": (GOOD * 2 + b"\n" + LINE, [(1, 1, "not XML: Extra content")]),
    "NUL": (LINE + b"<nds>\0</nds>\n" + LINE, [(2, 2, "not XML: Invalid character")]),
    "a forbidden reference": (LINE + b"<nds>&#1;</nds>\n", [(2, 2, "not XML: ")]),
    "bad UTF-8": (LINE + b"<nds>\xff</nds>\n" + LINE, [(2, 2, "not XML: Invalid bytes")]),
    "UTF-16": (GOOD.decode().encode("utf-16"), [(1, 1, "not UTF-8 text: ")]),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-be"), [(1, 1, "not UTF-8 text: ")]),
    "another encoding": (
        b'<?xml version="1.0" encoding="UTF-7"?>+ADw-nds/+AD4-',
        [(1, 1, "declares the encoding UTF-7: ")],
    ),
    "an unknown entity": (LINE + b"<nds>&x;</nds>\n", [(2, 2, "not XML: Entity 'x'")]),
    "a billion laughs": (LAUGHS, [(1, 1, "has a DOCTYPE")]),
    "a billion laughs among documents": (
        LINE + LAUGHS.replace(b"\n", b"") + b"\n" + LINE,
        [(2, 2, "has a DOCTYPE")],
    ),
    "a DOCTYPE after a comment": (
        b"\xef\xbb\xbf<?xml version='1.0'?><!-- <nds> -->\n<?p?>" + LAUGHS,
        [(1, 1, "has a DOCTYPE")],
    ),
    "a DOCTYPE in the first line": (
        b"<!DOCTYPE nds><nds/>\n" + LINE * 2,
        [(1, 1, "has a DOCTYPE")],
    ),
    "an external entity": (
        b'<!DOCTYPE nds [<!ENTITY x SYSTEM "file:///etc/passwd">]><nds>&x;</nds>',
        [(1, 1, "has a DOCTYPE")],
    ),
    "elements too deep": (b"<nds>" * 100_000, [(1, 1, "not XML: Excessive depth")]),
    "not gzip after all": (b"\x1f\x8bxxxxxxxx", [(1, 0, "cannot be read: ")]),
    "findings in several lines": (
        BAD_LINE + LINE + BAD_LINE,
        [(1, 1, "This element is not"), (3, 3, "This element is not")],
    ),
}


def findings(path: Path, content: bytes) -> list[Finding]:
    path.write_bytes(content)
    return list(validate_files([path]))


@pytest.mark.parametrize("name", FINE)
def test_a_file_without_faults_gives_no_finding(name: str, tmp_path: Path) -> None:
    assert findings(tmp_path / "part-00000.xds", FINE[name]) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gives_findings_and_no_error(name: str, tmp_path: Path) -> None:
    content, expected = BROKEN[name]
    found = findings(tmp_path / "part-00000.xds", content)
    assert [(finding.line, finding.document) for finding in found] == [row[:2] for row in expected]
    for finding, (_, _, reason) in zip(found, expected, strict=True):
        assert finding.reason.startswith(reason)


def test_random_bytes_never_raise(tmp_path: Path) -> None:
    numbers = random.Random(3)
    for size in (1, 2, 3, 100, 5000):
        for start in (b"", b"\x1f\x8b", b"<nds", b"<?xml ", b"<!DOCTYPE", LINE):
            assert findings(tmp_path / "noise", start + numbers.randbytes(size))


def test_a_document_cut_anywhere_is_a_finding(tmp_path: Path) -> None:
    for content in (PRETTY.rstrip(), LINE + GOOD, gzip.compress(LINE * 3)):
        whole = len(findings(tmp_path / "whole", content))
        assert whole == 0
        for end in range(len(content)):
            at_the_border = content[:end] in (b"", LINE, GOOD)
            assert bool(findings(tmp_path / "cut", content[:end])) is not at_the_border


def test_a_cut_archive_names_the_line_it_was_read_to(tmp_path: Path) -> None:
    lines = [b"%s<!-- %d -->\n" % (GOOD, random.Random(n).getrandbits(256)) for n in range(2000)]
    [finding] = findings(tmp_path / "part.gz", gzip.compress(b"".join(lines))[:-50])
    assert 1000 < finding.line < 2000
    assert finding.reason.startswith("cannot be read: ")


def test_what_cannot_be_read_is_a_finding_and_the_next_file_is_checked(tmp_path: Path) -> None:
    bad = tmp_path / "bad.xds"
    bad.write_bytes(BAD_LINE)
    found = list(validate_files([tmp_path, tmp_path / "none", bad]))
    assert [finding.file for finding in found] == [str(tmp_path), str(tmp_path / "none"), str(bad)]
    assert [finding.reason for finding in found[:2]] == [
        "cannot be read: Is a directory",
        "cannot be read: No such file or directory",
    ]


def test_a_pipe_is_a_finding(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    [finding] = validate_files([tmp_path / "pipe"])
    assert finding.reason.startswith("is a pipe")


def test_lines_of_a_document_count_from_its_first(tmp_path: Path) -> None:
    [finding] = findings(tmp_path / "pretty", PRETTY.replace(b"delete", b"replace"))
    assert (finding.line, finding.document, finding.element) == (3, 1, "/nds/input/replace")


def test_lines_beyond_16_bits_are_right_to_the_next_text(tmp_path: Path) -> None:
    document = b"<nds dtdversion='1'><input>%s<status level='x'/>\n</input></nds>"
    [finding] = findings(tmp_path / "long", document % (b"\n" * 70_000))
    assert finding.line in {70_001, 70_002}


def test_a_document_that_is_too_large_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "LARGEST", len(LINE))
    content = LINE + LINE * 30_000 + LINE
    assert findings(tmp_path / "lines", content) == []
    found = findings(tmp_path / "lines", LINE + GOOD * 30_000 + b"\n" + LINE + BAD_LINE[-50:])
    assert [(finding.line, finding.reason[:24]) for finding in found] == [
        (2, "the document is larger t"),
        (4, "not XML: Start tag expec"),
    ]


def test_a_value_beyond_ten_megabytes_is_a_finding(tmp_path: Path) -> None:
    large = LINE.replace(b">a<", b">" + b"a" * 11_000_000 + b"<")
    (finding,) = findings(tmp_path / "large", large + LINE)
    assert finding.line == 1
    assert "more than 10,000,000 bytes" in finding.reason


def test_memory_does_not_grow_with_the_number_of_lines(tmp_path: Path) -> None:
    def peak(lines: int) -> int:
        (tmp_path / "part").write_bytes(LINE * lines)
        tracemalloc.start()
        assert list(validate_files([tmp_path / "part"])) == []
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(20_000) < 1.1 * peak(10_000)


def test_a_line_of_text_names_file_line_element_and_reason() -> None:
    finding = Finding("a.xds", 7, 7, "/nds/input/add", "no")
    assert text_line(finding) == "a.xds:7: /nds/input/add: no"
    assert text_line(Finding("a.xds", 7, 7, "", "no")) == "a.xds:7: no"


def test_a_line_of_text_is_printable_whatever_was_found() -> None:
    line = text_line(Finding("a\udc80\n", 1, 1, "/\x1b[31m", "\u2028ä"))
    assert line == "a\\udc80\\n:1: /\\x1b[31m: \\u2028ä"
    line.encode()


def test_a_line_of_json_has_every_field() -> None:
    finding = Finding("a\udc80", 1, 2, "/nds", "ä\n")
    assert json.loads(json_line(finding)) == {
        "file": "a\udc80",
        "line": 1,
        "document": 2,
        "element": "/nds",
        "reason": "ä\n",
    }
    assert json_line(finding).isascii()


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="other"):
        list(validate_files([], "other"))
