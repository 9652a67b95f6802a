"""Where a class or function already has the model's dtype, and what to call it."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import walk

_MODEL_DTYPE = re.compile(r"\bmodel_config\.dtype$")
_PARAMETER = re.compile(r"^(params_|model_)?dtype$")


def carried_dtype(module: Module, at: ast.AST) -> ast.arg | ast.Attribute | None:
    """The parameter or the read of ``model_config.dtype`` that brings the model's dtype to a node's class.

    The node's own function comes first, then the other methods of its class.
    """
    function, owner = module.enclosing_function(at), module.enclosing_class(at)
    others = [n for n in owner.body if isinstance(n, FunctionNode)] if owner is not None else []
    for scope in [*([function] if function is not None else []), *others]:
        for argument in (*scope.args.args, *scope.args.kwonlyargs):
            if _PARAMETER.search(argument.arg):
                return argument
        for node in walk(scope):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "dtype"
                and _MODEL_DTYPE.search(ast.unparse(node))
            ):
                return node
    return None


def partner_dtype(module: Module, call: ast.Call) -> str | None:
    """``x.dtype`` where the tensor that ``call`` makes is bound to a name and then meets ``x``."""
    assign, function = module.parents.get(call), module.enclosing_function(call)
    if not isinstance(assign, ast.Assign) or not isinstance(assign.targets[0], ast.Name) or function is None:
        return None
    name = assign.targets[0].id
    for node in walk(function):
        sides: list[ast.expr] = []
        if isinstance(node, ast.AugAssign):
            sides = [node.target, node.value]
        elif isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
        names = [side.id for side in sides if isinstance(side, ast.Name)]
        if len(names) == 2 and name in names:
            names.remove(name)
            return f"{names[0]}.dtype"
    return None
