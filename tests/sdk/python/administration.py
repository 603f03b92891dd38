"""Queues, topics and subscriptions as the administration client makes, reads and changes them."""

import asyncio
import datetime
from datetime import timedelta
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import AccessRights, AuthorizationRule
from harness import Space, check, collect, equal, raises, receive, take

ADMIN = "ServiceBusAdministrationClient"
NEVER = timedelta(days=10675198)  # The SDK reads what never ends as little more than this.

QUEUE: dict[str, Any] = {
    "auto_delete_on_idle": timedelta(hours=2),
    "dead_lettering_on_message_expiration": True,
    "default_message_time_to_live": timedelta(days=3),
    "duplicate_detection_history_time_window": timedelta(minutes=7),
    "lock_duration": timedelta(seconds=45),
    "max_delivery_count": 3,
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "requires_session": True,
    "user_metadata": "a <b> & 'c' \u00fc",
    "max_message_size_in_kilobytes": 512,
}
TOPIC: dict[str, Any] = {
    "auto_delete_on_idle": timedelta(hours=2),
    "default_message_time_to_live": timedelta(days=3),
    "duplicate_detection_history_time_window": timedelta(minutes=7),
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "support_ordering": True,
    "user_metadata": "metadata",
    "max_message_size_in_kilobytes": 512,
}
SUBSCRIPTION: dict[str, Any] = {
    "auto_delete_on_idle": timedelta(hours=2),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "default_message_time_to_live": timedelta(days=3),
    "lock_duration": timedelta(seconds=45),
    "max_delivery_count": 3,
    "requires_session": True,
    "user_metadata": "metadata",
}


