"""Every queue method of the unmodified `azure-servicebus` package, sync and async, against a node.

    pip install azure-servicebus
    mayfly up
    python tests/sdk/python/queues.py --amqp localhost:5672 --http localhost:5300

Each check runs twice, once over each flavour of the SDK. Prints a table of methods against pass or
fail, and exits with 1 if anything failed.
"""

import argparse
import asyncio
import contextlib
import datetime
import inspect
import sys
import time
import traceback
import urllib.request
import uuid

from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus import aio, exceptions
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType

CHECKS = []
WAIT = 5  # Seconds in which a message that is there arrives.


def check(*methods):
    """Registers a check of these methods."""

    def register(function):
        CHECKS.append((methods, function))
        return function

    return register


class Flavour:
    """One of the two SDKs behind one face: what returns an awaitable is awaited."""

    def __init__(self, name, client, renewer):
        self.name, self.client_class, self.renewer_class = name, client, renewer

    async def do(self, result):
        return await result if inspect.isawaitable(result) else result

    @contextlib.asynccontextmanager
    async def opened(self, thing):
        if hasattr(thing, "__aenter__"):
            async with thing:
                yield thing
        else:
            with thing:
                yield thing

    async def each(self, receiver):
        if hasattr(receiver, "__anext__"):
            async for message in receiver:
                yield message
        else:
            for message in receiver:
                yield message


class Queue:
    """A queue of its own for one check."""

    def __init__(self, flavour, args, name):
        self.flavour, self.args, self.name = flavour, args, name
        self.do = flavour.do
        self.connection = (
            f"Endpoint=sb://{args.amqp};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )

    def create(self, **properties):
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in properties.items())
        body = (
            '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
            '<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">'
            f"{inner}</QueueDescription></content></entry>"
        )
        url = f"http://{self.args.http}/{self.name}?api-version=2021-05"
        request = urllib.request.Request(url, body.encode(), method="PUT")
        urllib.request.urlopen(request, timeout=30).read()

    def client(self):
        client = self.flavour.client_class.from_connection_string(self.connection)
        return self.flavour.opened(client)

    @contextlib.asynccontextmanager
    async def sender(self):
        async with self.client() as client:
            async with self.flavour.opened(client.get_queue_sender(self.name)) as sender:
                yield sender

    @contextlib.asynccontextmanager
    async def receiver(self, **options):
        async with self.client() as client:
            receiver = client.get_queue_receiver(self.name, **options)
            async with self.flavour.opened(receiver) as receiver:
                yield receiver

    async def send(self, *bodies):
        async with self.sender() as sender:
            await self.do(sender.send_messages([ServiceBusMessage(body) for body in bodies]))

    async def receive(self, receiver, count=1, wait=WAIT):
        """Exactly `count` messages, however many calls it takes."""
        messages, until = [], time.monotonic() + 4 * wait
        while len(messages) < count and time.monotonic() < until:
            left = count - len(messages)
            messages += await self.do(
                receiver.receive_messages(max_message_count=left, max_wait_time=wait)
            )
        assert len(messages) == count, f"{len(messages)} messages arrived, not {count}"
        return messages

    async def take(self, count=1, **options):
        """Bodies of messages, completed."""
        async with self.receiver(**options) as receiver:
            messages = await self.receive(receiver, count)
            for message in messages:
                await self.do(receiver.complete_message(message))
            return [body(message) for message in messages]

    async def is_empty(self, **options):
        async with self.receiver(**options) as receiver:
            return not await self.do(receiver.receive_messages(max_wait_time=2))


def body(message):
    return b"".join(message.body)


async def raises(kind, awaitable_of):
    """The exception of that kind which the call raises; the call is made in here."""
    try:
        result = awaitable_of()
        if inspect.isawaitable(result):
            await result
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


@check("get_queue_sender", "send_messages(one)", "get_queue_receiver", "receive_messages", "complete_message")
async def one(queue):
    queue.create()
    async with queue.sender() as sender:
        await queue.do(sender.send_messages(ServiceBusMessage("hello")))
    assert await queue.take() == [b"hello"]
    assert await queue.is_empty()


