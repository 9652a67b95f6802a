"""The text that findings point into, for formats that show code or speak of lines instead of bytes."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class SourceText:
    """The bytes of a file and where its lines stand; the file need not parse."""

    data: bytes

    @cached_property
    def encoding(self) -> str:
        """The encoding that the byte order mark or the coding cookie names; UTF-8 if it names none."""
        import io  # neither is needed by a run that shows no code
        import tokenize

        try:
            return tokenize.detect_encoding(io.BytesIO(self.data).readline)[0]
        except SyntaxError:
            return "utf-8"

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their endings; bytes that cannot be decoded show as U+FFFD."""
        return [line.decode(self.encoding, "replace").rstrip("\r\n") for line in self._raw]

    @cached_property
    def _raw(self) -> list[bytes]:
        return self.data.removeprefix(BOM).splitlines(keepends=True)

    @cached_property
    def _starts(self) -> list[int]:
        first = len(BOM) if self.data.startswith(BOM) else 0
        return list(accumulate(map(len, self._raw), initial=first))

    def line(self, number: int) -> str:
        """The line of a number counted from 1, or ``""`` where there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def start_of(self, number: int) -> int:
        """The byte at which a line (counted from 1) starts; the size of the file past its last line."""
        return self._starts[min(number, len(self._raw) + 1) - 1]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (from 1, in code points) of a byte offset in the file."""
        line = max(bisect.bisect_right(self._starts, offset) - 1, 0)
        before = self.data[self._starts[line] : offset]
        return line + 1, len(before.decode(self.encoding, "replace")) + 1
