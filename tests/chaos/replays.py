"""The publisher is killed while it replays a snapshot to a directory."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.kills import job_file
from tests.chaos.known_log import random_events
from tests.chaos.marks import PHASES
from tests.chaos.scenarios import Say, Verdict, killer, lines, published_files, silent
from tests.support.event_log_files import csv_text, event

EVENTS = 20_000
IN_REPLAY = tuple(name for name in PHASES if name != "acknowledge")
"""A replay acknowledges nothing."""
JOB = """
[[sources]]
format = "event-log"
schema = "indirect"
poll_size = 300
poll_slack = 0

[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string" }

[run]
lanes = 3
"""


@dataclass
class KillsOfReplays:
    """Replays of one snapshot, each into a directory of its own, each killed a few times."""

    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills; each replay is killed until every phase had one, then finished."""
        rng = random.Random(self.seed)
        counts: Counter[int] = Counter()
        rows = [
            event(number, table_key=f"idu={key}", old_value=old, new_value=new)
            for number, (key, old, new) in enumerate(random_events(rng, counts, self.events), 1)
        ]
        snapshot = self.work / "snapshot.csv"
        snapshot.write_text(csv_text(rows))
        job = job_file(self.work / "replay.toml", JOB, "")
        words = ["replay", str(snapshot), "-c", str(job), "--to"]
        with killer(rng, self.work, IN_REPLAY) as killing:
            whole = self.work / "whole-replay"
            killing.run([*words, str(whole)], kill=False)
            targets: list[Path] = []
            while killing.goes_on(kills):
                targets.append(self.work / f"replay-{len(targets)}")
                for _ in IN_REPLAY:
                    self.say(f"{killing.run([*words, str(targets[-1])], kill=True)}")
                killing.run([*words, str(targets[-1])], kill=False)
        verdict = Verdict("publisher killed, replay to files")
        verdict.kills(killing.kills, IN_REPLAY)
        self._compare(verdict, targets, whole, counts)
        return verdict

    def _compare(
        self, verdict: Verdict, targets: list[Path], whole: Path, counts: Counter[int]
    ) -> None:
        undisturbed = published_files(whole)
        documents = list(lines(undisturbed))
        unlike = [target.name for target in targets if published_files(target) != undisturbed]
        verdict.documents("the undisturbed replay", documents, counts)
        verdict.figures |= {
            "replays": len(targets),
            "documents of each": len(documents),
            "with the bytes of an undisturbed one": len(targets) - len(unlike),
        }
        if unlike:
            verdict.problems.append(f"not the bytes of an undisturbed replay: {unlike}")
