#!/usr/bin/env python3
"""Azure's SDK for Python with credentials in the place of connection strings: of the cluster's own authority by
`azure-identity`, and of another issuer.

    messages.py ID ISSUER HTTP,AMQPS HTTP,AMQPS HTTP,AMQPS    ID: of the tenant; ISSUER: its address; of each node

`MAYFLY_SECRET` is the key RootManageSharedAccessKey. Lines that begin with `wrong: ` say what is not as it has to be.
"""

import os
import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from json import load

from azure.core.credentials import AccessToken
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

ROOT = "RootManageSharedAccessKey"
ID, ISSUER, *NODES = sys.argv[1:]
HTTP = [node.split(",")[0] for node in NODES]
TRUSTED = os.environ["SSL_CERT_FILE"]
TLS = ssl.create_default_context(cafile=TRUSTED)
# The SDK asks for the next token in the last tenth of this.
SHORT_S = 20


class Issued:
    """Tokens of the other issuer, as a program's own credential has them."""

    def __init__(self, role: str, seconds: int = 600) -> None:
        self.role, self.seconds, self.asked = role, seconds, 0

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        expect("what a token is asked for", scopes[0].rstrip("/").rsplit("/.default")[0].rstrip("/"), "https://servicebus.azure.net")
        self.asked += 1
        with urllib.request.urlopen(f"{ISSUER}/token?role={self.role}&seconds={self.seconds}", context=TLS) as told:
            token = load(told)
        return AccessToken(token["access_token"], token["expires_on"])


def own(name: str, key: str, node: int) -> ClientSecretCredential:
    return ClientSecretCredential(ID, name, key, authority=f"https://{HTTP[node]}", disable_instance_discovery=True)


def client(credential: object, node: int) -> ServiceBusClient:
    # A port of its own takes the WebSocket, whatever is asked for.
    return ServiceBusClient(
        "localhost", credential, custom_endpoint_address=f"sb://{HTTP[node]}", connection_verify=TRUSTED,
        retry_total=0,
    )  # fmt: skip


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        print(f"wrong: {what} is {found!r}, not {wanted!r}")


@contextmanager
def refused(what: str) -> Iterator[None]:
    try:
        yield
    except (ServiceBusAuthorizationError, ServiceBusAuthenticationError):
        return
    print(f"wrong: {what} is not refused")


def send(credential: object, node: int, queue: str = "orders", count: int = 1) -> None:
    with client(credential, node) as bus, bus.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(count)])


def receive(credential: object, node: int) -> int:
    with client(credential, node) as bus, bus.get_queue_receiver("orders", max_wait_time=5) as receiver:
        found = receiver.receive_messages(max_message_count=10)
        for message in found:
            receiver.complete_message(message)
        return len(found)


def by_the_cluster() -> None:
    """A token of one node is good at the others, and whoever has it is who has the key."""
    root = own(ROOT, os.environ["MAYFLY_SECRET"], 0)
    with ServiceBusAdministrationClient(HTTP[1], root) as administration:
        for queue in ("orders", "other"):
            administration.create_queue(queue, lock_duration="PT30S")
        names = {queue.name for queue in administration.list_queues()}
        expect("queues", {"orders", "other"} <= names, True)
    send(root, 2)
    expect("received", receive(root, 1), 1)
    # As a program has it that takes what its surroundings say.
    found = {"TENANT_ID": ID, "CLIENT_ID": ROOT, "CLIENT_SECRET": os.environ["MAYFLY_SECRET"]}
    found["AUTHORITY_HOST"] = f"https://{HTTP[1]}"
    os.environ.update({f"AZURE_{name}": value for name, value in found.items()})
    send(DefaultAzureCredential(disable_instance_discovery=True), 0)
    expect("received once more", receive(root, 2), 1)
    listener = own("listener", "the-listeners-own-key", 1)
    with refused("sending with a key that may listen"):
        send(listener, 0)
    expect("received by the listener", receive(listener, 2), 0)


def by_an_issuer() -> None:
    send(Issued("orders-writer"), 0, count=3)
    with refused("sending elsewhere"):
        send(Issued("orders-writer"), 0, "other")
    with refused("receiving with the role of a writer"):
        receive(Issued("orders-writer"), 1)
    expect("received by the reader", receive(Issued("x,reader"), 2), 3)
    with refused("no role of the cluster's"):
        receive(Issued("x"), 2)


def renewed() -> None:
    """A connection outlives its first token by the next ones that the SDK puts."""
    reader = Issued("reader", SHORT_S)
    with client(reader, 0) as bus, bus.get_queue_receiver("orders") as receiver:
        until = time.monotonic() + SHORT_S + 3
        while time.monotonic() < until:
            receiver.receive_messages(max_message_count=1, max_wait_time=0.5)
        send(Issued("orders-writer"), 1)
        found = receiver.receive_messages(max_message_count=1, max_wait_time=5)
        expect("messages after the first token", len(found), 1)
    expect("tokens", reader.asked, 2)


def rotated() -> None:
    """The issuer signs with another key: the cluster finds it by the first token that it has not seen the key of."""
    urllib.request.urlopen(urllib.request.Request(f"{ISSUER}/rotate", method="POST"), context=TLS).close()
    until = time.monotonic() + 60
    while True:
        try:
            return send(Issued("orders-writer"), 1)
        except ServiceBusError as error:  # A token that is refused it tells as a lost connection.
            if time.monotonic() > until:
                print(f"wrong: the new key stays unknown: {error}")
                return
            time.sleep(1)


by_the_cluster()
by_an_issuer()
renewed()
rotated()
print("done")
