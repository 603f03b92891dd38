#!/usr/bin/env python3
"""An OpenID issuer for tests: its configuration, its keys, and tokens for whoever asks.

    issuer.py PORT CERTIFICATE KEY    files in PEM; it ends with its standard input

`GET /realms/shop/token?role=…&seconds=…&subject=…` gives one; `POST /realms/shop/rotate` has it sign with another key,
and publish that alone.
"""

import json
import ssl
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

PORT, CERTIFICATE, KEY = sys.argv[1:]
NAME = f"https://localhost:{PORT}/realms/shop"
AUDIENCE = "https://servicebus.azure.net"


class Signer:
    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.id = str(uuid.uuid4())

    def public(self) -> dict[str, object]:
        return {**json.loads(RSAAlgorithm.to_jwk(self.key.public_key())), "kid": self.id, "use": "sig"}


signer = Signer()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        match asked.path.removeprefix("/realms/shop/"):
            case ".well-known/openid-configuration":
                self.answer({"issuer": NAME, "jwks_uri": f"{NAME}/keys"})
            case "keys":
                self.answer({"keys": [signer.public()]})
            case "token":
                self.answer(token({name: values[0] for name, values in parse_qs(asked.query).items()}))
            case _:
                self.send_error(404)

    def do_POST(self) -> None:
        global signer
        signer = Signer()
        self.answer({})

    def answer(self, told: object) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def token(asked: dict[str, str]) -> dict[str, object]:
    expires = int(time.time()) + int(asked.get("seconds", "600"))
    claims = {
        "iss": NAME, "aud": AUDIENCE, "sub": asked.get("subject", "worker"), "exp": expires,
        "resource_access": {"bus": {"roles": asked.get("role", "").split(",")}},
    }  # fmt: skip
    signed = jwt.encode(claims, signer.key, algorithm="PS256", headers={"kid": signer.id})
    return {"access_token": signed, "expires_on": expires}


server = ThreadingHTTPServer(("127.0.0.1", int(PORT)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("serving", flush=True)
sys.stdin.read()
