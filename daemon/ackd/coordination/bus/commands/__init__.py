"""The commands of the message bus."""
