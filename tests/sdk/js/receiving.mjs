// The three ways to receive: by call, by handler, by iterator.

import { assert, bodies, checksOf, empty, receive, sleep, take, WAIT } from "./harness.mjs";

const check = checksOf("receiving");
const TEXTS = Array.from({ length: 30 }, (_, n) => `${n}`.padStart(2, "0"));

async function until(what, holds) {
  for (const end = Date.now() + 2 * WAIT; Date.now() < end; await sleep(50)) {
    if (holds()) return;
  }
  assert.fail(`waited in vain for ${what}`);
}

check(
  "waiting",
  "A receiver gets what is sent while it waits, and nothing when nothing is.",
  ["ServiceBusReceiver.receiveMessages"],
  async (space) => {
    const queue = await space.queue();
    const receiver = space.client.createReceiver(queue);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 1000 }), []);
    const waits = receiver.receiveMessages(5, { maxWaitTimeInMs: 2 * WAIT });
    await sleep(500);
    await space.send(queue, "x");
    const messages = await waits;
    assert.deepEqual(bodies(messages), ["x"]);
    await receiver.completeMessage(messages[0]);
    assert.ok(await empty(receiver));
  },
);

check(
  "many",
  "Calls for some messages at a time get all of them, in order.",
  ["ServiceBusReceiver.receiveMessages"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, ...TEXTS);
    const receiver = space.client.createReceiver(queue);
    const seen = [];
    while (seen.length < TEXTS.length) seen.push(...(await take(receiver, 10)));
    assert.deepEqual(seen, TEXTS);
    assert.ok(await empty(receiver));
  },
);

check(
  "andDelete",
  "receiveAndDelete removes at once, by call and by handler.",
  ["ServiceBusReceiver.receiveMessages", "ServiceBusReceiver.subscribe"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "a", "b");
    const receiver = space.client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await receive(receiver, 2)), ["a", "b"]);
    await space.send(queue, "c", "d");
    const seen = [];
    receiver.subscribe({
      processMessage: async (message) => void seen.push(message.body),
      processError: async () => {},
    });
    await until("both messages", () => seen.length === 2);
    await receiver.close();
    assert.ok(await empty(space.client.createReceiver(queue)));
  },
);

check(
  "subscribe",
  "A handler gets every message, completed for it, several at a time.",
  ["ServiceBusReceiver.subscribe"],
  async (space) => {
    const queue = await space.queue();
    const receiver = space.client.createReceiver(queue);
    const seen = [];
    const errors = [];
    const subscription = receiver.subscribe(
      {
        processMessage: async (message) => {
          await sleep(20);
          seen.push(message.body);
        },
        processError: async ({ error }) => void errors.push(error),
      },
      { maxConcurrentCalls: 5 },
    );
    await space.send(queue, ...TEXTS);
    await until("all messages", () => seen.length === TEXTS.length);
    await sleep(500);
    await subscription.close();
    assert.deepEqual(errors, []);
    assert.deepEqual(seen.sort(), TEXTS);
    assert.ok(await empty(space.client.createReceiver(queue)));
  },
);

check(
  "subscribeFails",
  "A handler that throws abandons its message and is told so.",
  ["ServiceBusReceiver.subscribe"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    const counts = [];
    const sources = [];
    receiver.subscribe({
      processMessage: async (message) => {
        counts.push(message.deliveryCount);
        if (message.deliveryCount === 0) throw new Error("the first time");
      },
      processError: async ({ errorSource }) => void sources.push(errorSource),
    });
    await until("the second delivery", () => counts.length === 2);
    assert.deepEqual(counts, [0, 1]);
    assert.deepEqual(sources, ["processMessageCallback"]);
    await sleep(500);
    await receiver.close();
  },
);

check(
  "subscribeByHand",
  "A handler may settle by itself, and renews its locks while it works.",
  ["ServiceBusReceiver.subscribe", "ServiceBusReceiver.completeMessage"],
  async (space) => {
    const queue = await space.queue({ lockDuration: "PT5S" });
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    const results = [];
    receiver.subscribe(
      {
        processMessage: async (message) => {
          await sleep(9_000);
          await receiver.completeMessage(message);
          results.push("completed");
        },
        processError: async ({ error }) => void results.push(error.message),
      },
      { autoCompleteMessages: false },
    );
    await until("the message", () => results.length > 0);
    assert.deepEqual(results, ["completed"]);
    await receiver.close();
    assert.ok(await empty(space.client.createReceiver(queue)));
  },
);

check(
  "iterate",
  "An iterator gives every message, and waits for more.",
  ["ServiceBusReceiver.getMessageIterator"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, ...TEXTS.slice(0, 10));
    const receiver = space.client.createReceiver(queue);
    const seen = [];
    for await (const message of receiver.getMessageIterator()) {
      seen.push(message.body);
      await receiver.completeMessage(message);
      if (seen.length === 10) await space.send(queue, "last");
      if (seen.length === 11) break;
    }
    assert.deepEqual(seen, [...TEXTS.slice(0, 10), "last"]);
  },
);
