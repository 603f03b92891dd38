// Sessions of queues and subscriptions.

import { assert, bodies, checksOf, empty, raises, receive, sleep, take } from "./harness.mjs";

const check = checksOf("sessions");

/** A queue with messages 1, 2 and 3 in each of these sessions. */
async function queueWith(space, sessions, lockDuration = "PT1M") {
  const queue = await space.queue({ requiresSession: true, lockDuration });
  const sender = space.client.createSender(queue);
  for (let n = 1; n <= 3; n += 1) {
    for (const sessionId of sessions) {
      await sender.sendMessages({ body: `${sessionId}${n}`, sessionId });
    }
  }
  return queue;
}

check(
  "byId",
  "A session's receiver gets its messages in order, and no others.",
  [
    "ServiceBusClient.acceptSession",
    "ServiceBusSessionReceiver.sessionId",
    "ServiceBusSessionReceiver.sessionLockedUntilUtc",
  ],
  async (space) => {
    const queue = await queueWith(space, ["a", "b"]);
    const holder = await space.client.acceptSession(queue, "b");
    assert.equal(holder.sessionId, "b");
    const left = holder.sessionLockedUntilUtc - Date.now();
    assert.ok(left > 30_000 && left < 61_000, `${left} ms`);
    assert.deepEqual(bodies(await holder.peekMessages(10)), ["b1", "b2", "b3"]);
    assert.deepEqual(await take(holder, 3), ["b1", "b2", "b3"]);
    assert.ok(await empty(holder));
    await holder.close();
  },
);

check(
  "next",
  "Each receiver of the next session gets another one, and the next waits for one to come.",
  ["ServiceBusClient.acceptNextSession"],
  async (space) => {
    const queue = await queueWith(space, ["a", "b"]);
    const one = await space.client.acceptNextSession(queue);
    const two = await space.client.acceptNextSession(queue);
    assert.deepEqual([one.sessionId, two.sessionId].sort(), ["a", "b"]);
    const waits = space.client.acceptNextSession(queue);
    await sleep(1_000);
    await space.send(queue, { body: "c1", sessionId: "c" });
    const three = await waits;
    assert.equal(three.sessionId, "c");
    assert.deepEqual(await take(three), ["c1"]);
  },
);

check(
  "noneAvailable",
  "ServiceTimeout when no session comes in time.",
  ["ServiceBusClient.acceptNextSession"],
  async (space) => {
    const queue = await queueWith(space, []);
    await raises("ServiceTimeout", space.impatient(4_000).acceptNextSession(queue));
  },
);

check(
  "held",
  "SessionCannotBeLocked while another holds the session; its close lets go at once.",
  ["ServiceBusClient.acceptSession"],
  async (space) => {
    const queue = await queueWith(space, ["a"]);
    const holder = await space.client.acceptSession(queue, "a");
    const client = space.impatient();
    await raises("SessionCannotBeLocked", client.acceptSession(queue, "a"));
    await receive(holder, 3);
    await holder.close();
    const other = await client.acceptSession(queue, "a");
    const messages = await receive(other, 3);
    assert.deepEqual(bodies(messages), ["a1", "a2", "a3"]);
    assert.deepEqual(messages.map((message) => message.deliveryCount), [0, 0, 0]);
  },
);

check(
  "state",
  "A session's state is what was set last, whoever holds it.",
  ["ServiceBusSessionReceiver.getSessionState", "ServiceBusSessionReceiver.setSessionState"],
  async (space) => {
    const queue = await queueWith(space, ["a"]);
    const holder = await space.client.acceptSession(queue, "a");
    assert.equal((await holder.getSessionState()) ?? null, null);
    await holder.setSessionState({ step: 2 });
    await holder.close();
    const other = await space.client.acceptSession(queue, "a");
    assert.deepEqual(await other.getSessionState(), { step: 2 });
    await other.setSessionState(null);
    assert.equal((await other.getSessionState()) ?? null, null);
  },
);

check(
  "renew",
  "A session is held for longer than its lock lasts by renewing it.",
  ["ServiceBusSessionReceiver.renewSessionLock"],
  async (space) => {
    const queue = await queueWith(space, ["a"], "PT8S");
    const options = { maxAutoLockRenewalDurationInMs: 0 };
    const holder = await space.client.acceptSession(queue, "a", options);
    const before = holder.sessionLockedUntilUtc;
    const [message] = await receive(holder);
    await sleep(5_000);
    const until = await holder.renewSessionLock();
    assert.ok(until - before > 4_000, `${until} after ${before}`);
    await sleep(5_000);
    await holder.completeMessage(message);
    assert.deepEqual(await take(holder, 2), ["a2", "a3"]);
  },
);

