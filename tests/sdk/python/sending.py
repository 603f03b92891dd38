"""Senders: single messages, lists, batches, everything a message can carry."""

import contextlib
import datetime
import time

from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    ServiceBusError,
)
from harness import Space, bodies, check, empty, equal, raises, receive, take, unauthorized


@check("ServiceBusClient.get_queue_sender", "ServiceBusSender.send_messages")
async def one(space: Space) -> None:
    """A message arrives once."""
    queue = await space.queue()
    sender = await space.sender(queue)
    await sender.send_messages(ServiceBusMessage("hello"))
    receiver = await space.receiver(queue)
    equal(await take(receiver), ["hello"])
    assert await empty(receiver)


@check("ServiceBusSender.send_messages")
async def several(space: Space) -> None:
    """A list of messages arrives in its order."""
    queue = await space.queue()
    texts = [str(n) for n in range(20)]
    await space.send(queue, *texts)
    equal(await take(await space.receiver(queue), 20), texts)


@check(
    "ServiceBusSender.create_message_batch",
    "ServiceBusMessageBatch.add_message",
    "ServiceBusMessageBatch.max_size_in_bytes",
    "ServiceBusMessageBatch.size_in_bytes",
    "ServiceBusMessageBatch.message",
)
async def batch(space: Space) -> None:
    """A batch as large as the broker allows arrives whole."""
    queue = await space.queue()
    sender = await space.sender(queue)
    batch = await sender.create_message_batch()
    assert batch.max_size_in_bytes >= 262_144, batch.max_size_in_bytes
    texts: list[str] = []
    with contextlib.suppress(MessageSizeExceededError):
        while text := str(len(texts)).rjust(10_000, "x"):
            await batch.add_message(ServiceBusMessage(text))
            texts.append(text)
    assert batch.size_in_bytes > batch.max_size_in_bytes - 11_000
    assert batch.message is not None
    await sender.send_messages(batch)
    small = await sender.create_message_batch(max_size_in_bytes=1000)
    await small.add_message(ServiceBusMessage(b"x" * 500))
    await raises(MessageSizeExceededError, small.add_message(ServiceBusMessage(b"x" * 500)))
    equal(await take(await space.receiver(queue), len(texts)), texts)


@check("ServiceBusSender.send_messages")
async def properties(space: Space) -> None:
    """Every property of a message arrives as it was sent, with those the broker adds."""
    queue = await space.queue()
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
    await (await space.sender(queue)).send_messages(sent)
    receiver = await space.receiver(queue)
    [got] = await receive(receiver)
    for name in (
        "message_id", "correlation_id", "subject", "to", "reply_to", "content_type",
        "partition_key", "session_id", "reply_to_session_id", "time_to_live",
    ):  # fmt: skip
        equal(getattr(got, name), getattr(sent, name), name)
    expected = {b"int": 7, b"text": b"t", b"key": b"bytes", b"on": True, b"half": 0.5}
    equal(got.application_properties, expected)
    equal(got.delivery_count, 0)
    assert got.sequence_number and got.sequence_number > 0
    equal(got.enqueued_sequence_number, got.sequence_number, "enqueued sequence number")
    assert got.lock_token and got.enqueued_time_utc and got.locked_until_utc
    equal(got.expires_at_utc, got.enqueued_time_utc + datetime.timedelta(minutes=5))
    assert abs(time.time() - got.enqueued_time_utc.timestamp()) < 60
    assert got.dead_letter_reason is None and got.dead_letter_source is None
    await receiver.complete_message(got)


@check("ServiceBusSender.send_messages")
async def message_id(space: Space) -> None:
    """A message without an id gets one."""
    queue = await space.queue()
    await (await space.sender(queue)).send_messages(AmqpAnnotatedMessage(data_body=b"x"))
    [got] = await receive(await space.receiver(queue))
    assert got.message_id


@check("ServiceBusSender.send_messages")
async def annotated(space: Space) -> None:
    """Bodies of the three AMQP kinds arrive as that kind."""
    queue = await space.queue()
    sender = await space.sender(queue)
    for message in (
        AmqpAnnotatedMessage(data_body=[b"a", b"b"]),
        AmqpAnnotatedMessage(value_body={b"k": [1, b"two"]}),
        AmqpAnnotatedMessage(sequence_body=[[1, 2], [3]]),
    ):
        await sender.send_messages(message)
    data, value, sequence = await receive(await space.receiver(queue), 3)
    equal(list(data.body), [b"a", b"b"])
    equal((value.body_type, value.body), (AmqpMessageBodyType.VALUE, {b"k": [1, b"two"]}))
    equal(sequence.body_type, AmqpMessageBodyType.SEQUENCE)
    equal(list(sequence.body), [[1, 2], [3]])


