"""What counts as a secret, and what does not."""

from __future__ import annotations

import random
import string
import time

import pytest

from ackd.core import redaction
from ackd.core.redaction import MARK, by_default

PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\nAAAA==\n-----END OPENSSH PRIVATE KEY-----"

#: Text, and what is shown of it. Keys are put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "AWS": ("id AKIA" + "Q" * 16 + ".", f"id {MARK}."),
    "AWS secret": ("aws_secret_access_key = " + "a1/+" * 10, f"aws_secret_access_key = {MARK}"),
    "GitHub": ("push with ghp_" + "a1B2" * 9, f"push with {MARK}"),
    "GitHub, fine-grained": ("github_pat_" + "a1B2_" * 9 + " x", f"{MARK} x"),
    "GitLab": ("glpat-" + "a1B2" * 5, MARK),
    "OpenAI": ("OPENAI is sk-proj-" + "a1_-" * 10, f"OPENAI is {MARK}"),
    "Anthropic": ("sk-ant-api03-" + "a1B2" * 10, MARK),
    "Google": ("AIza" + "a1B2-" * 7, MARK),
    "Slack": ("xoxb-" + "1234567890-" * 2 + "abc", MARK),
    "Slack hook": ("https://hooks.slack.com/services/T00/B00/xyz1", f"https://hooks.slack.com/services/{MARK}"),
    "a private key": (f"it is\n{PEM}\nfrom", f"it is\n{MARK}\nfrom"),
    "a private key that is cut off": (PEM[:60], MARK),
    "JWT": ("eyJ" + "hbGci" * 4 + ".eyJzdWIi" + "abc" * 4 + ".sig-_", MARK),
    "bearer": ("Authorization: Bearer abcdef123456", f"Authorization: Bearer {MARK}"),
    "basic": ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {MARK}"),
    "an address": ("postgres://me:hunter2@db/x", f"postgres://me:{MARK}@db/x"),
    "password=": ("run with --password=hunter22 now", f"run with --password={MARK} now"),
    "YAML": ("db:\n  password: 'hunter22'\n", f"db:\n  password: '{MARK}'\n"),
    "JSON": ('{"api_key": "hunter22", "n": 1}', f'{{"api_key": "{MARK}", "n": 1}}'),
    "JSON in JSON": ('{\\"token\\": \\"hunter22\\"}', f'{{\\"token\\": \\"{MARK}\\"}}'),
    "a variable": ("export DB_PASSWORD=hunter22", f"export DB_PASSWORD={MARK}"),
}
HARMLESS = (
    "the key to it: patience",
    "sk-1 is a task",
    "see https://example.org:8080/a@b",
    "the tokenizer: fast",
    "monkey = banana",
    "password:",
    "commit ghost_writer",
    "1770263544.12345.abcdef@ignite.local",
    "queue/worker/processed/message_1770263544000001.mime",
    "no secrets here, and basic things",
)


@pytest.mark.parametrize("what", SECRETS)
def test_a_secret_is_replaced_and_the_rest_stays(what: str) -> None:
    text, shown = SECRETS[what]
    assert by_default(text) == shown
    assert by_default(shown) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert by_default(text) == text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("(", "is no regular expression"), ("a*", "fits the empty text"), ("x" * 1_001, "is longer"), ("acme-\\d+", None)],
)
def test_a_pattern_that_makes_no_sense_is_named(pattern: str, why: str | None) -> None:
    found = redaction.problem(pattern)
    assert (why is None and found is None) or (found is not None and why is not None and found.startswith(why))


def test_no_text_makes_our_patterns_slow() -> None:
    """Time grows with the length and not with its square: long runs of what the patterns repeat, and no end to them."""
    chance, hints = random.Random(4), [hint for one in redaction.DEFAULTS for hint in one.hints]
    hostile = ["password" * 20_000, "secret_" * 20_000, "token=" * 20_000, "eyJ" + "a." * 80_000, "://a:" * 40_000]
    hostile += ["-----BEGIN PRIVATE KEY-----" * 5_000, "a" * 200_000 + "key", "api_key " * 20_000 + "=" * 50_000]
    hostile += ["".join(chance.choices([*hints, *string.printable], k=50_000)) for _ in range(5)]
    for text in hostile:
        began = time.process_time()
        by_default(text)
        took_s = time.process_time() - began
        assert took_s < 5, text[:40]
