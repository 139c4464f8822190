"""TLS by two settings: a certificate and its key."""

from __future__ import annotations

import ssl

from tocsin.errors import InvalidValue


def check_tls(certificate: str, key: str) -> None:
    """Raises InvalidValue unless both are given and fit each other, or neither is given."""
    if bool(certificate) != bool(key):
        raise InvalidValue("TLS takes both settings, tls_certificate and tls_key")
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except OSError as exc:
            raise InvalidValue(f"tls_certificate and tls_key can't be used: {exc}") from exc
