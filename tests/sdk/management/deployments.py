#!/usr/bin/env python3
"""Templates through Azure's SDK for deployments, unmodified: what they make, what is refused, and a node that ends meanwhile.

    deployments.py ID BASE BASE BASE    ID: of subscription and tenant; BASE: https address of each node

`MAYFLY_SECRET` is the key RootManageSharedAccessKey, `MAYFLY_PIDS` are the processes of the nodes. Lines that begin with
`wrong: ` say what is not as it has to be.
"""

import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

from azure.core.exceptions import HttpResponseError
from azure.identity import ClientSecretCredential
from azure.mgmt.resource.deployments import DeploymentsMgmtClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.servicebus import ServiceBusManagementClient
from azure.servicebus.management import ServiceBusAdministrationClient
from isodate import parse_duration

HERE = Path(__file__).resolve().parent
TEMPLATES = HERE.parents[2] / "crates/definitions/tests/inputs"
GROUP, NAMESPACE = "templates", "sb-templates"
ID, *BASES = sys.argv[1:]
SECRET = os.environ["MAYFLY_SECRET"]
WITHIN = 60  # Seconds that a deployment may take whose node ends.
SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"

# As DNS has it where a cluster has namespaces: their hosts are its nodes.
_resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: _resolve(
    "localhost" if str(host).endswith(".localhost") else host, *more, **named
)

CREDENTIAL = ClientSecretCredential(
    ID, "RootManageSharedAccessKey", SECRET, authority=BASES[1], disable_instance_discovery=True
)


def client(of: type, node: int) -> object:
    return of(CREDENTIAL, ID, base_url=BASES[node], credential_scopes=[f"{BASES[1]}/.default"])


def deployments(node: int):  # noqa: ANN201
    return client(DeploymentsMgmtClient, node).deployments


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        print(f"wrong: {what} is {found!r}, not {wanted!r}")


def of(template: dict, **parameters: object) -> dict:
    values = {name: {"value": value} for name, value in parameters.items()}
    return {"properties": {"mode": "Incremental", "template": template, "parameters": values}}


def template(*resources: dict, **more: object) -> dict:
    return {"$schema": SCHEMA, "contentVersion": "1.0.0.0", "resources": list(resources), **more}


def resource(kind: str, name: str, *after: str, **more: object) -> dict:
    kind = f"Microsoft.ServiceBus/namespaces{kind}"
    return {"type": kind, "apiVersion": "2022-10-01-preview", "name": name, "dependsOn": list(after), **more}


def queue(name: str, *after: str, **properties: object) -> dict:
    return resource("/queues", f"{NAMESPACE}/{name}", *after, properties=properties)


SPACE = resource("", NAMESPACE, sku={"name": "Standard"}, location="westeurope")


def put(node: int, name: str, body: dict):  # noqa: ANN201
    return deployments(node).begin_create_or_update(GROUP, name, body).result()


def code(error: HttpResponseError) -> tuple[int, str]:
    return error.status_code, error.error.code if error.error else ""


def administration(namespace: str) -> ServiceBusAdministrationClient:
    management = client(ServiceBusManagementClient, 2)
    keys = management.namespaces.list_keys(GROUP, namespace, "RootManageSharedAccessKey")
    return ServiceBusAdministrationClient.from_connection_string(keys.primary_connection_string)


def webshop() -> None:
    """A template that Bicep made: a loop in each place, children, a module, an output of what is there."""
    shop = json.loads((TEMPLATES / "webshop.json").read_text())
    body = of(shop, namespaceName="sb-webshop")
    valid = deployments(0).begin_validate(GROUP, "webshop", body).result()
    expect("what is validated", (valid.error, len(valid.properties.validated_resources)), (None, 17))
    for kind, wanted in [("Create", 17), ("NoChange", 17)]:
        told = deployments(1).begin_what_if(GROUP, "webshop", body).result()
        kinds = [change.change_type for change in told.changes]
        expect(f"what would be of kind {kind}", (told.status, kinds.count(kind)), ("Succeeded", wanted))
        made = put(0, "webshop", body)
        expect("a deployment", made.properties.provisioning_state, "Succeeded")
    expect("what it made", len(made.properties.output_resources), 17)
    expect("what it tells", "sb-webshop." in made.properties.outputs["endpoint"]["value"], True)
    # Each node knows of it, and of its module.
    for node in range(3):
        names = {found.name: found.properties.provisioning_state for found in deployments(node).list_by_resource_group(GROUP)}
        expect(f"deployments at node {node + 1}", names, {"webshop": "Succeeded", "billing": "Succeeded"})
    operations = client(DeploymentsMgmtClient, 2).deployment_operations.list(GROUP, "webshop")
    states = {operation.properties.provisioning_state for operation in operations}
    expect("states of operations", states, {"Succeeded"})
    compare(administration("sb-webshop"), json.loads((HERE / "webshop.expected.json").read_text()))


