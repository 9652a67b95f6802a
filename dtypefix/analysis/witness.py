"""The expression that tells a layer's compute dtype, and the proof that it can be read."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dtypefix.analysis.classes import ClassRef, Construction
from dtypefix.findings import Evidence


@dataclass(frozen=True, slots=True)
class Witness:
    """``expression`` reads the dtype a layer computes in; ``evidence`` shows why it may be read."""

    expression: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class NoWitness:
    """Why no expression is known to tell the dtype; ``evidence`` shows what was found."""

    reason: str
    evidence: tuple[Evidence, ...] = ()


def path_of(expr: ast.expr, this: str = "self") -> tuple[str, ...] | None:
    """The attribute names of ``self.a.b``, ``("a", "b")``; None for any other expression."""
    names: list[str] = []
    while isinstance(expr, ast.Attribute):
        names.append(expr.attr)
        expr = expr.value
    return tuple(reversed(names)) if names and isinstance(expr, ast.Name) and expr.id == this else None


def owners_of(cls: ClassRef, path: Sequence[str]) -> list[ClassRef] | NoWitness:
    """The classes that the object ``self.<path>`` can have."""
    current = [cls]
    for depth, attribute in enumerate(path):
        following: list[ClassRef] = []
        for owner in current:
            built = _built(owner, attribute, ".".join(("self", *path[: depth + 1])))
            if isinstance(built, NoWitness):
                return built
            for construction in built:
                if construction.cls is None:
                    return _out_of_reach(construction)
                following.append(construction.cls)
        current = following
    return current


def layers_at(cls: ClassRef, path: Sequence[str]) -> list[Construction] | NoWitness:
    """The calls that can build the layer ``self.<path>``."""
    owners = owners_of(cls, path[:-1])
    if isinstance(owners, NoWitness):
        return owners
    layers: list[Construction] = []
    for owner in owners:
        built = _built(owner, path[-1], ".".join(("self", *path)))
        if isinstance(built, NoWitness):
            return built
        layers.extend(built)
    return layers


def _built(owner: ClassRef, attribute: str, text: str) -> list[Construction] | NoWitness:
    built = owner.constructions(attribute)
    if built:
        return built
    values = owner.attribute_values(attribute)
    if values:
        where = values[0]
        evidence = Evidence(where.owner.module.path, where.line, f"{text} is set here")
        return NoWitness(f"the call that builds `{text}` is not understood", (evidence,))
    for base in owner.unresolved_bases:
        if not base.startswith(("torch.", "abc.", "typing.", "object")) and "." in base:
            return NoWitness(_look_up(base))
    return NoWitness(f"nothing in reach builds `{text}`")


def _look_up(dotted: str) -> str:
    top = dotted.partition(".")[0]
    if top == "vllm":
        return (
            f"`{dotted}` is not in reach: say where vLLM's sources are with "
            "--vllm-root PATH or --vllm-root vllm==VERSION"
        )
    return f"`{dotted}` is not in reach"


def _out_of_reach(construction: Construction) -> NoWitness:
    evidence = Evidence(
        construction.module.path, construction.call.lineno, f"built here as {construction.class_name}"
    )
    return NoWitness(_look_up(construction.dotted or construction.class_name), (evidence,))


def compute_dtype(
    cls: ClassRef, path: Sequence[str], compute_attribute: str, plain_layers: Mapping[str, str]
) -> Witness | NoWitness:
    """The witness for the layer ``self.<path>`` of a class.

    Args:
        cls: the class whose ``self`` is meant.
        path: attribute names from ``self`` to the layer.
        compute_attribute: the attribute in which layers keep their compute dtype; it is a witness
            only where the layer's class, or a base of it, is seen to set it.
        plain_layers: dotted names of layers that are never quantised, with the attribute path that
            tells their dtype (``{"torch.nn.Linear": "weight.dtype"}``).
    """
    layers = layers_at(cls, path)
    if isinstance(layers, NoWitness):
        return layers
    evidence: list[Evidence] = []
    attributes: set[str] = set()
    text = ".".join(("self", *path))
    for layer in layers:
        evidence.append(_construction_evidence(layer, text))
        if layer.cls is None:
            plain = plain_layers.get(layer.dotted or "")
            if plain is None:
                return NoWitness(_look_up(layer.dotted or layer.class_name), tuple(evidence))
            attributes.add(plain)
            continue
        sets = layer.cls.defines(compute_attribute)
        if sets is None:
            return NoWitness(f"`{layer.class_name}` does not set `{compute_attribute}`", tuple(evidence))
        attributes.add(compute_attribute)
        owner = sets.owner.node.name
        evidence.append(
            Evidence(
                sets.owner.module.path, sets.line, f"{owner} sets self.{compute_attribute}, its compute dtype"
            )
        )
    if len(attributes) != 1:
        return NoWitness(
            f"`{text}` is built by classes that keep their dtype in different places", tuple(evidence)
        )
    return Witness(f"{text}.{attributes.pop()}", tuple(dict.fromkeys(evidence)))


def _construction_evidence(layer: Construction, text: str) -> Evidence:
    quant = layer.argument("quant_config")
    if quant is None or (isinstance(quant, ast.Constant) and quant.value is None):
        how = "without a quant_config"
    else:
        how = f"with quant_config={ast.unparse(quant)}, so its weight may be packed"
    return Evidence(
        layer.module.path, layer.call.lineno, f"{text} is built here as {layer.class_name}, {how}"
    )
