"""A model on loopback that makes up its answers, in the languages of the real agent programs.

``Model`` listens on a port of its own and speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini.
What it answers is decided by ``brain``, a function from what it was asked (``Asked``) to an ``Answer``: words, one call of
a tool, a wait, an error. A wait has no length: it lasts until the test opens its gate, or the program goes away. Requests
that offer no shell (titles, routing) are answered at once and never reach the brain. Knows nothing of ackd but the lines
that ``obedient`` does as it is told by.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self, TypeAlias

PING_S: Final = 0.5
_SHELLS: Final = ("Bash", "exec_command", "shell_command", "shell", "run_shell_command", "bash")
#: What the programs themselves add to what a person has typed.
_ADDED: Final = re.compile(
    r"\s*<(?:system-reminder|environment_context|user_instructions|permissions|session_context|INSTRUCTIONS|turn_aborted|skills)"
    r"|\s*# AGENTS"
)
#: Answers a router's or a title's request of any of the programs.
_SIDE_ANSWER: Final = json.dumps(
    {
        "title": "Made up",
        "isNewTopic": False,
        "reasoning": "none",
        "model_choice": "flash",
        "complexity_reasoning": "none",
        "complexity_score": 1,
        "next_speaker": "user",
    }
)


@dataclass(frozen=True)
class Asked:
    """``said``: the last text of a person. ``results``: what tools have said since. ``shell``: the tool's name."""

    said: str
    results: tuple[str, ...] = ()
    shell: str = ""


@dataclass(frozen=True)
class Failure:
    """An answer by HTTP status alone."""

    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Answer:
    """``run``: a command for the shell tool. ``tool``: any other call, by name and arguments. ``gate``: the stream is open and
    says nothing until it is set. ``tokens``: how many the request is said to have had."""

    text: str = ""
    run: str | None = None
    tool: tuple[str, dict[str, Any]] | None = None
    gate: threading.Event | None = None
    failure: Failure | None = None
    tokens: int = 1000
    escalated: bool = False


Brain: TypeAlias = Callable[[Asked], Answer]


def plain(asked: Asked) -> Answer:
    return Answer("All done.")


_COMMAND: Final = re.compile(r"\backd\s+(read|ack|done|checkpoint)\s+([\w.@+-]*[\w+-])")


def steps_of(text: str) -> list[str]:
    """The commands that a line of ackd names, in its order."""
    steps: list[str] = []
    for word, message in _COMMAND.findall(" ".join(text.split())):
        step = f"ackd {word} {message}" + (" half-way" if word == "checkpoint" else "")
        if step not in steps:
            steps.append(step)
    return steps


def obedient(asked: Asked) -> Answer:
    """Runs each command that the line names, and those that reading the message named; then says so."""
    if "ackd" not in asked.said:
        return plain(asked)
    steps = steps_of(asked.said)
    if steps and steps[0].startswith("ackd read") and asked.results:
        steps += [step for step in steps_of(asked.results[0]) if step not in steps]
    at = len(asked.results)
    return Answer(f"Step {at + 1}.", run=steps[at]) if at < len(steps) else Answer("Finished.")


