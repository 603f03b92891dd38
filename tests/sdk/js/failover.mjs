// Sends and receives over the JS SDK until its input ends, then gives account: the same program as
// `python/failover.py`, which says what is counted.

import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { sleep } from "./harness.mjs";
import { administration, connectionString, ServiceBusClient } from "./sdk.mjs";

const LOCK = "PT20S";
/** Milliseconds between two messages of a sender. */
const PAUSE = 10;
/** Milliseconds without a message after which there is none left. */
const QUIET = 3_000;
/** Milliseconds the last messages may take. */
const DRAIN_MAX = 90_000;
/**
 * Unless it is told otherwise, the SDK waits 60 s for the answer to what it sent on a connection that
 * is gone, and 30 s between two tries.
 */
const RETRIES = { maxRetries: 10, retryDelayInMs: 1_000, timeoutInMs: 5_000 };

const { values } = parseArgs({
  options: {
    amqp: { type: "string" },
    http: { type: "string" },
    queue: { type: "string" },
    "detect-duplicates": { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const detectsDuplicates = values["detect-duplicates"];

const acknowledged = new Set();
const unanswered = new Set();
/** By name of the message: the numbers it was received under. */
const numbers = new Map();
const completed = new Set();
/** By number: completions that found no lock. */
const unconfirmed = new Set();
const errors = {};
let completedAgain = 0;
let deliveredAgain = 0;
/** Of those, messages that came again: the lock had gone with the receiver's node (LOCK-28). */
let givenBack = 0;
let longestSend = 0;
let lastDelivery = Date.now();
let stopping = false;

/** What the last of the SDK's tries ended with: of several it makes one error. */
const lastOf = (error) => error.errors?.at(-1) ?? error;

/**
 * Of a connection whose node dies before it is open, behind the forwarding port. The library beneath the SDK
 * gives it no code, so that the SDK does not mark it; the handler's receiver opens another all the same.
 */
const DIED_OPENING = "Failed to connect";

function failed(doing, error) {
  const passes = error.retryable || (doing === "receive" && error.message === DIED_OPENING);
  const kind = passes ? "retryable" : "final";
  const text = ` ${error.message.slice(0, 70)}`;
  const line = `${kind} ${doing}: ${error.code ?? error.name}${text}`;
  errors[line] = (errors[line] ?? 0) + 1;
}

const lost = () => [...acknowledged].filter((name) => !numbers.has(name));

async function send(sender) {
  const run = randomBytes(4).toString("hex");
  for (let n = 0; !stopping; n += 1) {
    const name = `${run}-${n}`;
    const began = Date.now();
    try {
      await sender.sendMessages({ body: name, messageId: name });
      acknowledged.add(name);
    } catch (error) {
      unanswered.add(name);
      failed("send", lastOf(error));
    }
    longestSend = Math.max(longestSend, Date.now() - began);
    await sleep(PAUSE);
  }
}

/** By handler: it is what the SDK itself brings back after a connection is gone. */
function receive(receiver) {
  receiver.subscribe(
    {
      processMessage: async (message) => {
        const name = message.messageId;
        const number = message.sequenceNumber.toString();
        const known = numbers.get(name) ?? new Set();
        lastDelivery = Date.now();
        completedAgain += completed.has(number);
        deliveredAgain += known.has(number);
        numbers.set(name, known.add(number));
        givenBack += unconfirmed.delete(number);
        try {
          await receiver.completeMessage(message);
          completed.add(number);
        } catch (tries) {
          const error = lastOf(tries);
          if (error.code === "MessageLockLost") unconfirmed.add(number);
          else failed("complete", error);
        }
      },
      processError: async ({ error }) => failed("receive", lastOf(error)),
    },
    { autoCompleteMessages: false, maxConcurrentCalls: 20 },
  );
}

function summary(left) {
  const foreign = [...numbers.keys()].filter(
    (name) => !acknowledged.has(name) && !unanswered.has(name),
  );
  const account = {
    acknowledged: acknowledged.size,
    unanswered: unanswered.size,
    received: numbers.size,
    lost: lost().length,
    foreign: foreign.length,
    left,
    completed_again: completedAgain,
    unconfirmed: unconfirmed.size,
    given_back: givenBack,
    delivered_again: deliveredAgain,
    stored_twice: [...numbers.values()].filter((known) => known.size > 1).length,
    longest_send: `${(longestSend / 1000).toFixed(1)} s`,
    errors,
  };
  const wrong = ["lost", "foreign", "left", "completed_again"];
  if (detectsDuplicates) wrong.push("stored_twice");
  const reasons = wrong.filter((name) => account[name]).map((name) => `${account[name]} ${name}`);
  reasons.push(...Object.keys(errors).filter((line) => line.startsWith("final")));
  if (acknowledged.size === 0) reasons.push("nothing was sent");
  return { ...account, failure: reasons.join("; ") || null };
}

const admin = administration(values.http);
await admin.createQueue(values.queue, {
  lockDuration: LOCK,
  maxDeliveryCount: 100,
  requiresDuplicateDetection: detectsDuplicates,
});
const input = new Promise((resolve) => process.stdin.resume().on("end", resolve));
const clients = [];
const senders = [];
for (const address of values.amqp.split(",")) {
  const client = new ServiceBusClient(connectionString(address), { retryOptions: RETRIES });
  clients.push(client);
  senders.push(send(client.createSender(values.queue)));
  receive(client.createReceiver(values.queue, { maxAutoLockRenewalDurationInMs: 0 }));
}
while (numbers.size === 0) await sleep(50);
writeFileSync(values.json.replace(/json$/, "started"), "");
await input;
stopping = true;
await Promise.all(senders);
const left = async () =>
  (await admin.getQueueRuntimeProperties(values.queue)).totalMessageCount ?? 0;
// Also for what a receiver held whose connection died: it comes again when its lock has lapsed.
for (const end = Date.now() + DRAIN_MAX; Date.now() < end; await sleep(500)) {
  const isQuiet = Date.now() - lastDelivery > QUIET;
  if (isQuiet && lost().length === 0 && (await left()) === 0) break;
}
writeFileSync(values.json, JSON.stringify(summary(await left())));
await Promise.race([Promise.all(clients.map((client) => client.close())), sleep(5_000)]);
process.exit(0);
