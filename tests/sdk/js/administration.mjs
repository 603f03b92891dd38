// Queues, topics and subscriptions as the administration client makes, reads and changes them.

import { assert, checksOf, collect, raises, receive, sleep } from "./harness.mjs";

const check = checksOf("administration");
const ADMIN = "ServiceBusAdministrationClient";

/** `properties` has these among others. */
function has(properties, expected) {
  for (const [name, value] of Object.entries(expected)) {
    assert.deepEqual(properties[name], value, name);
  }
}

const isRecent = (date) => assert.ok(Math.abs(Date.now() - date) < 300_000, `${date}`);

/**
 * The list has exactly these names of the check. Pages are counted off, so what other checks create
 * between two of them shifts the second: then the list is asked for again.
 */
async function lists(space, call, names) {
  let seen;
  for (let turn = 0; turn < 60; turn += 1) {
    const listed = (await collect(call())).map((item) => item.name);
    seen = listed.filter((name) => name.startsWith(space.name));
    if (seen.join() === names.join()) return;
    await sleep(1_000);
  }
  assert.deepEqual(seen, names);
}

const QUEUE = {
  autoDeleteOnIdle: "PT2H",
  deadLetteringOnMessageExpiration: true,
  defaultMessageTimeToLive: "P3D",
  duplicateDetectionHistoryTimeWindow: "PT7M",
  lockDuration: "PT45S",
  maxDeliveryCount: 3,
  maxSizeInMegabytes: 2048,
  requiresDuplicateDetection: true,
  requiresSession: true,
  userMetadata: "a <b> & 'c' \u00fc",
  maxMessageSizeInKilobytes: 512,
};

check(
  "namespace",
  "The namespace has a name, a kind and an age.",
  [`${ADMIN}.getNamespaceProperties`],
  async (space) => {
    const properties = await space.admin.getNamespaceProperties();
    assert.ok(properties.name);
    assert.ok(["Basic", "Standard", "Premium"].includes(properties.messagingSku));
    assert.ok(properties.createdAt instanceof Date);
  },
);

check(
  "queue",
  "A queue is read as it was made, changed and deleted.",
  [
    `${ADMIN}.createQueue`,
    `${ADMIN}.getQueue`,
    `${ADMIN}.updateQueue`,
    `${ADMIN}.queueExists`,
    `${ADMIN}.deleteQueue`,
  ],
  async (space) => {
    const { admin, name } = space;
    assert.ok(!(await admin.queueExists(name)));
    const made = await admin.createQueue(name, QUEUE);
    const got = await admin.getQueue(name);
    for (const queue of [made, got]) has(queue, { ...QUEUE, name, status: "Active" });
    assert.ok(await admin.queueExists(name));
    got.maxDeliveryCount = 7;
    got.status = "SendDisabled";
    const updated = await admin.updateQueue(got);
    for (const queue of [updated, await admin.getQueue(name)]) {
      has(queue, { maxDeliveryCount: 7, status: "SendDisabled" });
    }
    await raises("MessageEntityAlreadyExistsError", admin.createQueue(name));
    await admin.deleteQueue(name);
    await raises("MessageEntityNotFoundError", admin.getQueue(name));
    await raises("MessageEntityNotFoundError", admin.updateQueue(got));
    await raises("MessageEntityNotFoundError", admin.deleteQueue(name));
  },
);

check(
  "queueRuntime",
  "Counts of a queue add up.",
  [`${ADMIN}.getQueueRuntimeProperties`],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "a", "b", "c");
    const sender = space.client.createSender(queue);
    await sender.scheduleMessages({ body: "later" }, new Date(Date.now() + 3_600_000));
    const receiver = space.client.createReceiver(queue);
    const [message] = await receive(receiver);
    await receiver.deadLetterMessage(message);
    const counts = await space.admin.getQueueRuntimeProperties(queue);
    has(counts, {
      name: queue,
      activeMessageCount: 2,
      scheduledMessageCount: 1,
      deadLetterMessageCount: 1,
      totalMessageCount: 4,
      transferMessageCount: 0,
      transferDeadLetterMessageCount: 0,
    });
    assert.ok(counts.sizeInBytes > 0);
    for (const date of [counts.createdAt, counts.modifiedAt, counts.accessedAt]) isRecent(date);
  },
);

check(
  "listQueues",
  "Every queue is listed, over several pages, in pages of the size asked for.",
  [`${ADMIN}.listQueues`, `${ADMIN}.listQueuesRuntimeProperties`],
  async (space) => {
    const names = Array.from({ length: 110 }, (_, n) => `${space.name}-${`${n}`.padStart(3, "0")}`);
    for (const name of names) await space.admin.createQueue(name);
    await lists(space, () => space.admin.listQueues(), names);
    await lists(space, () => space.admin.listQueuesRuntimeProperties(), names);
    const pages = space.admin.listQueues().byPage({ maxPageSize: 20 });
    const { value } = await pages.next();
    assert.equal(value.length, 20);
  },
);

