"""This capability's rules: values in, values out. Pure."""
