"""Views as classes without a database: keys, references and refusals."""

from __future__ import annotations

import pytest

from publisher.errors import TableRefusedError
from publisher.model.catalogue import ColumnKind, JobCatalogue, Reference, Table
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions

GRP = Table("hr", "grp", key=("idg",), columns={"idg": ColumnKind.INT})
SITE = Table("hr", "site", key=("a", "b"))
OTHER = Table("else", "elsewhere", key=("far",))


def view(*columns: str, name: str = "view_usr", **described: object) -> Table:
    kinds = dict.fromkeys(columns, ColumnKind.STRING)
    return Table("hr", name, columns=kinds, view=True, **described)  # type: ignore[arg-type]


def describe(*tables: Table, name: str = "view_usr", **options: object) -> Table:
    """The class of a view among these tables of the job file."""
    chosen = ClassOptions(**options)  # type: ignore[arg-type]
    found = ClassCatalogue(JobCatalogue(tables), tables, chosen).table("hr", name)
    assert found is not None
    return found


USR = view(
    "PK_idu", "sv_fname", "mv_Phone", "fk__idu__boss", "fk_mv__IDG__mbr_of", padded={"mv_Phone"}
)


def test_attributes_keep_only_the_prefixes_of_keys() -> None:
    usr = describe(USR, GRP)
    assert usr.key == ("PK_idu",)
    assert [*usr.columns] == ["PK_idu", "fname", "Phone", "fk_boss", "fk_mbr_of"]
    assert [name for name in usr.columns if usr.is_multiple(name)] == ["Phone", "fk_mbr_of"]
    assert usr.padded == {"Phone"}
    assert usr.complete
    assert usr.references == {
        "fk_boss": Reference("view_usr", "hr", "PK_idu"),
        "fk_mbr_of": Reference("grp", "hr", "idg"),
    }


def test_references_of_the_job_file_take_precedence() -> None:
    declared = {"boss": Reference("grp"), "fname": Reference("view_usr", key="idu")}
    usr = describe(view(*USR.columns, references=declared), GRP)
    assert usr.references["fk_boss"] == Reference("grp", "hr", "idg")
    assert usr.references["fname"] == Reference("view_usr", "hr", "PK_idu")


def test_tables_may_refer_to_views() -> None:
    team = Table("hr", "team", key=("no",), references={"chief": Reference("view_usr")})
    found = describe(USR, GRP, team, name="team")
    assert found.references == {"chief": Reference("view_usr", "hr", "PK_idu")}


def test_without_references_no_key_needs_to_be_known() -> None:
    usr = describe(view("pk_idu", "fk__nowhere__x", "fk_y"), enable_refs=False)
    assert not usr.references
    assert [*usr.columns] == ["pk_idu", "fk_x", "fk_y"]


def test_a_key_of_the_job_file_replaces_a_missing_prefix() -> None:
    usr = describe(view("idu", "mv_a", "fk__idu__boss", key=("IDU",)))
    assert usr.key == ("idu",)
    assert usr.references == {"fk_boss": Reference("view_usr", "hr", "idu")}


def test_only_listed_classes_own_keys() -> None:
    twice = view("pk_idg", name="view_grp")
    with pytest.raises(
        TableRefusedError, match=r"refers to IDG, the key of .*grp and .*grp: refer"
    ):
        describe(USR, GRP, twice)
    listed = describe(USR, GRP, twice, sync_filter="list", sync_tables=("view_usr", "hr.view_grp"))
    assert listed.references["fk_mbr_of"] == Reference("view_grp", "hr", "pk_idg")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["fname"], "no column begins with pk_: name the key columns pk_COLUMN, or set the key in"),
        (["pk_idu", "fk_boss"], "column fk_boss names no key: write fk__KEY__boss"),
        (["pk_idu", "fk__none__x"], "column fk__none__x refers to none, the key of no class"),
        (["pk_idu", "fk__far__x"], "refers to far, the key of no class"),
        (["pk_idu", "fk__a__x"], "refers to a, a part of the key of site"),
        (["pk_idg", "fk__idg__x"], "refers to idg, the key of view_usr and grp"),
        (["pk_u", "fk_1__u__x", "fk_1__idg__y"], "2 columns are the foreign key of group 1"),
        (["pk_idu", "sv_IDU"], "2 columns have the effective name idu"),
        (["pk_idu", "sv_pk_idu"], "column sv_pk_idu is pk_idu in documents"),
    ],
)
def test_a_view_that_can_be_no_class_is_refused(columns: list[str], problem: str) -> None:
    with pytest.raises(TableRefusedError) as refused:
        describe(view(*columns), GRP, SITE, OTHER)
    assert refused.value.message.startswith("view view_usr: ")
    assert problem in refused.value.message


@pytest.mark.parametrize("key", [("idu",), ("PK_IDU",), ("pk__idu__idu",)])
def test_the_key_of_the_job_file_may_repeat_that_of_the_columns(key: tuple[str, ...]) -> None:
    assert describe(view("pk_idu", "tag", key=key)).key == ("pk_idu",)


@pytest.mark.parametrize("key", [("tag",), ("idu", "tag")])
def test_a_key_of_the_job_file_that_contradicts_the_columns_is_refused(
    key: tuple[str, ...],
) -> None:
    with pytest.raises(TableRefusedError, match="is not that of its columns with pk_: remove one"):
        describe(view("pk_idu", "tag", key=key))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (("nobody",), "the key nobody is not among its columns"),
        (("tag",), "a column of the key begins with mv_"),
    ],
)
def test_a_wrong_key_of_the_job_file_is_refused(key: tuple[str, ...], problem: str) -> None:
    with pytest.raises(TableRefusedError, match=problem):
        describe(view("idu", "mv_tag", key=key))


def test_a_split_between_key_and_column_prefers_a_known_key() -> None:
    usr = describe(view("pk_a__b", "fk__a__b__c__d"))
    assert usr.references == {"fk_c__d": Reference("view_usr", "hr", "pk_a__b")}


def test_without_meta_identifiers_names_stay_as_they_are() -> None:
    usr = describe(USR, enable_meta_identifiers=False)
    assert (usr.columns, usr.key, usr.references) == (USR.columns, (), {})
