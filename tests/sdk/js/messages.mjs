// Senders and settlement: single messages, batches, properties, scheduling, deferral, locks.

import { Long } from "./sdk.mjs";
import {
  assert,
  bodies,
  checksOf,
  empty,
  raises,
  receive,
  sleep,
  take,
} from "./harness.mjs";

const check = checksOf("messages");
const soon = (seconds) => new Date(Date.now() + seconds * 1000);
const HUGE = "x".repeat(2_000_000);

check(
  "one",
  "A message of any JSON body arrives once.",
  [
    "ServiceBusClient.createSender",
    "ServiceBusClient.createReceiver",
    "ServiceBusSender.sendMessages",
    "ServiceBusReceiver.receiveMessages",
    "ServiceBusReceiver.completeMessage",
  ],
  async (space) => {
    const queue = await space.queue();
    const sender = space.client.createSender(queue);
    await sender.sendMessages({ body: { hello: ["world", 1, null] } });
    const receiver = space.client.createReceiver(queue);
    assert.deepEqual(await take(receiver), [{ hello: ["world", 1, null] }]);
    assert.ok(await empty(receiver));
  },
);

check(
  "properties",
  "Every property of a message arrives as it was sent, with those the broker adds.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue();
    const sent = {
      body: "body",
      messageId: "id-1",
      correlationId: "correlation",
      subject: "subject",
      to: "to",
      replyTo: "reply-to",
      contentType: "text/plain",
      partitionKey: "key",
      sessionId: "key",
      replyToSessionId: "session",
      timeToLive: 300_000,
      applicationProperties: { int: 7, text: "t", on: true, half: 0.5, at: soon(0) },
    };
    await space.send(queue, sent);
    const receiver = space.client.createReceiver(queue, { skipConvertingDate: true });
    const [got] = await receive(receiver);
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(got[name], value, name);
    assert.equal(got.deliveryCount, 0);
    assert.equal(got.state, "active");
    assert.ok(got.sequenceNumber.gt(0));
    assert.match(got.lockToken, /^[0-9a-f-]{36}$/);
    assert.ok(got.lockedUntilUtc > new Date());
    assert.equal(got.expiresAtUtc - got.enqueuedTimeUtc, 300_000);
    await receiver.completeMessage(got);
  },
);

check(
  "batch",
  "A batch as large as the broker allows arrives whole.",
  [
    "ServiceBusSender.createMessageBatch",
    "ServiceBusMessageBatch.tryAddMessage",
    "ServiceBusMessageBatch.count",
    "ServiceBusMessageBatch.sizeInBytes",
    "ServiceBusMessageBatch.maxSizeInBytes",
  ],
  async (space) => {
    const queue = await space.queue();
    const sender = space.client.createSender(queue);
    const batch = await sender.createMessageBatch();
    assert.ok(batch.maxSizeInBytes >= 262_144, `${batch.maxSizeInBytes}`);
    assert.ok(!batch.tryAddMessage({ body: HUGE }));
    const texts = [];
    const next = () => `${texts.length}`.padStart(10_000, "x");
    while (batch.tryAddMessage({ body: next() })) texts.push(next());
    assert.equal(batch.count, texts.length);
    assert.ok(batch.sizeInBytes > batch.maxSizeInBytes - 11_000);
    await sender.sendMessages(batch);
    const receiver = space.client.createReceiver(queue);
    assert.deepEqual(await take(receiver, texts.length), texts);
  },
);

check(
  "tooLarge",
  "MessageSizeExceeded, and the sender goes on.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue();
    const sender = space.client.createSender(queue);
    await raises("MessageSizeExceeded", sender.sendMessages({ body: HUGE }));
    await sender.sendMessages({ body: "after" });
    assert.deepEqual(await take(space.client.createReceiver(queue)), ["after"]);
  },
);

check(
  "errors",
  "MessagingEntityNotFound and MessagingEntityDisabled.",
  ["ServiceBusSender.sendMessages", "ServiceBusReceiver.receiveMessages"],
  async (space) => {
    const client = space.impatient();
    const missing = client.createSender(`${space.name}-missing`);
    await raises("MessagingEntityNotFound", missing.sendMessages({ body: "x" }));
    const receiver = client.createReceiver(`${space.name}-missing`);
    await raises("MessagingEntityNotFound", receiver.receiveMessages(1));
    const queue = await space.queue({ status: "Disabled" });
    const disabled = client.createSender(queue);
    await raises("MessagingEntityDisabled", disabled.sendMessages({ body: "x" }));
  },
);

