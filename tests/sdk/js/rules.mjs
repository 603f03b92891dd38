// Rules, as the rule manager has them over AMQP and the administration client over HTTP.

import { assert, checksOf, collect, raises, take } from "./harness.mjs";

const check = checksOf("rules");
const ADMIN = "ServiceBusAdministrationClient";
const MANAGER = "ServiceBusRuleManager";

check(
  "manager",
  "The rule manager lists, makes and deletes rules, which choose from then on.",
  [
    "ServiceBusClient.createRuleManager",
    `${MANAGER}.createRule`,
    `${MANAGER}.listRules`,
    `${MANAGER}.deleteRule`,
  ],
  async (space) => {
    const topic = await space.topic("s");
    const manager = space.client.createRuleManager(topic, "s");
    const [first] = await collect(manager.listRules());
    assert.equal(first.name, "$Default");
    assert.equal(first.filter.sqlExpression, "1=1");
    await manager.createRule(
      "sql",
      { sqlExpression: "price > 10" },
      { sqlExpression: "SET seen = true" },
    );
    const correlation = { subject: "news", applicationProperties: { level: 3 } };
    await manager.createRule("correlation", correlation);
    await manager.deleteRule("$Default");
    const rules = await collect(manager.listRules());
    assert.deepEqual(rules.map((rule) => rule.name).sort(), ["correlation", "sql"]);
    const named = Object.fromEntries(rules.map((rule) => [rule.name, rule]));
    assert.equal(named.sql.filter.sqlExpression, "price > 10");
    assert.equal(named.sql.action.sqlExpression, "SET seen = true");
    assert.equal(named.correlation.filter.subject, "news");
    assert.deepEqual(named.correlation.filter.applicationProperties, { level: 3 });
    await space.send(
      topic,
      { body: "dear", applicationProperties: { price: 11 } },
      { body: "cheap", applicationProperties: { price: 9 } },
      { body: "news", subject: "news", applicationProperties: { level: 3 } },
    );
    assert.deepEqual(await take(space.client.createReceiver(topic, "s"), 2), ["dear", "news"]);
  },
);

check(
  "managerRefused",
  "MessagingEntityAlreadyExists and MessagingEntityNotFound of rules.",
  [`${MANAGER}.createRule`, `${MANAGER}.deleteRule`],
  async (space) => {
    const topic = await space.topic("s");
    const manager = space.impatient().createRuleManager(topic, "s");
    const taken = manager.createRule("$Default", { sqlExpression: "1=1" });
    await raises("MessagingEntityAlreadyExists", taken);
    await raises("MessagingEntityNotFound", manager.deleteRule("missing"));
    await raises(undefined, manager.createRule("bad", { sqlExpression: "no expression" }));
  },
);

check(
  "managerMany",
  "A list of rules longer than a page is whole.",
  [`${MANAGER}.listRules`],
  async (space) => {
    const topic = await space.topic("s");
    const manager = space.client.createRuleManager(topic, "s");
    for (let n = 0; n < 120; n += 1) await manager.createRule(`r${n}`, { sqlExpression: "a = 1" });
    assert.equal((await collect(manager.listRules())).length, 121);
  },
);

check(
  "administration",
  "A rule is read as it was made, changed, listed and deleted.",
  [
    `${ADMIN}.createRule`,
    `${ADMIN}.getRule`,
    `${ADMIN}.updateRule`,
    `${ADMIN}.listRules`,
    `${ADMIN}.deleteRule`,
    `${ADMIN}.ruleExists`,
  ],
  async (space) => {
    const topic = await space.topic("s");
    const { admin } = space;
    const filter = {
      sqlExpression: "text = @text AND number > @number AND flag = @on AND at < @at",
      sqlParameters: { "@text": "a'b<&>", "@number": 5, "@on": true, "@at": new Date(1.9e12) },
    };
    const action = { sqlExpression: "SET number = 6" };
    const made = await admin.createRule(topic, "s", "sql", filter, action);
    const got = await admin.getRule(topic, "s", "sql");
    for (const rule of [made, got]) {
      assert.equal(rule.name, "sql");
      assert.deepEqual(rule.filter, filter);
      assert.equal(rule.action.sqlExpression, action.sqlExpression);
    }
    const correlation = {
      correlationId: "c",
      messageId: "m",
      to: "t",
      replyTo: "r",
      subject: "l",
      sessionId: "s",
      replyToSessionId: "rs",
      contentType: "text/plain",
      applicationProperties: { text: "x", number: 5, on: false },
    };
    await admin.createRule(topic, "s", "correlation", correlation);
    assert.deepEqual((await admin.getRule(topic, "s", "correlation")).filter, correlation);
    got.filter = { sqlExpression: "a = 1" };
    await admin.updateRule(topic, "s", got);
    assert.equal((await admin.getRule(topic, "s", "sql")).filter.sqlExpression, "a = 1");
    const names = (await collect(admin.listRules(topic, "s"))).map((rule) => rule.name);
    assert.deepEqual(names, ["$Default", "correlation", "sql"]);
    assert.ok(await admin.ruleExists(topic, "s", "sql"));
    await admin.deleteRule(topic, "s", "sql");
    assert.ok(!(await admin.ruleExists(topic, "s", "sql")));
    await raises("MessageEntityNotFoundError", admin.getRule(topic, "s", "sql"));
    const taken = admin.createRule(topic, "s", "correlation", correlation);
    await raises("MessageEntityAlreadyExistsError", taken);
  },
);