@check("send_messages(list)")
async def several(queue):
    queue.create()
    await queue.send(*(str(n) for n in range(20)))
    assert await queue.take(20) == [str(n).encode() for n in range(20)]


@check("create_message_batch", "ServiceBusMessageBatch.add_message")
async def batch(queue):
    queue.create()
    async with queue.sender() as sender:
        batch = await queue.do(sender.create_message_batch())
        assert batch.max_size_in_bytes == 1048576, batch.max_size_in_bytes
        for n in range(100):
            batch.add_message(ServiceBusMessage(str(n)))
        await queue.do(sender.send_messages(batch))
        full = await queue.do(sender.create_message_batch(max_size_in_bytes=1000))
        full.add_message(ServiceBusMessage(b"x" * 500))
        await raises(exceptions.MessageSizeExceededError, lambda: full.add_message(ServiceBusMessage(b"x" * 500)))
    assert await queue.take(100) == [str(n).encode() for n in range(100)]


@check("ServiceBusMessage properties", "ServiceBusReceivedMessage properties")
async def properties(queue):
    queue.create()
    sent = ServiceBusMessage(
        b"body",
        application_properties={"int": 7, "text": "t", b"key": b"bytes", "on": True, "half": 0.5},
        message_id="id-1",
        correlation_id="correlation",
        subject="subject",
        to="to",
        reply_to="reply-to",
        content_type="text/plain",
        partition_key="key",
        session_id="key",
        reply_to_session_id="session",
        time_to_live=datetime.timedelta(minutes=5),
    )
    async with queue.sender() as sender:
        await queue.do(sender.send_messages(sent))
    async with queue.receiver() as receiver:
        [got] = await queue.receive(receiver)
        for name in ("message_id", "correlation_id", "subject", "to", "reply_to", "content_type",
                     "partition_key", "session_id", "reply_to_session_id", "time_to_live"):
            assert getattr(got, name) == getattr(sent, name), (name, getattr(got, name))
        expected = {b"int": 7, b"text": b"t", b"key": b"bytes", b"on": True, b"half": 0.5}
        assert got.application_properties == expected, got.application_properties
        assert got.delivery_count == 0 and got.sequence_number > 0
        assert got.lock_token and got.enqueued_time_utc and got.locked_until_utc
        assert got.expires_at_utc == got.enqueued_time_utc + datetime.timedelta(minutes=5)
        assert abs(time.time() - got.enqueued_time_utc.timestamp()) < 60
        await queue.do(receiver.complete_message(got))


@check("message without id")
async def message_id(queue):
    queue.create()
    await queue.send("x")
    async with queue.receiver() as receiver:
        [got] = await queue.receive(receiver)
        assert got.message_id, "the SDK itself draws one since 7.15, the broker for all others"
        await queue.do(receiver.complete_message(got))


@check("AmqpAnnotatedMessage bodies")
async def bodies(queue):
    queue.create()
    async with queue.sender() as sender:
        for annotated in (
            AmqpAnnotatedMessage(data_body=[b"a", b"b"]),
            AmqpAnnotatedMessage(value_body={b"k": [1, b"two"]}),
            AmqpAnnotatedMessage(sequence_body=[[1, 2], [3]]),
        ):
            await queue.do(sender.send_messages(annotated))
    async with queue.receiver() as receiver:
        data, value, sequence = await queue.receive(receiver, 3)
        assert list(data.body) == [b"a", b"b"]
        assert value.body_type == AmqpMessageBodyType.VALUE and value.body == {b"k": [1, b"two"]}
        assert sequence.body_type == AmqpMessageBodyType.SEQUENCE and list(sequence.body) == [[1, 2], [3]]
        for message in (data, value, sequence):
            await queue.do(receiver.complete_message(message))


@check("large message")
async def large(queue):
    queue.create(MaxMessageSizeInKilobytes=1024)
    text = bytes(n % 251 for n in range(900_000))
    await queue.send(text)
    assert await queue.take() == [text]