def compare(broker: ServiceBusAdministrationClient, wanted: dict) -> None:
    with broker:
        found = {entity.name: entity for entity in broker.list_queues()}
        expect("queues", sorted(found), sorted(wanted["queues"]))
        for name, properties in wanted["queues"].items():
            same(name, found[name], properties)
            rules = {rule.key_name: sorted(rule.rights) for rule in found[name].authorization_rules or []}
            expect(f"rights on {name}", rules, properties.get("authorizationRules", {}))
        topics = {entity.name: entity for entity in broker.list_topics()}
        expect("topics", sorted(topics), sorted(wanted["topics"]))
        for topic, properties in wanted["topics"].items():
            same(topic, topics[topic], properties)
            subscriptions = {entity.name: entity for entity in broker.list_subscriptions(topic)}
            expect(f"subscriptions of {topic}", sorted(subscriptions), sorted(properties["subscriptions"]))
            for name, of_subscription in properties["subscriptions"].items():
                same(name, subscriptions[name], of_subscription)
                rules = sorted(rule.name for rule in broker.list_rules(topic, name))
                expect(f"rules of {name}", rules, sorted(["$Default", *of_subscription.get("rules", {})]))


def same(name: str, entity: object, wanted: dict) -> None:
    for member, value in wanted.items():
        if isinstance(value, dict):
            continue
        words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in member)
        found = getattr(entity, words)
        if member.startswith("forward"):
            found = found.rsplit("/", 1)[-1] if found else found
        if hasattr(found, "total_seconds") or str(value).startswith("P"):
            found = parse_duration(found) if isinstance(found, str) else found
            expect(f"{member} of {name}", found, parse_duration(value))
        else:
            expect(f"{member} of {name}", found, value)


def by_hand() -> None:
    """The old style: children in their parents, numbers and truths as texts."""
    alarms = json.loads((TEMPLATES / "nested-strings.json").read_text())
    made = put(1, "alarms", of(alarms, bus="sb-alarms"))
    expect("a template by hand", made.properties.provisioning_state, "Succeeded")
    with administration("sb-alarms") as broker:
        expect("its queue", broker.get_queue("siren").lock_duration, timedelta(minutes=5))
        expect("its rule", broker.get_rule("alarms", "alarms-all", "loud").filter.sql_expression, "level >= 3")


def outputs() -> None:
    """Keys and what other resources say, while it runs and in what it tells."""
    id_of = f"resourceId('Microsoft.ServiceBus/namespaces/queues/authorizationRules', '{NAMESPACE}', 'a', 'app')"
    rule = resource("/queues/authorizationRules", f"{NAMESPACE}/a/app", "a", properties={"rights": ["Send"]})
    other = queue("b", "a", userMetadata=f"[reference(resourceId('Microsoft.ServiceBus/namespaces/queues', '{NAMESPACE}', 'a')).createdAt]")
    told = {
        "string": {"type": "string", "value": f"[listKeys({id_of}, '2022-10-01-preview').primaryConnectionString]"},
        "secret": {"type": "securestring", "value": f"[listKeys({id_of}, '2022-10-01-preview').primaryKey]"},
        "group": {"type": "string", "value": "[resourceGroup().name]"},
        "me": {"type": "string", "value": "[deployment().name]"},
    }
    made = put(2, "keys", of(template(SPACE, queue("a", NAMESPACE), rule, other, outputs=told)))
    found = made.properties.outputs
    expect("a connection string", found["string"]["value"].endswith(";EntityPath=a"), True)
    expect("a secret", found["secret"].get("value"), None)
    expect("group and deployment", (found["group"]["value"], found["me"]["value"]), (GROUP, "keys"))
    with administration(NAMESPACE) as broker:
        expect("what was asked of another", broker.get_queue("b").user_metadata[:2], "20")


def refusals() -> None:
    """Each: a template with its parameters, and the code of the error, or of its first detail."""
    number = {"parameters": {"n": {"type": "int"}}}
    nested = {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "bad", "properties": {"mode": "Incremental", "template": template()}}
    storage = {"type": "Microsoft.Storage/storageAccounts", "apiVersion": "2023-01-01", "name": "st"}
    rows: list[tuple[str, dict, str, str]] = [
        ("an unknown function", of(template(queue("x", lockDuration="[colour('x')]"))), "InvalidTemplate", "function 'colour' is not known"),
        ("a circle", of(template(queue("x", "y"), queue("y", "x"))), "InvalidTemplate", "circular dependency"),
        ("a wrong type", of(template(**number), n="five"), "InvalidTemplate", "it is of type int, and a text is given"),
        ("a missing parameter", of(template(**number)), "InvalidTemplate", "parameters without a value: n"),
        ("one too many", of(template(), n=1), "InvalidTemplate", "the template has no parameter 'n'"),
        ("a dependency on nothing", of(template(queue("x", "gone"))), "InvalidTemplate", "'gone' is not defined"),
        ("a module of its own name", of(template(nested)), "InvalidTemplate", "has the name of another one"),
        ("a refused SKU", of(template({**SPACE, "sku": {"name": "Gold"}})), "InvalidRequestContent", "Gold"),
        ("a refused name", of(template({**SPACE, "name": "sb"})), "BadRequest", "6 to 50 letters"),
        ("a refused property", of(template(queue("x", lockDuration="PT10M"))), "BadRequest", "LockDuration"),
        ("another provider", of(template(SPACE, storage)), "InvalidResourceNamespace", "no resource provider 'Microsoft.Storage'"),
        ("a complete deployment", {"properties": {"mode": "Complete", "template": template()}}, "OperationNotSupported", "Complete"),
        ("a linked template", {"properties": {"mode": "Incremental", "templateLink": {"uri": "https://x"}}}, "OperationNotSupported", "templateLink"),
    ]  # fmt: skip
    for what, body, wanted, word in rows:
        try:
            put(0, "bad", body)
            print(f"wrong: {what} is not refused")
        except HttpResponseError as error:
            details = error.error.details if error.error else None
            first = details[0] if details else error.error
            expect(f"{what}: status and code", (error.status_code, first.code), (400, wanted))
            expect(f"{what}: its message", word in first.message, True)
    expect("what is left of them", deployments(0).check_existence(GROUP, "bad"), False)


