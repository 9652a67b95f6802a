"""Statements: rebinding, branches, guards, loops, and the questions rules ask of a function."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dtypefix.analysis.evidence import evidence_of
from dtypefix.analysis.flow import Flow, Flows
from dtypefix.analysis.origins import Kind, Value

Told = Callable[..., list[str]]
Shown = Callable[..., list[Value]]


def test_a_dtype_kept_before_the_upcast_is_the_callers(told: Told) -> None:
    source = """
    def f(x: torch.Tensor):
        orig = x.dtype
        x = x.float()
        show(x, x.dtype, x.to(orig))
    """
    assert told(source) == ["float32", "float32", "x"]


def test_a_branch_joins(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, flag):
        if flag:
            x = x.float()
        show(x)
        y = x.half() if flag else None
        show(y)
    """
    assert told(source) == ["float32 | x", "None | float16"]


def test_a_guarded_cast_settles_the_dtype(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, w: torch.Tensor):
        if x.dtype != torch.bfloat16:
            x = x.to(torch.bfloat16)
        show(x)
        if w.dtype != x.dtype:
            w = w.to(x.dtype)
        show(w)
    """
    assert told(source) == ["bfloat16", "bfloat16"]


def test_a_guard_that_raises_or_asserts_settles_the_dtype(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor):
        if x.dtype != torch.float16:
            raise ValueError
        assert y.dtype == torch.int32
        assert z.dtype in (torch.float16, torch.bfloat16)
        show(x, y, z)
    """
    assert told(source) == ["float16", "int32", "bfloat16 | float16"]


def test_a_test_alone_changes_nothing_after_the_branch(told: Told) -> None:
    source = """
    def f(x: torch.Tensor):
        if x.dtype == torch.float32:
            show(x)
            n = 1
        else:
            show(x)
            n = 2
        show(x)
    """
    assert told(source) == ["float32", "x", "x"]


def test_a_guard_on_something_else_settles_nothing(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, y: torch.Tensor, d):
        if y.dtype != torch.float16:
            y = y.half()
        show(x)
        if x.dtype != d or y is None:
            x = x.to(torch.float16)
        show(x)
    """
    assert told(source)[0] == "x"
    assert "x" in told(source)[1] or "?" in told(source)[1] or "d" in told(source)[1]


def test_a_conditional_cast_in_an_expression(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, w: torch.Tensor):
        show(x if x.dtype == w.dtype else x.to(w.dtype))
    """
    assert told(source) == ["w"]


def test_none_is_told_apart(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, dtype: torch.dtype | None = None, r=None):
        if dtype is None:
            dtype = x.dtype
        show(dtype)
        y = None
        if x is not None:
            y = x.half()
        if y is not None:
            show(y)
        d = None
        show(d or torch.float32)
    """
    assert told(source) == ["dtype | x", "float16", "float32"]


def test_early_returns_leave_the_rest(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, flag):
        if flag:
            x = x.float()
            return x
        show(x)
    """
    assert told(source) == ["x"]


def test_loops_reach_a_fixpoint(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, n: int):
        for _ in range(n):
            show(x)
            x = x.float()
        show(x)
        y = x
        while n:
            y = y.half()
            if n > 3:
                break
        show(y)
    """
    assert told(source) == ["float32 | x", "float32 | x", "float16 | float32 | x"]


def test_break_and_continue_carry_their_state(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, items):
        for item in items:
            if item:
                x = x.half()
                break
            if not item:
                continue
        show(x)
    """
    assert told(source) == ["float16 | x"]


def test_try_and_with(told: Told) -> None:
    source = """
    def f(x: torch.Tensor):
        try:
            x = x.half()
        except RuntimeError:
            show(x)
        show(x)
        with torch.no_grad():
            x = x.float()
        show(x)
    """
    assert told(source) == ["float16 | x", "float16 | x", "float32"]


def test_in_place_arithmetic_keeps_the_dtype(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, y: torch.Tensor):
        x += y.float()
        h = x.half()
        h *= y
        n = 0
        n += 2.5
        show(x, h, n)
    """
    assert told(source) == ["x", "float16", "float"]


def test_lists_of_tensors(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, xs: list[torch.Tensor]):
        parts = []
        for i in range(3):
            parts.append(x.float())
        show(torch.cat(parts))
        parts.append(x)
        show(parts[0])
        for i, (a, b) in enumerate(zip(xs, parts)):
            show(a, b)
        first, *rest = xs
        show(first)
    """
    assert told(source) == ["float32", "float32 | x", "item:xs[]", "float32 | x", "item:xs[]"]


def test_tuples_and_unpacking(told: Told) -> None:
    source = """
    def f(x: torch.Tensor, pair: tuple[torch.Tensor, torch.Tensor], loose):
        a, (b, c) = x, (x.half(), x.dtype)
        show(a, b, c)
        p, q = pair
        show(p, q)
        u, v = loose
        show(u, v)
        (w := x.float())
        show(w)
    """
    assert told(source) == [
        "x",
        "float16",
        "x",
        "item:pair[0]",
        "item:pair[1]",
        "item:loose[0]",
        "item:loose[1]",
        "float32",
    ]


def test_attributes_and_items_bound_in_the_function(told: Told) -> None:
    source = """
    class A:
        def f(self, x: torch.Tensor, inputs):
            self.scale = x.float()
            show(self.scale, self.other)
            inputs["a"] = x.half()
            show(inputs["a"], inputs["b"])
            inputs = {}
            show(inputs["a"])
    """
    assert told(source) == [
        "float32",
        "attribute:self.other",
        "float16",
        "item:inputs['b']",
        "item:inputs['a']",
    ]


