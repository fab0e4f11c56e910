"""Redaction: secrets disappear as whole fields, and messages stay readable."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import OperationalError

from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.redaction import redact
from tests.support.timing import assert_linear


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('FATAL: password authentication failed for user "e"', "a"),
        ('FATAL: password authentication failed for user "e"', "password"),
        ("Access denied for user 'e'@'localhost' (using password: YES)", "e"),
        ('FATAL: database "hr" does not exist', "hr"),
        ("connection to server at localhost (127.0.0.1), port 5432 failed", "localhost"),
        ("/etc/ssl/ca.pem: No such file or directory", "No"),
        ("", "a"),
    ],
)
def test_a_short_or_ordinary_password_changes_no_message(text: str, secret: str) -> None:
    assert redact(text, [secret]) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open host=h password=a user=e", "cannot open host=h password=*** user=e"),
        ("invalid dsn: password='it \\' is' host=h", "invalid dsn: password=*** host=h"),
        ("DRIVER=x;UID=e;PWD=a;SERVER=h", "DRIVER=x;UID=e;PWD=***;SERVER=h"),
        ("no such option in postgresql://e:a@h/d", "no such option in postgresql://***@h/d"),
        ("in postgresql://e:p@ss:w@h/d?sslpassword=b&x=1", "in postgresql://***@h/d?sslpassword=***&x=1"),
        ('Invalid value "b" for configuration property "sasl.password"',
         'Invalid value *** for configuration property "sasl.password"'),
        ('{"sasl.password": "a", "acks": "all"}', '{"sasl.password": ***, "acks": "all"}'),
        ("syntax error near IDENTIFIED BY 'a' at line 1", "syntax error near IDENTIFIED BY *** at line 1"),
    ],
)  # fmt: skip
def test_fields_that_hold_secrets_are_redacted_by_their_place(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_a_known_secret_disappears_with_the_field_around_it() -> None:
    text = 'no entry for "s3cret-s3cret"; tried xs3cret-s3cretx, and gave up'
    assert redact(text, ["s3cret-s3cret"]) == 'no entry for "***"; tried ***, and gave up'


def test_the_words_of_a_driver_stay_whole_where_the_password_is_a_letter() -> None:
    database = Database(DatabaseOptions(url="postgresql://e:a@h/d?sslpassword=pa55-word"))
    error = Exception('FATAL: failed to greet user "e"')
    assert database.redact(error) == 'FATAL: failed to greet user "e"'
    assert database.redact(Exception("the key pa55-word is wrong")) == "the key *** is wrong"
    refusal = OperationalError("SELECT 1", {}, Exception("password=a is wrong"))
    assert database.redact(refusal) == "password=*** is wrong"


@pytest.mark.parametrize("word", ["x", "a.", "a.b://", "value ", "password ", 'value "', "pwd=x@"])
def test_a_long_message_is_redacted_in_linear_time(word: str) -> None:
    assert_linear(lambda size: redact(word * (size // len(word)), ["s3cret-s3cret"]), 50_000)
