"""Consumes published documents: typed operations, in order, each once.

Needs lxml only; ``publisher.consumer.topics`` also needs confluent-kafka::

    objects = Objects()
    objects.apply_all(Inbox().in_order(read_files(part_files("out"))))
"""

from publisher.consumer.delivery import Delivery, KeyChange, from_record
from publisher.consumer.errors import (
    ConsumerError,
    DocumentError,
    EventIdError,
    HeldError,
    Origin,
    StateError,
    TopicError,
)
from publisher.consumer.files import part_files, read_files
from publisher.consumer.inbox import Inbox
from publisher.consumer.objects import KnownObject, Objects
from publisher.consumer.operations import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
    ValueComponent,
    ValueType,
)
from publisher.consumer.parse import Limits, parse_document

__all__ = [
    "Add",
    "AddValue",
    "AttributeChange",
    "ConsumerError",
    "Delete",
    "Delivery",
    "DocumentError",
    "EventIdError",
    "HeldError",
    "Inbox",
    "KeyChange",
    "KnownObject",
    "Limits",
    "Modify",
    "ModifyAssociation",
    "Objects",
    "Operation",
    "Origin",
    "RemoveAllValues",
    "RemoveValue",
    "StateError",
    "TopicError",
    "Value",
    "ValueComponent",
    "ValueType",
    "from_record",
    "parse_document",
    "part_files",
    "read_files",
]
