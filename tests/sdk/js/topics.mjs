// Topics: each subscription gets its copies, filtered, and settles them for itself.

import { assert, checksOf, empty, raises, receive, take } from "./harness.mjs";

const check = checksOf("topics");

check(
  "fanOut",
  "Every subscription gets every message; each settles its own copy.",
  ["ServiceBusClient.createReceiver", "ServiceBusReceiver.deadLetterMessage"],
  async (space) => {
    const topic = await space.topic("one", "two");
    await space.send(topic, "a", "b");
    const one = space.client.createReceiver(topic, "one");
    assert.equal(one.entityPath, `${topic}/Subscriptions/one`);
    const [first, second] = await receive(one, 2);
    await one.deadLetterMessage(first, { deadLetterReason: "why" });
    await one.completeMessage(second);
    assert.ok(await empty(one));
    const dead = space.client.createReceiver(topic, "one", { subQueueType: "deadLetter" });
    assert.deepEqual(await take(dead), ["a"]);
    assert.deepEqual(await take(space.client.createReceiver(topic, "two"), 2), ["a", "b"]);
  },
);

check(
  "subscribe",
  "A subscription's handler and its peek.",
  ["ServiceBusReceiver.subscribe", "ServiceBusReceiver.peekMessages"],
  async (space) => {
    const topic = await space.topic("s");
    await space.send(topic, "a", "b");
    const receiver = space.client.createReceiver(topic, "s");
    assert.equal((await receiver.peekMessages(5)).length, 2);
    const seen = await new Promise((resolve, reject) => {
      const bodies = [];
      receiver.subscribe({
        processMessage: async (message) => {
          if (bodies.push(message.body) === 2) resolve(bodies);
        },
        processError: async ({ error }) => reject(error),
      });
    });
    assert.deepEqual(seen, ["a", "b"]);
  },
);

check(
  "filters",
  "SQL and correlation filters choose; numbers are compared by value.",
  ["ServiceBusAdministrationClient.createSubscription"],
  async (space) => {
    const topic = await space.topic();
    const rule = (name, filter) => ({ defaultRuleOptions: { name, filter } });
    const dear = { sqlExpression: "price > @limit", sqlParameters: { "@limit": 10 } };
    await space.admin.createSubscription(topic, "dear", rule("dear", dear));
    const news = { subject: "news", applicationProperties: { level: 3, urgent: true } };
    await space.admin.createSubscription(topic, "news", rule("news", news));
    await space.send(
      topic,
      { body: "dear", applicationProperties: { price: 11 } },
      { body: "cheap", applicationProperties: { price: 9.5 } },
      { body: "urgent", subject: "news", applicationProperties: { level: 3, urgent: true } },
      { body: "old", subject: "news", applicationProperties: { level: 3, urgent: false } },
    );
    for (const [subscription, body] of [["dear", "dear"], ["news", "urgent"]]) {
      const receiver = space.client.createReceiver(topic, subscription);
      assert.deepEqual(await take(receiver), [body]);
      assert.ok(await empty(receiver));
    }
  },
);

check(
  "schedule",
  "A message scheduled on a topic reaches its subscriptions when it is due.",
  ["ServiceBusSender.scheduleMessages", "ServiceBusSender.cancelScheduledMessages"],
  async (space) => {
    const topic = await space.topic("s");
    const sender = space.client.createSender(topic);
    const due = new Date(Date.now() + 8_000);
    const numbers = await sender.scheduleMessages([{ body: "kept" }, { body: "cancelled" }], due);
    await sender.cancelScheduledMessages(numbers[1]);
    const receiver = space.client.createReceiver(topic, "s");
    assert.deepEqual(await take(receiver), ["kept"]);
    assert.ok(new Date() >= due);
    assert.ok(await empty(receiver));
  },
);

check(
  "defer",
  "A subscription defers for itself.",
  ["ServiceBusReceiver.deferMessage", "ServiceBusReceiver.receiveDeferredMessages"],
  async (space) => {
    const topic = await space.topic("s");
    await space.send(topic, "x");
    const receiver = space.client.createReceiver(topic, "s");
    const [message] = await receive(receiver);
    await receiver.deferMessage(message);
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    await receiver.renewMessageLock(deferred);
    await receiver.completeMessage(deferred);
    assert.deepEqual(await receiver.peekMessages(5), []);
  },
);

check(
  "misused",
  "MessagingEntityNotFound of a missing subscription; a topic is not received from.",
  ["ServiceBusReceiver.receiveMessages"],
  async (space) => {
    const topic = await space.topic();
    const client = space.impatient();
    const missing = client.createReceiver(topic, "missing");
    await raises("MessagingEntityNotFound", missing.receiveMessages(1));
    await raises(undefined, client.createReceiver(topic).receiveMessages(1));
  },
);