@check("MessageSizeExceededError")
async def too_large(queue):
    queue.create()
    async with queue.sender() as sender:
        await raises(exceptions.MessageSizeExceededError,
                     lambda: sender.send_messages(ServiceBusMessage(b"x" * 2_000_000)))
        await queue.do(sender.send_messages(ServiceBusMessage("after")))
    assert await queue.take() == [b"after"]


@check("schedule_messages", "cancel_scheduled_messages")
async def schedule(queue):
    queue.create()
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
    later = soon + datetime.timedelta(hours=1)
    async with queue.sender() as sender:
        [number] = await queue.do(sender.schedule_messages(ServiceBusMessage("soon"), soon))
        cancelled = await queue.do(
            sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], later))
        assert len({number, *cancelled}) == 3
        await queue.do(sender.cancel_scheduled_messages(cancelled))
        await queue.do(sender.send_messages(ServiceBusMessage("by property", scheduled_enqueue_time_utc=soon)))
    async with queue.receiver() as receiver:
        peeked = await queue.do(receiver.peek_messages(10))
        assert [message.state.name for message in peeked] == ["SCHEDULED"] * 2, peeked
        messages = await queue.receive(receiver, 2)
        assert datetime.datetime.now(datetime.timezone.utc) >= soon
        assert {body(message) for message in messages} == {b"soon", b"by property"}
        assert messages[0].scheduled_enqueue_time_utc is not None
        for message in messages:
            await queue.do(receiver.complete_message(message))
    async with queue.sender() as sender:
        # The SDK asks four times before it believes it.
        await raises(exceptions.MessageNotFoundError, lambda: sender.cancel_scheduled_messages(cancelled))


@check("abandon_message")
async def abandon(queue):
    queue.create(MaxDeliveryCount=2)
    await queue.send("x")
    async with queue.receiver() as receiver:
        for count in range(2):
            [message] = await queue.receive(receiver)
            assert message.delivery_count == count, message.delivery_count
            await queue.do(receiver.abandon_message(message))
    async with queue.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [message] = await queue.receive(receiver)
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded", message.dead_letter_reason
        await queue.do(receiver.complete_message(message))


@check("defer_message", "receive_deferred_messages")
async def defer(queue):
    queue.create()
    await queue.send("a", "b", "c")
    async with queue.receiver() as receiver:
        messages = await queue.receive(receiver, 3)
        for message in messages:
            await queue.do(receiver.defer_message(message))
        numbers = [message.sequence_number for message in messages]
        deferred = await queue.do(receiver.receive_deferred_messages(numbers))
        assert [body(message) for message in deferred] == [b"a", b"b", b"c"]
        assert all(message.state.name == "DEFERRED" for message in deferred)
        first, second, third = deferred
        await queue.do(receiver.complete_message(first))
        await queue.do(receiver.renew_message_lock(second))
        await queue.do(receiver.abandon_message(second))
        await queue.do(receiver.dead_letter_message(third, reason="late", error_description="by hand"))
        [again] = await queue.do(receiver.receive_deferred_messages(numbers[1]))
        await queue.do(receiver.complete_message(again))
        await raises(exceptions.MessageNotFoundError, lambda: receiver.receive_deferred_messages(numbers[0]))
    assert await queue.take(sub_queue=ServiceBusSubQueue.DEAD_LETTER) == [b"c"]


@check("receive_deferred_messages(RECEIVE_AND_DELETE)")
async def defer_and_delete(queue):
    queue.create()
    await queue.send("x")
    async with queue.receiver() as receiver:
        [message] = await queue.receive(receiver)
        await queue.do(receiver.defer_message(message))
    number = message.sequence_number
    async with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        [message] = await queue.do(receiver.receive_deferred_messages(number))
        assert body(message) == b"x"
        await raises(exceptions.MessageNotFoundError, lambda: receiver.receive_deferred_messages(number))


