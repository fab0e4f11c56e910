"""Every document of the corpus gives as many findings as its index says, by every road."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import xmlschema
from lxml import etree

from publisher.xds import schema as xds_schema
from publisher.xds.validate import Profile, validate_files

CORPUS = Path(__file__).parents[2] / "golden" / "xds"
CASES = [
    pytest.param(CORPUS / folder / f"{name}.xml", counts, id=f"{folder}/{name}")
    for folder, cases in tomllib.loads((CORPUS / "cases.toml").read_text()).items()
    for name, counts in cases.items()
]


@pytest.fixture(scope="module", params=list(Profile))
def profile(request: pytest.FixtureRequest) -> Profile:
    return Profile(request.param)


@pytest.fixture(scope="module")
def xsd_1_1(profile: Profile) -> xmlschema.XMLSchema11:
    """The files themselves, with their assertions and their override."""
    return xmlschema.XMLSchema11(xds_schema.path(profile))


@pytest.fixture(scope="module")
def xsd_1_0(profile: Profile) -> xmlschema.XMLSchema10:
    """The schema of libxml2, read by another processor."""
    root = xds_schema.apply_override(profile)
    for assertion in list(root.iter(f"{xds_schema.XS}assert")):
        assertion.getparent().remove(assertion)
    return xmlschema.XMLSchema10(etree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize(("path", "counts"), CASES)
def test_findings_are_as_many_as_the_index_says(
    path: Path, counts: dict[str, int], profile: Profile
) -> None:
    findings = list(validate_files([path], profile))
    assert len(findings) == counts[profile], findings


@pytest.mark.parametrize(("path", "counts"), CASES)
def test_the_verdict_is_that_of_a_processor_for_xsd_1_1(
    path: Path, counts: dict[str, int], profile: Profile, xsd_1_1: xmlschema.XMLSchema11
) -> None:
    assert xsd_1_1.is_valid(path.read_text(encoding="utf-8")) is (counts[profile] == 0)


@pytest.mark.parametrize(("path", "counts"), CASES)
def test_libxml2_agrees_with_another_processor_on_what_xsd_1_0_can_say(
    path: Path, counts: dict[str, int], profile: Profile, xsd_1_0: xmlschema.XMLSchema10
) -> None:
    grammar = xds_schema.load(profile).grammar
    text = path.read_text(encoding="utf-8")
    assert grammar.validate(etree.fromstring(text.encode())) is xsd_1_0.is_valid(text)


def test_the_index_names_every_document_and_no_other() -> None:
    indexed = {case.values[0] for case in CASES}
    assert indexed == set(CORPUS.glob("*/*.xml"))


def test_each_folder_of_the_corpus_is_what_its_name_says() -> None:
    verdicts = {"valid": (True, True), "lenient": (False, True), "invalid": (False, False)}
    for case in CASES:
        path, counts = case.values
        assert isinstance(path, Path)
        assert isinstance(counts, dict)
        verdict = (counts["strict"] == 0, counts["lenient"] == 0)
        assert verdict == verdicts[path.parent.name], path


def test_every_assertion_of_the_schema_is_broken_by_some_document(profile: Profile) -> None:
    broken = {
        finding.reason
        for finding in validate_files(sorted(CORPUS.glob("*/*.xml")), profile)
        if finding.element
    }
    asserted = {
        assertion.reason
        for assertions in xds_schema.load(profile).assertions.values()
        for assertion in assertions
    }
    assert asserted
    assert asserted <= broken
