#!/usr/bin/env python3
"""`az` as people type it: a cloud registered, a login, and every command of `az servicebus` that has a meaning here.

    az.py ID BASE    `MAYFLY_SECRET` is the key RootManageSharedAccessKey; `az` is beside this Python

Lines that begin with `wrong: ` say what is not as it has to be.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ID, BASE = sys.argv[1:]
AZ = Path(sys.executable).with_name("az")
SECRET = os.environ["MAYFLY_SECRET"]
IN = "-g shop --namespace-name sb-shop"
TEMPLATES = Path(__file__).resolve().parents[3] / "crates/definitions/tests/inputs"
SHOP = f"-g shop --template-file {TEMPLATES}/webshop.json --parameters namespaceName=sb-webshop"
WHAT_IF = f"deployment group what-if {SHOP} --no-pretty-print --query \"length(changes[?changeType=='{{}}'])\""
RULE = f"servicebus topic subscription rule {{}} {IN} --topic-name news --subscription-name all"

# Each: a command, and what its answer has at these paths (`a.0.b`), where that is looked at.
COMMANDS: list[tuple[str, dict[str, object]]] = [
    (f"cloud register --name mayfly --endpoint-resource-manager {BASE}", {}),
    ("cloud set --name mayfly", {}),
    ("config set core.instance_discovery=false", {}),
    (
        f"login --service-principal --username RootManageSharedAccessKey --password {SECRET} --tenant {ID}",
        {"0.cloudName": "mayfly", "0.id": ID, "0.tenantId": ID},
    ),
    ("account show", {"user.name": "RootManageSharedAccessKey"}),
    ("account list-locations", {"0.name": "local"}),
    ("provider register --namespace Microsoft.ServiceBus", {}),
    ("provider show --namespace Microsoft.ServiceBus", {"registrationState": "Registered"}),
    ("group create -n shop -l westeurope --tags a=b", {"location": "westeurope", "tags.a": "b"}),
    ("group update -n shop --set tags.c=d", {"tags.c": "d"}),
    ("group list", {"1.name": "shop"}),
    ("servicebus namespace exists --name sb-shop", {"nameAvailable": True}),
    ("servicebus namespace create -g shop -n sb-shop --sku Standard --tags team=x", {"sku.name": "Standard"}),
    ("servicebus namespace exists --name sb-shop", {"reason": "NameInUse"}),
    ("servicebus namespace show -g shop -n sb-shop", {"location": "westeurope", "tags.team": "x"}),
    ("servicebus namespace update -g shop -n sb-shop --tags team=y", {"tags.team": "y"}),
    ("servicebus namespace list -g shop", {"0.name": "sb-shop"}),
    ("servicebus namespace list", {"0.name": "default"}),
    (f"servicebus namespace authorization-rule create {IN} -n app --rights Listen Send", {}),
    (f"servicebus namespace authorization-rule update {IN} -n app --rights Send", {"rights": ["Send"]}),
    (f"servicebus namespace authorization-rule list {IN}", {"1.name": "app"}),
    (f"servicebus namespace authorization-rule keys list {IN} -n app", {"keyName": "app"}),
    (f"servicebus namespace authorization-rule keys renew {IN} -n app --key PrimaryKey", {"keyName": "app"}),
    (f"servicebus namespace authorization-rule show {IN} -n app", {"name": "app"}),
    (f"servicebus namespace authorization-rule delete {IN} -n app", {}),
    (f"servicebus namespace network-rule-set show {IN}", {"defaultAction": "Allow"}),
    (f"servicebus namespace network-rule-set update {IN} --default-action Allow", {}),
    (f"servicebus namespace private-endpoint-connection list {IN}", {}),
    (f"servicebus queue create {IN} -n orders --lock-duration PT30S --max-delivery-count 4", {"lockDuration": "PT30S"}),
    (f"servicebus queue create {IN} -n work --enable-session true --default-message-time-to-live P1D", {"requiresSession": True}),
    (f"servicebus queue update {IN} -n orders --status SendDisabled", {"status": "SendDisabled", "maxDeliveryCount": 4}),
    (f"servicebus queue show {IN} -n orders", {"status": "SendDisabled"}),
    (f"servicebus queue update {IN} -n orders --status Active", {"status": "Active"}),
    (f"servicebus queue list {IN}", {"0.name": "orders", "1.name": "work"}),
    (f"servicebus queue authorization-rule create {IN} --queue-name orders -n w --rights Listen", {}),
    (f"servicebus queue authorization-rule update {IN} --queue-name orders -n w --rights Listen Send", {}),
    (f"servicebus queue authorization-rule show {IN} --queue-name orders -n w", {"rights": ["Listen", "Send"]}),
    (f"servicebus queue authorization-rule list {IN} --queue-name orders", {"0.name": "w"}),
    (f"servicebus queue authorization-rule keys list {IN} --queue-name orders -n w", {"keyName": "w"}),
    (f"servicebus queue authorization-rule keys renew {IN} --queue-name orders -n w --key SecondaryKey", {}),
    (f"servicebus queue authorization-rule delete {IN} --queue-name orders -n w", {}),
    (f"servicebus topic create {IN} -n news --enable-duplicate-detection true", {"requiresDuplicateDetection": True}),
    (f"servicebus topic update {IN} -n news --max-size 2048", {"maxSizeInMegabytes": 2048}),
    (f"servicebus topic list {IN}", {"0.name": "news"}),
    (f"servicebus topic authorization-rule create {IN} --topic-name news -n tw --rights Send", {}),
    (f"servicebus topic authorization-rule keys list {IN} --topic-name news -n tw", {"keyName": "tw"}),
    (f"servicebus topic authorization-rule delete {IN} --topic-name news -n tw", {}),
    (f"servicebus topic subscription create {IN} --topic-name news -n all --forward-to orders", {"forwardTo": "orders"}),
    (f"servicebus topic subscription update {IN} --topic-name news -n all --max-delivery-count 5", {"maxDeliveryCount": 5, "forwardTo": "orders"}),
    (f"servicebus topic subscription list {IN} --topic-name news", {"0.name": "all"}),
    (f"{RULE.format('create')} -n big --filter-sql-expression 'size > 3'", {"sqlFilter.sqlExpression": "size > 3"}),
    (
        f"{RULE.format('create')} -n eu --filter-type CorrelationFilter --correlation-filter-property region=eu --label x",
        {"correlationFilter.properties.region": "eu", "correlationFilter.label": "x"},
    ),
    (f"{RULE.format('update')} -n big --filter-sql-expression 'size > 4'", {"sqlFilter.sqlExpression": "size > 4"}),
    (RULE.format("list"), {"0.name": "$Default", "1.name": "big", "2.name": "eu"}),
    (f"{RULE.format('delete')} -n big", {}),
    (f"servicebus topic subscription delete {IN} --topic-name news -n all", {}),
    (f"servicebus topic delete {IN} -n news", {}),
    (f"servicebus queue delete {IN} -n work", {}),
    (f"servicebus georecovery-alias list {IN}", {}),
    ("resource list -g shop", {"0.name": "sb-shop"}),
    ("servicebus namespace update -g shop -n sb-shop --sku Premium --capacity 2", {"sku.name": "Premium", "sku.capacity": 2}),
    ("servicebus namespace delete -g shop -n sb-shop", {}),
    ("servicebus namespace create -g shop -n sb-basic --sku Basic", {"sku.tier": "Basic"}),
    (f"deployment group validate {SHOP}", {"properties.validatedResources.0.resourceGroup": "shop"}),
    (WHAT_IF.format("Create"), {"": 17}),
    (WHAT_IF.format("Ignore"), {"": 1}),
    (f"deployment group create {SHOP} -n web", {"properties.provisioningState": "Succeeded", "properties.outputs.endpoint.type": "String"}),
    (WHAT_IF.format("NoChange"), {"": 17}),
    (WHAT_IF.format("Modify").replace("sb-webshop", "sb-webshop maxDelivery=6"), {"": 5}),
    ("deployment group show -g shop -n billing", {"properties.provisioningState": "Succeeded"}),
    ("deployment group list -g shop", {"0.name": "billing", "1.name": "web"}),
    ("deployment operation group list -g shop -n web", {"0.properties.targetResource.resourceName": "sb-webshop", "0.properties.statusCode": "OK"}),
    ("deployment group wait -g shop -n web --created", {}),
    ("deployment group delete -g shop -n billing", {}),
    ("servicebus topic subscription list -g shop --namespace-name sb-webshop --topic-name orders", {"3.name": "region-south"}),
    ("group delete -n shop --yes", {}),
    ("group exists -n shop", {"": False}),
    ("servicebus queue create -g mayfly --namespace-name default -n here", {"name": "here"}),
    ("logout", {}),
]  # fmt: skip


def at(told: object, path: str) -> object:
    for part in filter(None, path.split(".")):
        try:
            told = told[int(part)] if isinstance(told, list) else told[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return told


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "AZURE_CONFIG_DIR": home, "AZURE_CORE_COLLECT_TELEMETRY": "no"}
        for command, expected in COMMANDS:
            shown = command.replace(SECRET, "…")
            done = subprocess.run(
                [AZ, *shlex.split(command), "--output", "json"], env=env, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                print(f"wrong: az {shown}: {done.stderr.strip()[-500:]}")
                continue
            told = json.loads(done.stdout) if done.stdout.strip() else None
            for path, value in expected.items():
                if at(told, path) != value:
                    print(f"wrong: az {shown}: {path} is {at(told, path)!r}, not {value!r}")
    print("done")


main()