check(
  "closed",
  "Senders, receivers and the client know their names, and that they are closed.",
  [
    "ServiceBusClient.close",
    "ServiceBusClient.identifier",
    "ServiceBusClient.fullyQualifiedNamespace",
    "ServiceBusSender.close",
    "ServiceBusSender.isClosed",
    "ServiceBusSender.identifier",
    "ServiceBusSender.entityPath",
    "ServiceBusReceiver.close",
    "ServiceBusReceiver.isClosed",
    "ServiceBusReceiver.identifier",
    "ServiceBusReceiver.entityPath",
    "ServiceBusReceiver.receiveMode",
  ],
  async (space) => {
    const queue = await space.queue();
    const client = space.newClient({ identifier: "me" });
    assert.equal(client.identifier, "me");
    assert.equal(client.fullyQualifiedNamespace, "localhost");
    const sender = client.createSender(queue, { identifier: "sender" });
    const receiver = client.createReceiver(queue, { identifier: "receiver" });
    assert.deepEqual([sender.identifier, sender.entityPath], ["sender", queue]);
    assert.deepEqual([receiver.identifier, receiver.entityPath], ["receiver", queue]);
    assert.equal(receiver.receiveMode, "peekLock");
    await sender.sendMessages({ body: "x" });
    await take(receiver);
    await sender.close();
    await receiver.close();
    assert.ok(sender.isClosed && receiver.isClosed);
    await client.close();
    assert.throws(() => client.createSender(queue));
  },
);

check(
  "settle",
  "Abandoned messages come again; dead-lettered ones carry what was said about them.",
  ["ServiceBusReceiver.abandonMessage", "ServiceBusReceiver.deadLetterMessage"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    const [first] = await receive(receiver);
    await receiver.abandonMessage(first, { tried: "once" });
    const [again] = await receive(receiver);
    assert.equal(again.deliveryCount, 1);
    assert.equal(again.applicationProperties.tried, "once");
    const why = { deadLetterReason: "why", deadLetterErrorDescription: "because", more: 1 };
    await receiver.deadLetterMessage(again, why);
    const dead = space.client.createReceiver(queue, { subQueueType: "deadLetter" });
    const [letter] = await receive(dead);
    assert.equal(letter.deadLetterReason, "why");
    assert.equal(letter.deadLetterErrorDescription, "because");
    assert.equal(letter.applicationProperties.more, 1);
    await dead.completeMessage(letter);
    assert.ok(await empty(receiver));
  },
);

check(
  "defer",
  "A deferred message comes to who asks by its number.",
  ["ServiceBusReceiver.deferMessage", "ServiceBusReceiver.receiveDeferredMessages"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "a", "b", "c");
    const receiver = space.impatient().createReceiver(queue);
    const messages = await receive(receiver, 3);
    for (const message of messages) await receiver.deferMessage(message, { set: "aside" });
    assert.ok(await empty(receiver));
    const numbers = messages.map((message) => message.sequenceNumber);
    const deferred = await receiver.receiveDeferredMessages(numbers);
    assert.deepEqual(bodies(deferred), ["a", "b", "c"]);
    assert.deepEqual(new Set(deferred.map((message) => message.state)), new Set(["deferred"]));
    assert.equal(deferred[0].applicationProperties.set, "aside");
    await receiver.completeMessage(deferred[0]);
    await receiver.abandonMessage(deferred[1]);
    await receiver.deadLetterMessage(deferred[2]);
    const [again] = await receiver.receiveDeferredMessages(numbers[1]);
    await receiver.completeMessage(again);
    await raises("MessageNotFound", receiver.receiveDeferredMessages(numbers[0]));
    const dead = space.client.createReceiver(queue, { subQueueType: "deadLetter" });
    assert.deepEqual(await take(dead), ["c"]);
  },
);

check(
  "schedule",
  "A scheduled message is not there before its time; a cancelled one never.",
  ["ServiceBusSender.scheduleMessages", "ServiceBusSender.cancelScheduledMessages"],
  async (space) => {
    const queue = await space.queue();
    const sender = space.impatient().createSender(queue);
    const due = soon(8);
    const [kept, cancelled] = await sender.scheduleMessages(
      [{ body: "kept" }, { body: "cancelled" }],
      due,
    );
    assert.ok(cancelled.gt(kept));
    await sender.sendMessages({ body: "by property", scheduledEnqueueTimeUtc: due });
    await sender.cancelScheduledMessages(cancelled);
    const receiver = space.client.createReceiver(queue);
    const peeked = await receiver.peekMessages(10);
    assert.deepEqual(bodies(peeked), ["kept", "by property"]);
    assert.deepEqual(peeked.map((message) => message.state), ["scheduled", "scheduled"]);
    assert.deepEqual((await take(receiver, 2)).sort(), ["by property", "kept"]);
    assert.ok(new Date() >= due);
    await raises("MessageNotFound", sender.cancelScheduledMessages(cancelled));
  },
);

