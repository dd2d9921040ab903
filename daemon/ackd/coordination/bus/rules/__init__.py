"""The rules of the message bus: values in, values out. Pure."""
