"""Random event logs of users with children, references and changes of keys, and the users they lead to."""

from __future__ import annotations

import random
from collections import defaultdict

from publisher.consumer import Objects, Value
from tests.golden.test_classes import JOB

RENAMING = JOB.replace("[source]", '[source]\nkey_change = "modify-association"')
ALPHABET = "aé\"',\\<&;=+ "


class UserLog:
    """Users with names, managers, phones and groups, and the event log of their changes, keys included."""

    def __init__(self, rng: random.Random) -> None:
        self.users: dict[int, dict[str, list[str]]] = {}
        self.events: list[str] = []
        self._rng = rng

    def step(self) -> None:
        number = self._rng.randrange(6)
        if number not in self.users:
            self.users[number] = defaultdict(list)
            self._log(1, "usr", number, "fname", "", self._set(number, "fname"))
        elif self._rng.random() < 0.15:
            self.events.append(f"4|usr|idu={number}")
            self._delete_children(self.users.pop(number), number)
        elif self._rng.random() < 0.15 and (free := [n for n in range(6) if n not in self.users]):
            new = self._rng.choice(free)
            self.users[new] = self.users.pop(number)
            self._log(2, "usr", number, "idu", str(number), str(new))
        elif self._rng.random() < 0.4:
            column = self._rng.choice(["fname", "manager"])
            kind = self._rng.choice([2, 3])
            old = "".join(self.users[number][column])
            self._log(kind, "usr", number, column, old, self._set(number, column))
        else:
            self._change_child(number)

    def objects(self) -> dict[str, dict[str, list[str]]]:
        """The values that exist, by association and attribute."""
        return {
            f"idu={number},table=usr,schema=indirect": {
                name: values for name, values in user.items() if values
            }
            for number, user in self.users.items()
        }

    def _delete_children(self, user: dict[str, list[str]], number: int) -> None:
        """Logs a cascade after the delete of the parent; the events do not restore the user."""
        for name in ("usr_phone.phoneno", "usr_mbr_of.idg"):
            table, _, column = name.partition(".")
            for value in user[name]:
                self._log(2, table, number, column, value, "")

    def _change_child(self, number: int) -> None:
        table, column = self._rng.choice([("usr_phone", "phoneno"), ("usr_mbr_of", "idg")])
        values = self.users[number][f"{table}.{column}"]
        old = self._rng.choice(values) if values and self._rng.random() < 0.6 else ""
        if old:
            values.remove(old)
        new = str(len(self.events)) if not old or self._rng.random() < 0.5 else ""
        if new:
            values.append(new)
        kind = 2 if old or self._rng.random() < 0.5 else 1
        self._log(kind, table, number, column, old, new)

    def _set(self, number: int, column: str) -> str:
        text = str(self._rng.randrange(4))
        if column == "fname":
            text = "x" + "".join(self._rng.choices(ALPHABET, k=3))
        self.users[number][column] = [text]
        return text

    def _log(self, kind: int, table: str, number: int, column: str, old: str, new: str) -> None:
        self.events.append(f"{kind}|{table}|idu={number}|{column}|{old}|{new}")


def shown(values: tuple[Value, ...]) -> list[str]:
    """Returns the keys of references and the texts of other values."""
    return [
        value.text
        if value.association_ref is None
        else value.association_ref.partition(",")[0].partition("=")[2]
        for value in values
    ]


def shown_objects(objects: Objects) -> dict[str, dict[str, list[str]]]:
    """The values of objects by association and attribute, in the form of ``UserLog.objects``."""
    return {
        association: {name: shown(values) for name, values in known.attributes.items()}
        for association, known in objects.items()
    }