def half() -> None:
    """What the broker refuses leaves out what depends on it; the next time it is made."""
    first = template(SPACE, queue("ok"), queue("fw", forwardTo="target"), queue("after", "fw"))
    try:
        put(1, "half", of(first))
        print("wrong: a queue that forwards to nothing is not refused")
    except HttpResponseError as error:
        expect("half of a deployment", "DeploymentFailed" in str(error) and "'target' does not exist" in str(error), True)
    operations = client(DeploymentsMgmtClient, 2).deployment_operations.list(GROUP, "half")
    states = {one.properties.target_resource.resource_name: one.properties.provisioning_state for one in operations}
    wanted = {NAMESPACE: "Succeeded", f"{NAMESPACE}/ok": "Succeeded", f"{NAMESPACE}/fw": "Failed"}
    expect("what became of each", states, wanted)
    second = template(SPACE, queue("ok"), queue("target"), queue("fw", "target", forwardTo="target"), queue("after", "fw"))
    expect("the second time", put(2, "half", of(second)).properties.provisioning_state, "Succeeded")


def a_node_ends() -> None:
    """One is cancelled. The node that carries another out is killed: a second one goes on with it, and answers for it."""
    copy = {"name": "many", "count": 500}
    many = {**queue("[format('{0}')]", NAMESPACE), "copy": copy, "name": f"[format('{NAMESPACE}/many-{{0}}', copyIndex())]"}
    inner = {"mode": "Incremental", "template": template(queue("of-a-module"))}
    module = {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "last", "dependsOn": ["many"], "properties": inner}
    body = of(template(SPACE, many, module))
    deployments(0).begin_create_or_update(GROUP, "cancelled", body, polling=False)
    deployments(1).cancel(GROUP, "cancelled")
    expect("one that is cancelled", over("cancelled").provisioning_state, "Canceled")
    deployments(0).begin_create_or_update(GROUP, "killed", body, polling=False)
    try:
        deployments(2).begin_create_or_update(GROUP, "killed", body, polling=False)
        print("wrong: a deployment that runs is replaced")
    except HttpResponseError as error:
        expect("one that runs", code(error), (409, "DeploymentActive"))
    os.kill(int(os.environ["MAYFLY_PIDS"].split(",")[0]), signal.SIGKILL)
    found = over("killed")
    expect("a deployment whose node was killed", found.provisioning_state, "Succeeded")
    expect("what it made", len(found.output_resources or []), 502)
    expect("its module", deployments(2).get(GROUP, "last").properties.provisioning_state, "Succeeded")


def over(name: str):  # noqa: ANN201
    """A deployment once it is over, as node 2 has it."""
    until = time.monotonic() + WITHIN
    while (found := deployments(1).get(GROUP, name).properties).provisioning_state in ("Accepted", "Running"):
        if time.monotonic() > until:
            break
        time.sleep(0.5)
    return found


def ends() -> None:
    """One that is over cannot be cancelled; one that is deleted is gone; and what it made stays."""
    try:
        deployments(1).cancel(GROUP, "half")
        print("wrong: a deployment that is over is cancelled")
    except HttpResponseError as error:
        expect("one that is over", code(error), (409, "DeploymentCannotBeCancelled"))
    deployments(1).begin_delete(GROUP, "half").result()
    try:
        deployments(2).get(GROUP, "half")
        print("wrong: a deployment that was deleted is there")
    except HttpResponseError as error:
        expect("one that was deleted", code(error), (404, "DeploymentNotFound"))
    with administration(NAMESPACE) as broker:
        expect("what it made", broker.get_queue("after").name, "after")


def main() -> None:
    client(ResourceManagementClient, 0).resource_groups.create_or_update(GROUP, {"location": "westeurope"})
    for part in (webshop, by_hand, outputs, refusals, half, ends, a_node_ends):
        part()
    client(ResourceManagementClient, 1).resource_groups.begin_delete(GROUP).result()
    print("done")


main()
