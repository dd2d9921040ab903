"""The rules of leases: values in, values out. Pure."""