check(
  "autoRenew",
  "The SDK keeps a session as long as it is open.",
  ["ServiceBusClient.acceptSession"],
  async (space) => {
    const queue = await queueWith(space, ["a"], "PT5S");
    const holder = await space.client.acceptSession(queue, "a");
    const messages = await receive(holder, 3);
    await sleep(9_000);
    for (const message of messages) await holder.completeMessage(message);
  },
);

check(
  "lost",
  "SessionLockLost once the lock has ended; the next holder sees a counted delivery.",
  ["ServiceBusSessionReceiver.renewSessionLock"],
  async (space) => {
    const queue = await queueWith(space, ["a"], "PT5S");
    const client = space.impatient();
    const options = { maxAutoLockRenewalDurationInMs: 0 };
    const holder = await client.acceptSession(queue, "a", options);
    const [message] = await receive(holder);
    await sleep(6_500);
    await raises("SessionLockLost", holder.completeMessage(message));
    await raises("SessionLockLost", holder.renewSessionLock());
    const other = await client.acceptSession(queue, "a");
    const messages = await receive(other, 3);
    assert.deepEqual(bodies(messages), ["a1", "a2", "a3"]);
    assert.equal(messages[0].deliveryCount, 1);
  },
);

check(
  "subscribe",
  "A handler gets the session's messages in order.",
  ["ServiceBusSessionReceiver.subscribe"],
  async (space) => {
    const queue = await queueWith(space, ["a", "b"]);
    const holder = await space.client.acceptSession(queue, "a");
    const seen = await new Promise((resolve, reject) => {
      const bodies = [];
      holder.subscribe({
        processMessage: async (message) => {
          if (bodies.push(message.body) === 3) resolve(bodies);
        },
        processError: async ({ error }) => reject(error),
      });
    });
    assert.deepEqual(seen, ["a1", "a2", "a3"]);
  },
);

check(
  "settle",
  "A session's holder abandons, defers, fetches and dead-letters; dead letters need no session.",
  ["ServiceBusClient.acceptSession", "ServiceBusClient.createReceiver"],
  async (space) => {
    const queue = await queueWith(space, ["a"]);
    const holder = await space.client.acceptSession(queue, "a");
    const [one] = await receive(holder);
    await holder.abandonMessage(one);
    const [first, second, third] = await receive(holder, 3);
    assert.deepEqual([first.body, first.deliveryCount], ["a1", 1]);
    await holder.deferMessage(first);
    await holder.deadLetterMessage(second, { deadLetterReason: "why" });
    await holder.completeMessage(third);
    const [deferred] = await holder.receiveDeferredMessages(first.sequenceNumber);
    assert.deepEqual([deferred.body, deferred.sessionId], ["a1", "a"]);
    await holder.completeMessage(deferred);
    const dead = space.client.createReceiver(queue, { subQueueType: "deadLetter" });
    const [letter] = await receive(dead);
    assert.deepEqual([letter.body, letter.sessionId], ["a2", "a"]);
    await dead.completeMessage(letter);
  },
);

check(
  "required",
  "Where sessions are required, messages and receivers without one are refused.",
  ["ServiceBusSender.sendMessages", "ServiceBusReceiver.receiveMessages"],
  async (space) => {
    const queue = await queueWith(space, []);
    const client = space.impatient();
    await raises(undefined, client.createSender(queue).sendMessages({ body: "x" }));
    const error = await raises(undefined, client.createReceiver(queue).receiveMessages(1));
    assert.match(error.message, /session/i);
  },
);

check(
  "ofSubscription",
  "A subscription's sessions are held by id, or as they come.",
  ["ServiceBusClient.acceptSession", "ServiceBusClient.acceptNextSession"],
  async (space) => {
    const topic = await space.topic();
    await space.admin.createSubscription(topic, "s", { requiresSession: true });
    await space.send(topic, { body: "a1", sessionId: "a" });
    await space.send(topic, { body: "b1", sessionId: "b" });
    const named = await space.client.acceptSession(topic, "s", "b");
    assert.deepEqual(await take(named), ["b1"]);
    const next = await space.client.acceptNextSession(topic, "s");
    assert.deepEqual([next.sessionId, await take(next)], ["a", ["a1"]]);
    await next.setSessionState("done");
    assert.equal(await next.getSessionState(), "done");
  },
);
