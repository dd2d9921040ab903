"""Handles files in receipts/: what agents say about their messages, and requests of a person."""
