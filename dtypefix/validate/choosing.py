"""What a run is about: the places, and the probes their rules name."""

from __future__ import annotations

from collections.abc import Sequence

from dtypefix.errors import UserError
from dtypefix.findings import Finding
from dtypefix.validate.places import gone, parse_place
from dtypefix.validate.trees import Trees
from dtypefix.validate.verdict import Place


def choose_places(
    trees: Trees, named: Sequence[str], *, select: Sequence[str] = (), remaining: bool = False
) -> tuple[Place, ...]:
    """The places of a run: those named, else the findings of the base tree that are gone.

    Args:
        trees: the base and patched tree.
        named: places as ``path:line:rule``.
        select: rules or groups, as for a scan; the default rules when empty.
        remaining: count findings that are still there too.

    Raises:
        UserError: a place or rule is unknown, or there is no place.
    """
    if named:
        return tuple(parse_place(text, trees.base) for text in named)
    files = trees.changed
    places = tuple(
        gone(_scan(trees, "base", files, select), _scan(trees, "patched", files, select), remaining=remaining)
    )
    if not places:
        told = "no file under vllm/ differs" if not files else "no finding of the base tree is gone"
        raise UserError(f"nothing to prove: {told}; name places with --place PATH:LINE:RULE")
    return places


def probes_of(places: Sequence[Place]) -> dict[str, tuple[str, ...]]:
    """The probes that the page of each place's rule names.

    Raises:
        UserError: there is no such rule.
    """
    from dtypefix.engine.catalog import load_catalog

    catalog = load_catalog()
    return {rule: catalog.get(rule).probes for rule in {place.rule for place in places}}


def _scan(trees: Trees, which: str, paths: Sequence[str], select: Sequence[str]) -> list[Finding]:
    from dtypefix.api import InputFile, Options, Roots, scan

    root = trees.base if which == "base" else trees.patched
    files = [InputFile(path, root / path) for path in paths if (root / path).is_file()]
    results = scan(files, Options(select=tuple(select)), Roots(search=(root,), base=root))
    return [finding for result in results for finding in result.findings]
