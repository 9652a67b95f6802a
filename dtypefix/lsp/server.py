"""The server: it examines what an editor has open and answers for it."""

from __future__ import annotations

import asyncio
import io
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec

from dtypefix import __version__
from dtypefix.errors import UserError
from dtypefix.findings import Finding
from dtypefix.lsp import convert
from dtypefix.lsp.convert import FIX_ALL, Examined
from dtypefix.report.source import SourceText

PAUSE = 0.25  # seconds without a keystroke before a changed document is examined


@dataclass(frozen=True)
class Examination:
    """The findings of one document, and the folder that paths in their evidence are relative to."""

    findings: tuple[Finding, ...]
    root: Path


Examine = Callable[[Path, bytes], Examination]
"""Examines a file of a name with the text that the editor has; raises UserError if it cannot."""


class Server(LanguageServer):
    """A language server whose documents are examined in a thread, at most one at a time."""

    def __init__(self, examine: Examine, page_of: Callable[[str], str]) -> None:
        super().__init__("dtypefix", __version__)
        self.page_of = page_of
        self._examine = examine
        self._results: dict[str, Examined] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._complaint = ""

    @property
    def codec(self) -> PositionCodec:
        """Counts columns in the client's units."""
        return self.workspace.position_codec

    def result_of(self, uri: str) -> Examined | None:
        """What was found in the document as it is now; None while that is not known."""
        result = self._results.get(uri)
        return result if result and result.version == self._version(uri) else None

    def examine_soon(self, uri: str, pause: float = 0) -> None:
        """Examine a document after a pause, unless it changes again before."""
        self.forget(uri)
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._after(uri, pause))

    def forget(self, uri: str) -> None:
        """Drop what is known of a document and what is about to be done for it."""
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()
        self._results.pop(uri, None)

    def clear(self, uri: str) -> None:
        """Take a document's diagnostics away."""
        self.forget(uri)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _version(self, uri: str) -> int | None:
        return self.workspace.get_text_document(uri).version

    async def _after(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        async with self._one_at_a_time:
            path = to_fs_path(uri)
            if path is None:
                return
            document = self.workspace.get_text_document(uri)
            version, data = document.version, _encoded(document.source)
            try:
                found = await asyncio.to_thread(self._examine, Path(path), data)
            except UserError as error:
                self._complain(str(error))
                found = Examination((), Path(path).parent)
        if self._version(uri) != version:
            return
        result = Examined(uri, version, SourceText(data), found.findings, found.root)
        self._results[uri] = result
        diagnostics = [convert.diagnostic(result, finding, self.codec) for finding in found.findings]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def _complain(self, text: str) -> None:
        """Say once what is wrong, not at every keystroke."""
        if text != self._complaint:
            self._complaint = text
            message = types.ShowMessageParams(types.MessageType.Error, f"dtypefix: {text}")
            self.window_show_message(message)


def _encoded(text: str) -> bytes:
    """A document as it would lie on disk, by its own coding cookie."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        return text.encode(encoding)
    except (SyntaxError, UnicodeEncodeError, LookupError):
        return data


def make_server(examine: Examine, page_of: Callable[[str], str]) -> Server:
    """A server that answers by ``examine`` and shows pages by ``page_of`` a rule's name."""
    server = Server(examine, page_of)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.examine_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.examine_soon(params.text_document.uri, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.examine_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.clear(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        result = server.result_of(params.text_document.uri)
        for finding in result.findings if result else ():
            assert result is not None
            place = convert.range_of(result, finding.span.start_byte, finding.span.end_byte, server.codec)
            if place.start <= params.position <= place.end:
                text = convert.hover_text(finding, server.page_of(finding.rule))
                return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), place)
        return None

    options = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL])

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        result = server.result_of(params.text_document.uri)
        return [] if result is None else _actions(server, result, params.range, params.context)

    return server


def _actions(
    server: Server, result: Examined, where: types.Range, context: types.CodeActionContext
) -> list[types.CodeAction]:
    found: list[types.CodeAction | None] = []
    if _wanted(types.CodeActionKind.QuickFix.value, context.only):
        for finding in result.findings:
            place = convert.range_of(result, finding.span.start_byte, finding.span.end_byte, server.codec)
            if place.start <= where.end and where.start <= place.end:
                found.append(convert.quick_fix(result, finding, server.codec, context.diagnostics))
    if _wanted(FIX_ALL, context.only):
        found.append(convert.fix_all(result, server.codec))
    return [action for action in found if action is not None]


def _wanted(kind: str, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether a client that asks for kinds of actions, or for kinds above them, asks for this one."""
    names = [str(getattr(name, "value", name)) for name in only or ()]
    return not names or any(kind == name or kind.startswith(f"{name}.") for name in names)
