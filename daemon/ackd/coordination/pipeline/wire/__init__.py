"""Turns the exact texts of pipeline-lead into the values of ``rules/stage_words``, and back."""

from ackd.coordination.pipeline.wire.reading import BadStageText, last_report, read, read_command, word_in
from ackd.coordination.pipeline.wire.writing import shutdown_summary, summary, write

__all__ = ["BadStageText", "last_report", "read", "read_command", "shutdown_summary", "summary", "word_in", "write"]
