"""What an operator asks of the dtypes of its arguments, from a pack's ``[[contract]]`` rows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract of one operator.

    Attributes:
        op: last component of the called name.
        under: names of which one must stand in front of ``op`` in the called path, ``*`` for any
            letters; empty for any path.
        params: the arguments by position.
        same: groups of arguments that have one dtype.
        dtype: what an argument may be, by name.
        strict: arguments that callers are known to hand over in another dtype.
        why: which dtype they hand over.
        attention: whether a query is read beside the KV cache.
        when: a keyword, and what is asked besides if it is given.
        cite: where the contract is written down.
    """

    op: str
    under: tuple[str, ...]
    params: tuple[str, ...]
    same: tuple[tuple[str, ...], ...]
    dtype: Mapping[str, tuple[str, ...]]
    strict: frozenset[str]
    why: str
    attention: bool
    cite: str
    when: tuple[str, Mapping[str, tuple[str, ...]]] | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Contract:
        """The contract of one row."""
        when = row.get("when")
        return cls(
            row["op"],
            tuple(row.get("under", ())),
            tuple(row.get("params", ())),
            tuple(tuple(group) for group in row.get("same", ())),
            {name: tuple(allowed) for name, allowed in row.get("dtype", {}).items()},
            frozenset(row.get("strict", ())),
            row.get("why", ""),
            bool(row.get("attention")),
            row["cite"],
            (when["keyword"], {n: tuple(a) for n, a in when["dtype"].items()}) if when else None,
        )

    def fits(self, path: str) -> bool:
        """Whether a dotted path that ends in the operator's name can mean this operator."""
        if not self.under:
            return True
        front = path.split(".")[:-1]
        return any(fnmatchcase(part, pattern) for part in front for pattern in self.under)

    def bind(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """The arguments of a call by name; None where ``*`` or ``**`` hides which is which."""
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        given = dict(zip(self.params, call.args, strict=False))
        given.update((k.arg, k.value) for k in call.keywords if k.arg is not None)
        return given

    def allowed(self, given: Mapping[str, ast.expr]) -> dict[str, tuple[str, ...]]:
        """What the given arguments may be."""
        asked = dict(self.dtype)
        if self.when is not None and self.when[0] in given:
            asked.update(self.when[1])
        return {name: dtypes for name, dtypes in asked.items() if name in given}


@dataclass(frozen=True)
class Contracts:
    """All contracts by the name of the operator."""

    by_op: Mapping[str, tuple[Contract, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Contracts:
        """The contracts of a table's rows."""
        found: dict[str, list[Contract]] = {}
        for row in rows:
            contract = Contract.of(row)
            found.setdefault(contract.op, []).append(contract)
        return cls({op: tuple(contracts) for op, contracts in found.items()})

    def named(self, call: ast.Call) -> tuple[Contract, ...]:
        """The contracts that the written name of a call can mean."""
        func = call.func
        if isinstance(func, ast.Name):
            return self.by_op.get(func.id, ())
        return self.by_op.get(func.attr, ()) if isinstance(func, ast.Attribute) else ()

    def of_call(self, call: ast.Call, callee: str) -> Contract | None:
        """The contract of a call, given the dotted path that it calls (``""`` if that is not known)."""
        path = callee or ast.unparse(call.func)
        return next((contract for contract in self.named(call) if contract.fits(path)), None)
