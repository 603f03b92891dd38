// Faults on the message plane: what the SDK makes of them, and what is left behind.

import { assert, bodies, checksOf, empty, raises, receive } from "./harness.mjs";

const check = checksOf("faults");
/** Milliseconds a call is given that is not answered, the opening of its link on a busy machine included. */
const SHORT = 15_000;

async function ask(space, method, path, body) {
  const scheme = (process.env.MAYFLY_TRANSPORT ?? "plain") === "plain" ? "http" : "https";
  const answer = await fetch(`${scheme}://${space.cluster.http}/$faults${path}`, {
    method,
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${answer.status} ${text}`);
  return JSON.parse(text);
}

/** Has whoever does this with the check's own entity meet a fault while `run` runs. */
async function underFault(space, operation, effect, keys, run) {
  const name = `${space.name}-${operation}`;
  const rule = { operation, effect, entity: `${space.name}*`, ...keys };
  assert.deepEqual((await ask(space, "PUT", `/${name}`, rule)).silent, []);
  try {
    return await run(name);
  } finally {
    await ask(space, "DELETE", `/${name}`);
  }
}

async function stored(space) {
  const properties = await space.admin.getQueueRuntimeProperties(space.name);
  return properties.activeMessageCount;
}

check(
  "refused",
  "`refuse`: each error has the SDK's own code, and nothing is stored.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue();
    const sender = space.impatient().createSender(queue);
    for (const code of ["ServiceBusy", "QuotaExceeded", "MessageSizeExceeded", "GeneralError"]) {
      await underFault(space, "send", "refuse", { error: code }, async (name) => {
        const error = await raises(code, sender.sendMessages({ body: "x" }));
        assert.ok(error.message.includes(name), error.message);
      });
    }
    assert.equal(await stored(space), 0);
  },
);

check(
  "unanswered",
  "`lose-answer` of a send: ServiceTimeout, and the message is stored.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue();
    const sender = space.impatient(SHORT).createSender(queue);
    await underFault(space, "send", "lose-answer", {}, async () => {
      await raises("ServiceTimeout", sender.sendMessages({ body: "x" }));
    });
    assert.equal(await stored(space), 1);
  },
);

check(
  "withoutCredit",
  "`withhold-credit`: a sender waits until its time is over, and nothing is stored.",
  ["ServiceBusSender.sendMessages"],
  async (space) => {
    const queue = await space.queue();
    await underFault(space, "open-link", "withhold-credit", {}, async () => {
      const sender = space.impatient(SHORT).createSender(queue);
      await raises(undefined, sender.sendMessages({ body: "x" }));
    });
    assert.equal(await stored(space), 0);
  },
);

check(
  "lockLapses",
  "`lapse`: MessageLockLost for the completion, and the message comes again, counted.",
  ["ServiceBusReceiver.completeMessage"],
  async (space) => {
    const queue = await space.queue();
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    await underFault(space, "receive", "lapse", { time: "1s", hits: 1 }, async () => {
      const [message] = await receive(receiver);
      const [again] = await receive(receiver);
      assert.equal(again.deliveryCount, 1);
      await raises("MessageLockLost", receiver.completeMessage(message));
      await receiver.completeMessage(again);
    });
    assert.ok(await empty(receiver));
  },
);

check(
  "twice",
  "`refuse` of a completion: MessageLockLost, and the handler meets the message once more.",
  ["ServiceBusReceiver.completeMessage"],
  async (space) => {
    const queue = await space.queue({ lockDuration: "PT5S" });
    await space.send(queue, "x");
    const receiver = space.client.createReceiver(queue);
    const keys = { error: "MessageLockLost", hits: 1 };
    await underFault(space, "complete", "refuse", keys, async () => {
      const [message] = await receive(receiver);
      await raises("MessageLockLost", receiver.completeMessage(message));
      const [again] = await receive(receiver);
      assert.deepEqual([...bodies([again]), again.deliveryCount], ["x", 1]);
      await receiver.completeMessage(again);
    });
    assert.ok(await empty(receiver));
  },
);

check(
  "sessionRefused",
  "`refuse` of a session: SessionCannotBeLocked.",
  ["ServiceBusClient.acceptSession"],
  async (space) => {
    const queue = await space.queue({ requiresSession: true });
    const client = space.impatient();
    const keys = { error: "SessionCannotBeLocked" };
    await underFault(space, "accept-session", "refuse", keys, async () => {
      await raises("SessionCannotBeLocked", client.acceptSession(queue, "s"));
    });
    const receiver = await client.acceptSession(queue, "s");
    await receiver.close();
  },
);
