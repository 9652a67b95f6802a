"""Which rules there are: packs found by entry point, one ``name.py`` beside ``name.md`` each.

A rule's page is read, its module is not: what the prefilter needs stands in the page's front
matter (TOML between two ``+++`` lines), so a run without a candidate never imports LibCST.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtypefix.errors import UserError

if TYPE_CHECKING:
    from dtypefix.analysis.knowledge import Knowledge
    from dtypefix.engine.rule import Rule

ENTRY_POINTS = "dtypefix.rules"
DEFAULT_GROUPS = ("core",)
ALL = "ALL"
PREVIEW = "preview"
_KEYS = {"summary", "group", "needles", "fix", "probes", "preview"}


@dataclass(frozen=True)
class RuleInfo:
    """What is known of a rule without importing it.

    ``needles`` are byte strings one of which a file must hold for the rule to look at it; ``fix``
    says which applicability its fixes have (``safe``, ``unsafe``, ``manual`` or several);
    ``probes`` names the validation probes that can show its rewrites right; ``page`` is the
    Markdown page without its front matter.
    """

    name: str
    group: str
    summary: str
    needles: tuple[bytes, ...]
    fix: tuple[str, ...]
    probes: tuple[str, ...]
    page: str
    module: str
    path: Path
    preview: bool = False

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that select the rule: its own, and ``preview`` while its precision is under 90 %."""
        return (self.group, PREVIEW) if self.preview and self.group != PREVIEW else (self.group,)

    @property
    def builtin(self) -> bool:
        """Whether the engine itself reports the rule, so that there is no class to load."""
        return not self.module

    def load(self) -> type[Rule]:
        """Import the rule's class.

        Raises:
            UserError: the module does not import, or holds no rule.
        """
        return _load(self.name, self.module)


@cache
def _load(name: str, module_name: str) -> type[Rule]:
    from dtypefix.engine.lazy import import_lazily
    from dtypefix.engine.rule import Rule

    # A rule's candidates come from the stdlib's ast: LibCST is loaded once there is one to look at.
    import_lazily("libcst")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(f"rule {name}: {module_name} does not import: {error!r}") from error
    found: list[type[Rule]] = [
        value
        for value in vars(module).values()
        if issubclass(type(value), type) and issubclass(value, Rule) and value.__module__ == module_name
    ]
    if len(found) != 1:
        raise UserError(f"rule {name}: {module_name} must define exactly one Rule class")
    found[0].name = name
    return found[0]


