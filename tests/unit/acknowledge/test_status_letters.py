"""Letters that the records of a ledger give to their rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.acknowledge.reasons import contradiction_reasons, rejected_ids, status_reasons
from publisher.acknowledge.status_letters import RefusedDocuments, lanes_of, status_windows
from publisher.errors import FatalError
from publisher.model.change import Outcome, Reason
from tests.support.planned_ledgers import Record, manifest_of, record, write_records

TOO_LARGE = ("too-large", "set max.message.bytes")
PUBLISHED, SUPERSEDED, IGNORED, HELD, REJECTED = Outcome


def letters(
    root: Path,
    *lanes: Sequence[Record],
    refused: RefusedDocuments | None = None,
    source: int = 0,
    window: int = 1 << 20,
) -> dict[int, str]:
    run = write_records(root, lanes)
    found = lanes_of(run, manifest_of(len(lanes)), source, refused or {})
    windows = list(status_windows(found, window))
    ids = [i for one in windows for i in one.ids.tolist()]
    assert ids == sorted(set(ids))
    return dict(zip(ids, "".join(bytes(one.letters).decode() for one in windows), strict=True))


def test_outcomes_give_letters(tmp_path: Path) -> None:
    assert letters(
        tmp_path,
        [
            record(1, PUBLISHED),
            record(2, IGNORED, Reason.ROW_GONE),
            record(3, REJECTED, Reason.VALUE),
            record(4, HELD, Reason.FUTURE),
        ],
    ) == {1: "S", 2: "W", 3: "E"}


@pytest.mark.parametrize(
    "reason",
    [
        Reason.LOOPBACK,
        Reason.EXCLUDED,
        Reason.DUPLICATE,
        Reason.ENDED_BY_DELETE,
        Reason.ROW_GONE,
        Reason.NOTHING_TO_PUBLISH,
    ],
)
def test_what_is_ignored_is_a_warning(reason: Reason, tmp_path: Path) -> None:
    assert letters(tmp_path, [record(1, IGNORED, reason)]) == {1: "W"}


@pytest.mark.parametrize("reason", [Reason.STATUS, Reason.OUT_OF_RANGE])
def test_what_was_not_looked_at_is_left_alone(reason: Reason, tmp_path: Path) -> None:
    assert letters(tmp_path, [record(1, IGNORED, reason), record(2, PUBLISHED)]) == {2: "S"}


def superseded_record(record_id: int, by: int) -> Record:
    return record(record_id, SUPERSEDED, Reason.ROW_QUERY_BACK, by=by)


def test_superseded_take_the_letter_of_what_superseded_them(tmp_path: Path) -> None:
    lane = [
        superseded_record(1, 5),  # in a later row group
        superseded_record(2, 3),
        superseded_record(3, 6),
        record(4, IGNORED, Reason.ROW_GONE),
        record(5, PUBLISHED, document=7),
        record(6, PUBLISHED, document=8),
        record(7, REJECTED, Reason.NO_DATABASE),
        superseded_record(8, 4),
        superseded_record(9, -1),
        superseded_record(10, 7),  # by one that is superseded itself
    ]
    other = [superseded_record(21, 1), record(22, REJECTED, Reason.VALUE)]
    found = letters(tmp_path, lane, other, refused={(0, 7): TOO_LARGE, (1, 8): TOO_LARGE})
    assert found == {
        1: "S", 2: "W", 3: "E", 4: "W", 5: "F", 6: "S", 7: "E", 8: "F", 9: "S", 10: "F",
        21: "E", 22: "E",
    }  # fmt: skip


def test_refused_document_is_fatal_to_all_its_records(tmp_path: Path) -> None:
    lane = [record(n, PUBLISHED, document=n // 3) for n in range(1, 8)]
    found = letters(tmp_path, lane, refused={(0, 1): TOO_LARGE})
    assert "".join(found.values()) == "SSFFFSS"


def test_other_sources_have_no_say(tmp_path: Path) -> None:
    lane = [
        record(1, PUBLISHED),
        record(1, REJECTED, Reason.VALUE, source=1),
        superseded_record(2, 0),
    ]
    lane += [record(2, PUBLISHED, source=1), record(3, IGNORED, Reason.LOOPBACK, source=1)]
    assert letters(tmp_path, lane) == {1: "S", 2: "S"}
    assert letters(tmp_path, lane, source=1) == {1: "E", 2: "S", 3: "W"}
    assert letters(tmp_path, lane, source=2) == {}


@pytest.mark.parametrize(
    ("outcomes", "letter"),
    [
        ([PUBLISHED, IGNORED], "S"),
        ([PUBLISHED, REJECTED], "E"),
        ([IGNORED, REJECTED], "E"),
        ([IGNORED, HELD], None),
        ([HELD, REJECTED], "E"),
        ([PUBLISHED, HELD], "E"),
        ([PUBLISHED, IGNORED, HELD], "E"),
    ],
)
def test_rows_of_one_id_get_one_letter(
    outcomes: list[Outcome], letter: str | None, tmp_path: Path
) -> None:
    lanes = [[record(7, outcome, Reason.VALUE)] for outcome in outcomes]
    assert letters(tmp_path, *lanes).get(7) == letter
    assert letters(tmp_path, [entry for lane in lanes for entry in lane]).get(7) == letter


def test_id_of_which_one_row_was_published_and_one_is_held_is_an_error(tmp_path: Path) -> None:
    run = write_records(tmp_path, [[record(7, PUBLISHED)], [record(7, HELD), record(8, HELD)]])
    (only,) = contradiction_reasons(lanes_of(run, manifest_of(2), 0, {}))
    assert (only.record_id, only.status, only.reason) == (7, "E", "double-record")
    assert "give each row its own record_id" in only.detail


def test_records_without_an_id_are_known_by_what_was_written(tmp_path: Path) -> None:
    raws = ['{"record_id": "0"}', '{"record_id": null}', '{"record_id": -3}', '{"record_id": "x"}']
    raws.append('{"record_id": "99999999999999999999"}')
    lane = [
        record(n, REJECTED, Reason.RECORD_ID, part="log", raw=raw) for n, raw in enumerate(raws, 1)
    ]
    lane.append(record(4, PUBLISHED))
    assert letters(tmp_path, lane) == {4: "S"}
    lanes = lanes_of(write_records(tmp_path, [lane]), manifest_of(1), 0, {})
    assert [number for number, _ in rejected_ids(lanes)] == [0, None, -3, None, None]
    assert [entry.record_id for entry in status_reasons(lanes, {})] == [0, None, -3, None, None]


def test_reasons_are_those_of_the_cause(tmp_path: Path) -> None:
    lane = [
        superseded_record(1, 1),
        record(2, REJECTED, Reason.NO_DATABASE, detail="give --database", schema="s", table="usr"),
        superseded_record(3, 4),
        record(4, IGNORED, Reason.LOOPBACK),
        record(5, PUBLISHED, document=9),
        record(6, PUBLISHED),
    ]
    run = write_records(tmp_path, [lane], group=2)
    refused = {(0, 9): ("too-large", "2,000,000 bytes are too large for topic xds")}
    found = list(status_reasons(lanes_of(run, manifest_of(1), 0, refused), refused))
    assert [(entry.record_id, entry.status, entry.reason) for entry in found] == [
        (1, "E", "no-database"),
        (2, "E", "no-database"),
        (3, "F", "too-large"),
        (4, "W", "loopback"),
        (5, "F", "too-large"),
    ]
    assert found[0].detail == "superseded by record 2 (row-query-back): give --database"
    assert found[2].detail.endswith("too large for topic xds")
    assert "own user" in found[3].detail
    assert (found[1].schema, found[1].table) == ("s", "usr")


OUTCOMES = st.sampled_from([PUBLISHED, IGNORED, HELD, REJECTED])


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 60), OUTCOMES), max_size=20), min_size=1, max_size=4
    ),
    st.integers(1, 30),
    st.booleans(),
)
def test_windows_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    lanes: list[list[tuple[int, Outcome]]],
    window: int,
    ascending: bool,
) -> None:
    root = tmp_path_factory.mktemp("ledger")
    entries = [
        [record(i, outcome, Reason.VALUE) for i, outcome in (sorted(lane) if ascending else lane)]
        for lane in lanes
    ]
    whole = letters(root, *entries)
    assert letters(root, *entries, window=window) == whole
    outcomes: dict[int, set[Outcome]] = {}
    for lane in lanes:
        for i, outcome in lane:
            outcomes.setdefault(i, set()).add(outcome)
    assert set(whole) == {i for i, of in outcomes.items() if HELD not in of or of - {HELD, IGNORED}}
    assert all(whole[i] == "S" for i, of in outcomes.items() if of == {PUBLISHED})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    run = write_records(tmp_path, [[record(1, PUBLISHED)]])
    (tmp_path / "lane-00000.records.parquet").unlink()
    with pytest.raises(FatalError, match=r"lane-00000\.records.parquet of the ledger cannot be"):
        lanes_of(run, manifest_of(1), 0, {})
