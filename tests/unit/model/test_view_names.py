"""Column names of views: variants, forms and ambiguous names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.view_names import (
    ViewColumns,
    ViewRole,
    ambiguous_names,
    parse_view_name,
)

KEYS = ("idu", "idg", "a__b")
COLUMNS = st.sampled_from(["fname", "Phone No", "x__y", "idu", "größe", "p"])


@st.composite
def variants(draw: st.DrawFn, column: str, role: ViewRole) -> str:
    """Any way to write a column with this role."""
    group = draw(st.sampled_from(["", "1_", "20_"]))
    ref = f"_{draw(st.sampled_from(KEYS))}__"
    prefix = {
        ViewRole.VALUE: draw(st.sampled_from(["", "sv_", "mv_"])),
        ViewRole.PRIMARY_KEY: "pk_" + draw(st.sampled_from(["", "sv_"])) + group,
        ViewRole.FOREIGN_KEY: "fk_" + draw(st.sampled_from(["", "sv_", "mv_"])) + group + ref,
    }[role]
    if role is ViewRole.PRIMARY_KEY and draw(st.booleans()):
        prefix += ref
    return draw(st.sampled_from([prefix, prefix.upper(), prefix.title()])) + column


@given(COLUMNS, st.sampled_from(ViewRole), st.data())
def test_every_variant_of_a_name_has_one_effective_name(
    column: str, role: ViewRole, data: st.DataObject
) -> None:
    first, second = (parse_view_name(data.draw(variants(column, role)), KEYS) for _ in range(2))
    assert first.column == second.column == column
    assert first.role is second.role is role
    assert first.schema_name.casefold() == second.schema_name.casefold()
    assert first.is_same(second)


@pytest.mark.parametrize(
    ("name", "schema_name", "column", "is_multiple", "ref"),
    [
        ("pk_idu", "pk_idu", "idu", False, None),
        ("pk__idu__idu", "pk_idu", "idu", False, "idu"),
        ("sv_fname", "fname", "fname", False, None),
        ("MV_phoneno", "phoneno", "phoneno", True, None),
        ("fk_mv__idg__mbr_of", "fk_mbr_of", "mbr_of", True, "idg"),
        ("fk_2__idu__manager", "fk_manager", "manager", False, "idu"),
        ("fk__a__b__c", "fk_c", "c", False, "a__b"),
        ("fk_mbr_of", "fk_mbr_of", "mbr_of", False, None),
        ("pk_", "pk_", "pk_", False, None),
        ("plain", "plain", "plain", False, None),
    ],
)
def test_names_of_the_guide(
    name: str, schema_name: str, column: str, is_multiple: bool, ref: str | None
) -> None:
    parsed = parse_view_name(name, KEYS)
    assert (parsed.schema_name, parsed.column) == (schema_name, column)
    assert (parsed.is_multiple, parsed.ref) == (is_multiple, ref)


VIEW = (
    "PK_sv_1__idu__idu",
    "Sv_fname",
    "MV_Phone.No",
    "fk_mv_2__idg__mbr_of",
    "fk__a__b__c",
    "Note",
)
VARIANTS = {
    "PK_idu": (
        "idu",
        "IDU",
        "pk_idu",
        "pk__idu__idu",
        "Pk_Sv_7_idu",
        "sv_idu",
        "PK_sv_1__idu__idu",
    ),
    "fname": ("fname", "FNAME", "sv_fname", "mv_fname", "MV_FName", "pk_fname", "fk__idu__fname"),
    "Phone.No": ("phone.no", "mv_Phone.No", "sv_phone.no", "PHONE.NO"),
    "fk_mbr_of": ("mbr_of", "fk_mbr_of", "FK_MBR_OF", "fk__idg__mbr_of", "fk_sv_3__idg__mbr_of"),
    "fk_c": ("c", "fk_c", "fk__a__b__c", "fk_mv__a__b__C", "mv_c"),
    "Note": ("note", "sv_NOTE", "mv_Note"),
}
UNKNOWN = (
    "phone",
    "pk",
    "fk_",
    "pk_",
    "pk_idu2",
    "fk__idg",
    "fk_idg__mbr_of",
    "sv_sv_fname",
    "b__c",
    "",
)
"""Names of no column of ``VIEW``."""


def view_columns(*names: str) -> ViewColumns:
    parsed = [parse_view_name(name, KEYS) for name in names]
    return ViewColumns({name.schema_name: name for name in parsed}, frozenset(KEYS))


@pytest.mark.parametrize(
    ("attribute", "variant"),
    [(attribute, name) for attribute, names in VARIANTS.items() for name in names],
)
def test_every_variant_finds_the_column_of_its_effective_name(attribute: str, variant: str) -> None:
    columns = view_columns(*VIEW)
    assert tuple(columns.names) == tuple(VARIANTS)
    assert columns.attribute(variant) == attribute
    assert columns.spelling_of(variant) == VIEW[[*VARIANTS].index(attribute)]


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_names_find_no_column(name: str) -> None:
    assert view_columns(*VIEW).attribute(name) is None
    assert view_columns(*VIEW).spelling_of(name) == name


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["pk_idu", "sv_a", "MV_A"], "2 columns have the effective name a"),
        (["pk_idu", "IDU"], "2 columns have the effective name idu"),
        (["pk_idu", "fk__idg__a", "a"], "2 columns have the effective name a"),
        (["pk_idu", "sv_pk_idu"], "column sv_pk_idu is pk_idu in documents, which is a name of an"),
        (["mv_sv_a", "a"], "column mv_sv_a is sv_a in documents"),
    ],
)
def test_names_that_mean_two_columns_are_ambiguous(names: list[str], problem: str) -> None:
    parsed = [parse_view_name(name, KEYS) for name in names]
    (text,) = ambiguous_names(parsed, KEYS)
    assert text.startswith(problem)


def test_a_name_that_begins_with_a_prefix_after_its_own_is_not_ambiguous_alone() -> None:
    names = ["pk_idu", "sv_pk_other", "mv_fk_c"]
    assert list(ambiguous_names([parse_view_name(name, KEYS) for name in names], KEYS)) == []
    columns = view_columns(*names)
    assert [columns.attribute(name) for name in ("pk_other", "sv_pk_other", "fk_c")] == [
        *("pk_other", "pk_other", "fk_c")
    ]


@given(st.lists(st.text("pkfsmv_ab1", min_size=1, max_size=9), min_size=1, max_size=5))
def test_every_column_of_an_unambiguous_view_is_found_by_its_names(names: list[str]) -> None:
    parsed = [parse_view_name(name, ["a"]) for name in names]
    if not [*ambiguous_names(parsed, ["a"])]:
        columns = ViewColumns({name.schema_name: name for name in parsed}, frozenset(["a"]))
        for name in parsed:
            for spelled in (name.written, name.schema_name, name.written.upper()):
                assert columns.attribute(spelled) == name.schema_name
