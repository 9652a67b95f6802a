"""Layers whose stored weight may be packed: what ``weight.dtype`` says is then not what they compute in."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dtypefix.analysis.classes import AttributeValue, ClassRef, Construction
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reaching import bindings, parameter_names
from dtypefix.analysis.walking import walk
from dtypefix.analysis.witness import path_of
from dtypefix.findings import Evidence

COMPUTE = "params_dtype"
QUANT_CONFIG = "quant_config"
# Layers that stand for a convolution over raw input: no quantisation method takes them.
_INPUT_LAYER = re.compile(r"patch|conv|stem")
_DEPTH = 5


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """A layer that a quantisation config can reach.

    ``computes`` says that each class it can have is seen to set ``params_dtype``; ``own`` that the
    layer is seen being built and keeps its weight to itself: that of an embedding or a head can be
    another model's, of another dtype.
    """

    class_name: str
    computes: bool
    own: bool
    evidence: Evidence


def packed_layer(cls: ClassRef, path: Sequence[str], depth: int = 0) -> PackedLayer | None:
    """The layer at ``self.<path>`` if its weight may be packed; None when it is not, or not in reach."""
    if not path or depth > _DEPTH:
        return None
    head, rest = path[0], path[1:]
    held = _property(cls, head)
    if held is not None:
        return packed_layer(cls, (*held, *rest), depth + 1)
    annotated = _annotated(cls, head)
    if annotated is not None and rest:
        return packed_layer(annotated, rest, depth + 1)
    built = cls.constructions(head)
    if built is None:
        return None if rest else _handed_in(cls, head, annotated)
    for construction in built:
        if rest:
            inner = construction.cls
            found = packed_layer(inner, rest, depth + 1) if inner is not None else None
        else:
            found = _packed(construction, ".".join(("self", *path)), depth)
        if found is not None:
            computes = found.computes and _all_compute(cls, path)
            return replace(found, computes=computes)
    return None


def _all_compute(cls: ClassRef, path: Sequence[str]) -> bool:
    """Whether each class that may build the layer, subclasses of ``cls`` included, sets its dtype."""
    for owner in (cls, *cls.project.subclasses(cls)):
        for construction in owner.constructions(path[0]) or ():
            built = construction.cls
            if built is None:
                return False
            if not (_all_compute(built, path[1:]) if path[1:] else built.defines(COMPUTE) is not None):
                return False
    return True


def first_parameter(cls: ClassRef, depth: int = 0) -> PackedLayer | bool:
    """The packed layer that holds the first parameter of a module; a bool when it is another.

    True says that the first parameter is seen and is not packed, False that it is not seen.
    """
    init = cls.method("__init__")
    if init is None or depth > _DEPTH:
        return False
    owner, function = init
    for stmt in _in_order(function):
        path = path_of(stmt.targets[0]) if isinstance(stmt, ast.Assign) else None
        if path is None or len(path) != 1 or not isinstance(stmt, ast.Assign):
            continue
        if not isinstance(stmt.value, ast.Call):
            continue
        if (owner.project.qualified(owner.module, stmt.value.func) or "").endswith("nn.Parameter"):
            return True
        for construction in cls.constructions(path[0]) or ():
            if construction.cls is None:
                if (construction.dotted or "").startswith("torch.nn."):
                    return True
                continue
            packed = _packed(construction, f"self.{path[0]}")
            if packed is not None:
                return packed
            if (
                construction.cls.defines(COMPUTE) is not None
                or construction.cls.defines("weight") is not None
            ):
                return True
            inner = first_parameter(construction.cls, depth + 1)
            if inner is not False:
                return inner
    return False


def is_quantisable(cls: ClassRef) -> bool:
    """Whether layers of a class take a quantisation config and a dtype to compute in."""
    inits = [base.own_methods["__init__"] for base in cls.mro if "__init__" in base.own_methods]
    taken = {name for init in inits for name in parameter_names(init)}
    return QUANT_CONFIG in taken and (COMPUTE in taken or cls.defines(COMPUTE) is not None)


def given_config(construction: Construction, name: str = QUANT_CONFIG) -> ast.expr | None:
    """The quantisation config that a call hands on, None when it hands on none or ``None``."""
    argument = construction.argument(name)
    if argument is None or _is_none(construction.module, argument):
        return None
    return argument


def _packed(construction: Construction, text: str, depth: int = 0) -> PackedLayer | None:
    if construction.cls is None or not is_quantisable(construction.cls):
        return None
    shown = f"`{text}` is built as {construction.class_name}"
    config = given_config(construction)
    if config is not None:
        shown = f"{shown} with {QUANT_CONFIG}={ast.unparse(config)}: its weight may be packed"
    elif depth and construction.argument(QUANT_CONFIG) is None and not _INPUT_LAYER.search(text):
        shown = f"{shown}, whose weight is packed once that class hands on a {QUANT_CONFIG}"
    else:
        return None
    evidence = Evidence(construction.module.path, construction.call.lineno, shown)
    computes = construction.cls.defines(COMPUTE) is not None
    return PackedLayer(construction.class_name, computes, not _embeds(construction.cls), evidence)


def _handed_in(cls: ClassRef, attribute: str, layer: ClassRef | None) -> PackedLayer | None:
    """A layer that the constructor is given, as its annotation tells."""
    if layer is None or not is_quantisable(layer):
        return None
    value = cls.attribute_values(attribute)[0]
    shown = f"`self.{attribute}` is handed in as {layer.node.name}, whose weight may be packed"
    evidence = Evidence(value.owner.module.path, value.line, shown)
    return PackedLayer(layer.node.name, layer.defines(COMPUTE) is not None, False, evidence)


def _annotated(cls: ClassRef, attribute: str) -> ClassRef | None:
    """The class of an attribute that is annotated, or is set from an annotated parameter."""
    for value in cls.attribute_values(attribute):
        statement = value.owner.module.parents.get(value.value)
        annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else _of_parameter(value)
        if isinstance(annotation, ast.BinOp):
            annotation = annotation.left
        if annotation is not None:
            found = cls.project.resolve_class(value.owner.module, annotation)
            if found is not None:
                return found
    return None


def _of_parameter(value: AttributeValue) -> ast.expr | None:
    """The annotation of the parameter that an attribute is set from."""
    if value.method is None or not isinstance(value.value, ast.Name):
        return None
    arguments = value.method.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg == value.value.id:
            return argument.annotation
    return None


def _property(cls: ClassRef, name: str) -> tuple[str, ...] | None:
    """The path that a property returns."""
    found = cls.method(name)
    if found is None or not any(ast.unparse(d) == "property" for d in found[1].decorator_list):
        return None
    last = found[1].body[-1]
    return path_of(last.value) if isinstance(last, ast.Return) and last.value is not None else None


def _embeds(cls: ClassRef) -> bool:
    return any("Embedding" in base.node.name or "Head" in base.node.name for base in cls.mro)


def _is_none(module: Module, expr: ast.expr) -> bool:
    if isinstance(expr, ast.Constant):
        return expr.value is None
    if isinstance(expr, ast.Name):
        values = bindings(module, expr.id, expr)
        return bool(values) and all(_is_none(module, b.value) for b in values)
    return False


def _in_order(function: FunctionNode) -> list[ast.stmt]:
    statements = [n for n in walk(function) if isinstance(n, ast.stmt)]
    return sorted(statements, key=lambda n: (n.lineno, n.col_offset))
