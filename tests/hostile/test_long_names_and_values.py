"""Long names of tables and long values take time in proportion to their length."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.formats.columns.object_names import split_name
from publisher.model.catalogue import LONGEST_NAME
from publisher.model.change import Outcome, Reason
from publisher.xds.validate import Profile, validate_files
from tests.support.event_log_files import event, read, write
from tests.support.timing import assert_linear

NAMES = {
    "blanks inside": "a{}!.",
    "blanks before": "{}",
    "a dot behind blanks": "a{}.b{}c.d.",
    "an open quote": '"a{}',
}


@pytest.mark.parametrize("form", NAMES.values(), ids=NAMES)
def test_a_table_name_is_split_in_linear_time(form: str) -> None:
    assert_linear(lambda size: split_name(form.format(*[" " * size] * 2)), 5_000)


@pytest.mark.parametrize(("opening", "closing"), [('"', '"'), ("`", "`"), ("[", "]")])
def test_doubled_quotes_are_split_in_linear_time(opening: str, closing: str) -> None:
    assert_linear(lambda size: split_name(opening + closing * 2 * size + "!"), 20_000)


@pytest.mark.parametrize(
    ("column", "reason"),
    [("table_name", Reason.TABLE_NAME), ("column_name", Reason.COLUMN_NAME)],
)
def test_a_name_beyond_the_bound_rejects_its_record_in_a_short_message(
    tmp_path: Path, column: str, reason: Reason
) -> None:
    longest, longer = "a" * LONGEST_NAME, "a" * (LONGEST_NAME + 1)
    rows = [event(1), event(2, **{column: longer}), event(3, **{column: longest})]
    records, framed = read(write(tmp_path / "log.csv", rows))
    assert framed == len(rows)
    rejected = {row["high"]: row for row in records if row["outcome"] == Outcome.REJECTED}
    assert set(rejected) == {2, 3}
    assert rejected[2]["reason"] == rejected[3]["reason"] == reason
    detail = str(rejected[2]["detail"])
    assert f"{LONGEST_NAME + 1:,} characters" in detail
    assert len(detail) < 300
    assert "has no" in str(rejected[3]["detail"])  # short enough to be looked for


VALUES: list[tuple[str, str, str]] = [
    ("state", " ", "!"),
    ("int", " ", "!"),
    ("time", "\n", "!"),
    ("octet", "= ", "!"),
    ("octet", "AAAA ", "!"),
    ("int", "1", "!"),
    ("structured", " ", "!"),
]


@pytest.mark.parametrize(("kind", "filling", "end"), VALUES)
def test_a_value_is_validated_in_linear_time(
    tmp_path: Path, kind: str, filling: str, end: str
) -> None:
    def validate(size: int) -> None:
        path = tmp_path / "long.xds"
        path.write_text(
            '<nds dtdversion="2.0"><input><add class-name="usr"><association>idu=1</association>'
            f'<add-attr attr-name="a"><value type="{kind}">{filling * size}{end}</value></add-attr>'
            "</add></input></nds>\n"
        )
        assert list(validate_files([path], Profile.STRICT))

    assert_linear(validate, 6_000)
