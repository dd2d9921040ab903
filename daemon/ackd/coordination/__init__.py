"""Capabilities, a folder for each: its rules (pure), wire format, files, gateway, commands and settings."""