@dataclass
class Model:
    """Started by ``with``. ``asked``: every question that reached the brain, in order."""

    brain: Brain = plain
    asked: list[Asked] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        model = self

        class Handler(_Handler):
            @property
            def model(self) -> Model:
                return model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="model", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def answer(self, asked: Asked) -> Answer:
        if not asked.shell:
            return Answer(_SIDE_ANSWER)
        self.asked.append(asked)
        return self.brain(asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def model(self) -> Model:
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        """Quiet: what was asked is in ``Model.asked``."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        models = [{"id": "made-up", "object": "model", "type": "model", "display_name": "Made up"}]
        self._json(
            {"data": models, "object": "list", "has_more": False, "models": []} if "/models" in self.path else {}
        )

    def do_POST(self) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        try:
            if path.endswith(("/count_tokens", ":countTokens")):
                self._json({"input_tokens": 1000, "totalTokens": 1000})
            elif path.endswith("/messages"):
                self._answer(_anthropic_asked(body), _anthropic_words, "stream" in body)
            elif path.endswith("/responses"):
                self._answer(_responses_asked(body), _responses_words)
            elif path.endswith("/chat/completions"):
                self._answer(_chat_asked(body), _chat_words)
            elif "enerateContent" in path:
                self._answer(_gemini_asked(body), _gemini_words, "stream" in path)
            else:
                self._json({})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _json(self, body: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, asked: Asked, words: Words, stream: bool = True) -> None:
        answer = self.model.answer(asked)
        if answer.failure is not None:
            self._json(answer.failure.body, answer.failure.status, answer.failure.headers)
            return
        said = words(answer, asked.shell)
        if not stream:
            self._json(said.whole)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._chunk(said.opening)
        while answer.gate is not None and not answer.gate.wait(PING_S):
            if self.model.is_over:
                return
            self._chunk(said.ping)
        for event in said.events:
            self._chunk(event)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()


@dataclass(frozen=True)
class Said:
    """An answer on the wire: events of a stream, or all of it at once. ``ping``: keeps a silent stream open."""

    opening: str
    events: tuple[str, ...]
    ping: str = ": still there\n\n"
    whole: dict[str, Any] = field(default_factory=dict)


Words: TypeAlias = Callable[[Answer, str], Said]


def _event(body: dict[str, Any], name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(body)}\n\n"


def _typed(body: dict[str, Any]) -> str:
    return _event(body, body["type"])


def _asked(turns: Iterator[tuple[str, str]], tools: list[str]) -> Asked:
    said, results = "", list[str]()
    for who, text in turns:
        if who == "person" and not _ADDED.match(text):
            said, results = text, []
        elif who == "tool":
            results.append(text)
    return Asked(said, tuple(results), next((name for name in _SHELLS if name in tools), ""))


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if isinstance(part, dict))


# --- Anthropic Messages
def _anthropic_asked(body: dict[str, Any]) -> Asked:
    def turns() -> Iterator[tuple[str, str]]:
        for message in body.get("messages", ()):
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "tool_result":
                    yield "tool", _text_of(part.get("content"))
                elif part["type"] == "text" and message["role"] == "user":
                    yield "person", part["text"]

    return _asked(turns(), [tool.get("name", "") for tool in body.get("tools", ())])


def _anthropic_words(answer: Answer, shell: str) -> Said:
    call = answer.tool or ((shell, {"command": answer.run, "description": "a step"}) if answer.run else None)
    parts: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    if call is not None:
        parts.append({"type": "tool_use", "id": f"toolu_{_number()}", "name": call[0], "input": call[1]})
    stop = "tool_use" if call is not None else "end_turn"
    usage = {"input_tokens": answer.tokens, "output_tokens": 20}
    message: dict[str, Any] = {
        "id": f"msg_{_number()}",
        "type": "message",
        "role": "assistant",
        "model": "made-up",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events = []
    for index, part in enumerate(parts):
        empty = {**part, "text": ""} if part["type"] == "text" else {**part, "input": {}}
        delta = (
            {"type": "text_delta", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_json_delta", "partial_json": json.dumps(part["input"])}
        )
        events += [
            _typed({"type": "content_block_start", "index": index, "content_block": empty}),
            _typed({"type": "content_block_delta", "index": index, "delta": delta}),
            _typed({"type": "content_block_stop", "index": index}),
        ]
    ended = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    return Said(
        _typed({"type": "message_start", "message": message}),
        (*events, _typed(ended), _typed({"type": "message_stop"})),
        _typed({"type": "ping"}),
        {**message, "content": parts, "stop_reason": stop},
    )


# --- OpenAI Responses
def _responses_asked(body: dict[str, Any]) -> Asked:
    def turns() -> Iterator[tuple[str, str]]:
        items = body.get("input", ())
        for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
            kind = item.get("type", "message")
            if kind.endswith("_output"):
                output = item.get("output")
                yield "tool", output if isinstance(output, str) else _text_of(output)
            elif kind == "message" and item.get("role") == "user":
                yield "person", _text_of(item.get("content"))

    return _asked(turns(), [tool.get("name") or tool.get("type", "") for tool in body.get("tools", ())])


def _responses_words(answer: Answer, shell: str) -> Said:
    items: list[dict[str, Any]] = []
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        items.append({"type": "message", "id": f"msg_{_number()}", "role": "assistant", "content": content})
    call = answer.tool or ((shell, _codex_command(answer, shell)) if answer.run else None)
    if call is not None:
        ids = {"id": f"fc_{_number()}", "call_id": f"call_{_number()}"}
        items.append({"type": "function_call", **ids, "name": call[0], "arguments": json.dumps(call[1])})
    response = {"id": f"resp_{_number()}", "object": "response", "status": "in_progress", "output": []}
    events = []
    for index, item in enumerate(items):
        events.append(_typed({"type": "response.output_item.added", "output_index": index, "item": item}))
        if item["type"] == "message":
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            events.append(_typed({"type": "response.output_text.delta", **where, "delta": answer.text}))
        events.append(_typed({"type": "response.output_item.done", "output_index": index, "item": item}))
    usage = {"input_tokens": answer.tokens, "output_tokens": 20, "total_tokens": answer.tokens + 20}
    ended = {**response, "status": "completed", "output": items, "usage": usage}
    return Said(
        _typed({"type": "response.created", "response": response}),
        (*events, _typed({"type": "response.completed", "response": ended})),
        _typed({"type": "response.in_progress", "response": response}),
    )


def _codex_command(answer: Answer, shell: str) -> dict[str, Any]:
    asks = {"sandbox_permissions": "require_escalated", "justification": "a step"} if answer.escalated else {}
    match shell:
        case "exec_command":
            return {"cmd": answer.run, **asks}
        case "shell":
            return {"command": ["bash", "-lc", answer.run], **asks}
        case _:
            return {"command": answer.run, **asks}


# --- OpenAI Chat Completions
def _chat_asked(body: dict[str, Any]) -> Asked:
    who = {"user": "person", "tool": "tool"}
    turns = ((who.get(one["role"], ""), _text_of(one.get("content"))) for one in body.get("messages", ()))
    return _asked(turns, [tool["function"]["name"] for tool in body.get("tools", ())])


def _chat_words(answer: Answer, shell: str) -> Said:
    base = {"id": f"chat_{_number()}", "object": "chat.completion.chunk", "created": 0, "model": "made-up"}

    def choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    events = [_event(choice({"role": "assistant", "content": answer.text}))]
    call = answer.tool or ((shell, {"command": answer.run, "description": "a step"}) if answer.run else None)
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        calls = [{"index": 0, "id": f"call_{_number()}", "type": "function", "function": function}]
        events.append(_event(choice({"tool_calls": calls})))
    usage = {"prompt_tokens": answer.tokens, "completion_tokens": 20, "total_tokens": answer.tokens + 20}
    events.append(_event({**choice({}, "tool_calls" if call is not None else "stop"), "usage": usage}))
    return Said(": hello\n\n", (*events, "data: [DONE]\n\n"))


# --- Gemini
def _gemini_asked(body: dict[str, Any]) -> Asked:
    def turns() -> Iterator[tuple[str, str]]:
        for content in body.get("contents", ()):
            for part in content.get("parts", ()):
                if "functionResponse" in part:
                    yield "tool", str(part["functionResponse"].get("response", {}).get("output", ""))
                elif "text" in part and content.get("role", "user") == "user":
                    yield "person", part["text"]

    declared = (tool.get("functionDeclarations", ()) for tool in body.get("tools", ()))
    return _asked(turns(), [function["name"] for functions in declared for function in functions])


def _gemini_words(answer: Answer, shell: str) -> Said:
    call = answer.tool or ((shell, {"command": answer.run, "description": "a step"}) if answer.run else None)
    parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    if call is not None:
        parts.append({"functionCall": {"name": call[0], "args": call[1]}})
    counts = {"promptTokenCount": answer.tokens, "candidatesTokenCount": 20, "totalTokenCount": answer.tokens + 20}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": counts,
        "modelVersion": "made-up",
    }
    return Said("", (_event(whole),), "", whole)


_numbers: Final = iter(range(1, 1 << 30))


def _number() -> str:
    return f"{next(_numbers):012}"
