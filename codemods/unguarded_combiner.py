"""A drafter's ``combine_hidden_states`` projects the target model's hidden states uncast."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.uncast import CallKind, uncast_uses
from dtypefix.analysis.witness import NoWitness, Witness, compute_dtype, layers_at, owners_of, path_of
from dtypefix.edits.cast import cast_before_use
from dtypefix.engine.codemod import RuleCommand
from dtypefix.engine.rule import Rule
from dtypefix.findings import Evidence, Fix

COMBINER = "combine_hidden_states"
STATES = ("hidden_states", "previous_hidden_states")
PLAIN_LAYERS = {"torch.nn.Linear": "weight.dtype"}


@dataclass(frozen=True)
class _Projection:
    """A call that projects the states: ``path`` leads from ``self`` to the layer."""

    call: ast.Call
    path: tuple[str, ...]
    kind: CallKind
    steps: tuple[Evidence, ...]


class UnguardedCombiner(Rule):
    """Reports the projection (or, where there is none, the norm) that the states reach uncast."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Combiners, and the ``forward`` of drafter heads that take hidden states."""
        for node in ast.walk(module.tree):
            if isinstance(node, FunctionNode) and (node.name == COMBINER or _head_states(node)):
                yield node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one combiner or head."""
        if node.name.value not in (COMBINER, "forward"):
            return
        function = self.context.ast_of(node)
        owner = self.module.parents.get(function) if function is not None else None
        if not isinstance(function, FunctionNode) or not isinstance(owner, ast.ClassDef):
            return
        cls = self.project.class_of(self.module, owner)
        if function.name == COMBINER:
            self._combiner(cls, function)
        else:
            self._head(cls, function)

    def _combiner(self, cls: ClassRef, function: FunctionNode) -> None:
        parameter = _parameter(function)
        if parameter is None:
            return
        found = list(self._projections(cls, function, parameter, 0))
        places = [p for p in found if p.kind == "linear"] or found
        if not places:
            return
        place = places[-1]
        layer = ".".join(("self", *place.path))
        evidence = [
            Evidence(self.module.path, function.lineno, f"`{parameter}` arrives in the target model's dtype"),
            *place.steps,
            Evidence(self.module.path, place.call.lineno, f"`{layer}` receives it without a cast"),
        ]
        fix, reason = None, None
        witness = self._witness(cls, {p.path for p in places})
        evidence += witness.evidence
        if isinstance(witness, NoWitness):
            reason = f"no cast is offered: {witness.reason}"
        else:
            uses = [p.call for p in found]
            edits = cast_before_use(self.module, self.project, function, parameter, witness.expression, uses)
            if edits is None:
                reason = "no cast is offered: there is no statement to put it before"
            else:
                fix = Fix("safe", f"cast {parameter} to {witness.expression}", edits)
        self.context.report(
            place.call,
            level="warning",
            message=f"{layer} projects the target model's hidden states without a cast to its own dtype",
            evidence=evidence,
            fix=fix,
            unfixed_reason=reason,
        )

    def _witness(self, cls: ClassRef, paths: set[tuple[str, ...]]) -> Witness | NoWitness:
        """The one dtype that every layer in ``paths`` computes in, for the class and its subclasses."""
        if len(paths) != 1:
            names = ", ".join(sorted(f"`self.{'.'.join(p)}`" for p in paths))
            return NoWitness(f"the states reach {names}, which may compute in different dtypes")
        (path,) = paths
        witness = compute_dtype(cls, path, "params_dtype", PLAIN_LAYERS)
        if isinstance(witness, NoWitness):
            return witness
        for sub in self.project.subclasses(cls):
            method = sub.method(COMBINER)
            if method is None or method[0].key != cls.key:
                continue
            other = compute_dtype(sub, path, "params_dtype", PLAIN_LAYERS)
            if isinstance(other, NoWitness) or other.expression != witness.expression:
                where = Evidence(sub.module.path, sub.node.lineno, f"{sub.node.name} inherits the method")
                reason = other.reason if isinstance(other, NoWitness) else "it keeps its dtype elsewhere"
                return NoWitness(f"in the subclass {sub.node.name}, {reason}", (*witness.evidence, where))
        return witness

    def _projections(
        self, cls: ClassRef, function: FunctionNode, parameter: str, depth: int
    ) -> Iterator[_Projection]:
        """The layers that the parameter reaches uncast, here or in a method it is handed to."""
        for use in uncast_uses(function, parameter, lambda call: self._kind(cls, call)):
            path = path_of(use.call.func)
            if path is None:
                continue
            if use.kind in ("linear", "norm"):
                yield _Projection(use.call, path, use.kind, ())
            elif use.kind == "cast" and depth < 3 and path[-1] != COMBINER:
                yield from self._handed_on(cls, use.call, path, use.argument, depth)

    def _handed_on(
        self, cls: ClassRef, call: ast.Call, path: tuple[str, ...], argument: ast.expr, depth: int
    ) -> Iterator[_Projection]:
        owners = owners_of(cls, path[:-1])
        method = owners[0].method(path[-1]) if not isinstance(owners, NoWitness) and owners else None
        if method is None:
            return
        owner, function = method
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][1:]
        keyword = next((k.arg for k in call.keywords if k.value is argument), None)
        if keyword is None and argument in call.args and call.args.index(argument) < len(names):
            keyword = names[call.args.index(argument)]
        if keyword is None:
            return
        step = Evidence(self.module.path, call.lineno, f"it is handed to {owner.node.name}.{path[-1]}")
        for inner in self._projections(owner, function, keyword, depth + 1):
            here = inner.call if owner.module is self.module else call
            yield _Projection(here, (*path[:-1], *inner.path), inner.kind, (step, *inner.steps))

    def _kind(self, cls: ClassRef, call: ast.Call) -> CallKind | None:
        """What a call makes of the states; ``cast`` marks a method that they are handed to."""
        path = path_of(call.func)
        if path is None:
            return "other" if isinstance(call.func, ast.Attribute) and _is_super(call.func.value) else None
        owners = owners_of(cls, path[:-1])
        if not isinstance(owners, NoWitness) and any(owner.method(path[-1]) for owner in owners):
            return "cast"
        layers = layers_at(cls, path)
        names = [path[-1]] if isinstance(layers, NoWitness) else [layer.class_name for layer in layers]
        if any("norm" in name.lower() for name in names):
            return "norm"
        return "other" if path[-1] == COMBINER else "linear"

    def _head(self, cls: ClassRef, function: FunctionNode) -> None:
        """A note for a head that concatenates the states with its own embeddings and projects both."""
        for parameter in _head_states(function):
            for use in uncast_uses(function, parameter, lambda call: self._kind(cls, call)):
                concatenated = (
                    isinstance(use.argument, ast.Call) and ast.unparse(use.argument.func) == "torch.cat"
                )
                if use.kind == "linear" and concatenated:
                    self.context.report(
                        use.call,
                        level="note",
                        message=f"{ast.unparse(use.call.func)} relies on {parameter} having the model dtype",
                        unfixed_reason="the proposer's buffer holds the states in the model dtype",
                    )


def _parameter(function: FunctionNode) -> str | None:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return names[1] if len(names) > 1 else None


def _head_states(function: FunctionNode) -> list[str]:
    if function.name != "forward":
        return []
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return [name for name in names if name in STATES]


def _is_super(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id == "super"


class Command(RuleCommand):
    """``python -m libcst.tool codemod -x codemods.unguarded_combiner.Command PATH``."""

    DESCRIPTION = "Cast the target model's hidden states to the compute dtype of a drafter's projection."
    RULE = "unguarded-combiner"