@check("dead_letter_message", "sub_queue=DEAD_LETTER")
async def dead_letter(queue):
    queue.create()
    await queue.send("x")
    async with queue.receiver() as receiver:
        [message] = await queue.receive(receiver)
        await queue.do(receiver.dead_letter_message(message, reason="why", error_description="because"))
    assert await queue.is_empty()
    async with queue.receiver(sub_queue="deadletter") as receiver:
        [peeked] = await queue.do(receiver.peek_messages())
        assert peeked.dead_letter_reason == "why"
        [message] = await queue.receive(receiver)
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "because")
        await queue.do(receiver.renew_message_lock(message))
        await queue.do(receiver.complete_message(message))


@check("renew_message_lock", "MessageLockLostError")
async def renew(queue):
    queue.create(LockDuration="PT5S")
    await queue.send("x")
    async with queue.receiver() as receiver:
        [message] = await queue.receive(receiver)
        await asyncio.sleep(3)
        before = message.locked_until_utc
        until = await queue.do(receiver.renew_message_lock(message))
        assert until > before and message.locked_until_utc == until
        await asyncio.sleep(3)
        await queue.do(receiver.complete_message(message))
    await queue.send("y")
    async with queue.receiver() as receiver:
        [message] = await queue.receive(receiver)
        await asyncio.sleep(6)
        await raises(exceptions.MessageLockLostError, lambda: receiver.renew_message_lock(message))
        await raises(exceptions.MessageLockLostError, lambda: receiver.complete_message(message))


@check("AutoLockRenewer")
async def auto_renew(queue):
    queue.create(LockDuration="PT5S")
    await queue.send("x")
    renewer = queue.flavour.renewer_class()
    try:
        async with queue.receiver() as receiver:
            [message] = await queue.receive(receiver)
            renewer.register(receiver, message, max_lock_renewal_duration=60)
            await asyncio.sleep(9)
            assert message.auto_renew_error is None, message.auto_renew_error
            await queue.do(receiver.complete_message(message))
    finally:
        await queue.do(renewer.close())
    assert await queue.is_empty()


@check("peek_messages")
async def peek(queue):
    queue.create()
    await queue.send(*(str(n) for n in range(10)))
    async with queue.receiver() as receiver:
        [first] = await queue.do(receiver.peek_messages())
        assert body(first) == b"0" and first.state.name == "ACTIVE"
        rest = await queue.do(receiver.peek_messages(20))
        assert [body(message) for message in rest] == [str(n).encode() for n in range(1, 10)]
        assert await queue.do(receiver.peek_messages(5)) == []
        number = rest[4].sequence_number
        [fifth] = await queue.do(receiver.peek_messages(1, sequence_number=number))
        assert fifth.sequence_number == number
        assert len(await queue.receive(receiver, 10)) == 10, "a peek takes nothing"


@check("receive_messages(RECEIVE_AND_DELETE)")
async def receive_and_delete(queue):
    queue.create()
    await queue.send("a", "b")
    async with queue.receiver(receive_mode="receiveanddelete") as receiver:
        messages = await queue.receive(receiver, 2)
        assert [body(message) for message in messages] == [b"a", b"b"]
        await raises(ValueError, lambda: receiver.complete_message(messages[0]))
    assert await queue.is_empty()


@check("receiver iteration", "max_wait_time")
async def iterate(queue):
    queue.create()
    await queue.send(*(str(n) for n in range(10)))
    seen = []
    async with queue.receiver(max_wait_time=3) as receiver:
        async for message in queue.flavour.each(receiver):
            seen.append(body(message))
            await queue.do(receiver.complete_message(message))
    assert seen == [str(n).encode() for n in range(10)], seen


@check("prefetch_count")
async def prefetch(queue):
    queue.create()
    await queue.send(*(str(n) for n in range(200)))
    seen = []
    async with queue.receiver(prefetch_count=50) as receiver:
        while len(seen) < 200:
            messages = await queue.do(receiver.receive_messages(max_message_count=50, max_wait_time=WAIT))
            assert messages, f"after {len(seen)} messages"
            for message in messages:
                seen.append(body(message))
                await queue.do(receiver.complete_message(message))
    assert sorted(seen) == sorted(str(n).encode() for n in range(200))
    assert await queue.is_empty()


