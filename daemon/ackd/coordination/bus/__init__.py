"""The message bus: finds JSONL tracks, follows them, acts on their lines and watches their workers."""
