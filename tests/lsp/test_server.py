"""The editor server as an editor talks to it: a client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types

from tests.cli.conftest import SAFE

pygls_client = pytest.importorskip("pygls.lsp.client", reason="pygls is not installed")

WAIT = 60.0  # seconds for an answer, far more than it takes


class Editor:
    """A client that opens documents of a folder and keeps the diagnostics it is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = pygls_client.LanguageClient("test-editor", "1")
        self.said: list[str] = []
        self.sent: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(parameters: types.PublishDiagnosticsParams) -> None:
            self.sent.put_nowait(parameters)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def said(parameters: types.ShowMessageParams) -> None:
            self.said.append(parameters.message)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def start(self, environment: dict[str, str], *options: str) -> types.InitializeResult:
        await self.client.start_io(
            sys.executable, "-m", "dtypefix", "lsp", *options, cwd=self.folder, env=environment
        )
        capabilities = types.ClientCapabilities()
        parameters = types.InitializeParams(capabilities, root_uri=self.folder.as_uri())
        result = await asyncio.wait_for(self.client.initialize_async(parameters), WAIT)
        self.client.initialized(types.InitializedParams())
        return result

    async def open(self, name: str, text: str | None = None) -> types.PublishDiagnosticsParams:
        content = (self.folder / name).read_text() if text is None else text
        document = types.TextDocumentItem(self.uri(name), "python", 1, content)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return await self.diagnostics()

    def change(self, name: str, text: str, version: int) -> None:
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, self.uri(name)),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def diagnostics(self) -> types.PublishDiagnosticsParams:
        return await asyncio.wait_for(self.sent.get(), WAIT)

    async def actions(self, name: str, where: types.Range, *only: str) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only=list(only) or None)
        document = types.TextDocumentIdentifier(self.uri(name))
        parameters = types.CodeActionParams(document, where, context)
        found = await asyncio.wait_for(self.client.text_document_code_action_async(parameters), WAIT)
        return [action for action in found or [] if isinstance(action, types.CodeAction)]

    async def stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_async(None), WAIT)
        self.client.exit(None)
        await self.client.stop()


@pytest.fixture
def edit(tmp_path: Path, environment) -> Callable[..., None]:
    """Runs a conversation with a server that was started in ``tmp_path``."""

    def run(talk: Callable[[Editor], Awaitable[None]], *options: str) -> None:
        async def conversation() -> None:
            editor = Editor(tmp_path)
            await editor.start(environment, *options)
            try:
                await talk(editor)
            finally:
                await editor.stop()

        asyncio.run(conversation())

    return run


def place(item: types.Range) -> tuple[int, int, int, int]:
    return item.start.line, item.start.character, item.end.line, item.end.character


def applied(text: str, action: types.CodeAction) -> str:
    """The text after an action, in which all columns are of ASCII lines or were counted in UTF-16."""
    assert action.edit is not None
    (document,) = action.edit.document_changes or []
    assert isinstance(document, types.TextDocumentEdit)
    units = text.encode("utf-16-le")
    starts, at = [], 0
    for line in text.splitlines(keepends=True):
        starts.append(at)
        at += len(line.encode("utf-16-le"))
    for change in sorted(document.edits, key=lambda e: place(e.range), reverse=True):
        a, b, c, d = place(change.range)
        new = change.new_text.encode("utf-16-le")
        units = units[: starts[a] + 2 * b] + new + units[starts[c] + 2 * d :]
    return units.decode("utf-16-le")


def test_findings_come_on_open_and_follow_what_is_typed(edit, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)

    async def talk(editor: Editor) -> None:
        (found,) = (await editor.open("a.py")).diagnostics
        assert (found.code, found.source, found.severity) == (
            "demo-call", "dtypefix", types.DiagnosticSeverity.Warning,
        )  # fmt: skip
        assert place(found.range) == (1, 11, 1, 37)
        (step,) = found.related_information or []
        assert (step.location.uri, step.location.range.start.line, step.message) == (
            editor.uri("a.py"), 1, "ambient is called here",
        )  # fmt: skip
        editor.change("a.py", "\n" + SAFE, 2)
        moved = await editor.diagnostics()
        assert (moved.version, moved.diagnostics[0].range.start.line) == (2, 2)
        editor.change("a.py", "settled = 1\n", 3)
        assert (await editor.diagnostics()).diagnostics == ()

    edit(talk)


