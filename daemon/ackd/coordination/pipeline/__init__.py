"""The pipeline lead: stories through four stages, each stage done by a fresh worker."""
