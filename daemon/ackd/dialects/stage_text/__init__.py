"""The exact texts of pipeline-lead ↔ the words of core/stage_words."""

from ackd.dialects.stage_text.reading import BadStageText, last_report, read, read_command, word_in
from ackd.dialects.stage_text.writing import shutdown_summary, summary, write

__all__ = ["BadStageText", "last_report", "read", "read_command", "shutdown_summary", "summary", "word_in", "write"]
