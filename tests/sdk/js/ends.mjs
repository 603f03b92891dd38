// What one program of the JS SDK meets while the node it is connected to ends, dies or stands still: the same as
// `python/ends.py`, which says what is told.

import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { sleep } from "./harness.mjs";
import { administration, connectionString, ServiceBusClient } from "./sdk.mjs";

const LOCK = "PT60S";
const DELIVERIES_MAX = 2;
/** Milliseconds between two calls of a kind. */
const PAUSE = 50;
/** Milliseconds one call for messages may take. */
const WAIT = 5_000;
/** Milliseconds between two looks whether something is free. */
const LOOK = 50;
const QUEUES = ["work", "renewed", "held", "later"];
const SESSIONS = "sessions";
/** See `failover.mjs`. */
const RETRIES = { maxRetries: 10, retryDelayInMs: 1_000, timeoutInMs: 5_000 };
const LOST = ["MessageLockLost", "SessionLockLost"];

const { values } = parseArgs({
  options: {
    amqp: { type: "string" },
    elsewhere: { type: "string" },
    http: { type: "string" },
    queues: { type: "string" },
    json: { type: "string" },
  },
});
const name = (queue) => `${values.queues}-${queue}`;

const calls = {};
const lost = {};
const failed = {};
const found = { session_ms: null, message_ms: null, deliveries: null };
let ending = false;
let beganAt = 0;
let begin;
const began = new Promise((resolve) => (begin = resolve));
const clients = [];

function client(address = values.amqp, retryOptions = RETRIES) {
  const made = new ServiceBusClient(connectionString(address), { retryOptions });
  clients.push(made);
  return made;
}

/** Whether it was done, and what came of it. */
async function attempt(kind, call) {
  calls[kind] = (calls[kind] ?? 0) + 1;
  try {
    return [true, await call()];
  } catch (tries) {
    const error = tries.errors?.at(-1) ?? tries;
    // A session goes with its connection, and the SDK says so by either error.
    if (LOST.includes(error.code) || (kind.startsWith("session") && error.retryable)) {
      lost[kind] = (lost[kind] ?? 0) + 1;
    } else {
      const text = `${error.code ?? error.name} ${error.message}`.split("\n")[0].slice(0, 100);
      failed[kind] ??= {};
      failed[kind][text] = (failed[kind][text] ?? 0) + 1;
    }
    return [false];
  }
}

async function repeat(turn) {
  while (!ending) {
    await turn();
    await sleep(PAUSE);
  }
}

async function send() {
  const sender = client().createSender(name("work"));
  await repeat(() => attempt("send", () => sender.sendMessages({ body: "m" })));
}

async function receive() {
  const receiver = client().createReceiver(name("work"));
  await repeat(async () => {
    const options = { maxWaitTimeInMs: WAIT };
    const [, messages] = await attempt("receive", () => receiver.receiveMessages(10, options));
    for (const message of messages ?? []) {
      await attempt("complete", () => receiver.completeMessage(message));
    }
  });
}

async function renew() {
  const receiver = client().createReceiver(name("renewed"), { maxAutoLockRenewalDurationInMs: 0 });
  let held = [];
  await repeat(async () => {
    if (held.length === 0) {
      const options = { maxWaitTimeInMs: WAIT };
      const [, messages] = await attempt("receive", () => receiver.receiveMessages(1, options));
      held = messages ?? [];
    } else {
      const [isRenewed] = await attempt("renew", () => receiver.renewMessageLock(held[0]));
      if (!isRenewed) held = [];
    }
  });
}

async function schedule() {
  const sender = client().createSender(name("later"));
  await repeat(async () => {
    const at = new Date(Date.now() + 3_600_000);
    const [isScheduled, numbers] = await attempt("schedule", () =>
      sender.scheduleMessages({ body: "m" }, at),
    );
    if (isScheduled) await attempt("cancel", () => sender.cancelScheduledMessages(numbers));
  });
}

async function peek() {
  const receiver = client().createReceiver(name("later"));
  await repeat(() => attempt("peek", () => receiver.peekMessages(1)));
}

/** Its state, by one holder after the other. */
async function session() {
  const own = client();
  await repeat(async () => {
    const accept = () => own.acceptSession(name(SESSIONS), "own", { maxAutoLockRenewalDurationInMs: 0 });
    let [isHeld, receiver] = await attempt("session accept", accept);
    while (isHeld && !ending) {
      [isHeld] = await attempt("session state", () => receiver.setSessionState("s"));
      if (isHeld) [isHeld] = await attempt("session renew", () => receiver.renewSessionLock());
      await sleep(PAUSE);
    }
    await receiver?.close().catch(() => {});
  });
}

/** One message and one session, until the end. */
async function hold() {
  const options = { maxAutoLockRenewalDurationInMs: 0 };
  const receiver = client().createReceiver(name("held"), options);
  const messages = await receiver.receiveMessages(1, { maxWaitTimeInMs: 30_000 });
  await client().acceptSession(name(SESSIONS), "held", options);
  found.held = messages.length;
  while (!ending) await sleep(LOOK);
  [found.settled] = await attempt("settle", () => receiver.completeMessage(messages[0]));
}

const since = () => Date.now() - beganAt;

async function lookForSession() {
  const looking = client(values.elsewhere, { ...RETRIES, maxRetries: 0 });
  await began;
  while (!ending) {
    try {
      await looking.acceptSession(name(SESSIONS), "held");
      // At the end its holder lets go of it.
      if (!ending) found.session_ms = since();
      return;
    } catch {
      await sleep(LOOK);
    }
  }
}

async function lookForMessage() {
  const receiver = client(values.elsewhere).createReceiver(name("held"));
  await began;
  while (!ending) {
    for (const message of await receiver.receiveMessages(1, { maxWaitTimeInMs: WAIT })) {
      Object.assign(found, { message_ms: since(), deliveries: message.deliveryCount });
      await receiver.completeMessage(message);
      return;
    }
  }
}

const admin = administration(values.http);
for (const queue of [...QUEUES, SESSIONS]) {
  await admin.createQueue(name(queue), {
    lockDuration: LOCK,
    maxDeliveryCount: DELIVERIES_MAX,
    requiresSession: queue === SESSIONS,
  });
}
for (const queue of ["renewed", "held"]) {
  await client().createSender(name(queue)).sendMessages({ body: "m" });
}
const work = [send, receive, renew, schedule, peek, session, hold].map((each) => each());
const kinds = ["send", "complete", "renew", "cancel", "peek", "session renew"];
while (!(kinds.every((kind) => calls[kind]) && found.held)) await sleep(LOOK);
work.push(lookForSession(), lookForMessage());
const input = createInterface({ input: process.stdin });
const closed = new Promise((resolve) => input.once("close", resolve));
input.once("line", () => {
  beganAt = Date.now();
  begin();
});
writeFileSync(values.json.replace(/json$/, "started"), "");
await closed;
ending = true;
await Promise.all(work);
let dead = 0;
for (const queue of [...QUEUES, SESSIONS]) {
  dead += (await admin.getQueueRuntimeProperties(name(queue))).deadLetterMessageCount;
}
writeFileSync(values.json, JSON.stringify({ ...found, dead, calls, lost, failed }));
process.exit(0);
