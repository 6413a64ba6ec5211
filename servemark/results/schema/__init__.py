"""The documents that servemark writes: their types, the constructor of their header, and a published JSON Schema.

A figure that may be unknown is `X | None`. Its reason stands beside it as `<key>_reason`, or as `reason` for a whole
group; the types do not list those keys, `reason_of` and `unknown` read and write them.
"""
