// A namespace of a profile, as the JS SDK meets it.
//
//     profiles.mjs PROFILE QUEUE    the string is MAYFLY_STRING; a line of JSON for each part
import assert from "node:assert/strict";
import { ServiceBusAdministrationClient, ServiceBusClient } from "./sdk.mjs";

const KILOBYTE = 1024;
const once = { retryOptions: { maxRetries: 0, timeoutInMs: 30_000 } };
const skus = { "self-hosted": "Standard", basic: "Basic", standard: "Standard", premium: "Premium" };

const [profile, queue] = process.argv.slice(2);
const text = process.env.MAYFLY_STRING;
const sku = skus[profile];
const isBasic = profile === "basic";
const isLarge = profile === "self-hosted" || profile === "premium";
const messageKilobytes = profile === "premium" ? 1024 : 256;
const admin = new ServiceBusAdministrationClient(text, { retryOptions: { maxRetries: 0 } });

// That something is created, or refused in the service's words.
async function refused(isTaken, create) {
  let error;
  await create().catch((thrown) => (error = thrown));
  assert.equal(error === undefined, isTaken, error?.message ?? "it was created");
  if (!error) return;
  assert.equal(error.statusCode, 400, error.message);
  assert.match(error.message, /SubCode=40000/);
  assert.ok(error.message.includes(`is using '${sku}' tier`), error.message);
}

async function withClient(use) {
  const client = new ServiceBusClient(text, once);
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const parts = {
  namespace: async () => {
    const told = await admin.getNamespaceProperties();
    assert.equal(told.messagingSku, sku);
    assert.equal(told.messagingUnits, sku === "Premium" ? 1 : undefined);
  },
  entities: async () => {
    const made = await admin.createQueue(queue);
    assert.equal(made.maxMessageSizeInKilobytes, messageKilobytes);
    assert.equal(made.defaultMessageTimeToLive === "P14D", isBasic, made.defaultMessageTimeToLive);
    const create = (name, said) => () => admin.createQueue(`${queue}-${name}`, said);
    await refused(!isBasic, () => admin.createTopic(`${queue}-topic`));
    await refused(!isBasic, create("sessions", { requiresSession: true }));
    await refused(!isBasic, create("once", { requiresDuplicateDetection: true }));
    await refused(!isBasic, create("forwards", { forwardTo: queue }));
    await refused(!isBasic, create("month", { defaultMessageTimeToLive: "P30D" }));
    await refused(isLarge, create("10", { maxSizeInMegabytes: 10240 }));
    await refused(isLarge, create("large", { maxMessageSizeInKilobytes: 1024 }));
  },
  sizes: () =>
    withClient(async (client) => {
      const sender = client.createSender(queue);
      const { maxSizeInBytes } = await sender.createMessageBatch();
      const fits = maxSizeInBytes > 200 * KILOBYTE && maxSizeInBytes <= messageKilobytes * KILOBYTE;
      assert.ok(fits, `a batch of ${maxSizeInBytes}`);
      await sender.sendMessages({ body: "x".repeat(200 * KILOBYTE) });
      let code = "taken";
      await sender.sendMessages({ body: "x".repeat(300 * KILOBYTE) }).catch((error) => (code = error.code));
      assert.equal(code, messageKilobytes === 256 ? "MessageSizeExceeded" : "taken");
    }),
  // SCHED-15: the one that every tier has.
  features: () =>
    withClient(async (client) => {
      await client.createSender(queue).scheduleMessages({ body: "later" }, new Date(Date.now() + 1000));
      const receiver = client.createReceiver(queue);
      for (let body; body !== "later"; ) {
        const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 10_000 });
        assert.ok(message, "no message");
        body = message.body;
        await receiver.completeMessage(message);
      }
    }),
};

for (const [part, run] of Object.entries(parts)) {
  let failure = null;
  try {
    await run();
  } catch (error) {
    failure = `${error.name}: ${error.code ?? ""} ${error.message}`;
  }
  console.log(JSON.stringify({ part, failure }));
}
process.exit(0);
