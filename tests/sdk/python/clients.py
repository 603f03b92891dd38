"""The client itself: connection strings, and what its close ends."""

from azure.servicebus import ServiceBusMessage, parse_connection_string
from harness import Space, check, equal, raises, take


@check("ServiceBusClient.from_connection_string", "ServiceBusClient.close")
async def close(space: Space) -> None:
    """Closing a client closes its senders and receivers."""
    queue = await space.queue()
    client = await space.new_client()
    sender = await client.get_queue_sender(queue)
    receiver = await client.get_queue_receiver(queue)
    await sender.send_messages(ServiceBusMessage("x"))
    equal(await take(receiver), ["x"])
    await client.close()
    await raises(ValueError, sender.send_messages(ServiceBusMessage("y")))
    await raises(ValueError, receiver.receive_messages(max_wait_time=1))


@check()
async def connection_string(space: Space) -> None:
    """The emulator's kind of connection string is one to the SDK's parser."""
    text = space.cluster.connection_string(space.cluster.amqp)
    parsed = parse_connection_string(text)
    equal(parsed.fully_qualified_namespace, space.cluster.amqp)
    equal(parsed.shared_access_key_name, "RootManageSharedAccessKey")


@check("ServiceBusClient.get_queue_sender", "ServiceBusClient.get_queue_receiver")
async def reopened(space: Space) -> None:
    """A client opens senders and receivers again after others were closed."""
    queue = await space.queue()
    client = await space.client()
    for text in ("a", "b"):
        sender = await client.get_queue_sender(queue)
        receiver = await client.get_queue_receiver(queue)
        await sender.send_messages(ServiceBusMessage(text))
        equal(await take(receiver), [text])
        await sender.close()
        await receiver.close()


@check("ServiceBusClient.get_queue_receiver")
async def many_receivers(space: Space) -> None:
    """One client serves many senders and receivers."""
    queue = await space.queue()
    client = await space.client()
    for n in range(10):
        sender = await client.get_queue_sender(queue)
        await sender.send_messages(ServiceBusMessage(str(n)))
    receivers = [await client.get_queue_receiver(queue) for _ in range(10)]
    seen = []
    for receiver in receivers:
        seen += await take(receiver)
    equal(sorted(seen), [str(n) for n in range(10)])