def test_columns_are_counted_in_utf_16(edit, tmp_path: Path) -> None:
    text = 'x = "🦀é"; y = ambient("error", "safe")\n'
    (tmp_path / "a.py").write_text(text)

    async def talk(editor: Editor) -> None:
        (found,) = (await editor.open("a.py")).diagnostics
        assert place(found.range) == (0, 15, 0, 39)  # the crab counts two
        action = next(a for a in await editor.actions("a.py", found.range) if a.kind == "quickfix")
        assert applied(text, action) == 'x = "🦀é"; y = settled\n'

    edit(talk)


def test_a_safe_fix_is_preferred_and_an_unsafe_one_says_so(edit, tmp_path: Path) -> None:
    text = 'a = ambient("error", "safe")\nb = ambient("error", "unsafe")\nc = ambient("error", "manual")\n'
    (tmp_path / "a.py").write_text(text)

    async def talk(editor: Editor) -> None:
        safe, unsafe, manual = (await editor.open("a.py")).diagnostics
        assert "no witness" in manual.message
        (action,) = await editor.actions("a.py", safe.range, "quickfix")
        assert (action.title, action.is_preferred) == ("dtypefix: Read settled", True)
        (action,) = await editor.actions("a.py", unsafe.range, "quickfix")
        assert (action.title, action.is_preferred) == (
            "dtypefix: Read settled (unsafe: needs a review)",
            False,
        )
        assert await editor.actions("a.py", manual.range, "quickfix") == []
        (action,) = await editor.actions("a.py", manual.range, "source.fixAll")
        assert applied(text, action) == text.replace('ambient("error", "safe")', "settled")

    edit(talk)


def test_resting_on_a_finding_explains_its_rule(edit, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)

    async def talk(editor: Editor) -> None:
        await editor.open("a.py")
        document = types.TextDocumentIdentifier(editor.uri("a.py"))
        ask = editor.client.text_document_hover_async
        hover = await ask(types.HoverParams(document, types.Position(1, 20)))
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        assert "**demo-call**: the dtype comes from ambient" in hover.contents.value
        assert "Every call of `ambient`." in hover.contents.value
        assert await ask(types.HoverParams(document, types.Position(0, 1))) is None

    edit(talk)


def test_what_is_typed_counts_not_what_lies_on_disk_and_closing_clears(edit, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("settled = 1\n")

    async def talk(editor: Editor) -> None:
        assert len((await editor.open("a.py", SAFE)).diagnostics) == 1
        document = types.TextDocumentIdentifier(editor.uri("a.py"))
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        assert (await editor.diagnostics()).diagnostics == ()

    edit(talk)


def test_configuration_and_excludes_hold_and_half_a_line_is_no_trouble(edit, tmp_path: Path) -> None:
    settings = 'exclude = ["skipped/"]\nper-file-ignores = { "a.py" = ["demo-call"] }\n'
    (tmp_path / "dtypefix.toml").write_text(settings)
    (tmp_path / "skipped").mkdir()
    for name in ("a.py", "skipped/b.py"):
        (tmp_path / name).write_text(SAFE)

    async def talk(editor: Editor) -> None:
        assert (await editor.open("a.py")).diagnostics == ()
        assert editor.said == []
        assert (await editor.open("skipped/b.py")).diagnostics == ()
        editor.change("a.py", 'x = ambient("err', 2)
        assert (await editor.diagnostics()).diagnostics == ()

    edit(talk)


def test_without_pygls_one_line_says_what_to_install(run, tmp_path: Path, environment) -> None:
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "pygls.py").write_text("raise ModuleNotFoundError('pygls', name='pygls')\n")
    path = f"{tmp_path / 'hide'}:{environment['PYTHONPATH']}"
    done = run("lsp", env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dtypefix: the editor server needs pygls: pip install 'dtypefix[lsp]'\n"
