"""Hypothesis' part: bytes of each family, well-formed at large and wrong in places, or the other way round."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from tests.fuzz.families import MESSAGE_ID, NASTY, SEEDS

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from tests.fuzz.families import Family


def _nth(number: int) -> str:
    return NASTY[number]


nasty: Final = st.integers(0, len(NASTY) - 1).map(_nth)  # not sampled_from, whose repr is as long as all of them
words: Final = st.one_of(nasty, st.text(max_size=20), st.tuples(nasty, st.text(max_size=5), nasty).map("".join))


def encoded(text: str) -> bytes:
    """Lone surrogates as the invalid UTF-8 that they are."""
    return text.encode("utf-8", "surrogatepass")


# --- what every family has: an example with something done to it ----------------------------------------------------
@st.composite
def _damaged(draw: DrawFn, family: Family) -> bytes:
    data = draw(st.sampled_from(SEEDS[family]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.sampled_from([0, 0, 1, 2, 8, 64]))
        put = draw(st.one_of(words.map(encoded), st.binary(max_size=8), st.just(data[at : at + 50])))
        data = data[:at] + put + data[at + gone :]
    return data


_frames: Final = st.sampled_from(
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r\n", 2),
        lambda data: data.decode(errors="replace").encode("utf-16"),
        lambda data: data.decode(errors="replace").encode("latin-1", "replace"),
        lambda data: data + data,
        lambda data: data[: len(data) // 2],
        lambda data: data * 50,
        lambda data: data.replace(b"\n", b" " * 5000),
    ]
)


@st.composite
def _reframed(draw: DrawFn, family: Family) -> bytes:
    data: bytes = draw(_frames)(draw(st.sampled_from(SEEDS[family])))
    return data


# --- JSON -------------------------------------------------------------------------------------------------------------
_numbers: Final = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**400, -(10**20), 2**63, 2**64, -1, 1e300, float("inf"), float("nan")]),
)
_values: Final[SearchStrategy[Any]] = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


def _changed(draw: DrawFn, value: Any) -> Any:
    """The same document with some of its values replaced, wherever they stand."""
    if draw(st.integers(0, 3)) == 0:
        return draw(_values)
    if isinstance(value, dict):
        return {key: _changed(draw, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(draw, item) for item in value]
    return value


@st.composite
def _changed_json(draw: DrawFn, family: Family) -> bytes:
    """Line by line, as logs and journals are; the other documents are one line."""
    lines = []
    for line in draw(st.sampled_from(SEEDS[family])).split(b"\n"):
        try:
            document = json.loads(line)
        except ValueError:
            lines.append(line)
        else:
            lines.append(
                json.dumps(_changed(draw, document), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
            )
    return b"\n".join(lines)


@st.composite
def _changed_line(draw: DrawFn, family: Family) -> bytes:
    """One line of many, with one value changed: the rest is as it should be."""
    lines = draw(st.sampled_from(SEEDS[family])).split(b"\n")
    documents = [
        (number, json.loads(line)) for number, line in enumerate(lines) if line.startswith(b"{") and line.endswith(b"}")
    ]
    if not documents:
        return b"{}"
    number, document = draw(st.sampled_from(documents))
    inner = document["data"] if family == "log" and draw(st.booleans()) else document
    inner[draw(st.sampled_from(sorted(inner)))] = draw(_values)
    lines[number] = json.dumps(document).encode()
    return b"\n".join(lines)


@st.composite
def _nested_json(draw: DrawFn) -> bytes:
    """Around the depths at which somebody gives up: mail, the recursion of Python's readers and writers."""
    opening, closing = draw(st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")]))
    deep = draw(st.sampled_from([1, 15, 16, 30, 31, 32, 33, 300, 490, 900, 980, 5000]))
    return encoded(opening * deep + draw(st.sampled_from(["0", '""', "[]", "{}"])) + closing * deep)


# --- messages, YAML, TOML -------------------------------------------------------------------------------------------
_HEADERS: Final = (
    "Message-ID", "From", "To", "Cc", "Date", "In-Reply-To", "X-IGNITE-Type", "X-IGNITE-Priority", "X-IGNITE-Status",
    "X-IGNITE-Retry-Count", "X-IGNITE-Next-Retry-After", "X-IGNITE-Processed-At", "X-IGNITE-Recipient", "X-IGNITE-Thread-ID",
    "X-IGNITE-Error-Reason", "X-IGNITE-Error-At", "Content-Type", "MIME-Version",
)  # fmt: skip
_VALUES_OF: Final = {
    "Message-ID": f"<{MESSAGE_ID}>",
    "X-IGNITE-Type": "progress_update",
    "To": "worker",
    "From": "user",
}


@st.composite
def _message(draw: DrawFn) -> bytes:
    """A right message, some headers of which are set to something else."""
    lines = SEEDS["message"][0].partition(b"\n\n")[0].decode().split("\n")
    for name in draw(st.lists(st.sampled_from(_HEADERS), min_size=1, max_size=4, unique=True)):
        lines = [line for line in lines if not line.startswith(f"{name}:")]
        lines.append(f"{name}: {draw(st.one_of(words, st.just(_VALUES_OF.get(name, 'x'))))}")
    return encoded("\n".join(lines) + "\n\n") + draw(_yaml())


@st.composite
def _yaml(draw: DrawFn) -> bytes:
    keys = st.one_of(st.sampled_from(["task_id", "content", "stage", "percent", "message", "summary", "status"]), words)
    lines = draw(
        st.lists(
            st.tuples(st.sampled_from(["", "  ", "- ", "    "]), keys, st.sampled_from([": ", ":", " ", ":\n"]), words),
            max_size=6,
        )
    )
    return encoded("\n".join("".join(parts) for parts in lines))


@st.composite
def _nested(draw: DrawFn) -> bytes:
    """One piece again and again, then closed or not."""
    piece = draw(st.sampled_from(["[", "{a: ", "- ", "? ", "a:\n ", "&a ", "*a ", "!!str ", "- - ", '"', "|\n ", "'"]))
    closing = {"[": "]", "{a: ": "}"}.get(piece, "") if draw(st.booleans()) else ""
    deep = draw(st.sampled_from([1, 31, 32, 33, 500, 5000]))
    return encoded(piece * deep + "x" + closing * deep)


@st.composite
def _toml(draw: DrawFn) -> bytes:
    keys = [
        "root",
        "escalate_to",
        "extra_types",
        "max_message_bytes",
        "agents",
        "delivery",
        "agents.worker",
        "on_escalation",
    ]
    forms = st.sampled_from(
        [
            "{k} = {v}",
            '{k} = "{v}"',
            "{k} = ['{v}']",
            "[{k}]\ncwd = '{v}'",
            '[agents."{v}"]',
            "[{k}.{v}]",
            "{k} = {{a = {v}}}",
        ]
    )
    lines = draw(st.lists(st.tuples(forms, st.one_of(st.sampled_from(keys), words), words), max_size=4))
    return encoded("\n".join(form.format(k=key, v=value) for form, key, value in lines))


_OWN: Final[dict[Family, SearchStrategy[bytes]]] = {
    "message": _message(),
    "yaml": st.one_of(_yaml(), _nested()),
    "text": st.lists(words, max_size=30).map(lambda parts: encoded(" ".join(parts))),
    "toml": _toml(),
    "context": st.one_of(_changed_json("context"), _nested_json()),
}


def bytes_like(family: Family) -> SearchStrategy[bytes]:
    own = _OWN.get(family)
    shaped = [own, own] if own is not None else [_changed_json(family), _changed_line(family)]
    return st.one_of(*shaped, _damaged(family), _reframed(family), st.binary(max_size=200))