@check("receive_messages while others come")
async def waiting(queue):
    queue.create()
    async with queue.receiver() as receiver:
        assert await queue.do(receiver.receive_messages(max_wait_time=1)) == []
        await queue.send("x")
        [message] = await queue.receive(receiver)
        await queue.do(receiver.complete_message(message))
    assert await queue.is_empty()


@check("time_to_live")
async def time_to_live(queue):
    queue.create(DeadLetteringOnMessageExpiration="true")
    async with queue.sender() as sender:
        short = ServiceBusMessage("x", time_to_live=datetime.timedelta(seconds=1))
        await queue.do(sender.send_messages(short))
    await asyncio.sleep(2)
    assert await queue.is_empty()
    async with queue.receiver(sub_queue="deadletter") as receiver:
        [message] = await queue.receive(receiver)
        assert message.dead_letter_reason == "TTLExpiredException", message.dead_letter_reason
        await queue.do(receiver.complete_message(message))


@check("settling after the receiver is gone")
async def settle_elsewhere(queue):
    queue.create()
    await queue.send("x")
    async with queue.client() as client:
        first = client.get_queue_receiver(queue.name)
        async with queue.flavour.opened(first):
            [message] = await queue.receive(first)
        second = client.get_queue_receiver(queue.name)
        async with queue.flavour.opened(second):
            assert await queue.do(second.receive_messages(max_wait_time=1)) == [], "its lock holds"
            await queue.do(second.complete_message(message))
    assert await queue.is_empty()


@check("duplicate detection")
async def duplicates(queue):
    queue.create(RequiresDuplicateDetection="true")
    async with queue.sender() as sender:
        for _ in range(2):
            await queue.do(sender.send_messages(ServiceBusMessage("x", message_id="same")))
    assert await queue.take() == [b"x"]
    assert await queue.is_empty()


@check("MessagingEntityNotFoundError")
async def not_found(queue):
    async with queue.client() as client:
        sender = client.get_queue_sender(queue.name)
        await raises(exceptions.MessagingEntityNotFoundError,
                     lambda: sender.send_messages(ServiceBusMessage("x")))
        receiver = client.get_queue_receiver(queue.name)
        await raises(exceptions.MessagingEntityNotFoundError,
                     lambda: receiver.receive_messages(max_wait_time=2))


@check("MessagingEntityDisabledError")
async def disabled(queue):
    queue.create(Status="Disabled")
    async with queue.client() as client:
        sender = client.get_queue_sender(queue.name)
        await raises(exceptions.MessagingEntityDisabledError,
                     lambda: sender.send_messages(ServiceBusMessage("x")))


async def run(flavour, args):
    """Lines of the table."""
    lines = []
    for methods, function in CHECKS:
        if args.only and args.only not in function.__name__:
            continue
        name = f"sdk-{flavour.name}-{function.__name__}-{uuid.uuid4().hex[:8]}"
        started, failure = time.monotonic(), None
        try:
            await asyncio.wait_for(function(Queue(flavour, args, name)), 120)
        except Exception as error:  # Whatever it is, it is a line of the table.
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            if args.verbose:
                traceback.print_exc()
        seconds = time.monotonic() - started
        for method in methods:
            lines.append((flavour.name, method, failure, seconds))
            result = "pass" if failure is None else f"FAIL {failure}"
            print(f"| {flavour.name} | {method} | {result} | {seconds:.1f} s |", flush=True)
    return lines


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqp", default="localhost:5672", help="host:port, host must be localhost")
    parser.add_argument("--http", default="localhost:5300", help="host:port of the same cluster")
    parser.add_argument("--only", help="checks whose name contains this")
    parser.add_argument("--flavour", choices=["sync", "async"])
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    flavours = [
        Flavour("sync", ServiceBusClient, AutoLockRenewer),
        Flavour("async", aio.ServiceBusClient, aio.AutoLockRenewer),
    ]
    print("| SDK | method | result | time |\n|---|---|---|---|")
    lines = []
    for flavour in flavours:
        if args.flavour in (None, flavour.name):
            lines += await run(flavour, args)
    failed = sum(1 for line in lines if line[2] is not None)
    print(f"\n{len(lines) - failed} of {len(lines)} passed")
    return 1 if failed or not lines else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
