"""The form of a message file: refusals have the right code, and a rewrite changes nothing else."""

from __future__ import annotations

import email
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core import headers
from ackd.core.errors import BadMessage
from ackd.core.message import Idled, Rejection, Status
from ackd.formats import ignite

CORPUS = Path(__file__).parents[1] / "corpus"
GOOD = sorted((CORPUS / "good").glob("*.mime"))
BROKEN = sorted((CORPUS / "broken").glob("*.mime"))
PLAIN = (CORPUS / "good" / "plain.mime").read_bytes()


def refusal(data: bytes) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        ignite.decode(data, "ignitian_1")
    return caught.value


def with_line(line: bytes) -> bytes:
    return PLAIN.replace(b"To: ", line + b"\nTo: ", 1)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_valid_message_survives_decode_and_encode_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    ignite.decode(data, "ignitian_1")
    assert ignite.rewrite(data, ()) == data


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_the_body_of_a_message_that_was_read_is_found_without_reading_it_again(path: Path) -> None:
    data = path.read_bytes()
    assert ignite.body_of(data) == ignite.split(data).body.decode()


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_file_is_refused_by_the_word_it_is_named_after(path: Path) -> None:
    refused = refusal(path.read_bytes())
    assert refused.code == path.stem.partition("--")[0]
    assert refused.detail


def test_the_corpus_has_a_file_for_every_reason_the_codec_can_give() -> None:
    elsewhere = {"too_large", "not_regular", "not_allowed", "header_too_large", "bad_receipt"}
    assert {path.stem.partition("--")[0] for path in BROKEN} == {str(code) for code in Rejection} - elsewhere


def test_the_line_of_the_fault_is_named() -> None:
    assert refusal(with_line(b"X-A: b\n  folded")).line == 5
    assert refusal(PLAIN.replace(b"high", b"urgent")).line == 7
    assert refusal(PLAIN.replace(b"Mend", b"\xff")).line == 12


def test_a_To_of_10_MB_is_refused_at_once() -> None:
    huge = PLAIN.replace(b"ignitian_1", b"a," * 5_000_000, 1)
    tracemalloc.start()
    try:
        assert refusal(huge).code == "header_too_large"
        assert tracemalloc.get_traced_memory()[1] < len(huge) / 10  # not even copied, let alone taken apart
    finally:
        tracemalloc.stop()


def test_headers_up_to_the_limit_are_read_and_one_byte_more_is_not() -> None:
    limit = ignite.MAX_HEADER_BYTES - ignite.RESERVED_BYTES
    room = limit - (PLAIN.index(b"\n\n") + len(b"X-Fill: \n"))
    fits = with_line(b"X-Fill: " + b"x" * room)
    assert fits.index(b"\n\n") == limit
    ignite.decode(fits, "ignitian_1")
    assert refusal(with_line(b"X-Fill: " + b"x" * (room + 1))).code == "header_too_large"


def test_the_largest_message_that_is_accepted_can_still_be_given_its_status_and_its_reason() -> None:
    limit = ignite.MAX_HEADER_BYTES - ignite.RESERVED_BYTES
    fits = with_line(b"X-Fill: " + b"x" * (limit - PLAIN.index(b"\n\n") - len(b"X-Fill: \n")))
    buried = ignite.rewrite(
        fits,
        [
            (ignite.STATUS, "retrying"),
            (ignite.RETRY_COUNT, "3"),
            (ignite.RECIPIENT, "a" * 64),
            (ignite.ERROR_REASON, "失" * 4096),
            (ignite.ERROR_AT, ignite.iso_seconds(0)),
        ],
    )
    assert ignite.decode(buried, "ignitian_1") == ignite.decode(fits, "ignitian_1")


def test_the_largest_message_that_is_accepted_is_read_again_with_all_that_we_wrote_while_it_was_in_hand() -> None:
    limit = ignite.MAX_HEADER_BYTES - ignite.RESERVED_BYTES
    fits = with_line(b"X-Fill: " + b"x" * (limit - PLAIN.index(b"\n\n") - len(b"X-Fill: \n")))
    idled = Idled(reminders=2, told=True, idle_s=1800, beside=True, stalled=True)
    told = ignite.rewrite(fits, headers.in_hand(Status.DELIVERED, 0, seen=True, retries=3, idled=idled))
    assert ignite.decode(told, "ignitian_1") == ignite.decode(fits, "ignitian_1")


def test_the_form_ends_at_64_KiB_whoever_wrote_the_headers() -> None:
    with pytest.raises(BadMessage) as caught:
        ignite.split_head(with_line(b"X-Fill: " + b"x" * ignite.MAX_HEADER_BYTES))
    assert caught.value.code == "header_too_large"


def test_nested_MIME_is_refused_without_being_walked() -> None:
    nested = b"".join(b"--b%d\nContent-Type: multipart/mixed; boundary=b%d\n\n" % (n, n + 1) for n in range(5000))
    data = PLAIN.replace(b"text/x-yaml; charset=utf-8", b"multipart/mixed; boundary=b0") + nested
    assert refusal(data).code == "bad_content_type"


@pytest.mark.parametrize("cut", range(0, 500, 7))
def test_a_half_written_header_is_never_taken_for_a_message(cut: int) -> None:
    head = PLAIN[: PLAIN.index(b"\n\n") + 1]
    assert refusal(head[:cut]).code in {"empty", "no_blank_line"}


def test_recovery_reads_a_header_block_that_is_cut_inside_a_character_of_the_body() -> None:
    data = (CORPUS / "good" / "japanese.mime").read_bytes()
    cut = data[: data.index("を".encode()) + 1]
    assert ignite.split_head(cut).fields["from"] == "coordinator"
    assert refusal(cut).code == "not_utf8"


_name = st.from_regex(r"X-[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True)
_value = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40).map(str.strip)
_body = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=200)


@given(extra=st.lists(st.tuples(_name, _value), max_size=5, unique_by=lambda pair: pair[0].lower()), body=_body)
def test_valid_messages_read_as_the_standard_library_reads_them(extra: list[tuple[str, str]], body: str) -> None:
    lines = "".join(f"{name}: {value}\n" for name, value in extra if not name.lower().startswith("x-ignite"))
    data = lines.encode() + PLAIN[: PLAIN.index(b"\n\n") + 2] + body.encode()
    theirs = email.message_from_bytes(data)
    expected = [
        (name, str(value).encode("ascii", "surrogateescape").decode().strip(" \t"))
        for name, value in theirs.raw_items()
    ]
    assert ignite.headers(data) == expected
    payload = theirs.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert ignite.split(data).body == payload
    assert ignite.rewrite(data, ()) == data


@given(data=st.binary(max_size=300) | st.binary(max_size=60).map(lambda noise: PLAIN[:150] + noise + PLAIN[150:]))
def test_any_bytes_are_a_message_or_a_named_rejection(data: bytes) -> None:
    try:
        ignite.decode(data, "leader")
    except BadMessage as refused:
        assert refused.code in set(Rejection)
    else:
        assert ignite.rewrite(data, ()) == data
