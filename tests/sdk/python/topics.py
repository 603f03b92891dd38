"""Topics: each subscription gets its copies, filtered, and settles them for itself."""

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter
from harness import WAIT, Space, check, empty, equal, raises, receive, take


@check("ServiceBusClient.get_topic_sender", "ServiceBusClient.get_subscription_receiver")
async def fan_out(space: Space) -> None:
    """Every subscription gets every message, in order; each settles its own copy."""
    topic = await space.topic("one", "two")
    sender = await space.topic_sender(topic)
    await sender.send_messages([ServiceBusMessage(text) for text in "abc"])
    one = await space.subscriber(topic, "one")
    two = await space.subscriber(topic, "two")
    equal(await take(one, 3), ["a", "b", "c"])
    assert await empty(one)
    equal(await take(two, 3), ["a", "b", "c"])


@check("ServiceBusReceiver.dead_letter_message", "ServiceBusClient.get_subscription_receiver")
async def dead_letter(space: Space) -> None:
    """A subscription has a dead-letter queue of its own."""
    topic = await space.topic("one", "two")
    await (await space.topic_sender(topic)).send_messages(ServiceBusMessage("x"))
    one = await space.subscriber(topic, "one")
    [message] = await receive(one)
    await one.dead_letter_message(message, reason="why", error_description="because")
    dead = await space.subscriber(topic, "one", sub_queue="deadletter")
    [message] = await receive(dead)
    equal((message.dead_letter_reason, message.dead_letter_error_description), ("why", "because"))
    await dead.complete_message(message)
    equal(await take(await space.subscriber(topic, "two")), ["x"])


@check("ServiceBusReceiver.abandon_message", "ServiceBusReceiver.renew_message_lock")
async def settle(space: Space) -> None:
    """A subscription's messages are peeked, renewed, abandoned and completed like a queue's."""
    topic = await space.topic("s")
    await (await space.topic_sender(topic)).send_messages(ServiceBusMessage("x"))
    receiver = await space.subscriber(topic, "s")
    [peeked] = await receiver.peek_messages()
    [message] = await receive(receiver)
    equal(message.sequence_number, peeked.sequence_number)
    await receiver.renew_message_lock(message)
    await receiver.abandon_message(message)
    [message] = await receive(receiver)
    equal(message.delivery_count, 1)
    await receiver.complete_message(message)
    assert await empty(receiver)


@check("ServiceBusReceiver.receive_messages")
async def and_delete(space: Space) -> None:
    """RECEIVE_AND_DELETE from a subscription."""
    topic = await space.topic("s")
    await (await space.topic_sender(topic)).send_messages(ServiceBusMessage("x"))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = await space.subscriber(topic, "s", receive_mode=mode)
    await receive(receiver)
    assert await empty(await space.subscriber(topic, "s"))


@check("ServiceBusAdministrationClient.create_rule", "ServiceBusSender.send_messages")
async def filters(space: Space) -> None:
    """SQL and correlation filters choose, over properties of every kind."""
    topic = await space.topic("dear", "news", "none")
    admin = await space.admin()
    for subscription in ("dear", "news", "none"):
        await admin.delete_rule(topic, subscription, "$Default")
    dear = SqlRuleFilter("price > @limit AND sys.Label = 'offer'", {"@limit": 10})
    await admin.create_rule(topic, "dear", "rule", filter=dear)
    news = CorrelationRuleFilter(label="news", properties={"urgent": True, "level": 3})
    await admin.create_rule(topic, "news", "rule", filter=news)
    sender = await space.topic_sender(topic)
    for text, subject, properties in (
        ("dear", "offer", {"price": 10.5}),
        ("cheap", "offer", {"price": 3}),
        ("other subject", "demand", {"price": 100}),
        ("urgent news", "news", {"urgent": True, "level": 3}),
        ("old news", "news", {"urgent": False, "level": 3}),
    ):
        message = ServiceBusMessage(text, subject=subject, application_properties=properties)
        await sender.send_messages(message)
    equal(await take(await space.subscriber(topic, "dear")), ["dear"])
    equal(await take(await space.subscriber(topic, "news")), ["urgent news"])
    for subscription in ("dear", "news", "none"):
        assert await empty(await space.subscriber(topic, subscription)), subscription


@check("ServiceBusAdministrationClient.create_rule")
async def actions(space: Space) -> None:
    """A rule with an action makes a copy of its own, changed, which names the rule."""
    topic = await space.topic("s")
    admin = await space.admin()
    action = SqlRuleAction("SET price = price * 2; SET sys.Label = 'doubled'; REMOVE secret")
    await admin.create_rule(topic, "s", "double", filter=SqlRuleFilter("1=1"), action=action)
    sender = await space.topic_sender(topic)
    properties = {"price": 21, "secret": "x"}
    await sender.send_messages(ServiceBusMessage("m", application_properties=properties))
    plain, doubled = await receive(await space.subscriber(topic, "s"), 2)
    equal(plain.application_properties, {b"price": 21, b"secret": b"x"})
    equal(doubled.application_properties, {b"price": 42, b"RuleName": b"double"})
    equal(doubled.subject, "doubled")


@check("ServiceBusReceiver.receive_messages", "ServiceBusSender.send_messages")
async def misused(space: Space) -> None:
    """A topic is not received from, a subscription not sent to."""
    topic = await space.topic("s")
    client = await space.impatient()
    receiver = await client.get_queue_receiver(topic)
    await raises(ServiceBusError, receiver.receive_messages(max_wait_time=2 * WAIT))
    sender = await client.get_topic_sender(f"{topic}/Subscriptions/s")
    await raises(ServiceBusError, sender.send_messages(ServiceBusMessage("x")))
    await receiver.close()
    await sender.close()


@check("ServiceBusAdministrationClient.create_subscription")
async def forwarded(space: Space) -> None:
    """A subscription forwards what it gets to a queue."""
    queue = await space.queue()
    admin = await space.admin()
    topic = f"{space.name}-topic"
    await admin.create_topic(topic)
    await admin.create_subscription(topic, "s", forward_to=queue)
    await (await space.topic_sender(topic)).send_messages(ServiceBusMessage("x"))
    equal(await take(await space.receiver(queue)), ["x"])
