// Azure's management SDK for JS, unmodified, with credentials of `@azure/identity`.
//
//     arm.mjs ID BASE    MAYFLY_SDK_MODULES is the directory above `node_modules`
//
// `MAYFLY_SECRET` is the key RootManageSharedAccessKey. Lines that begin with `wrong: ` say what is not as it has to be.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";

const require = createRequire(resolve(process.env.MAYFLY_SDK_MODULES ?? ".", "package.json"));
const { ServiceBusManagementClient } = require("@azure/arm-servicebus");
const { ClientSecretCredential } = require("@azure/identity");

const [id, base] = process.argv.slice(2);
const group = "mayfly";

function expect(what, found, wanted) {
  if (!isDeepStrictEqual(found, wanted)) {
    console.log(`wrong: ${what} is ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
  }
}

async function names(pages) {
  const found = [];
  for await (const one of pages) found.push(one.name);
  return found;
}

const options = { authorityHost: base, disableInstanceDiscovery: true };
const credential = new ClientSecretCredential(id, "RootManageSharedAccessKey", process.env.MAYFLY_SECRET, options);
const client = new ServiceBusManagementClient(credential, id, {
  endpoint: base,
  credentialScopes: [`${base}/.default`],
});

const namespace = await client.namespaces.beginCreateOrUpdateAndWait(group, "sb-of-js", {
  location: "local",
  sku: { name: "Standard", tier: "Standard" },
  tags: { team: "js" },
});
expect("a namespace", [namespace.name, namespace.provisioningState], ["sb-of-js", "Succeeded"]);
const where = [group, "sb-of-js"];
const queue = await client.queues.createOrUpdate(...where, "orders", { lockDuration: "PT30S", maxDeliveryCount: 4 });
expect("a queue", [queue.lockDuration, queue.maxDeliveryCount, queue.countDetails.activeMessageCount], ["PT30S", 4, 0]);
for (const name of ["a", "b", "c"]) await client.queues.createOrUpdate(...where, name, {});
expect("queues by pages", await names(client.queues.listByNamespace(...where, { top: 2 })), ["a", "b", "c", "orders"]);
await client.topics.createOrUpdate(...where, "news", {});
await client.subscriptions.createOrUpdate(...where, "news", "all", { forwardTo: "orders" });
await client.rules.createOrUpdate(...where, "news", "all", "big", {
  filterType: "SqlFilter",
  sqlFilter: { sqlExpression: "size > 3" },
});
expect("rules", await names(client.rules.listBySubscriptions(...where, "news", "all")), ["$Default", "big"]);
const keys = await client.namespaces.listKeys(...where, "RootManageSharedAccessKey");
expect("a string", keys.primaryConnectionString.startsWith("Endpoint=sb://sb-of-js."), true);
try {
  await client.queues.get(...where, "nothing");
  console.log("wrong: a queue that is not there is found");
} catch (error) {
  expect("what is told of it", [error.statusCode, error.code], [404, "NotFound"]);
}
await client.namespaces.beginDeleteAndWait(...where);
expect("namespaces in the end", (await names(client.namespaces.list())).includes("sb-of-js"), false);
console.log("done");
