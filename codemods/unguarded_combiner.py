"""A drafter's ``combine_hidden_states`` projects the target model's hidden states uncast."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reached_layers import ReachedLayer, reached_layers
from dtypefix.analysis.witness import NoWitness, Witness, compute_dtype
from dtypefix.edits.cast import cast_before_use
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Evidence, Fix

COMBINER = "combine_hidden_states"
STATES = ("hidden_states", "previous_hidden_states")
PLAIN_LAYERS = {"torch.nn.Linear": "weight.dtype"}


class UnguardedCombiner(Rule):
    """Reports the projection (or, where there is none, the norm) that the states reach uncast."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Combiners, and the ``forward`` of drafter heads that take hidden states."""
        for node in module.nodes(ast.FunctionDef):
            if node.name == COMBINER or (_head_states(node) and b"cat(" in module.bytes_of(node)):
                yield node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one combiner or head."""
        if node.name.value not in (COMBINER, "forward"):
            return
        function = self.context.ast_of(node)
        owner = self.module.parents.get(function) if function is not None else None
        if not isinstance(function, FunctionNode) or not isinstance(owner, ast.ClassDef):
            return
        if function.name == "forward":
            self._head(function)
            return
        cls = self.project.class_of(self.module, owner)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if len(names) > 1:
            reached = list(reached_layers(cls, function, names[1], {COMBINER}))
            if reached:
                self._combiner(cls, function, names[1], reached)

    def _combiner(
        self, cls: ClassRef, function: FunctionNode, states: str, reached: list[ReachedLayer]
    ) -> None:
        places = [r for r in reached if not r.is_norm] or reached
        place = places[-1]
        layer = ".".join(("self", *place.path))
        witness = self._witness(cls, {p.path for p in places})
        evidence = [
            Evidence(self.module.path, function.lineno, f"`{states}` arrives in the target model's dtype"),
            *place.steps,
            Evidence(self.module.path, place.call.lineno, f"`{layer}` receives it without a cast"),
            *witness.evidence,
        ]
        fix, reason = None, None
        if isinstance(witness, NoWitness):
            reason = f"no cast is offered: {witness.reason}"
        else:
            calls = [r.call for r in reached]
            edits = cast_before_use(self.module, self.project, function, states, witness.expression, calls)
            if edits is None:
                reason = "no cast is offered: nowhere are the states one tensor and the layer surely there"
            else:
                fix = Fix("safe", f"cast {states} to {witness.expression}", edits)
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

    def _head(self, function: FunctionNode) -> None:
        """A note for a head that concatenates the states with its own embeddings and projects both."""
        flow = self.project.flows(self.module).function(function)
        for states in _head_states(function):
            for use in flow.uses(states, look_into=False):
                joined = isinstance(use.argument, ast.Call) and flow.callee(use.argument) == "torch.cat"
                if joined and use.callee.startswith("self."):
                    self.context.report(
                        use.call,
                        level="note",
                        message=f"{use.callee} relies on {states} having the model dtype",
                        unfixed_reason="the proposer's buffer holds the states in the model dtype",
                    )


def _head_states(function: FunctionNode) -> list[str]:
    if function.name != "forward":
        return []
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return [name for name in names if name in STATES]


__getattr__ = codemod_command(
    __name__,
    "Cast the target model's hidden states to the compute dtype of a drafter's projection.",
)
