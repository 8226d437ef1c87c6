"""Certificates for tests of the programs, made by openssl."""
import os
import shutil
import subprocess

from harness import PATIENCE_S, Skip


def certificates(t, address="127.0.0.1"):
    """An authority, and certificates by it: of a node at that address, of a client, and one
    that has expired; as NAME.crt and NAME.key of t's directory."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not there to make certificates: install openssl")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True,
                       timeout=PATIENCE_S)

    def request(name):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                t.path(name + ".key"), "-out", t.path(name + ".csr"), "-subj", f"/CN={name}")
        os.chmod(t.path(name + ".key"), 0o600)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", t.path("ca.key"), "-out", t.path("ca.crt"), "-subj", "/CN=ca", "-days", "2")
    with open(t.path("alt"), "w", encoding="ascii") as f:
        f.write(f"subjectAltName=IP:{address},DNS:node.example")
    for name, days in (("node", "1"), ("client", "1"), ("expired", "-1")):
        request(name)
        openssl("x509", "-req", "-in", t.path(name + ".csr"), "-CA", t.path("ca.crt"), "-CAkey",
                t.path("ca.key"), "-CAcreateserial", "-days", days, "-extfile", t.path("alt"),
                "-out", t.path(name + ".crt"))
