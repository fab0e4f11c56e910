"""Templates of topic names, and Kafka targets of the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from publisher.errors import FatalError, UsageError

SCHEME = "kafka://"
PLACEHOLDERS = frozenset({"schema", "table", "source"})

_GREATEST_NAME = 249
_INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_FIELD = re.compile(r"\{([^{}]*)\}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


def template_problem(template: str, placeholders: frozenset[str] = PLACEHOLDERS) -> str | None:
    """Describes the problem of a template of topic names; ``None`` if it is valid."""
    for name in _FIELD.findall(template):
        if name not in placeholders:
            names = ", ".join(f"{{{field}}}" for field in sorted(placeholders))
            return f"{{{name}}} is not a placeholder here; use {names or 'a fixed name'}"
    literal = _FIELD.sub("", template)
    if forbidden := _NOT_ALLOWED.search(literal):
        return f"{forbidden[0]!r} cannot be in the name of a topic; use letters A-Z and a-z, digits, . _ -"
    if not template:
        return "a topic needs a name"
    return _name_problem(template) if literal == template else None


def _name_problem(name: str) -> str | None:
    if name in ("", ".", ".."):
        return f"{name!r} cannot be the name of a topic"
    if len(name) > _GREATEST_NAME:
        return f"a topic's name has at most {_GREATEST_NAME} characters, this one {len(name)}"
    return None


def fill_template(template: str, **values: str | None) -> str:
    """Fills a template of topic names.

    Characters that names of topics cannot contain become ``_``; a placeholder without value is omitted with
    the separator after it, or else before it.

    Raises:
        FatalError: The result is not a valid name.
    """
    name = _fill(template, values)
    problem = _name_problem(name)
    if problem is not None:
        raise FatalError(f"{problem} ({_describe_values(values)}): change topic in [dispatch]")
    return name


def _fill(template: str, values: dict[str, str | None]) -> str:
    for name, value in values.items():
        field = re.escape(f"{{{name}}}")
        if value is None:
            template = re.sub(rf"{field}[._-]|[._-]?{field}", "", template)
        else:
            clean = _NOT_ALLOWED.sub("_", value)
            template = re.sub(field, clean, template)
    return template


def _describe_values(values: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """The topic of a document, by schema, table and name of its source."""

    text: str

    @property
    def fields(self) -> frozenset[str]:
        """The placeholders of the template."""
        return frozenset(_FIELD.findall(self.text))

    def topic(self, source: str, schema: str | None, table: str) -> str:
        """The topic of a table.  Raises ``FatalError`` if the name is not valid."""
        return fill_template(self.text, source=source, schema=schema, table=table)

    def may_name(self, topic: str) -> bool:
        """Tests whether a topic may be that of a table; a missing schema leaves out a separator, too."""
        texts = [re.escape(text.strip("._-")) for text in _FIELD.split(self.text)[::2]]
        pattern = ".*".join(texts) if self.fields else re.escape(self.text)
        return topic not in _INTERNAL_TOPICS and re.fullmatch(pattern, topic) is not None

    def problem(self, source: str, schema: str | None, table: str) -> str | None:
        """Explains why the topic of a table is not usable; ``None`` if it is."""
        name = _fill(self.text, {"source": source, "schema": schema, "table": table})
        if name in _INTERNAL_TOPICS:
            return f"topic {name} is internal to Kafka"
        return _name_problem(name)


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """``kafka://HOST:PORT[,HOST:PORT]/TOPIC`` of the command line."""

    bootstrap: str
    topic: str

    @classmethod
    def parse(cls, text: str) -> KafkaTarget:
        """Parses a target.

        Raises:
            UsageError: The text is not a target.
        """
        brokers, _, topic = text.removeprefix(SCHEME).partition("/")
        if not text.startswith(SCHEME) or not topic:
            raise UsageError(f"incomplete Kafka target: write {SCHEME}HOST:PORT[,HOST:PORT]/TOPIC")
        if "@" in brokers:  # not shown: it may hold a password
            raise UsageError(
                f"a {SCHEME} target holds no user or password: set them in [dispatch.kafka] of a "
                "job file, and pass that file with -c"
            )
        for broker in brokers.split(","):
            match = _BROKER.fullmatch(broker)
            if match is None or not 0 < int(match[2]) < 65_536:
                raise UsageError(f"{broker!r} is not a broker: write HOST:PORT")
        problem = template_problem(topic)
        if problem is not None:
            raise UsageError(f"topic {topic}: {problem}")
        return cls(brokers, topic)
