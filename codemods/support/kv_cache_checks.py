"""The ways in which code takes the KV cache's dtype from the wrong place, each as one question.

They serve the rule ``kv-cache-dtype-source``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.kv_cache import (
    KvCacheNames,
    compares_with,
    keyword_values,
    mentions,
    parameters,
    stores,
)
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk
from dtypefix.findings import Evidence

AUTO = "auto"
CACHE_CLASS, REPLACE = "Cache", "replace"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, what shows it, and the text to put in place of the node where that is known."""

    message: str
    evidence: tuple[Evidence, ...]
    reason: str
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands: its function and its class."""

    module: Module
    function: FunctionNode
    cls: ClassRef | None

    def see(self, node: ast.AST, text: str) -> Evidence:
        """Evidence in this file."""
        return Evidence(self.module.path, node.lineno, text)  # type: ignore[attr-defined]


def global_read(names: KvCacheNames, read: ast.Attribute, at: Place) -> Fault | None:
    """A read of the model-wide dtype where the dtype of the layers at hand is known, or must be found."""
    if not stores(at.function, names):
        fault = _unresolved_auto(names, read, at) or _beside_resolved(names, read, at)
        if fault is not None:
            return fault
    return _layer(names, read, at)


def _unresolved_auto(names: KvCacheNames, read: ast.Attribute, at: Place) -> Fault | None:
    below: ast.AST = read
    for parent in at.module.ancestors(read):
        if isinstance(parent, ast.keyword):
            if parent.arg not in ("dtype", "torch_dtype") or compares_with(at.function, AUTO):
                return None
            return Fault(
                f'`{parent.arg}` is given the KV-cache setting, which may be "{AUTO}"',
                (at.see(read, f'"{AUTO}" means the model dtype, and nothing here resolves it'),),
                "the dtype that stands for `auto` is the model's: decide between the two first",
            )
        wraps = isinstance(parent, ast.Call) and (
            ast.unparse(parent.func) == "str" or below is parent.func or below in parent.args
        )
        if not wraps and not isinstance(parent, ast.Attribute):
            return None
        if isinstance(parent, ast.Call) and below in parent.args and ast.unparse(parent.func) != "str":
            return None
        below = parent
    return None


def _beside_resolved(names: KvCacheNames, read: ast.Attribute, at: Place) -> Fault | None:
    """The class holds the dtype resolved for it, or was given the specification of its layers."""
    if not names.skips_layers() or names.knows_spec(at.function):
        return None
    spec = names.spec_of(at.function, at.cls)
    if spec is not None:
        if _reads_before(names, read, at):
            return None
        return Fault(
            f"the KV-cache dtype of the whole model is read where `{spec}` describes the layers at hand",
            (
                at.see(at.function, f"`{spec}` is at hand in `{at.function.name}`"),
                at.see(read, f"layers under {names.table['skip_option']} keep an unquantised cache"),
            ),
            f"which field of `{spec}` tells it depends on what the value is used for",
        )
    if at.cls is None or at.function.name == "__init__" or parameters(at.function)[:1] != ["self"]:
        return None
    resolved = names.resolved(at.cls)
    if resolved is None or not isinstance(resolved[1], ast.Name):
        return None
    attribute, value, module = resolved
    return Fault(
        f"the KV-cache dtype of the whole model is read beside `self.{attribute}`, which is this layer's",
        (
            Evidence(module.path, value.lineno, f"self.{attribute} is decided here"),
            at.see(read, "and passed over here"),
        ),
        f"`self.{attribute}` is the dtype of this layer",
        f"self.{attribute}",
    )


def _reads_before(names: KvCacheNames, read: ast.Attribute, at: Place) -> bool:
    """Whether the function has an earlier read, which speaks for this one too."""
    where = (read.lineno, read.col_offset)
    return any(
        names.is_global(n) and (n.lineno, n.col_offset) < where  # type: ignore[attr-defined]
        for n in walk(at.function)
    )


def _layer(names: KvCacheNames, read: ast.Attribute, at: Place) -> Fault | None:
    """A layer that takes the model-wide dtype for its own although single layers may be left out."""
    if at.cls is None or at.function.name != "__init__" or not names.skips_layers():
        return None
    if "prefix" not in parameters(at.function):
        return None
    skip = names.table["skip_option"]
    owner = at.cls.method(names.table["layer_method"])
    if owner is None or owner[0].key != at.cls.key or mentions(at.function, [skip]):
        return None
    if not _becomes_own(names, read, at):
        return None
    return Fault(
        f"the layer takes the model's KV-cache dtype for its own and never asks `{skip}`",
        (
            at.see(owner[1], f"`{at.cls.node.name}` declares a cache of its own"),
            at.see(read, "its dtype is the one of the whole model"),
        ),
        f"a layer that is named in `{skip}` keeps the dtype of the model: copy the test of the other layers",
    )


def _becomes_own(names: KvCacheNames, read: ast.Attribute, at: Place) -> bool:
    """Whether the value read ends in the attribute that holds the class's resolved dtype."""
    targets = set(names.table["resolved"])
    for node in walk(at.function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            if not any(inner is read for inner in walk(node.value)):
                continue
            ends = node.targets if isinstance(node, ast.Assign) else [node.target]
            return any(getattr(end, "attr", getattr(end, "id", "")) in targets for end in ends) and any(
                isinstance(n, ast.Attribute) and n.attr in targets and isinstance(n.ctx, ast.Store)
                for n in walk(at.function)
            )
    return False


def group_call(names: KvCacheNames, call: ast.Call, at: Place) -> Fault | None:
    """A call about one group's layers that is handed a cache dtype from elsewhere."""
    keyword = next(keyword_values(call, names.table["layer_keywords"]), None)
    if keyword is None or names.knows_spec(at.function) or not names.skips_layers():
        return None
    value = keyword.value
    given = isinstance(value, ast.Name) and value.id in parameters(at.function)
    if not given and not names.is_global(value):
        return None
    spec = next(
        (
            n.value.id
            for argument in call.args
            for n in walk(argument)
            if isinstance(n, ast.Attribute)
            and isinstance(n.value, ast.Name)
            and n.value.id in names.table["specs"]
        ),
        None,
    )
    if spec is None:
        return None
    return Fault(
        f"`{keyword.arg}` is one dtype for all groups, while the other arguments come from `{spec}`",
        (
            at.see(call, f"this asks about the layers that `{spec}` describes"),
            at.see(value, f"layers under {names.table['skip_option']} keep an unquantised cache"),
        ),
        f"take it from `{spec}`: unquantised groups have the plain layout",
    )


def literal_flag(names: KvCacheNames, call: ast.Call, at: Place) -> Iterator[tuple[ast.keyword, Fault]]:
    """A constant for "the cache is quantised" in a class that knows better."""
    resolved = names.resolved(at.cls) if at.cls is not None else None
    if resolved is None:
        return
    for keyword in keyword_values(call, names.table["quantised_flags"]):
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is False:
            yield (
                keyword,
                Fault(
                    f"`{keyword.arg}` is fixed, while `self.{resolved[0]}` says if the cache is quantised",
                    (Evidence(resolved[2].path, resolved[1].lineno, f"self.{resolved[0]} is decided here"),),
                    "the test for a quantised cache differs between releases",
                ),
            )


def auto_taken_for_quantised(names: KvCacheNames, test: ast.Compare, at: Place) -> Fault | None:
    """``!= "auto"``, which a cache in plain bfloat16 passes as well, where "quantised" is meant."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.NotEq):
        return None
    other = test.comparators[0]
    if not (isinstance(other, ast.Constant) and other.value == AUTO) or "cache_dtype" not in ast.unparse(
        test.left
    ):
        return None
    meant = _meaning(names, test, at)
    if meant is None or not names.has_plain_formats():
        return None
    return Fault(
        f'`!= "{AUTO}"` is taken for "quantised", but a cache can be set to bfloat16 or float16 as well',
        (at.see(meant[0], meant[1]),),
        "the test for a quantised cache differs between releases",
    )


def _meaning(names: KvCacheNames, test: ast.Compare, at: Place) -> tuple[ast.AST, str] | None:
    words = names.table["quantised_words"]
    below: ast.AST = test
    for parent in at.module.ancestors(test):
        if isinstance(parent, ast.Return):
            named = any(word in at.function.name for word in words)
            return (parent, f"`{at.function.name}` returns it") if named else None
        if isinstance(parent, ast.Assign):
            text = " ".join(ast.unparse(t) for t in parent.targets)
            return (parent, f"it becomes `{text}`") if any(w in text for w in words) else None
        if isinstance(parent, ast.BoolOp):
            if any(mentions_part(v, words) for v in parent.values if v is not below):
                return parent, "it is tested together with scales or quantisation"
        elif isinstance(parent, ast.IfExp | ast.If) and below is parent.test:
            body = parent.body if isinstance(parent, ast.If) else [parent.body]
            if any(isinstance(n, ast.Raise) for s in body for n in walk(s)):
                return None
            found = next((s for s in body if mentions_part(s, words)), None)
            return (found, "what follows is for a quantised cache") if found is not None else None
        elif not isinstance(parent, ast.UnaryOp):
            return None
        below = parent
    return None


def mentions_part(node: ast.AST, words: list[str]) -> bool:
    """Whether a name or attribute in code holds one of the words."""
    for inner in walk(node):
        name = getattr(inner, "attr", None) or getattr(inner, "id", None)
        if isinstance(name, str) and any(word in name for word in words):
            return True
    return False


def draft_config(names: KvCacheNames, call: ast.Call, at: Place) -> Fault | None:
    """A draft model's configuration made without its own cache setting."""
    facts = names.table["draft"]
    if last_name(call.func) != REPLACE or not call.args:
        return None
    given = {k.arg: k.value for k in call.keywords}
    model = given.get("model_config")
    if model is None or facts["keyword"] in given or None in given:
        return None
    if ast.unparse(call.args[0]) != facts["config"]:
        return None
    if not any(mark in ast.unparse(model) for mark in facts["marks"]):
        return None
    scope: ast.AST = at.cls.node if at.cls is not None else at.function
    if mentions(at.function, [facts["option"]]) or mentions_part(scope, ["kv_sharing"]):
        return None
    if names.project.definition(facts["owner"]) is None or not names.has_option(
        facts["owner"], facts["option"]
    ):
        return None
    return Fault(
        f"the draft model inherits `{facts['keyword']}`, so its own `{facts['option']}` is lost",
        (at.see(call, "only the model's part of the configuration is replaced"),),
        f"replace `{facts['keyword']}` as well where `speculative_config.{facts['option']}` is set",
    )


def keeps_resolved(node: ast.Assign, attributes: list[str]) -> bool:
    """Whether an attribute is given the cache's dtype that another object holds."""
    return (
        isinstance(node.value, ast.Attribute)
        and node.value.attr in attributes
        and isinstance(node.targets[0], ast.Attribute)
    )


def is_auto_test(node: ast.Compare) -> bool:
    """Whether a comparison is `!= "auto"`."""
    return (
        len(node.ops) == 1
        and isinstance(node.ops[0], ast.NotEq)
        and any(isinstance(c, ast.Constant) and c.value == AUTO for c in node.comparators)
    )


def builds_config(node: ast.Call) -> bool:
    """Whether a call builds a description of a cache, or a configuration with another model."""
    if last_name(node.func) == REPLACE:
        return any(k.arg == "model_config" for k in node.keywords)
    return is_cache_class(node)


def is_cache_class(node: ast.Call) -> bool:
    """Whether a call builds something named after a cache."""
    return isinstance(node.func, ast.Name) and CACHE_CLASS in node.func.id and node.func.id[:1].isupper()
