"""A namespace of a profile, as Python's SDK meets it.

profiles.py PROFILE QUEUE    the string is MAYFLY_STRING; a line of JSON for each part
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from azure.servicebus.management import ServiceBusAdministrationClient as Admin

KILOBYTE = 1024
ONCE = {"retry_total": 0}
SKUS = {"self-hosted": "Standard", "basic": "Basic", "standard": "Standard", "premium": "Premium"}


class Tier:
    """What one profile is to be like."""

    def __init__(self, profile: str) -> None:
        self.sku = SKUS[profile]
        self.is_basic = profile == "basic"
        self.is_large = profile in ("self-hosted", "premium")
        self.message_kilobytes = 1024 if profile == "premium" else 256


def refused(tier: Tier, is_taken: bool, create: Callable[[], object]) -> None:
    """That something is created, or refused in the service's words."""
    try:
        create()
    except HttpResponseError as error:
        told = str(error)
        expect(is_taken, False, told)
        expect(error.status_code, 400)
        expect("SubCode=40000" in told and f"is using '{tier.sku}' tier" in told, True, told)
    else:
        expect(is_taken, True, "it was created")


def expect(seen: object, expected: object, what: object = "") -> None:
    if seen != expected:
        raise RuntimeError(f"{seen}, expected {expected}: {what}")


def namespace(tier: Tier, text: str, queue: str) -> None:
    with Admin.from_connection_string(text, **ONCE) as admin:
        told = admin.get_namespace_properties()
        expect(told.messaging_sku, tier.sku)
        expect(told.messaging_units, 1 if tier.sku == "Premium" else None)


def entities(tier: Tier, text: str, queue: str) -> None:
    others = not tier.is_basic
    with Admin.from_connection_string(text, **ONCE) as admin:
        made = admin.create_queue(queue)
        lives = made.default_message_time_to_live
        expect(lives == timedelta(days=14), tier.is_basic, lives)
        expect(made.max_message_size_in_kilobytes, tier.message_kilobytes)
        create, month = admin.create_queue, timedelta(days=30)
        refused(tier, others, lambda: admin.create_topic(f"{queue}-topic"))
        refused(tier, others, lambda: create(f"{queue}-sessions", requires_session=True))
        refused(tier, others, lambda: create(f"{queue}-once", requires_duplicate_detection=True))
        refused(tier, others, lambda: create(f"{queue}-forwards", forward_to=queue))
        refused(tier, others, lambda: create(f"{queue}-month", default_message_time_to_live=month))
        refused(tier, tier.is_large, lambda: create(f"{queue}-10", max_size_in_megabytes=10240))
        large = {"max_message_size_in_kilobytes": 1024}
        refused(tier, tier.is_large, lambda: create(f"{queue}-large", **large))


def sizes(tier: Tier, text: str, queue: str) -> None:
    with ServiceBusClient.from_connection_string(text, **ONCE) as client:
        with client.get_queue_sender(queue) as sender:
            batch = sender.create_message_batch()
            fits = 200 * KILOBYTE < batch.max_size_in_bytes <= tier.message_kilobytes * KILOBYTE
            expect(fits, True, batch.max_size_in_bytes)
            sender.send_messages(ServiceBusMessage(b"x" * 200 * KILOBYTE))
            try:
                sender.send_messages(ServiceBusMessage(b"x" * 300 * KILOBYTE))
                expect(tier.message_kilobytes, 1024, "a message of 300 KB was taken")
            except MessageSizeExceededError as error:
                expect(tier.message_kilobytes, 256, error)


def features(tier: Tier, text: str, queue: str) -> None:
    """SCHED-15: the one that every tier has."""
    with ServiceBusClient.from_connection_string(text, **ONCE) as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            soon = datetime.now(timezone.utc) + timedelta(seconds=1)
            (number,) = sender.schedule_messages(ServiceBusMessage("later"), soon)
            bodies = []
            while "later" not in bodies:
                taken = receiver.receive_messages(max_wait_time=10)
                expect(bool(taken), True, f"no message {number}")
                bodies += [str(message) for message in taken]
                for message in taken:
                    receiver.complete_message(message)


def main() -> None:
    profile, queue = sys.argv[1:]
    tier, text = Tier(profile), os.environ["MAYFLY_STRING"]
    for part in (namespace, entities, sizes, features):
        failure = None
        try:
            part(tier, text, queue)
        # Whatever it is: the next part is tried all the same.
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        print(json.dumps({"part": part.__name__, "failure": failure}), flush=True)


main()
