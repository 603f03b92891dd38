// What the checks share: entities of a check's own, notes of which methods it called, the runner.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { administration, clientOptions, connectionString, ServiceBusClient } from "./sdk.mjs";

export { assert };

/** Milliseconds in which a message that is there arrives, on a busy machine. */
export const WAIT = 10_000;
/** Milliseconds without a message after which there is none. */
export const QUIET = 2_000;
/** Milliseconds a check may take. */
const CHECK_MAX = 120_000;

/** What the methods return whose results are SDK objects themselves. */
const RETURNS = {
  createSender: "ServiceBusSender",
  createReceiver: "ServiceBusReceiver",
  acceptSession: "ServiceBusSessionReceiver",
  acceptNextSession: "ServiceBusSessionReceiver",
  createRuleManager: "ServiceBusRuleManager",
  createMessageBatch: "ServiceBusMessageBatch",
};

const bare = new WeakMap();

/** An object of the SDK that notes by name what of it is used. */
function noting(kind, thing, used) {
  const proxy = new Proxy(thing, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof name === "string") used.add(`${kind}.${name}`);
      if (typeof value !== "function") return value;
      return (...args) => {
        const result = value.apply(
          target,
          args.map((arg) => bare.get(arg) ?? arg),
        );
        const returns = RETURNS[name];
        if (!returns) return result;
        if (typeof result?.then === "function") {
          return result.then((thing) => noting(returns, thing, used));
        }
        return noting(returns, result, used);
      };
    },
  });
  bare.set(proxy, thing);
  return proxy;
}

/** What one check works with: clients that are closed after it, entities nobody else uses. */
export class Space {
  #clients = [];

  constructor(cluster, name) {
    this.cluster = cluster;
    // Service Bus has the names of queues in lower case.
    this.name = `${name.replace(".", "-")}-js-${randomBytes(3).toString("hex")}`.toLowerCase();
    this.used = new Set();
    this.admin = noting(
      "ServiceBusAdministrationClient",
      administration(cluster.http),
      this.used,
    );
    this.client = this.newClient();
  }

  newClient(options = {}) {
    const client = new ServiceBusClient(connectionString(this.cluster.amqp), {
      retryOptions: { retryDelayInMs: 500 },
      ...clientOptions(this.cluster),
      ...options,
    });
    this.#clients.push(client);
    return noting("ServiceBusClient", client, this.used);
  }

  /** A client that does not try again, for errors which the SDK takes for passing ones. */
  impatient(timeoutInMs = 20_000) {
    return this.newClient({ retryOptions: { maxRetries: 0, timeoutInMs } });
  }

  async queue(options = {}) {
    await this.admin.createQueue(this.name, options);
    return this.name;
  }

  /** A topic, with subscriptions that take everything. */
  async topic(...subscriptions) {
    await this.admin.createTopic(this.name);
    for (const subscription of subscriptions) {
      await this.admin.createSubscription(this.name, subscription);
    }
    return this.name;
  }

  /** A message for each body, in one batch. */
  async send(entity, ...messages) {
    const sender = this.client.createSender(entity);
    const whole = messages.map((message) =>
      typeof message === "string" ? { body: message } : message,
    );
    await sender.sendMessages(whole);
    await sender.close();
  }

  async close() {
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}

export const bodies = (messages) => messages.map((message) => message.body);

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Exactly so many messages, however many calls it takes. */
export async function receive(receiver, count = 1) {
  const messages = [];
  const until = Date.now() + 2 * WAIT;
  while (messages.length < count && Date.now() < until) {
    messages.push(
      ...(await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: WAIT })),
    );
  }
  assert.equal(messages.length, count, `${messages.length} messages arrived, not ${count}`);
  return messages;
}

/** The bodies of so many messages, completed. */
export async function take(receiver, count = 1) {
  const messages = await receive(receiver, count);
  for (const message of messages) await receiver.completeMessage(message);
  return bodies(messages);
}

export async function empty(receiver) {
  const messages = await receiver.receiveMessages(1, { maxWaitTimeInMs: QUIET });
  return messages.length === 0;
}

export async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The error the call ends with; of that code, if one is given. */
export async function raises(code, call) {
  let result;
  try {
    result = await call;
  } catch (error) {
    if (code !== undefined) assert.equal(error.code, code, `${error.code}: ${error.message}`);
    return error;
  }
  assert.fail(`${code ?? "an error"} was expected, not ${JSON.stringify(result)}`);
}

export const checks = [];

/** Registers the checks of a file: each proves some methods, all of which it has to call. */
export function checksOf(file) {
  return (name, says, methods, run) => {
    checks.push({ name: `${file}.${name}`, says, methods, run });
  };
}

async function runCheck(cluster, check) {
  const started = Date.now();
  let failure = null;
  let trace = "";
  let timer;
  const space = new Space(cluster, check.name);
  try {
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the check does not end")), CHECK_MAX);
    });
    await Promise.race([check.run(space), late]);
    const skipped = check.methods.filter((method) => !space.used.has(method));
    assert.deepEqual(skipped, [], `the check does not call ${skipped.join(", ")}`);
  } catch (error) {
    failure = `${error.code ?? error.name}: ${error.message}`.split("\n")[0].slice(0, 240);
    trace = error.stack ?? "";
  }
  clearTimeout(timer);
  // A client whose connection is in trouble may not close; its check has failed by then.
  await Promise.race([space.close().catch(() => {}), sleep(5_000)]);
  const { name, says, methods } = check;
  return { name, says, methods, failure, trace, seconds: (Date.now() - started) / 1000 };
}

/** Runs checks, so many beside each other. */
export async function runChecks(cluster, jobs, only) {
  const waiting = checks.filter((check) => !only || check.name.includes(only));
  const results = [];
  const worker = async () => {
    for (let check = waiting.shift(); check; check = waiting.shift()) {
      results.push(await runCheck(cluster, check));
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}
