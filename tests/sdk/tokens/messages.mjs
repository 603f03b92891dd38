// Azure's SDK for JS with credentials in the place of connection strings: of the cluster's own authority by
// `@azure/identity`, and of another issuer.
//
//     messages.mjs ID ISSUER HTTP,AMQPS …    as messages.py; MAYFLY_SDK_MODULES is the directory above `node_modules`

import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(resolve(process.env.MAYFLY_SDK_MODULES ?? ".", "package.json"));
const { ServiceBusAdministrationClient, ServiceBusClient } = require("@azure/service-bus");
const { ClientSecretCredential } = require("@azure/identity");

const [id, issuer, ...nodes] = process.argv.slice(2);
const [http, amqps] = [0, 1].map((at) => nodes.map((node) => node.split(",")[at]));

function expect(what, found, wanted) {
  if (found !== wanted) console.log(`wrong: ${what} is ${found}, not ${wanted}`);
}

function own(name, key, node) {
  const options = { authorityHost: `https://${http[node]}`, disableInstanceDiscovery: true };
  return new ClientSecretCredential(id, name, key, options);
}

const issued = (role) => ({
  async getToken() {
    const told = await (await fetch(`${issuer}/token?role=${role}`)).json();
    return { token: told.access_token, expiresOnTimestamp: told.expires_on * 1000 };
  },
});

async function within(credential, node, act) {
  const options = { customEndpointAddress: `sb://${amqps[node]}`, retryOptions: { maxRetries: 0 } };
  const bus = new ServiceBusClient("localhost", credential, options);
  try {
    return await act(bus);
  } finally {
    await bus.close();
  }
}

const send = (credential, node, queue = "of-js") =>
  within(credential, node, (bus) => bus.createSender(queue).sendMessages({ body: "x" }));

const receive = (credential, node) =>
  within(credential, node, async (bus) => {
    const receiver = bus.createReceiver("of-js");
    const found = await receiver.receiveMessages(10, { maxWaitTimeInMs: 5000 });
    for (const message of found) await receiver.completeMessage(message);
    return found.length;
  });

async function refused(what, act) {
  try {
    await act();
  } catch (error) {
    return expect(`${what}: code`, error.code, "UnauthorizedAccess");
  }
  console.log(`wrong: ${what} is not refused`);
}

const root = own("RootManageSharedAccessKey", process.env.MAYFLY_SECRET, 0);
const administration = new ServiceBusAdministrationClient(http[2], root);
await administration.createQueue("of-js");
expect("the queue", (await administration.getQueue("of-js")).name, "of-js");
await send(root, 1);
expect("received", await receive(root, 0), 1);
await refused("sending with a key that may listen", () => send(own("listener", "the-listeners-own-key", 2), 0));
await send(issued("js-writer"), 2);
expect("received by the reader", await receive(issued("reader"), 1), 1);
await refused("receiving with the role of a writer", () => receive(issued("js-writer"), 1));
console.log("done");