def has(properties: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        equal(getattr(properties, name), value, name)


def is_recent(instant: datetime.datetime) -> None:
    age = datetime.datetime.now(datetime.timezone.utc) - instant
    assert abs(age) < timedelta(minutes=5), instant


@check(f"{ADMIN}.from_connection_string", f"{ADMIN}.get_namespace_properties")
async def namespace(space: Space) -> None:
    """The namespace has a name, a kind and an age."""
    properties = await (await space.admin()).get_namespace_properties()
    assert properties.name and properties.created_at_utc and properties.modified_at_utc
    assert properties.messaging_sku in ("Basic", "Standard", "Premium"), properties.messaging_sku


@check(f"{ADMIN}.create_queue", f"{ADMIN}.get_queue")
async def queue_properties(space: Space) -> None:
    """A queue is read as it was made."""
    admin = await space.admin()
    made = await admin.create_queue(space.name, **QUEUE)
    got = await admin.get_queue(space.name)
    for properties in (made, got):
        equal((properties.name, properties.status), (space.name, "Active"))
        has(properties, QUEUE)


@check(f"{ADMIN}.create_queue")
async def queue_defaults(space: Space) -> None:
    """What is left unsaid has the defaults of Service Bus."""
    made = await (await space.admin()).create_queue(space.name)
    has(
        made,
        {
            "dead_lettering_on_message_expiration": False,
            "lock_duration": timedelta(minutes=1),
            "max_delivery_count": 10,
            "max_size_in_megabytes": 1024,
            "requires_duplicate_detection": False,
            "requires_session": False,
            "enable_batched_operations": True,
            "forward_to": None,
            "status": "Active",
            "availability_status": "Available",
        },
    )
    assert made.default_message_time_to_live >= NEVER, made.default_message_time_to_live
    assert made.auto_delete_on_idle >= NEVER, made.auto_delete_on_idle


@check(f"{ADMIN}.update_queue")
async def update_queue(space: Space) -> None:
    """A queue's properties are changed; fixed ones and missing queues are not."""
    admin = await space.admin()
    queue = await admin.create_queue(space.name)
    queue.max_delivery_count, queue.lock_duration = 7, timedelta(seconds=20)
    await admin.update_queue(queue)
    await admin.update_queue(queue, status="ReceiveDisabled", user_metadata="new")
    got = await admin.get_queue(space.name)
    changed = {"max_delivery_count": 7, "lock_duration": timedelta(seconds=20)}
    has(got, {**changed, "status": "ReceiveDisabled", "user_metadata": "new"})
    error = await raises(HttpResponseError, admin.update_queue(queue, requires_session=True))
    equal(error.status_code, 400)
    queue.name = f"{space.name}-missing"
    await raises(ResourceNotFoundError, admin.update_queue(queue))


@check(f"{ADMIN}.create_queue", f"{ADMIN}.get_queue", f"{ADMIN}.update_queue")
async def queue_authorization(space: Space) -> None:
    """A queue's authorization rules are made, drawn keys are told, and changes last."""
    admin = await space.admin()
    shop = AuthorizationRule(
        key_name="shop", rights=[AccessRights.SEND], primary_key="first", secondary_key="second"
    )
    boss = AuthorizationRule(key_name="boss", rights=["Manage", "Send", "Listen"])
    await admin.create_queue(space.name, authorization_rules=[shop, boss])
    queue = await admin.get_queue(space.name)
    shop, boss = queue.authorization_rules
    has(shop, {"key_name": "shop", "rights": ["Send"], "primary_key": "first"})
    has(shop, {"secondary_key": "second", "claim_type": "SharedAccessKey", "claim_value": "None"})
    is_recent(shop.created_at_utc)
    equal(sorted(boss.rights), ["Listen", "Manage", "Send"])
    equal((len(boss.primary_key), len(boss.secondary_key)), (44, 44))
    assert boss.primary_key != boss.secondary_key
    text = f"Endpoint=sb://{space.cluster.amqp};UseDevelopmentEmulator=true;EntityPath={queue.name}"
    text += f";SharedAccessKeyName=boss;SharedAccessKey={boss.primary_key}"
    kind = space.flavour.package.ServiceBusClient
    client = await space.open(kind.from_connection_string(text))
    sender = await space.open(await client.get_queue_sender(queue.name))
    await sender.send_messages(ServiceBusMessage("signed by the boss"))
    receiver = await space.open(await client.get_queue_receiver(queue.name))
    equal(await take(receiver), ["signed by the boss"])

    shop.rights, shop.primary_key = ["Listen"], "third"
    queue.authorization_rules = [shop]
    await admin.update_queue(queue)
    [changed] = (await admin.get_queue(space.name)).authorization_rules
    has(changed, {"key_name": "shop", "rights": ["Listen"], "primary_key": "third"})
    equal(changed.secondary_key, "second")
    many = [AuthorizationRule(key_name=f"r{n}", rights=["Send"]) for n in range(13)]
    error = await raises(HttpResponseError, admin.update_queue(queue, authorization_rules=many))
    equal(error.status_code, 403)


@check(f"{ADMIN}.get_queue_runtime_properties")
async def queue_runtime(space: Space) -> None:
    """Counts of a queue add up."""
    admin = await space.admin()
    queue = await space.queue()
    later = datetime.datetime.now(datetime.timezone.utc) + timedelta(hours=1)
    sender = await space.sender(queue)
    await sender.send_messages([ServiceBusMessage(text) for text in "abc"])
    await sender.schedule_messages([ServiceBusMessage(text) for text in "de"], later)
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await receiver.dead_letter_message(message)
    counts = await admin.get_queue_runtime_properties(queue)
    has(
        counts,
        {
            "name": queue,
            "active_message_count": 2,
            "scheduled_message_count": 2,
            "dead_letter_message_count": 1,
            "total_message_count": 5,
            "transfer_message_count": 0,
            "transfer_dead_letter_message_count": 0,
        },
    )
    assert counts.size_in_bytes > 0
    is_recent(counts.created_at_utc)
    is_recent(counts.updated_at_utc)
    is_recent(counts.accessed_at_utc)


async def made(space: Space, create: Any, count: int) -> list[str]:
    """The names of so many new entities, in their order."""
    names = [f"{space.name}-{n:03}" for n in range(count)]
    for name in names:
        await create(name)
    return names


async def lists(space: Space, call: Any, names: list[str]) -> None:
    """The list has exactly these names of the check. Pages are counted off, so what other checks
    create between two of them shifts the second: then the list is asked for again."""
    seen: list[str] = []
    for _ in range(60):
        listed = [item.name for item in await collect(await call())]
        seen = [name for name in listed if name.startswith(space.name)]
        if seen == names:
            return
        await asyncio.sleep(1)
    equal(seen, names)


@check(f"{ADMIN}.list_queues", f"{ADMIN}.list_queues_runtime_properties")
async def list_queues(space: Space) -> None:
    """Every queue is listed, over several pages."""
    admin = await space.admin()
    names = await made(space, admin.create_queue, 110)
    await lists(space, admin.list_queues, names)
    await lists(space, admin.list_queues_runtime_properties, names)


@check(f"{ADMIN}.delete_queue")
async def delete_queue(space: Space) -> None:
    """A deleted queue is not there, and another of its name is new."""
    admin = await space.admin()
    queue = await space.queue()
    await space.send(queue, "x")
    await admin.delete_queue(queue)
    await raises(ResourceNotFoundError, admin.get_queue(queue))
    await raises(ResourceNotFoundError, admin.delete_queue(queue))
    await admin.create_queue(queue)
    equal((await admin.get_queue_runtime_properties(queue)).total_message_count, 0)


@check(f"{ADMIN}.create_topic", f"{ADMIN}.get_topic")
async def topic_properties(space: Space) -> None:
    """A topic is read as it was made."""
    admin = await space.admin()
    made = await admin.create_topic(space.name, **TOPIC)
    got = await admin.get_topic(space.name)
    for properties in (made, got):
        equal((properties.name, properties.status), (space.name, "Active"))
        has(properties, TOPIC)


@check(f"{ADMIN}.update_topic")
async def update_topic(space: Space) -> None:
    """A topic's properties are changed; a missing topic's are not."""
    admin = await space.admin()
    topic = await admin.create_topic(space.name)
    topic.default_message_time_to_live = timedelta(minutes=9)
    await admin.update_topic(topic)
    await admin.update_topic(topic, status="Disabled")
    got = await admin.get_topic(space.name)
    has(got, {"default_message_time_to_live": timedelta(minutes=9), "status": "Disabled"})
    topic.name = f"{space.name}-missing"
    await raises(ResourceNotFoundError, admin.update_topic(topic))


@check(f"{ADMIN}.get_topic_runtime_properties")
async def topic_runtime(space: Space) -> None:
    """A topic counts its subscriptions and what is scheduled on it."""
    topic = await space.topic("one", "two")
    later = datetime.datetime.now(datetime.timezone.utc) + timedelta(hours=1)
    await (await space.topic_sender(topic)).schedule_messages(ServiceBusMessage("x"), later)
    counts = await (await space.admin()).get_topic_runtime_properties(topic)
    has(counts, {"name": topic, "subscription_count": 2, "scheduled_message_count": 1})
    assert counts.size_in_bytes > 0
    is_recent(counts.created_at_utc)


@check(f"{ADMIN}.list_topics", f"{ADMIN}.list_topics_runtime_properties", f"{ADMIN}.delete_topic")
async def list_topics(space: Space) -> None:
    """Every topic is listed until it is deleted."""
    admin = await space.admin()
    names = await made(space, admin.create_topic, 3)
    await lists(space, admin.list_topics, names)
    gone = names.pop(1)
    await admin.delete_topic(gone)
    await lists(space, admin.list_topics_runtime_properties, names)
    await raises(ResourceNotFoundError, admin.get_topic(gone))


@check(f"{ADMIN}.create_subscription", f"{ADMIN}.get_subscription")
async def subscription_properties(space: Space) -> None:
    """A subscription is read as it was made."""
    topic = await space.topic()
    admin = await space.admin()
    made = await admin.create_subscription(topic, "s", **SUBSCRIPTION)
    got = await admin.get_subscription(topic, "s")
    for properties in (made, got):
        equal((properties.name, properties.status), ("s", "Active"))
        has(properties, SUBSCRIPTION)


@check(f"{ADMIN}.update_subscription")
async def update_subscription(space: Space) -> None:
    """A subscription's properties are changed; a missing one's are not."""
    topic = await space.topic()
    admin = await space.admin()
    subscription = await admin.create_subscription(topic, "s")
    subscription.max_delivery_count = 7
    await admin.update_subscription(topic, subscription)
    await admin.update_subscription(topic, subscription, status="Disabled")
    got = await admin.get_subscription(topic, "s")
    has(got, {"max_delivery_count": 7, "status": "Disabled"})
    subscription.name = "missing"
    await raises(ResourceNotFoundError, admin.update_subscription(topic, subscription))


@check(f"{ADMIN}.get_subscription_runtime_properties")
async def subscription_runtime(space: Space) -> None:
    """Counts of a subscription are its own."""
    topic = await space.topic("one", "two")
    sender = await space.topic_sender(topic)
    await sender.send_messages([ServiceBusMessage(text) for text in "abc"])
    receiver = await space.subscriber(topic, "one")
    [message] = await receive(receiver)
    await receiver.dead_letter_message(message)
    admin = await space.admin()
    one = await admin.get_subscription_runtime_properties(topic, "one")
    counts = {"active_message_count": 2, "dead_letter_message_count": 1, "total_message_count": 3}
    has(one, {"name": "one", **counts})
    is_recent(one.created_at_utc)
    is_recent(one.accessed_at_utc)
    two = await admin.get_subscription_runtime_properties(topic, "two")
    has(two, {"active_message_count": 3, "dead_letter_message_count": 0})


@check(
    f"{ADMIN}.list_subscriptions",
    f"{ADMIN}.list_subscriptions_runtime_properties",
    f"{ADMIN}.delete_subscription",
)
async def list_subscriptions(space: Space) -> None:
    """Every subscription of a topic is listed until it is deleted."""
    topic = await space.topic("a", "b", "c")
    admin = await space.admin()
    listed = await collect(await admin.list_subscriptions(topic))
    equal([item.name for item in listed], ["a", "b", "c"])
    await admin.delete_subscription(topic, "b")
    listed = await collect(await admin.list_subscriptions_runtime_properties(topic))
    equal([item.name for item in listed], ["a", "c"])
    await raises(ResourceNotFoundError, admin.get_subscription(topic, "b"))


@check(f"{ADMIN}.create_queue", f"{ADMIN}.create_topic", f"{ADMIN}.create_subscription")
async def taken(space: Space) -> None:
    """ResourceExistsError for names that are taken, of queues and topics alike."""
    admin = await space.admin()
    await admin.create_queue(f"{space.name}-queue")
    topic = await space.topic("s")
    await raises(ResourceExistsError, admin.create_queue(f"{space.name}-queue"))
    await raises(ResourceExistsError, admin.create_queue(topic))
    await raises(ResourceExistsError, admin.create_topic(f"{space.name}-queue"))
    await raises(ResourceExistsError, admin.create_subscription(topic, "s"))


@check(f"{ADMIN}.get_queue", f"{ADMIN}.get_topic", f"{ADMIN}.list_subscriptions")
async def missing(space: Space) -> None:
    """ResourceNotFoundError for what does not exist."""
    # Not asked: a topic by `get_queue`. The request is the same, and the SDK then looks for the
    # queue's properties in the topic's.
    topic = await space.topic()
    admin = await space.admin()
    for call in (
        admin.get_queue("missing"),
        admin.get_queue_runtime_properties("missing"),
        admin.get_topic("missing"),
        admin.get_topic_runtime_properties("missing"),
        admin.get_subscription(topic, "missing"),
        admin.get_subscription_runtime_properties(topic, "missing"),
        admin.create_subscription("missing", "s"),
        admin.delete_topic("missing"),
        admin.delete_subscription(topic, "missing"),
    ):
        await raises(ResourceNotFoundError, call)
    await raises(ResourceNotFoundError, collect(await admin.list_subscriptions("missing")))


@check(f"{ADMIN}.create_queue")
async def bad_values(space: Space) -> None:
    """Values out of their bounds are refused, and say which."""
    admin = await space.admin()
    for properties in (
        {"lock_duration": timedelta(hours=1)},
        {"max_delivery_count": 0},
        {"auto_delete_on_idle": timedelta(seconds=1)},
    ):
        error = await raises(HttpResponseError, admin.create_queue(space.name, **properties))
        equal(error.status_code, 400, str(properties))
    await raises(HttpResponseError, admin.create_queue(f"{space.name}@"))
    await raises(ResourceNotFoundError, admin.get_queue(space.name))


@check(f"{ADMIN}.create_queue", f"{ADMIN}.update_queue")
async def forwarding(space: Space) -> None:
    """A queue says where it forwards to, and stops when it is told to."""
    admin = await space.admin()
    target, source = f"{space.name}-target", f"{space.name}-source"
    await admin.create_queue(target)
    queue = await admin.create_queue(
        source, forward_to=target, forward_dead_lettered_messages_to=target
    )
    for name in (queue.forward_to, queue.forward_dead_lettered_messages_to):
        assert name.endswith(f"/{target}"), name
    await space.send(source, "x")
    await receive(await space.receiver(target))
    queue.forward_to = queue.forward_dead_lettered_messages_to = None
    await admin.update_queue(queue)
    equal((await admin.get_queue(source)).forward_to, None)


@check(f"{ADMIN}.close")
async def closed(space: Space) -> None:
    """A client that is closed says so, or opens again."""
    admin = await space.admin()
    await admin.get_namespace_properties()
    await admin.close()
