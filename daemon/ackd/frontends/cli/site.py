"""The site, as the commands see it."""

from ackd.site import Site, find_site

__all__ = ["Site", "find_site"]
