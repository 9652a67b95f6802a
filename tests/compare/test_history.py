from __future__ import annotations

import pytest
from packaging.version import Version

from dtypefix.compare.history import chosen_versions
from dtypefix.errors import UserError

KNOWN = [
    Version(v) for v in ("0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0rc1", "0.11.0", "0.12.0", "0.12.1")
]


def chosen(span: str, *, every: bool = False) -> list[str]:
    return [str(version) for version in chosen_versions(span, KNOWN, every=every)]


def test_a_span_takes_its_ends_and_the_last_patch_of_each_minor_between() -> None:
    assert chosen("0.9.2..0.12.0") == ["0.9.2", "0.10.2", "0.11.0", "0.12.0"]
    assert chosen("0.10.0..0.11.0") == ["0.10.0", "0.10.2", "0.11.0"]


def test_every_takes_each_final_release() -> None:
    assert chosen("0.10.0..0.12.0", every=True) == ["0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.12.0"]


def test_an_open_end_is_the_first_or_the_last_release() -> None:
    assert chosen("0.11.0..") == ["0.11.0", "0.12.1"]
    assert chosen("..0.10.0") == ["0.9.2", "0.10.0"]


def test_a_list_is_taken_as_it_is_written() -> None:
    assert chosen("0.12.0, 0.11.0rc1") == ["0.12.0", "0.11.0rc1"]


def test_nothing_known_is_said() -> None:
    with pytest.raises(UserError, match="no releases"):
        chosen_versions("..", [], every=False)
