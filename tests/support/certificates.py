"""Certificates for tests, made by the openssl command: a CA, what it signed, and one that nobody signed."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = servemark test {name}
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical,CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

OPENSSL = shutil.which("openssl") or ""
needs_openssl = pytest.mark.skipif(not OPENSSL, reason="no openssl command to make certificates")


@dataclass(frozen=True)
class Authority:
    """A CA in a folder of its own."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """Certificate that a client trusts."""
        return self.folder / "ca.pem"

    def make(self) -> "Authority":
        """Make the CA's own certificate."""
        self.folder.mkdir()
        config = self._config("CA", "DNS:unused")
        self._openssl(
            "req", "-x509", *KEY, "-config", config, "-extensions", "ca", "-keyout", "ca.key", "-out", "ca.pem"
        )
        return self

    def issue(self, name: str, names: str = "IP:127.0.0.1,DNS:localhost") -> Path:
        """A PEM file with a certificate for these names and its key."""
        config = self._config(name, names)
        self._openssl("req", "-new", *KEY, "-config", config, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", config, "-extensions", "leaf")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.crt")
        both = self.folder / f"{name}.pem"
        both.write_bytes((self.folder / f"{name}.key").read_bytes() + (self.folder / f"{name}.crt").read_bytes())
        return both

    def _config(self, name: str, names: str) -> str:
        (self.folder / f"{name}.cnf").write_text(CONFIG.format(name=name, names=names))
        return f"{name}.cnf"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run([OPENSSL, *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)
