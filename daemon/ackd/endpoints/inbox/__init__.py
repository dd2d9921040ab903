"""Inbox agents: people and programs that fetch their mail themselves."""