def test_outputs_of_calls_are_told_apart(shown: Shown) -> None:
    source = """
    def f(x, g):
        a = g(x)
        b = g(x)
        c, d = g(x)
        show(a, b, c, d, a.to(torch.half))
    """
    a, b, c, d, cast = shown(source)
    assert all(v.only is not None and v.only.kind is Kind.OUTPUT for v in (a, b, c, d))
    assert not a.same_dtype(b)
    assert not c.same_dtype(d)
    assert a.same_dtype(a)
    assert cast.literal == "float16"


def test_a_literal_default_dtype_block(told: Told) -> None:
    source = """
    from vllm.utils.torch_utils import set_default_torch_dtype

    class A(nn.Module):
        def __init__(self):
            with set_default_torch_dtype(torch.float16):
                show(torch.empty(3), torch.get_default_dtype())
            show(torch.empty(3))
    """
    assert told(source) == ["float16", "float16", "model:ambient"]


def test_closures_see_every_binding(told: Told) -> None:
    source = """
    def f(x: torch.Tensor):
        y = x.half()
        def inner(z: torch.Tensor):
            show(x, y, z)
        y = x.float()
        return inner
    """
    assert told(source) == ["x", "float16 | float32", "z"]


def test_module_level_names(told: Told) -> None:
    source = """
    FP8 = current_platform.fp8_dtype()
    LOW = torch.float16

    def f(x: torch.Tensor):
        show(x.to(FP8), x.to(LOW), x.to(NOT_THERE))
    """
    assert told(source)[:2] == ["fp8", "float16"]
    assert told(source)[2] in ("?", "x")


def test_unreached_code_is_unknown(shown: Shown) -> None:
    source = """
    def f(x: torch.Tensor):
        return x
        show(x)
    """
    [value] = shown(source)
    assert value.unknown


def test_uses_leave_out_what_was_cast(function: Callable[..., Flow]) -> None:
    flow = function(
        """
        def f(h: torch.Tensor, flag, g, k):
            g(h)
            k(a=h.half())
            if flag:
                h = h.float()
            g(h.view(-1))
            h = h.float()
            g(h)
            return h @ h
        """
    )
    uses = [(u.call.lineno, u.callee, u.position, u.keyword) for u in flow.uses("h") if u.callee == "g"]
    assert [line for line, *_ in uses] == [uses[0][0], uses[0][0] + 4]
    assert not any(u.callee in ("k", "@") for u in flow.uses("h"))


def test_both_sides_of_a_product_are_uses(function: Callable[..., Flow]) -> None:
    flow = function(
        """
        def f(h: torch.Tensor, w: torch.Tensor):
            a = h @ w
            b = h.matmul(w)
            c = torch.mm(h, w)
            return h.float() @ w
        """
    )
    assert [(u.callee, u.position) for u in flow.uses("h")] == [("@", 0), ("@", 0), ("torch.mm", 0)]
    assert [(u.callee, u.position) for u in flow.uses("w")] == [
        ("@", 1),
        ("h.matmul", 0),
        ("torch.mm", 1),
        ("@", 1),
    ]


def test_history_is_the_chain_of_rebindings(function: Callable[..., Flow]) -> None:
    flow = function(
        """
        def f(q: torch.Tensor, other: torch.Tensor):
            q = q.reshape(-1)
            q, s = ops.scaled_fp8_quant(q)
            out = torch.empty(3, dtype=q.dtype)
            q = other
            return q
        """
    )
    reads = [n for n in ast.walk(flow.node) if isinstance(n, ast.Name) and n.id == "q" and n.lineno == 10]
    history = flow.history(reads[-1])
    assert [binding.value.describe() for binding in history] == [
        "whatever dtype the caller passes in `q`",
        "the platform's fp8 format",
    ]
    assert history[-1].before is not None
    assert len(flow.bindings("q")) == 3
    last = flow.returns()[0].node.value
    assert last is not None
    assert [b.value.describe() for b in flow.history(last)] == ["whatever dtype the caller passes in `other`"]


def test_returns_and_casts(function: Callable[..., Flow]) -> None:
    flow = function(
        """
        def f(x: torch.Tensor, fast):
            orig = x.dtype
            x = x.float()
            if fast:
                return x
            return x.to(orig)
        """
    )
    first, second = flow.returns()
    assert first.value.literal == "float32"
    assert second.value.may_have_dtype_of("x")
    assert second.node.value is not None
    assert len(flow.casts(second.node.value)) == 2


def test_evidence_names_what_decided(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        def f(x: torch.Tensor, w: torch.Tensor):
            dtype = w.dtype
            y = x.reshape(-1).to(dtype)
            return y
        """
    )
    returned = next(n for n in ast.walk(found.module.tree) if isinstance(n, ast.Return))
    assert returned.value is not None
    evidence = evidence_of(found.value(returned.value), found.module)
    assert [e.line for e in evidence] == [7, 8, 9]
    assert "`w`" in evidence[0].text
    assert "dtype = w.dtype" in evidence[1].text
    assert all(e.path == "pkg/model.py" for e in evidence)


def test_a_very_deep_expression_is_given_up_quietly(shown: Shown) -> None:
    source = f"def f(x):\n    y = {' + '.join(['x'] * 600)}\n    show(y)\n"
    for value in shown(source):
        assert value.unknown or value.may_have_dtype_of("x")
