"""The rules of a board: a meeting as a value, its phases as a table, its count, and what others see of it. Pure."""
