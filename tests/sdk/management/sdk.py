#!/usr/bin/env python3
"""Azure's management SDK for Python, unmodified, with credentials of `azure-identity`; then its clients for messages.

    sdk.py ID BASE BASE BASE    ID: of subscription and tenant; BASE: https address of each node

`MAYFLY_SECRET` is the key RootManageSharedAccessKey. Lines that begin with `wrong: ` say what is not as it has to be.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.identity import ClientSecretCredential
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.servicebus import ServiceBusManagementClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

ROOT = "RootManageSharedAccessKey"
GROUP, NAMESPACE = "shop", "sb-shop"
ID, *BASES = sys.argv[1:]
SECRET = os.environ["MAYFLY_SECRET"]

# As DNS has it where a cluster has namespaces: their hosts are its nodes.
_resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: _resolve(
    "localhost" if str(host).endswith(".localhost") else host, *more, **named
)


def credential(name: str, key: str, node: int = 0) -> ClientSecretCredential:
    return ClientSecretCredential(ID, name, key, authority=BASES[node], disable_instance_discovery=True)


def management(of: ClientSecretCredential, node: int) -> ServiceBusManagementClient:
    # A token of one node is good at each.
    scopes = [f"{BASES[0]}/.default"]
    return ServiceBusManagementClient(of, ID, base_url=BASES[node], credential_scopes=scopes)


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        print(f"wrong: {what} is {found!r}, not {wanted!r}")


@contextmanager
def refused(what: str, status: int, word: str) -> Iterator[None]:
    try:
        yield
    except HttpResponseError as error:
        code = error.error.code if getattr(error, "error", None) else ""
        expect(f"{what}: status and code", (error.status_code, code), (status, word))
    else:
        print(f"wrong: {what} is not refused")


def resources() -> None:
    scopes = [f"{BASES[0]}/.default"]
    client = ResourceManagementClient(
        credential(ROOT, SECRET), ID, base_url=BASES[1], credential_scopes=scopes
    )
    client.providers.register("Microsoft.ServiceBus")
    group = client.resource_groups.create_or_update(GROUP, {"location": "West Europe", "tags": {"a": "b"}})
    expect("a group's location", group.location, "westeurope")
    expect("groups", sorted(g.name for g in client.resource_groups.list()), ["mayfly", GROUP])
    updated = client.resource_groups.update(GROUP, {"tags": {"c": "d"}})
    expect("tags", updated.tags, {"c": "d"})
    expect("existence", client.resource_groups.check_existence(GROUP), True)
    expect("absence", client.resource_groups.check_existence("nobody"), False)


def namespaces(client: ServiceBusManagementClient) -> None:
    free = client.namespaces.check_name_availability({"name": NAMESPACE})
    expect("a free name", (free.name_available, free.reason), (True, "None"))
    sku = {"name": "Standard", "tier": "Standard"}
    parameters = {"location": "westeurope", "sku": sku, "tags": {"team": "x"}}
    made = client.namespaces.begin_create_or_update(GROUP, NAMESPACE, parameters).result()
    expect("a namespace", (made.name, made.provisioning_state, made.sku.name), (NAMESPACE, "Succeeded", "Standard"))
    taken = client.namespaces.check_name_availability({"name": NAMESPACE})
    expect("a taken name", (taken.name_available, taken.reason), (False, "NameInUse"))
    changed = client.namespaces.update(GROUP, NAMESPACE, {"tags": {"team": "y"}})
    expect("tags of a namespace", changed.tags, {"team": "y"})
    expect("namespaces", [n.name for n in client.namespaces.list()], ["default", NAMESPACE])
    expect("of the group", [n.name for n in client.namespaces.list_by_resource_group(GROUP)], [NAMESPACE])
    expect("network rules", client.namespaces.get_network_rule_set(GROUP, NAMESPACE).default_action, "Allow")
    operations = {operation.name for operation in client.operations.list()}
    expect("operations", "Microsoft.ServiceBus/namespaces/queues/write" in operations, True)
    expect("private endpoints", list(client.private_endpoint_connections.list(GROUP, NAMESPACE)), [])


def entities(client: ServiceBusManagementClient) -> None:
    where = (GROUP, NAMESPACE)
    queue = client.queues.create_or_update(*where, "orders/new", {"properties": {"lockDuration": "PT30S", "maxDeliveryCount": 4}})
    expect("a queue", (queue.name, str(queue.lock_duration), queue.max_delivery_count), ("orders~new", "0:00:30", 4))
    expect("put again", client.queues.create_or_update(*where, "orders/new", queue).max_delivery_count, 4)
    for number in range(12):
        client.queues.create_or_update(*where, f"q{number:02}", {})
    paged = [q.name for q in client.queues.list_by_namespace(*where, top=5)]
    expect("queues by pages", paged, ["orders~new", *(f"q{number:02}" for number in range(12))])
    expect("skipped", len(list(client.queues.list_by_namespace(*where, skip=3))), 10)
    client.queues.delete(*where, "q00")
    client.topics.create_or_update(*where, "news", {"properties": {"requiresDuplicateDetection": True}})
    subscription = client.subscriptions.create_or_update(
        *where, "news", "all", {"properties": {"forwardTo": "q01", "deadLetteringOnMessageExpiration": True}}
    )
    expect("a subscription", (subscription.name, subscription.forward_to), ("all", "q01"))
    # What is left out is gone: it was described anew.
    again = client.subscriptions.create_or_update(*where, "news", "all", {"properties": {}})
    expect("forwards no more", again.forward_to, None)
    rules = client.rules
    rules.create_or_update(*where, "news", "all", "big", {"properties": {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": "size > 3"}}})
    rules.create_or_update(
        *where, "news", "all", "eu",
        {"properties": {"filterType": "CorrelationFilter", "correlationFilter": {"label": "x", "properties": {"region": "eu"}}}},
    )  # fmt: skip
    found = {rule.name: rule for rule in rules.list_by_subscriptions(*where, "news", "all")}
    expect("rules", sorted(found), ["$Default", "big", "eu"])
    expect("an expression", found["big"].sql_filter.sql_expression, "size > 3")
    expect("a condition", found["eu"].correlation_filter.properties, {"region": "eu"})
    rules.delete(*where, "news", "all", "$Default")
    with refused("a fixed property", 400, "BadRequest"):
        client.topics.create_or_update(*where, "news", {"properties": {"requiresDuplicateDetection": False}})
    with refused("a queue that is not there", 404, "NotFound"):
        client.queues.get(*where, "nothing")
    with refused("a pair in another region", 400, "OperationNotSupported"):
        client.disaster_recovery_configs.create_or_update(*where, "pair", {"properties": {}})


def keys(client: ServiceBusManagementClient) -> str:
    """A connection string of the namespace."""
    where = (GROUP, NAMESPACE)
    levels: list[tuple[tuple[str, ...], Callable, Callable, Callable]] = [
        ((), client.namespaces.create_or_update_authorization_rule, client.namespaces.list_keys, client.namespaces.regenerate_keys),
        (("orders/new",), client.queues.create_or_update_authorization_rule, client.queues.list_keys, client.queues.regenerate_keys),
        (("news",), client.topics.create_or_update_authorization_rule, client.topics.list_keys, client.topics.regenerate_keys),
    ]
    for entity, create, show, regenerate in levels:
        create(*where, *entity, "app", {"properties": {"rights": ["Listen", "Send"]}})
        before = show(*where, *entity, "app")
        after = regenerate(*where, *entity, "app", {"keyType": "PrimaryKey"})
        same = (before.primary_key == after.primary_key, before.secondary_key == after.secondary_key)
        expect(f"keys of {entity}, the same", same, (False, True))
        ends = f";EntityPath={entity[0]}" if entity else after.primary_key
        expect(f"the string of {entity}", after.primary_connection_string.endswith(ends), True)
    listener = client.namespaces.list_keys(*where, "app").primary_key
    with refused("who may not manage", 403, "AuthorizationFailed"):
        management(credential("app", listener), 2).queues.get(*where, "orders/new")
    own = client.namespaces.list_keys(*where, ROOT)
    of_namespace = management(credential(ROOT, own.primary_key), 2)
    expect("what its own key sees", [n.name for n in of_namespace.namespaces.list()], [NAMESPACE])
    with refused("another namespace", 403, "AuthorizationFailed"):
        of_namespace.namespaces.get("mayfly", "default")
    return own.primary_connection_string


def messages(client: ServiceBusManagementClient, string: str) -> None:
    """What was made is there for the clients for messages, and what they do is told of."""
    with ServiceBusAdministrationClient.from_connection_string(string) as administration:
        queue = administration.get_queue("orders/new")
        expect("the queue as its administration client has it", queue.max_delivery_count, 4)
        names = [rule.name for rule in administration.list_rules("news", "all")]
        expect("its rules", sorted(names), ["big", "eu"])
    # Its client for messages knows one port by heart, whatever stands in the string; another takes a WebSocket.
    port = string.split(";")[0].rstrip("/").rsplit(":", 1)[1]
    address = f"sb://{NAMESPACE}.localhost:{port}"
    trusted = os.environ["SSL_CERT_FILE"]
    with ServiceBusClient.from_connection_string(
        string, custom_endpoint_address=address, connection_verify=trusted
    ) as bus, bus.get_queue_sender("orders/new") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    expect("messages", client.queues.get(GROUP, NAMESPACE, "orders/new").message_count, 1)


def tiers(client: ServiceBusManagementClient) -> None:
    basic = {"location": "westeurope", "sku": {"name": "Basic", "tier": "Basic"}}
    client.namespaces.begin_create_or_update(GROUP, "sb-basic", basic).result()
    with refused("a topic in Basic", 400, "BadRequest"):
        client.topics.create_or_update(GROUP, "sb-basic", "t", {})
    client.namespaces.update(GROUP, "sb-basic", {"sku": {"name": "Standard", "tier": "Standard"}})
    client.topics.create_or_update(GROUP, "sb-basic", "t", {})
    expect("its tier", client.namespaces.get(GROUP, "sb-basic").sku.name, "Standard")
    with refused("a tier that what is there does not fit", 400, "BadRequest"):
        client.namespaces.update(GROUP, "sb-basic", {"sku": {"name": "Basic", "tier": "Basic"}})


def ends(client: ServiceBusManagementClient) -> None:
    client.namespaces.begin_delete(GROUP, NAMESPACE).result()
    with refused("what was deleted", 404, "ResourceNotFound"):
        client.namespaces.get(GROUP, NAMESPACE)
    resources = ResourceManagementClient(
        credential(ROOT, SECRET), ID, base_url=BASES[2], credential_scopes=[f"{BASES[0]}/.default"]
    )
    resources.resource_groups.begin_delete(GROUP).result()
    expect("namespaces in the end", [n.name for n in client.namespaces.list()], ["default"])


def main() -> None:
    try:
        credential(ROOT, "guess").get_token(f"{BASES[0]}/.default")
        print("wrong: a guess is a secret")
    except ClientAuthenticationError as error:
        expect("what a guess is told", "AADSTS7000215" in str(error), True)
    client = management(credential(ROOT, SECRET), 1)
    resources()
    namespaces(client)
    entities(client)
    messages(client, keys(client))
    tiers(client)
    ends(client)
    print("done")


main()
