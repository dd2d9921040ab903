"""The rules of the pipeline: values in, values out. Pure."""
