from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from dtypefix import pool
from dtypefix.errors import UserError


def doubler(add: int) -> Callable[[int], int]:
    return lambda number: 2 * number + add


def dying() -> Callable[[int], int]:
    return lambda number: os._exit(9) if number == 5 else number


def test_results_come_in_order() -> None:
    assert list(pool.run(doubler, (1,), range(30), 2)) == [2 * n + 1 for n in range(30)]


def test_a_process_that_dies_is_said_in_one_line() -> None:
    with pytest.raises(UserError, match="--jobs 1"):
        list(pool.run(dying, (), range(30), 2))


def test_few_files_are_not_worth_a_process() -> None:
    assert pool.processes(None, 10) == 1
    assert pool.processes(4, 2) == 2
    assert pool.processes(3, 100) == 3
