"""The rules of the Ensemble gateway: values in, values out. Pure."""