@check("ServiceBusSender.send_messages")
async def large(space: Space) -> None:
    """A message of 900 kB arrives whole."""
    queue = await space.queue(max_message_size_in_kilobytes=1024)
    text = "0123456789" * 90_000
    await space.send(queue, text)
    assert await take(await space.receiver(queue)) == [text]


@check("ServiceBusSender.send_messages")
async def too_large(space: Space) -> None:
    """MessageSizeExceededError, and the sender goes on."""
    queue = await space.queue()
    sender = await space.sender(queue)
    huge = ServiceBusMessage(b"x" * 2_000_000)
    await raises(MessageSizeExceededError, sender.send_messages(huge))
    await sender.send_messages(ServiceBusMessage("after"))
    equal(await take(await space.receiver(queue)), ["after"])


@check("ServiceBusSender.send_messages")
async def not_found(space: Space) -> None:
    """ServiceBusAuthenticationError of a queue and a topic that do not exist."""
    client = await space.client()
    for sender in (
        await client.get_queue_sender(space.name),
        await client.get_topic_sender(space.name),
    ):
        await raises(unauthorized(), sender.send_messages(ServiceBusMessage("x")))
        await sender.close()


@check("ServiceBusSender.send_messages", "ServiceBusAdministrationClient.update_queue")
async def disabled(space: Space) -> None:
    """MessagingEntityDisabledError while a queue is disabled for sending."""
    queue = await space.queue()
    admin = await space.admin()
    properties = await admin.get_queue(queue)
    properties.status = "SendDisabled"
    await admin.update_queue(properties)
    client = await space.impatient()
    sender = await client.get_queue_sender(queue)
    await raises(MessagingEntityDisabledError, sender.send_messages(ServiceBusMessage("x")))
    await sender.close()
    properties.status = "Active"
    await admin.update_queue(properties)
    await space.send(queue, "y")
    equal(bodies(await receive(await space.receiver(queue))), ["y"])


@check("ServiceBusSender.send_messages")
async def duplicates(space: Space) -> None:
    """A queue with duplicate detection takes an id once, and says yes to the repeat."""
    queue = await space.queue(requires_duplicate_detection=True)
    sender = await space.sender(queue)
    for _ in range(2):
        await sender.send_messages(ServiceBusMessage("x", message_id="same"))
    receiver = await space.receiver(queue)
    equal(await take(receiver), ["x"])
    assert await empty(receiver)


@check("ServiceBusSender.send_messages")
async def time_to_live(space: Space) -> None:
    """What expires goes to the dead-letter queue, with its reason."""
    queue = await space.queue(dead_lettering_on_message_expiration=True)
    await space.send(queue, "x", time_to_live=datetime.timedelta(seconds=1))
    dead = await space.receiver(queue, sub_queue="deadletter")
    [message] = await receive(dead)
    equal(message.dead_letter_reason, "TTLExpiredException")
    await dead.complete_message(message)
    assert await empty(await space.receiver(queue))


@check("ServiceBusSender.send_messages")
async def mismatched_keys(space: Space) -> None:
    """A partition key beside another session id is refused."""
    queue = await space.queue()
    sender = await space.sender(queue)
    # The constructor of a message refuses the pair; its AMQP form does not look.
    message = ServiceBusMessage("x", session_id="a")
    message.raw_amqp_message.annotations = {"x-opt-partition-key": "b"}
    error = await raises(ServiceBusError, sender.send_messages(message))
    assert "partition" in str(error).lower(), error
    await sender.send_messages(ServiceBusMessage("after"))


@check("ServiceBusSender.close", "ServiceBusSender.client_identifier")
async def closed(space: Space) -> None:
    """A sender has the name it is given, and says so when it is used after its close."""
    queue = await space.queue()
    sender = await (await space.client()).get_queue_sender(queue, client_identifier="me")
    equal(sender.client_identifier, "me")
    await sender.send_messages(ServiceBusMessage("x"))
    await sender.close()
    await raises(ValueError, sender.send_messages(ServiceBusMessage("y")))