check(
  "peek",
  "A peek goes on from where the last one ended, or from a number, and takes nothing.",
  ["ServiceBusReceiver.peekMessages"],
  async (space) => {
    const queue = await space.queue();
    const texts = Array.from({ length: 10 }, (_, n) => `${n}`);
    await space.send(queue, ...texts);
    const receiver = space.client.createReceiver(queue);
    assert.deepEqual(bodies(await receiver.peekMessages(1)), ["0"]);
    const rest = await receiver.peekMessages(20);
    assert.deepEqual(bodies(rest), texts.slice(1));
    assert.deepEqual(await receiver.peekMessages(5), []);
    const fromSequenceNumber = rest[4].sequenceNumber;
    assert.deepEqual(bodies(await receiver.peekMessages(1, { fromSequenceNumber })), ["5"]);
    const fromStart = { fromSequenceNumber: Long.ONE, omitMessageBody: true };
    assert.equal((await receiver.peekMessages(3, fromStart)).length, 3);
    assert.deepEqual(await take(receiver, 10), texts);
  },
);

check(
  "renew",
  "A lock is held for longer than it lasts by renewing it.",
  ["ServiceBusReceiver.renewMessageLock"],
  async (space) => {
    const queue = await space.queue({ lockDuration: "PT8S" });
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await receive(receiver);
    const before = message.lockedUntilUtc;
    await sleep(5_000);
    const until = await receiver.renewMessageLock(message);
    assert.ok(until - before > 4_000, `${until} after ${before}`);
    await sleep(5_000);
    await receiver.completeMessage(message);
    assert.ok(await empty(receiver));
  },
);

check(
  "autoRenew",
  "The SDK renews the locks of what it has received.",
  ["ServiceBusReceiver.receiveMessages", "ServiceBusReceiver.completeMessage"],
  async (space) => {
    const queue = await space.queue({ lockDuration: "PT5S" });
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    const [message] = await receive(receiver);
    await sleep(9_000);
    await receiver.completeMessage(message);
    assert.ok(await empty(receiver));
  },
);

check(
  "lost",
  "MessageLockLost once a lock has ended; the message comes again, counted.",
  ["ServiceBusReceiver.completeMessage", "ServiceBusReceiver.renewMessageLock"],
  async (space) => {
    const queue = await space.queue({ lockDuration: "PT5S" });
    await space.send(queue, "x");
    const client = space.impatient();
    const receiver = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await receive(receiver);
    await sleep(6_500);
    await raises("MessageLockLost", receiver.renewMessageLock(message));
    await raises("MessageLockLost", receiver.completeMessage(message));
    const [again] = await receive(receiver);
    assert.equal(again.deliveryCount, 1);
    await receiver.completeMessage(again);
  },
);

check(
  "elsewhere",
  "A lock outlives its receiver, and another receiver can settle under it.",
  ["ServiceBusReceiver.completeMessage"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "x");
    const first = space.client.createReceiver(queue);
    const [message] = await receive(first);
    await first.close();
    const second = space.client.createReceiver(queue);
    assert.ok(await empty(second));
    await second.completeMessage(message);
    assert.ok(await empty(second));
  },
);

check(
  "duplicates",
  "A queue with duplicate detection takes an id once.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue({ requiresDuplicateDetection: true });
    for (let turn = 0; turn < 2; turn += 1) await space.send(queue, { body: "x", messageId: "id" });
    const receiver = space.client.createReceiver(queue);
    assert.deepEqual(await take(receiver), ["x"]);
    assert.ok(await empty(receiver));
  },
);

check(
  "notForwarded",
  "What cannot be forwarded is in the dead-letter queue of its source, not that of transfers.",
  ["ServiceBusClient.createReceiver"],
  async (space) => {
    const target = await space.queue({ requiresSession: true });
    const source = `${space.name}-source`;
    await space.admin.createQueue(source, { forwardTo: target });
    await space.send(source, "without a session");
    const dead = space.client.createReceiver(source, { subQueueType: "deadLetter" });
    assert.deepEqual(await take(dead), ["without a session"]);
    // Only what is sent via an entity gets there, which this SDK has no call for.
    const subQueueType = "transferDeadLetter";
    assert.ok(await empty(space.client.createReceiver(source, { subQueueType })));
  },
);
