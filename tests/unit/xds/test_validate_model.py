"""Enumerations and required attributes, each against a list of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.xds.validate import Finding, Profile, validate_files

ASSOCIATION = "<association>idu=1,table=usr</association>"
NAME = 'attr-name="a"'


def modify(attributes: str, body: str = "<remove-all-values/>") -> str:
    return f"<modify {attributes}>{ASSOCIATION}<modify-attr {NAME}>{body}</modify-attr></modify>"


def add(attr: str, attributes: str = 'class-name="usr"') -> str:
    return f"<add {attributes}>{ASSOCIATION}{attr}</add>"


def value(attributes: str) -> str:
    return add(f"<add-attr {NAME}><value {attributes}/></add-attr>")


BOOLEAN = ("true", "false")
ENUMERATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "value type": (
        value('type="%s"').replace("/></add-attr>", '><component name="x"/></value></add-attr>'),
        (
            *("string", "teleNumber", "int", "state", "counter"),
            *("dn", "interval", "octet", "time", "structured"),
        ),
    ),
    "value naming": (value('naming="%s"'), BOOLEAN),
    "association state": (
        '<delete><association state="%s">a</association></delete>',
        ("not-associated", "associated", "disabled", "migrate", "pending", "manual"),
    ),
    "status level": ('<status level="%s"/>', ("fatal", "error", "warning", "success", "retry")),
    "query scope": ('<query scope="%s"/>', ("entry", "subordinates", "subtree")),
    "modify from-merge": (modify('from-merge="%s"'), BOOLEAN),
    "modify from-reset": (modify('from-reset="%s"'), BOOLEAN),
    "modify password-admin-reset": (modify('password-admin-reset="%s"'), BOOLEAN),
    "rename remove-old-name": (
        f'<rename remove-old-name="%s">{ASSOCIATION}<new-name>a</new-name></rename>',
        BOOLEAN,
    ),
    "sync from-move": (f'<sync from-move="%s">{ASSOCIATION}</sync>', BOOLEAN),
    "add-attr enforce-password-policy": (
        add(f'<add-attr {NAME} enforce-password-policy="%s"><value/></add-attr>'),
        BOOLEAN,
    ),
    "modify-attr enforce-password-policy": (
        modify("").replace(NAME, f'{NAME} enforce-password-policy="%s"'),
        BOOLEAN,
    ),
}
ALLOWED = [
    pytest.param(template % word, id=f"{name} {word}")
    for name, (template, words) in ENUMERATIONS.items()
    for word in words
]
REFUSED = [
    pytest.param(template % word, id=f"{name} {word!r}")
    for name, (template, words) in ENUMERATIONS.items()
    for word in ("", "other", words[0].upper(), f" {words[0]}", "1")
]

REQUIRED = {
    "class-name of add": add("", 'class-name="usr"'),
    "attr-name of add-attr": add(f"<add-attr {NAME}><value/></add-attr>"),
    "attr-name of modify-attr": modify(""),
    "attr-name of search-attr": f"<query><search-attr {NAME}><value/></search-attr></query>",
    "class-name of search-class": '<query><search-class class-name="usr"/></query>',
    "name of component": value("").replace("/>", '><component name="a"/></value>'),
    "level of status": '<status level="error"/>',
    "dest-dn of add-association": '<add-association dest-dn="O">a</add-association>',
    "class-name of instance": '<instance class-name="usr"/>',
    "attr-name of attr": f'<instance class-name="usr"><attr {NAME}/></instance>',
}
"""Documents that need the attribute which their name says."""


@pytest.fixture(params=list(Profile))
def profile(request: pytest.FixtureRequest) -> Profile:
    return Profile(request.param)


def findings(tmp_path: Path, operation: str, profile: Profile) -> list[Finding]:
    side = "output" if operation.startswith("<instance") else "input"
    path = tmp_path / "document.xds"
    path.write_text(f'<nds dtdversion="4.0"><{side}>{operation}</{side}></nds>', encoding="utf-8")
    return list(validate_files([path], profile))


@pytest.mark.parametrize("operation", ALLOWED)
def test_every_word_of_an_enumeration_passes(
    operation: str, profile: Profile, tmp_path: Path
) -> None:
    assert findings(tmp_path, operation, profile) == []


@pytest.mark.parametrize("operation", REFUSED)
def test_another_word_is_one_finding(operation: str, profile: Profile, tmp_path: Path) -> None:
    assert len(findings(tmp_path, operation, profile)) == 1


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_attribute_is_missed(name: str, profile: Profile, tmp_path: Path) -> None:
    attribute, _, element = name.partition(" of ")
    whole = REQUIRED[name]
    head, _, tail = whole.partition(f"<{element}")
    start, _, rest = tail.partition(f'{attribute}="')
    cut = f"{head}<{element}{start}" + rest.partition('"')[2]

    assert findings(tmp_path, whole, profile) == []
    [finding] = findings(tmp_path, cut, profile)
    assert finding.element.endswith(f"/{element}")
    assert finding.reason == f"The attribute '{attribute}' is required but missing."
