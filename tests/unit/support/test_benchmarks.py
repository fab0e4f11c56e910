"""The command line of the benchmarks."""

from __future__ import annotations

import importlib
import inspect

import pytest
from click.testing import CliRunner

from tests.bench.__main__ import BENCHMARKS, main


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_accepts_all_options(name: str) -> None:
    module = importlib.import_module(f"tests.bench.{name.replace('-', '_')}")
    options = [option.name for option in main.params if option.name != "names"]
    inspect.signature(module.run).bind(**dict.fromkeys(options))


def test_an_unknown_benchmark_is_refused() -> None:
    result = CliRunner().invoke(main, ["event_log"])
    assert result.exit_code == 2
    assert "event-log" in result.output
