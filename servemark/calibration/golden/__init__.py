"""The golden server: KServe v2 over HTTP with delays that are known, and a log of what it really received."""
