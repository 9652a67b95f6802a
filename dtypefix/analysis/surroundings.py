"""What a flow knows of the module around it: imports, module-level names, the pack's sources."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from dtypefix.analysis.knowledge import Knowledge
from dtypefix.analysis.mixing import Origins
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import UNKNOWN, Form, Kind, Origin, Step, Value, Verb, literal, scalar
from dtypefix.analysis.promotion import dtype_name

_TENSORS = frozenset(
    {"Tensor", "Parameter", "BasevLLMParameter", "LongTensor", "IntTensor", "FloatTensor", "BoolTensor"}
)
_SCALARS = frozenset({"int", "float", "bool", "complex"})
_SEQUENCES = frozenset({"list", "List", "Sequence", "Iterable", "Iterator", "Generator", "set", "deque"})
_OPEN = frozenset({"Any", "object", "Callable", "Union", "Optional", "T", "Self", "Annotated", "Literal"})


class Surroundings:
    """Shared by the flows of one module; ``names`` gives the value of a module-level name."""

    def __init__(self, module: Module, knowledge: Knowledge, names: Callable[[str], Value]) -> None:
        self.module = module
        self.knowledge = knowledge
        self.global_value = names
        self.dotted_calls: dict[str, tuple[str, str]] = {}
        self._dotted: dict[str, Value] = {}

    @cached_property
    def path_tails(self) -> frozenset[str]:
        """The last components of the paths that the pack names."""
        return frozenset(suffix.rpartition(".")[2] for suffix in self.knowledge.paths)

    def known_path(self, path: str) -> Origin | None:
        """The source that the pack gives for the end of a dotted path."""
        paths = self.knowledge.paths
        head, _, last = path.rpartition(".")
        found = paths.get(f"{head.rpartition('.')[2]}.{last}") if head else None
        return found or paths.get(last)

    def dotted(self, dotted: str, node: ast.AST) -> Value:
        """The value of an imported dotted name such as ``torch.float32``."""
        known = self._dotted.get(dotted)
        if known is None:
            known = self._dotted[dotted] = self._look_up(dotted)
        if known.form is Form.DTYPE:
            return Value(known.form, known.origins, (), known.path, False, (Step(Verb.READ, node),))
        return known

    def _look_up(self, dotted: str) -> Value:
        owner, _, last = dotted.rpartition(".")
        path = "@" + dotted
        if owner in ("torch", "triton.language") and (name := dtype_name(last)):
            return Value(Form.DTYPE, frozenset({literal(name)}), (), path)
        if owner and last.lower().endswith("dtype") and dotted != "torch.dtype":
            return Value(Form.DTYPE, frozenset({Origin(Kind.ATTRIBUTE, path)}), (), path)
        if dotted.startswith("math."):
            return (
                scalar("float") if last in ("pi", "e", "inf", "nan", "tau") else Value(Form.OTHER, path=path)
            )
        return Value(Form.OTHER, path=path)

    def parameter(self, argument: ast.arg) -> Value:
        """The value that a parameter has on entry, as its annotation and name tell."""
        name = argument.arg
        value = self._annotated(name, argument.annotation)
        known = self.knowledge.names.get(name)
        if known is not None and value.form in (Form.ANY, Form.DTYPE):
            value = Value(Form.DTYPE, frozenset({known}), (), name)
        elif value.form is Form.ANY and name.endswith("dtype"):
            value = Value(Form.DTYPE, value.origins, (), name)
        return Value(
            value.form, value.origins, value.elements, value.path, False, (Step(Verb.READ, argument),)
        )

    def _annotated(self, name: str, annotation: ast.expr | None) -> Value:
        own = frozenset({Origin(Kind.PARAMETER, name)})
        unknown = Value(Form.ANY, own, (), name)
        if annotation is None:
            return unknown
        arms = [arm for arm in _arms(annotation) if not (isinstance(arm, ast.Constant) and arm.value is None)]
        if not arms:
            return unknown
        forms = {self._form(arm) for arm in arms}
        form = forms.pop() if len(forms) == 1 else Form.ANY
        if form is Form.SCALAR:
            return Value(form, scalar(ast.unparse(arms[0])).origins, (), name)
        if form is Form.LIST:
            return self._sequence(name, arms[0]) if len(arms) == 1 else unknown
        if form in (Form.OTHER, Form.CONFIG):
            return Value(form, frozenset(), (), name)
        return Value(form, own, (), name)

    def _form(self, arm: ast.expr) -> Form:
        base = arm.value if isinstance(arm, ast.Subscript) else arm
        last = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if last in _TENSORS:
            return Form.TENSOR
        if last == "dtype":
            return Form.DTYPE
        if last in _SCALARS:
            return Form.SCALAR
        if isinstance(arm, ast.Subscript) and (last in _SEQUENCES or last in ("tuple", "Tuple")):
            return Form.LIST
        if not last or last in _OPEN or last in _SEQUENCES:
            return Form.ANY
        if last.endswith("Config") and self._from_checkpoint(base):
            return Form.CONFIG
        return Form.OTHER

    def _from_checkpoint(self, annotation: ast.expr) -> bool:
        root = annotation
        while isinstance(root, ast.Attribute):
            root = root.value
        path = self.global_value(root.id).path if isinstance(root, ast.Name) else ""
        return any(
            path.startswith(f"@{module}.") or path == f"@{module}" for module in self._checkpoint_modules
        )

    @cached_property
    def _checkpoint_modules(self) -> tuple[str, ...]:
        return self.knowledge.checkpoint_modules

    def _sequence(self, name: str, arm: ast.expr) -> Value:
        assert isinstance(arm, ast.Subscript)
        inner = arm.slice.elts if isinstance(arm.slice, ast.Tuple) else [arm.slice]
        kinds = [self._form(one) for one in inner if not isinstance(one, ast.Constant)]
        fixed = isinstance(arm.value, (ast.Name, ast.Attribute)) and ast.unparse(arm.value).endswith(
            ("uple",)
        )
        if fixed and len(kinds) == len(inner) and len(inner) > 1:
            elements = tuple(
                Value(kind, frozenset({Origin(Kind.ITEM, f"{name}[{i}]")})) for i, kind in enumerate(kinds)
            )
            return Value(Form.TUPLE, elements=elements, path=name)
        origins: Origins = frozenset({Origin(Kind.ITEM, f"{name}[]")})
        item = Value(kinds[0] if kinds else Form.ANY, origins)
        if item.form not in (Form.TENSOR, Form.DTYPE, Form.ANY):
            return (
                UNKNOWN if item.form is not Form.SCALAR else Value(Form.LIST, scalar("int").origins, (), name)
            )
        return Value(Form.LIST, origins, (item,), name)


def _arms(annotation: ast.expr) -> list[ast.expr]:
    """The alternatives of a union annotation."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return []
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_arms(annotation.left), *_arms(annotation.right)]
    if isinstance(annotation, ast.Subscript):
        last = annotation.value.attr if isinstance(annotation.value, ast.Attribute) else None
        last = annotation.value.id if isinstance(annotation.value, ast.Name) else last
        inner = annotation.slice
        if last == "Optional":
            return _arms(inner)
        if last == "Union" and isinstance(inner, ast.Tuple):
            return [arm for one in inner.elts for arm in _arms(one)]
        if last == "Annotated" and isinstance(inner, ast.Tuple) and inner.elts:
            return _arms(inner.elts[0])
    return [annotation]


def is_method(module: Module, function: FunctionNode) -> bool:
    """Whether a function takes ``self`` or ``cls`` first."""
    if not isinstance(module.parents.get(function), ast.ClassDef):
        return False
    return not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