check(
  "topic",
  "A topic is read as it was made, changed, listed and deleted.",
  [
    `${ADMIN}.createTopic`,
    `${ADMIN}.getTopic`,
    `${ADMIN}.updateTopic`,
    `${ADMIN}.topicExists`,
    `${ADMIN}.listTopics`,
    `${ADMIN}.listTopicsRuntimeProperties`,
    `${ADMIN}.getTopicRuntimeProperties`,
    `${ADMIN}.deleteTopic`,
  ],
  async (space) => {
    const { admin, name } = space;
    const options = {
      autoDeleteOnIdle: "PT2H",
      defaultMessageTimeToLive: "P3D",
      duplicateDetectionHistoryTimeWindow: "PT7M",
      maxSizeInMegabytes: 2048,
      requiresDuplicateDetection: true,
      supportOrdering: true,
      userMetadata: "metadata",
    };
    const made = await admin.createTopic(name, options);
    const got = await admin.getTopic(name);
    for (const topic of [made, got]) has(topic, { ...options, name, status: "Active" });
    assert.ok(await admin.topicExists(name));
    got.defaultMessageTimeToLive = "PT9M";
    await admin.updateTopic(got);
    has(await admin.getTopic(name), { defaultMessageTimeToLive: "PT9M" });
    await admin.createSubscription(name, "s");
    const counts = await admin.getTopicRuntimeProperties(name);
    has(counts, { name, subscriptionCount: 1, scheduledMessageCount: 0 });
    isRecent(counts.createdAt);
    await lists(space, () => admin.listTopics(), [name]);
    await lists(space, () => admin.listTopicsRuntimeProperties(), [name]);
    await admin.deleteTopic(name);
    assert.ok(!(await admin.topicExists(name)));
    await raises("MessageEntityNotFoundError", admin.getTopic(name));
  },
);

check(
  "subscription",
  "A subscription is read as it was made, changed, listed and deleted.",
  [
    `${ADMIN}.createSubscription`,
    `${ADMIN}.getSubscription`,
    `${ADMIN}.updateSubscription`,
    `${ADMIN}.subscriptionExists`,
    `${ADMIN}.listSubscriptions`,
    `${ADMIN}.listSubscriptionsRuntimeProperties`,
    `${ADMIN}.getSubscriptionRuntimeProperties`,
    `${ADMIN}.deleteSubscription`,
  ],
  async (space) => {
    const { admin } = space;
    const topic = await space.topic("other");
    const options = {
      autoDeleteOnIdle: "PT2H",
      deadLetteringOnFilterEvaluationExceptions: false,
      deadLetteringOnMessageExpiration: true,
      defaultMessageTimeToLive: "P3D",
      lockDuration: "PT45S",
      maxDeliveryCount: 3,
      userMetadata: "metadata",
    };
    const made = await admin.createSubscription(topic, "s", options);
    const got = await admin.getSubscription(topic, "s");
    for (const subscription of [made, got]) {
      has(subscription, { ...options, topicName: topic, subscriptionName: "s", status: "Active" });
    }
    got.maxDeliveryCount = 7;
    await admin.updateSubscription(got);
    has(await admin.getSubscription(topic, "s"), { maxDeliveryCount: 7 });
    await space.send(topic, "a", "b");
    const receiver = space.client.createReceiver(topic, "s");
    const [message] = await receive(receiver);
    await receiver.deadLetterMessage(message);
    const counts = await admin.getSubscriptionRuntimeProperties(topic, "s");
    has(counts, { activeMessageCount: 1, deadLetterMessageCount: 1, totalMessageCount: 2 });
    isRecent(counts.createdAt);
    for (const list of [
      admin.listSubscriptions(topic),
      admin.listSubscriptionsRuntimeProperties(topic),
    ]) {
      const names = (await collect(list)).map((item) => item.subscriptionName);
      assert.deepEqual(names, ["other", "s"]);
    }
    assert.ok(await admin.subscriptionExists(topic, "s"));
    await admin.deleteSubscription(topic, "s");
    assert.ok(!(await admin.subscriptionExists(topic, "s")));
    await raises("MessageEntityNotFoundError", admin.getSubscription(topic, "s"));
  },
);

check(
  "forwarding",
  "A queue says where it forwards to, and stops when it is told to.",
  [`${ADMIN}.createQueue`, `${ADMIN}.updateQueue`],
  async (space) => {
    const target = await space.queue();
    const source = `${space.name}-source`;
    const made = await space.admin.createQueue(source, {
      forwardTo: target,
      forwardDeadLetteredMessagesTo: target,
    });
    assert.ok(made.forwardTo.endsWith(`/${target}`), made.forwardTo);
    assert.ok(made.forwardDeadLetteredMessagesTo.endsWith(`/${target}`));
    await space.send(source, "x");
    await receive(space.client.createReceiver(target));
    delete made.forwardTo;
    delete made.forwardDeadLetteredMessagesTo;
    await space.admin.updateQueue(made);
    assert.equal((await space.admin.getQueue(source)).forwardTo, undefined);
  },
);

check(
  "badValues",
  "Values out of their bounds are refused.",
  [`${ADMIN}.createQueue`],
  async (space) => {
    for (const options of [
      { lockDuration: "PT1H" },
      { maxDeliveryCount: 0 },
      { autoDeleteOnIdle: "PT1S" },
    ]) {
      const error = await raises("ServiceError", space.admin.createQueue(space.name, options));
      assert.equal(error.statusCode, 400);
    }
    assert.ok(!(await space.admin.queueExists(space.name)));
  },
);
