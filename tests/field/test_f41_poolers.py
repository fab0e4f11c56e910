"""A pooler of transactions between program and database changes nothing.

Named prepared statements existed twice or not at all behind a pooler; errors came only after a few
repeats.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.field.ways import install, write_comparison, write_log_job
from tests.services.databases import Place
from tests.services.servers import directory, free_port
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

ROWS = 500


@pytest.fixture
def pooled(postgres: Place) -> Iterator[Place]:
    """The database through PgBouncer, which gives connections for a transaction only."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not Path(program).exists():
        pytest.skip("not proved: a pooler of transactions (pgbouncer is not installed)")
    url = sa.make_url(postgres.url)
    port = free_port()
    with directory("postgres") as (folder, prefix):
        users = folder / "users.txt"
        users.write_text(f'"{url.username}" ""\n')
        settings = folder / "pgbouncer.ini"
        settings.write_text(f"""
[databases]
{url.database} = host={url.host} port={url.port} user={url.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits
unix_socket_dir =
""")
        command = [*prefix, program, str(settings)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        place = Place("postgresql", url.set(port=port).render_as_string(hide_password=False))
        deadline = time.monotonic() + 30
        while True:
            try:
                place.query("SELECT 1")
                break
            except sa.exc.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield place
        place.disconnect()
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_everything_works_through_a_pooler(
    bench: Workbench, postgres: Place, pooled: Place
) -> None:
    postgres.execute("CREATE TABLE usr (id int PRIMARY KEY, v text)")
    install(bench, postgres, "usr", style="query-back")
    postgres.execute(f"INSERT INTO usr SELECT n, 'v' || n FROM generate_series(1, {ROWS}) n")
    job = write_log_job(bench, pooled)
    bench.run("check", "-c", job)
    bench.publish(job=job)
    bench.publish(job=write_comparison(bench, pooled, ["usr"]))
    expected = {f"id={n},table=usr,schema=public": {"v": (f"v{n}",)} for n in range(1, ROWS + 1)}
    assert bench.objects("job-out") == bench.objects("compared-out") == expected
    assert postgres.query("SELECT DISTINCT status FROM event_log") == [("S",)]
    assert bench.verify(job=job).code == 0
