"""Messages for later."""

import datetime

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError
from harness import WAIT, Space, bodies, check, empty, equal, raises, receive, take


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


@check("ServiceBusSender.schedule_messages")
async def schedule(space: Space) -> None:
    """A message is not there before its time, and is then."""
    queue = await space.queue()
    soon = now() + datetime.timedelta(seconds=8)
    sender = await space.sender(queue)
    [number] = await sender.schedule_messages(ServiceBusMessage("by call"), soon)
    by_property = ServiceBusMessage("by property", scheduled_enqueue_time_utc=soon)
    await sender.send_messages(by_property)
    receiver = await space.receiver(queue)
    peeked = await receiver.peek_messages(10)
    equal([message.state.name for message in peeked], ["SCHEDULED"] * 2)
    assert number in [message.sequence_number for message in peeked]
    messages = await receive(receiver, 2)
    assert now() >= soon
    equal(sorted(bodies(messages)), ["by call", "by property"])
    for message in messages:
        assert message.scheduled_enqueue_time_utc is not None
        await receiver.complete_message(message)


@check("ServiceBusSender.schedule_messages", "ServiceBusSender.cancel_scheduled_messages")
async def cancel(space: Space) -> None:
    """A cancelled message never comes; cancelling it again is MessageNotFoundError."""
    queue = await space.queue()
    later = now() + datetime.timedelta(seconds=8)
    sender = await (await space.impatient()).get_queue_sender(queue)
    messages = [ServiceBusMessage(text) for text in "abc"]
    first, *others = await sender.schedule_messages(messages, later)
    equal(len({first, *others}), 3)
    await sender.cancel_scheduled_messages(first)
    await sender.cancel_scheduled_messages(others)
    receiver = await space.receiver(queue)
    equal(await receiver.peek_messages(10), [])
    equal(await receiver.receive_messages(max_wait_time=WAIT), [])
    await raises(MessageNotFoundError, sender.cancel_scheduled_messages(first))
    await sender.close()


@check("ServiceBusSender.schedule_messages", "ServiceBusSender.cancel_scheduled_messages")
async def to_topic(space: Space) -> None:
    """A message scheduled on a topic reaches its subscriptions when it is due."""
    topic = await space.topic("s")
    sender = await space.topic_sender(topic)
    soon = now() + datetime.timedelta(seconds=8)
    [number] = await sender.schedule_messages(ServiceBusMessage("cancelled"), soon)
    await sender.schedule_messages(ServiceBusMessage("kept"), soon)
    await sender.cancel_scheduled_messages(number)
    receiver = await space.subscriber(topic, "s")
    equal(await receiver.peek_messages(10), [])
    equal(await take(receiver), ["kept"])
    assert now() >= soon
    assert await empty(receiver)
