"""The ways in which an argument can break an operator's contract, each as one question.

They serve the rule ``kernel-argument-dtype``.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from codemods.support.kernel_argument_cache import matched_elsewhere, mixed_with_cache
from codemods.support.kernel_argument_call import Bound, Fault, class_values, groups, root, wants
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value
from dtypefix.analysis.project import Project
from dtypefix.findings import Edit, Fix

SHORT = 6
FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})


def faults(bound: Bound) -> Iterator[Fault]:
    """What is wrong with the arguments of a call, the surest first."""
    seen: set[int] = set()
    questions = (
        _forbidden,
        _known,
        _unequal,
        mixed_with_cache,
        _half_converted,
        _untied,
        _strict,
        _roles,
        _siblings,
    )
    for question in questions:
        for fault in question(bound):
            if id(fault.argument) not in seen:
                seen.add(id(fault.argument))
                yield fault


def _forbidden(bound: Bound) -> Iterator[Fault]:
    """A dtype that is known, and not among those that the operator takes."""
    for name, allowed in bound.contract.allowed(bound.given).items():
        value = bound.value(name)
        real = bound.real(name)
        if value.form is not Form.TENSOR or not real or any(o.kind is not Kind.LITERAL for o in real):
            continue
        if all(o.detail not in allowed for o in real):
            yield Fault(
                bound.given[name],
                "error",
                f"`{bound.contract.op}` takes {_either(allowed)} for `{name}`, which is {value.describe()}",
                (value,),
                f"torch.{allowed[0]}" if len(allowed) == 1 else None,
                "more than one dtype would do",
            )


def _known(bound: Bound) -> Iterator[Fault]:
    """A value whose dtype is the same wherever it is made, where the operator wants another."""
    for name, allowed in bound.contract.allowed(bound.given).items():
        real = bound.real(name)
        known = {bound.known.get(".".join(o.detail.split(".")[-2:])) for o in real if o.foreign}
        if len(real) == 1 and known and None not in known and known.isdisjoint(allowed):
            yield Fault(
                bound.given[name],
                "warning",
                f"`{bound.contract.op}` takes {_either(allowed)} for `{name}`, and "
                f"`{real[0].detail}` is `torch.{known.pop()}`",
                (bound.value(name),),
                f"torch.{allowed[0]}" if len(allowed) == 1 else None,
                "more than one dtype would do",
            )


def _unequal(bound: Bound) -> Iterator[Fault]:
    """Two arguments that must have one dtype and have two."""
    for group in groups(bound):
        settled = [n for n in group if bound.value(n).form is Form.TENSOR and _settled(bound.value(n))]
        for name in settled[1:]:
            first, value = bound.value(settled[0]), bound.value(name)
            if first.same_dtype(value) or bound.is_tested(name) or bound.is_tested(settled[0]):
                continue
            yield Fault(
                bound.given[name],
                "error" if first.literal and value.literal else "warning",
                f"{wants(bound, settled[0], name)}: {first.describe()} meets {value.describe()}",
                (first, value),
            )


def _settled(value: Value) -> bool:
    return value.literal is not None or value.must_be(Kind.MODEL)


def _half_converted(bound: Bound) -> Iterator[Fault]:
    """One argument of a group is cast to a dtype written here, another is left as it came."""
    for group in groups(bound):
        cast = [
            n
            for n in group
            if bound.value(n).literal in FLOATING
            and bound.flow.casts(bound.given[n])
            and not bound.is_tested(n)
        ]
        for name in group:
            if cast and _agrees_by_role(bound, cast[0], name):
                continue
            if cast and bound.plain(name) and not bound.is_tested(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{wants(bound, cast[0], name)}: the former is cast to "
                    f"{bound.value(cast[0]).describe()}, the latter stays as it comes",
                    (bound.value(cast[0]), bound.value(name)),
                    f"torch.{bound.value(cast[0]).literal}",
                )


def _agrees_by_role(bound: Bound, cast: str, name: str) -> bool:
    """Whether a cast to float32 meets what is float32 by its role."""
    if name in bound.contract.strict:
        return False
    return bound.value(cast).literal == "float32" and _named(bound, name, "float32")


def _untied(bound: Bound) -> Iterator[Fault]:
    """One pair of arguments is brought to one dtype in the call, its twin pair is not."""
    pairs = list(groups(bound))
    tied = [g for g in pairs if len(g) > 1 and any(_ties(bound, n) for n in g)]
    if not tied:
        return
    for group in pairs:
        if group in tied or len(group) < 2 or any(bound.is_tested(n) or not _open(bound, n) for n in group):
            continue
        one, two = group[0], group[1]
        if not bound.value(one).origins & bound.value(two).origins:
            yield Fault(
                bound.given[two],
                "warning",
                f"{wants(bound, one, two)}, as for `{tied[0][0]}` and "
                f"`{tied[0][1]}`, but only the latter two are brought to one",
                (bound.value(one), bound.value(two)),
            )


def _ties(bound: Bound, name: str) -> bool:
    return any(
        isinstance(a, ast.Attribute) and a.attr == "dtype"
        for cast in bound.flow.casts(bound.given[name])
        if any(cast is n for n in ast.walk(bound.given[name]))
        for a in (*cast.args, *(k.value for k in cast.keywords))
    )


def _open(bound: Bound, name: str) -> bool:
    real = bound.real(name)
    return bool(real) and all(o.foreign for o in real)


def _strict(bound: Bound) -> Iterator[Fault]:
    """An argument that callers are known to hand over in another dtype, and nothing looks at it."""
    for name, allowed in bound.contract.allowed(bound.given).items():
        if name not in bound.contract.strict or bound.is_tested(name):
            continue
        value = bound.value(name)
        real = bound.real(name)
        if real and all(o.kind is Kind.MODEL or (o.foreign and o.kind is not Kind.OUTPUT) for o in real):
            if len(allowed) == 1 and not _model_dtypes_are(bound, allowed):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"`{bound.contract.op}` takes only {_either(allowed)} for `{name}`: {bound.contract.why}",
                    (value,),
                    f"torch.{allowed[0]}",
                )


def _model_dtypes_are(bound: Bound, allowed: tuple[str, ...]) -> bool:
    """Whether the backends of the file say which model dtypes they take, and all of these are allowed."""
    values = class_values(bound.flow.module, "supported_dtypes")
    found = {n.attr for value in values for n in ast.walk(value) if isinstance(n, ast.Attribute)}
    found -= {"dtype"}
    return bool(found) and found <= set(allowed)


def _roles(bound: Bound) -> Iterator[Fault]:
    """What a router keeps in float32, in a group with activations."""
    for group in groups(bound):
        tokens = [n for n in group if _is_activation(bound, n)]
        for name in group:
            if tokens and _named(bound, name, "float32") and not bound.is_tested(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{wants(bound, tokens[0], name)}: by its name the latter is float32, and "
                    "the former has the model dtype",
                    (bound.value(tokens[0]), bound.value(name)),
                    f"{ast.unparse(root(bound.given[tokens[0]]))}.dtype",
                )


def _siblings(bound: Bound) -> Iterator[Fault]:
    """An argument that every other call of the operator in the file, or another branch, casts."""
    flows = bound.flow.flows
    partners = {n: group[0] for group in groups(bound) for n in group[1:]}
    for name in {**partners, **bound.contract.allowed(bound.given)}:
        if not bound.plain(name) or bound.is_tested(name):
            continue
        partner = partners.get(name)
        if partner is not None and bound.value(name).origins & bound.value(partner).origins:
            continue
        others = _others(bound, name)
        if others and all(_casts(other) or flows.at(other).casts(other) for other in others):
            what = f"the same is cast for `{name}` in the other calls of this file, and not here"
        elif bound.contract.attention and partner is not None and matched_elsewhere(bound, partner):
            what = f"another branch brings the cache to the dtype of `{partner}`, `{name}` stays as it comes"
        else:
            continue
        yield Fault(bound.given[name], "warning", f"`{bound.contract.op}`: {what}", (bound.value(name),))


def _others(bound: Bound, name: str) -> list[ast.expr]:
    """What other calls of the operator in the file give for an argument, if it is of the same name."""
    found = []
    tails = {o.detail.partition("[")[0].rpartition(".")[2] for o in bound.real(name)}
    for call in bound.siblings:
        given = (bound.contract.bind(call) or {}).get(name) if call is not bound.call else None
        if given is None or isinstance(given, ast.Constant):
            continue
        said = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(given)}
        if tails & said:
            found.append(given)
    return found


def _casts(expr: ast.expr) -> bool:
    """Whether an expression casts, as written, what it is made of."""
    arms = (expr.body, expr.orelse) if isinstance(expr, ast.IfExp) else (expr,)
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and (
            n.func.attr in ("float", "int", "long", "half", "bfloat16")
            or (
                n.func.attr == "to"
                and any("dtype" in ast.unparse(k) or "torch." in ast.unparse(k) for k in n.args)
            )
            or (n.func.attr == "to" and any(k.arg == "dtype" for k in n.keywords))
        )
        for arm in arms
        for n in ast.walk(arm)
    )


def _is_activation(bound: Bound, name: str) -> bool:
    """Whether an argument holds activations: by its own name, or by what the operator calls it."""
    if _named(bound, name, "activations"):
        return True
    real = bound.real(name)
    open_ended = bool(real) and all(o.foreign for o in real)
    return open_ended and name in bound.roles["activations"] and not _named(bound, name, "float32")


def _named(bound: Bound, name: str, role: str) -> bool:
    real = bound.real(name)
    return bool(real) and all(o.foreign and o.detail.rpartition(".")[2] in bound.roles[role] for o in real)


def _either(dtypes: tuple[str, ...]) -> str:
    return " or ".join(f"`torch.{d}`" for d in dtypes)


def hands_on(module: Module, call: ast.Call, operators: Container[str]) -> bool:
    """Whether a call stands in a wrapper of an operator, or hands on its parameters: callers decide."""
    function = module.enclosing_function(call)
    if function is None or function.name.startswith(("forward", "apply")):
        return False
    if function.name.removesuffix("_impl").removesuffix("_fake") in operators:
        return True
    statements = [
        s for s in function.body if not isinstance(s, ast.Assert | ast.Import | ast.ImportFrom | ast.Raise)
    ]
    parameters = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    given = [*call.args, *(k.value for k in call.keywords)]
    names = [a for a in given if isinstance(a, ast.Name)]
    return len(statements) <= SHORT and len(names) == len(given) and {n.id for n in names} <= parameters


def may_be_none(argument: ast.expr, bound: Bound) -> bool:
    """Whether an argument can be ``None``: on some path, or as the default of a parameter."""
    if bound.flow.value(argument).has(Kind.NONE):
        return True
    function = bound.flow.node
    if not isinstance(argument, ast.Name) or not isinstance(function, FunctionNode):
        return False
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(a.arg == argument.id and isinstance(d, ast.Constant) and d.value is None for a, d in pairs)


def cast_argument(project: Project, fault: Fault, bound: Bound) -> tuple[Fix | None, str | None]:
    """A cast of the argument, or why there is none."""
    name = next((n for n, given in bound.given.items() if given is fault.argument), "")
    if fault.dtype is None or not isinstance(fault.argument, ast.Name | ast.Attribute | ast.Call):
        return None, fault.reason
    if name in bound.roles["written"]:
        return None, "the operator writes to this argument, so that a cast copy would be lost"
    if (
        fault.dtype.startswith("torch.")
        and project.imports(bound.flow.module).name("torch", bound.call) != "torch"
    ):
        return None, f"cast it to {fault.dtype}: `torch` is not imported here"
    end = bound.flow.module.byte_range(fault.argument)[1]
    if may_be_none(fault.argument, bound):
        if not isinstance(fault.argument, ast.Name):
            return None, f"cast it to {fault.dtype} where it is not None"
        text = f".to({fault.dtype}) if {fault.argument.id} is not None else None"
        return Fix("unsafe", f"cast to {fault.dtype}", (Edit(end, end, text),)), None
    return Fix("unsafe", f"cast to {fault.dtype}", (Edit(end, end, f".to({fault.dtype})"),)), None