def split_page(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Split a rule page into its front matter and its Markdown.

    Raises:
        UserError: the page does not open with a ``+++`` block of valid TOML.
    """
    if not text.startswith("+++\n") or "\n+++\n" not in text:
        raise UserError(f"{where}: a rule page opens with TOML front matter between two lines of +++")
    head, _, page = text[4:].partition("\n+++\n")
    try:
        return tomllib.loads(head), page.lstrip("\n")
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: front matter: {error}") from error


def read_rule(page_path: Path, package: str) -> RuleInfo:
    """The rule of one page; ``package`` is empty for a rule of the engine itself.

    Raises:
        UserError: the page or its front matter is not usable.
    """
    meta, page = split_page(page_path.read_text(encoding="utf-8"), str(page_path))
    for key in meta.keys() - _KEYS:
        raise UserError(f"{page_path}: unknown key {key!r} in the front matter")
    for key in ("summary", "group", "needles"):
        if not meta.get(key):
            raise UserError(f"{page_path}: the front matter lacks {key!r}")
    return RuleInfo(
        name=page_path.stem.replace("_", "-"),
        group=meta["group"],
        summary=meta["summary"],
        needles=tuple(needle.encode() for needle in meta["needles"]),
        fix=tuple(meta.get("fix", ("manual",))),
        probes=tuple(meta.get("probes", ())),
        page=page,
        module=f"{package}.{page_path.stem}" if package else "",
        path=page_path,
        preview=meta.get("preview", False),
    )


def _pack(package: str) -> list[RuleInfo]:
    folder = Path(package) if os.path.isabs(package) else None
    if folder is not None:
        package = _importable(folder)
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise UserError(f"rule pack {package}: {error}") from error
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"rule pack {package}: no such package")
    if folder is not None and os.path.realpath(folder) not in map(
        os.path.realpath, spec.submodule_search_locations
    ):
        raise UserError(f"rule pack {folder}: another package is called {package}; rename the folder")
    found = []
    for location in spec.submodule_search_locations:
        for page in sorted(Path(location).glob("*.md")):
            if page.with_suffix(".py").is_file():
                found.append(read_rule(page, package))
    if not found:
        raise UserError(f"rule pack {package}: holds no rule (a name.py beside a name.md)")
    return found


def _importable(folder: Path) -> str:
    """The name under which the package in ``folder`` is imported from now on."""
    if not folder.is_dir() or not folder.name.isidentifier():
        raise UserError(f"rule pack {folder}: no folder of that name that Python could import")
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    return folder.name


@cache
def ignore_comment_rule() -> RuleInfo:
    """The rule under which faulty suppression comments are reported."""
    return read_rule(Path(__file__).with_name("ignore_comment.md"), "")


@dataclass(frozen=True)
class Catalog:
    """All rules of all packs, in the order of their names, and those of the engine itself."""

    rules: tuple[RuleInfo, ...]
    builtin: tuple[RuleInfo, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, RuleInfo]:
        """The rules by name, those of the engine included."""
        return {rule.name: rule for rule in (*self.rules, *self.builtin)}

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of all groups."""
        return tuple(sorted({group for rule in self.rules for group in rule.groups}))

    @property
    def default(self) -> set[str]:
        """The names of the rules that run when none is selected."""
        return {
            rule.name for rule in self.by_name.values() if rule.group in DEFAULT_GROUPS and not rule.preview
        }

    def get(self, name: str) -> RuleInfo:
        """The rule of a name.

        Raises:
            UserError: there is none; the nearest name is suggested.
        """
        if name in self.by_name:
            return self.by_name[name]
        raise UserError(f"unknown rule {name!r}{self._nearest(name)}; `dtypefix rules` lists them")

    def _nearest(self, name: str) -> str:
        import difflib

        known = [*self.by_name, *self.groups, ALL]
        near = difflib.get_close_matches(name, known, 1, 0.5)
        return f", did you mean {near[0]!r}?" if near else ""

    def expand(self, selectors: Iterable[str]) -> set[str]:
        """The names of the rules that selectors (a rule, a group or ``ALL``) stand for.

        Raises:
            UserError: a selector is none of these; the nearest is suggested.
        """
        names: set[str] = set()
        for selector in selectors:
            if selector == ALL:
                names.update(self.by_name)
            elif selector in self.by_name:
                names.add(selector)
            elif selector in self.groups:
                names.update(rule.name for rule in self.by_name.values() if selector in rule.groups)
            else:
                hint = self._nearest(selector)
                raise UserError(f"unknown rule or group {selector!r}{hint}; `dtypefix rules` lists them")
        return names

    def select(
        self, select: Sequence[str] = (), extend_select: Sequence[str] = (), ignore: Sequence[str] = ()
    ) -> tuple[RuleInfo, ...]:
        """The rules to run; without ``select`` those of the default group.

        The engine's own rules run whatever is selected, unless ``ignore`` takes them out.

        Raises:
            UserError: a selector is unknown, or no rule is left.
        """
        chosen = self.expand(select) if select else self.default
        chosen |= self.expand(extend_select)
        chosen -= self.expand(ignore)
        builtin = {rule.name for rule in self.builtin}
        if not chosen - builtin and not builtin.intersection(select):
            raise UserError("no rule is left to run: check --select and --ignore")
        chosen |= builtin - self.expand(ignore)
        return tuple(rule for rule in self.by_name.values() if rule.name in chosen)


def load_catalog(packs: Sequence[str] = ()) -> Catalog:
    """The pages of every installed pack, and of those named besides; each pack is read once.

    Args:
        packs: importable packages, and folders of packages as absolute paths.

    Raises:
        UserError: a pack cannot be read, or two packs define a rule of the same name.
    """
    return _catalog(tuple(packs), tuple(sys.path))


@cache
def _catalog(packs: tuple[str, ...], path: tuple[str, ...]) -> Catalog:
    """The catalogue for packs, and for the packages that can be imported from ``path``."""
    from importlib.metadata import entry_points

    packages = list(dict.fromkeys([*(ep.value for ep in entry_points(group=ENTRY_POINTS)), *packs]))
    rules: dict[str, RuleInfo] = {}
    for package in packages or ["codemods"]:
        for rule in _pack(package):
            if rule.name in rules:
                raise UserError(f"rule {rule.name} is defined by {rules[rule.name].path} and by {rule.path}")
            rules[rule.name] = rule
    return Catalog(tuple(sorted(rules.values(), key=lambda rule: rule.name)), (ignore_comment_rule(),))


def load_knowledge(rules: Iterable[RuleInfo], extra: Iterable[Path] = ()) -> Knowledge:
    """The merged ``knowledge/*.toml`` tables of the packs that rules come from.

    Args:
        rules: the rules whose packs count.
        extra: further tables, files or folders of them, laid over the packs'.

    Raises:
        UserError: a table is not valid TOML or holds an unknown value.
    """
    from dtypefix.analysis.knowledge import Knowledge

    folders = dict.fromkeys(rule.path.parent / "knowledge" for rule in rules)
    return Knowledge.merged([*(folder for folder in folders if folder.is_dir()), *extra])
