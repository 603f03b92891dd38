"""Faults on the message plane: what the SDK makes of each of them, and what is left behind."""

import asyncio
import contextlib
import json
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from harness import OPENED, Space, bodies, check, empty, equal, is_secure, raises, receive, unauthorized

SOON = timedelta(seconds=5)  # A lock that lapses while a check waits for it.
SHORT = 3.0  # Seconds a call is given that is not answered, on a link that is open already.


def ask(space: Space, method: str, path: str, body: Any = None) -> Any:
    scheme = "https" if is_secure() else "http"
    request = urllib.request.Request(
        f"{scheme}://{space.cluster.http}/$faults{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    trust = ssl._create_unverified_context() if is_secure() else None
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
        return json.load(answer)


class Fault:
    """A rule for the entity of a check."""

    def __init__(self, space: Space, name: str) -> None:
        self._space, self.name = space, name

    async def hits(self) -> int:
        listed = await asyncio.to_thread(ask, self._space, "GET", "")
        return sum(rule["hits"] for rule in listed["rules"] if rule["name"] == self.name)


@contextlib.asynccontextmanager
async def fault(space: Space, operation: str, effect: str, **keys: Any) -> AsyncIterator[Fault]:
    """Met by whoever does this with the check's own entity."""
    rule = {"operation": operation, "effect": effect, "entity": f"{space.name}*", **keys}
    name = f"{space.name}-{operation}"
    put = await asyncio.to_thread(ask, space, "PUT", f"/{name}", rule)
    equal(put["silent"], [])
    try:
        yield Fault(space, name)
    finally:
        await asyncio.to_thread(ask, space, "DELETE", f"/{name}")


async def opened_sender(space: Space, queue: str, **options: Any) -> Any:
    """One whose link is there already, and that does not try again."""
    client = await space.impatient()
    sender = await space.open(await client.get_queue_sender(queue, **options))
    await sender.send_messages(ServiceBusMessage("first"))
    receiver = await space.receiver(queue)
    [first] = await receive(receiver)
    await receiver.complete_message(first)
    return sender


async def stored(space: Space, queue: str) -> int:
    properties = await (await space.admin()).get_queue_runtime_properties(queue)
    return properties.active_message_count


REFUSALS = {
    "ServiceBusy": ServiceBusServerBusyError,
    "QuotaExceeded": ServiceBusQuotaExceededError,
    "MessageSizeExceeded": MessageSizeExceededError,
    "GeneralError": ServiceBusError,
}


@check("ServiceBusSender.send_messages")
async def refused(space: Space) -> None:
    """`refuse`: each error is the SDK's own exception, and nothing is stored."""
    queue = await space.queue()
    sender = await opened_sender(space, queue)
    for error, kind in REFUSALS.items():
        async with fault(space, "send", "refuse", error=error, hits=1) as met:
            told = await raises(kind, sender.send_messages(ServiceBusMessage("x")))
            assert met.name in str(told), told
            equal(await met.hits(), 1)
    equal(await stored(space, queue), 0)


@check("ServiceBusSender.send_messages")
async def busy(space: Space) -> None:
    """`refuse`, once: the SDK sends again by itself, and the message is there once."""
    queue = await space.queue()
    async with fault(space, "send", "refuse", error="ServiceBusy", hits=1) as met:
        await space.send(queue, "x")
        equal(await met.hits(), 1)
    equal(await stored(space, queue), 1)


@check("ServiceBusSender.send_messages")
async def throttled(space: Space) -> None:
    """`throttle`: more than that a second is told to come back, and the SDK does."""
    queue = await space.queue()
    sender = await space.sender(queue)
    async with fault(space, "send", "throttle", per_second=2) as met:
        for number in range(5):
            await sender.send_messages(ServiceBusMessage(str(number)))
        hits = await met.hits()
        assert hits > 0, hits
    equal(await stored(space, queue), 5)


@check("ServiceBusSender.send_messages")
async def send_unanswered(space: Space) -> None:
    """`lose-answer` of a send: OperationTimeoutError, and the message is stored."""
    queue = await space.queue()
    sender = await opened_sender(space, queue)
    async with fault(space, "send", "lose-answer"):
        send = sender.send_messages(ServiceBusMessage("x"), timeout=SHORT)
        await raises(OperationTimeoutError, send)
    equal(await stored(space, queue), 1)


@check("ServiceBusSender.send_messages")
async def send_lost(space: Space) -> None:
    """`lose-request` of a send: the same exception, and nothing is stored."""
    queue = await space.queue()
    sender = await opened_sender(space, queue)
    async with fault(space, "send", "lose-request"):
        send = sender.send_messages(ServiceBusMessage("x"), timeout=SHORT)
        await raises(OperationTimeoutError, send)
    equal(await stored(space, queue), 0)


@check("ServiceBusSender.send_messages")
async def send_delayed(space: Space) -> None:
    """`delay` of a send: it takes longer, and is done; with a filter those alone that are meant."""
    queue = await space.queue()
    sender = await opened_sender(space, queue)
    async with fault(space, "send", "delay", time="2s", filter="colour = 'red'") as met:
        for colour, least in (("blue", 0.0), ("red", 2.0)):
            began = time.monotonic()
            properties = {"colour": colour}
            await sender.send_messages(ServiceBusMessage("x", application_properties=properties))
            assert time.monotonic() - began >= least, colour
        equal(await met.hits(), 1)
    equal(await stored(space, queue), 2)


@check("ServiceBusReceiver.receive_messages")
async def overtaken(space: Space) -> None:
    """`delay` of a message on its way: the next one overtakes it."""
    queue = await space.queue()
    await space.send(queue, "a", "b")
    receiver = await space.receiver(queue)
    async with fault(space, "receive", "delay", time="3s", hits=1):
        messages = await receive(receiver, 2)
    equal(bodies(messages), ["b", "a"])


@check("ServiceBusReceiver.receive_messages")
async def astray(space: Space) -> None:
    """`lose-answer` of a message on its way: it is locked for nobody, and comes again when that ends."""
    queue = await space.queue(lock_duration=SOON)
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    async with fault(space, "receive", "lose-answer", hits=1):
        assert not await receiver.receive_messages(max_wait_time=SHORT)
        [message] = await receive(receiver)
    equal(message.delivery_count, 1)


@check("ServiceBusReceiver.renew_message_lock")
async def lock_lapses(space: Space) -> None:
    """`lapse`: the lock is lost before its time, and the message comes again, counted."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    async with fault(space, "receive", "lapse", time="1s", hits=1):
        [message] = await receive(receiver)
        equal(message.delivery_count, 0)
        [again] = await receive(receiver)
    equal(again.delivery_count, 1)
    await raises(MessageLockLostError, receiver.renew_message_lock(message))
    await receiver.renew_message_lock(again)
    await receiver.complete_message(again)
    assert await empty(receiver)


@check("ServiceBusReceiver.renew_message_lock")
async def renewal_refused(space: Space) -> None:
    """`refuse` of a renewal: MessageLockLostError, though the lock is held."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    async with fault(space, "renew-lock", "refuse", error="MessageLockLost", hits=1):
        await raises(MessageLockLostError, receiver.renew_message_lock(message))
    await receiver.renew_message_lock(message)


@check("ServiceBusReceiver.renew_message_lock")
async def renewal_unanswered(space: Space) -> None:
    """`lose-answer` of a request: OperationTimeoutError, and it was done."""
    queue = await space.queue()
    await space.send(queue, "x")
    client = await space.impatient()
    receiver = await space.open(await client.get_queue_receiver(queue))
    [message] = await receive(receiver)
    # Opens the link of requests, which would take of the time that the next one is given.
    await receiver.renew_message_lock(message)
    async with fault(space, "renew-lock", "lose-answer") as met:
        await raises(OperationTimeoutError, receiver.renew_message_lock(message, timeout=SHORT))
        equal(await met.hits(), 1)


@check("ServiceBusReceiver.peek_messages")
async def peek_delayed(space: Space) -> None:
    """`delay` with phase `after`: the answer of a request comes late."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    equal(bodies(await receiver.peek_messages(sequence_number=1)), ["x"])
    async with fault(space, "peek", "delay", time="2s", phase="after"):
        began = time.monotonic()
        equal(bodies(await receiver.peek_messages(sequence_number=1)), ["x"])
        assert time.monotonic() - began >= 2


@check("ServiceBusReceiver.complete_message")
async def completion_lost(space: Space) -> None:
    """`lose-request` of a completion: the SDK asks once more when the lock is over, and the message comes again."""
    queue = await space.queue(lock_duration=SOON)
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    async with fault(space, "complete", "lose-request", hits=1) as met:
        [message] = await receive(receiver)
        await raises(MessageLockLostError, receiver.complete_message(message))
        [again] = await receive(receiver)
        equal((again.delivery_count, await met.hits()), (1, 1))
        await receiver.complete_message(again)
    assert await empty(receiver)


@check("ServiceBusClient.get_queue_sender")
async def not_there(space: Space) -> None:
    """`refuse` of a link: the entity is not there for this client."""
    queue = await space.queue()
    client = await space.impatient()
    async with fault(space, "open-link", "refuse", error="MessagingEntityNotFound"):
        sender = await client.get_queue_sender(queue)
        await raises(MessagingEntityNotFoundError, sender.send_messages(ServiceBusMessage("x")))


@check("ServiceBusClient.get_queue_sender")
async def not_authorized(space: Space) -> None:
    """`refuse` of a token: the SDK's exception for a lack of authorization."""
    queue = await space.queue()
    client = await space.impatient()
    async with fault(space, "authenticate", "refuse", error="UnauthorizedAccessException") as met:
        sender = await client.get_queue_sender(queue)
        await raises(unauthorized(), sender.send_messages(ServiceBusMessage("x")))
        assert await met.hits() > 0


@check("ServiceBusReceiver.receive_messages")
async def detached(space: Space) -> None:
    """`detach` while messages come: the SDK opens the link anew, and no failed delivery is counted."""
    queue = await space.queue()
    await space.send(queue, "a", "b", "c")
    receiver = await space.receiver(queue)
    async with fault(space, "receive", "detach", hits=1) as met:
        messages = await receive(receiver, 3)
        equal(sorted(bodies(messages)), ["a", "b", "c"])
        equal([message.delivery_count for message in messages], [0, 0, 0])
        assert await met.hits() >= 1


@check("ServiceBusSender.send_messages")
async def closed(space: Space) -> None:
    """`close`: the SDK connects anew and sends again."""
    await broken(space, "close")


@check("ServiceBusSender.send_messages")
async def reset(space: Space) -> None:
    """`reset`: the same."""
    await broken(space, "reset")


async def broken(space: Space, effect: str) -> None:
    queue = await space.queue()
    sender = await space.sender(queue)
    await sender.send_messages(ServiceBusMessage("a"))
    async with fault(space, "send", effect, hits=1) as met:
        await sender.send_messages(ServiceBusMessage("b"))
        # Once at each node that it was connected to.
        assert await met.hits() >= 1
    equal(await stored(space, queue), 2)


@check("ServiceBusSender.send_messages")
async def silent(space: Space) -> None:
    """`silence`: nothing comes through for that time, and what was asked is answered after it."""
    queue = await space.queue()
    sender = await opened_sender(space, queue)
    async with fault(space, "send", "silence", time="2s", hits=1):
        began = time.monotonic()
        await sender.send_messages(ServiceBusMessage("x"), timeout=OPENED)
        assert time.monotonic() - began >= 2
    equal(await stored(space, queue), 1)


@check("ServiceBusReceiver.receive_messages")
async def cut(space: Space) -> None:
    """`cut`: a message stops in its middle; the SDK connects anew, and it comes again, counted."""
    queue = await space.queue(lock_duration=SOON)
    await space.send(queue, "x" * 10_000)
    receiver = await space.receiver(queue)
    async with fault(space, "receive", "cut", hits=1) as met:
        [message] = await receive(receiver)
        # Once at each node that it was connected to.
        hits = await met.hits()
        assert message.delivery_count == hits >= 1, (message.delivery_count, hits)


@check("ServiceBusSession.renew_lock")
async def session_lapses(space: Space) -> None:
    """`lapse` of a session's lock: SessionLockLostError, and the session is free for the next one."""
    queue = await space.queue(requires_session=True)
    await space.send(queue, "x", session_id="s")
    async with fault(space, "accept-session", "lapse", time="1s", hits=1):
        receiver = await space.receiver(queue, session_id="s")
        await asyncio.sleep(2)
        session = receiver.session
        await raises(SessionLockLostError, session.renew_lock())
        other = await space.receiver(queue, session_id="s")
        equal(bodies(await receive(other)), ["x"])


@check("ServiceBusClient.get_queue_receiver")
async def session_refused(space: Space) -> None:
    """`refuse` of a session: SessionCannotBeLockedError."""
    queue = await space.queue(requires_session=True)
    client = await space.impatient()
    async with fault(space, "accept-session", "refuse", error="SessionCannotBeLocked"):
        receiver = await client.get_queue_receiver(queue, session_id="s")
        await raises(SessionCannotBeLockedError, receiver.receive_messages(max_wait_time=OPENED))
