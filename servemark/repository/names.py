"""Names of models and versions in paths of URLs and of files.

A server may name a model as it likes: in letters of any script, with blanks, percent signs and slashes. A name that
means another place in a path, or that UTF-8 cannot write, is refused.
"""

from urllib.parse import quote

from servemark.errors import OptionError

_PLACES = {"", ".", ".."}
"""Parts of a path that lead elsewhere, percent-encoded or not (RFC 3986, section 6.2.2)."""
MAX_BYTES = 500


_PLAIN = "!$&'()*+,;=:@"
"""Characters of a part of a path that stand as they are (RFC 3986, section 3.3), beside letters and digits."""


def in_path(name: str) -> str:
    """Return a name as one part of a URL's path. Raises OptionError where it cannot be one."""
    return quote(checked_name(name), safe=_PLAIN)


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as parts of a URL's path, one of which a server knows. Raises OptionError.

    Triton does not decode a path: it knows a name in its own letters alone, if they can stand in a path.
    """
    encoded = in_path(name)
    return (encoded,) if name == encoded or set(name) & set(" ?#/") else (encoded, name)


def checked_name(name: str) -> str:
    """Return the name of a server's model or version. Raises OptionError where no request can name it."""
    wrong = _wrong(name)
    if wrong:
        raise OptionError(f"{name[:80]!r} cannot name a model or a version: {wrong}", fix="name one that is served")
    return name


def checked_model(name: str) -> str:
    """Return the name of a folder of the model repository. Raises OptionError where it is not one."""
    wrong = _wrong(name) or ("a slash leads to another folder" if "/" in name else "")
    if wrong:
        raise OptionError(f"{name[:80]!r} cannot name a model: {wrong}", fix="name a folder of the model repository")
    return name


def _wrong(name: str) -> str:
    """Say what is wrong with a name; "" if nothing is."""
    if name in _PLACES:
        return "in a path it is not a name"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "it has control characters"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not text in UTF-8"
    return f"it has more than {MAX_BYTES} bytes" if size > MAX_BYTES else ""
