// What people do with the console, in Chromium. Each check says what it is about; the first that fails ends it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const modules = createRequire(join(process.env.MAYFLY_MODULES, "x.js"));
const { chromium } = modules("playwright-core");
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
const nodes = process.env.MAYFLY_NODES.split(" ").map((address) => `http://${address}`);
const secured = `http://${process.env.MAYFLY_SECURED_HTTP}`;
const at = process.argv.indexOf("--pictures");
const pictures = at < 0 ? null : process.argv[at + 1];
const HOSTILE = '<script>document.title = "owned"</script>';

const browser = await chromium.launch({ executablePath: process.env.MAYFLY_CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, bypassCSP: false });
const page = await context.newPage();
page.setDefaultTimeout(10_000);
const violations = [];
page.on("console", (message) => {
  if (/Content Security Policy/.test(message.text())) violations.push(message.text());
});

const go = (node, path) => page.goto(nodes[node - 1] + path);
const text = () => page.innerText("main");

async function check(name, does) {
  const begun = Date.now();
  await does();
  console.log(`ok  ${name} (${Date.now() - begun} ms)`);
}

// A context of its own, as our pages run no script but theirs.
const faults = [];
async function accessible(path, origin = nodes[0]) {
  for (const colorScheme of ["light", "dark"]) {
    const other = await browser.newContext({ bypassCSP: true, colorScheme, storageState: await context.storageState() });
    const seen = await other.newPage();
    await seen.goto(origin + path);
    await seen.evaluate(axe);
    // What is not about colours is the same in both.
    const rules = colorScheme === "dark" ? { runOnly: ["color-contrast"] } : {};
    const { violations: found } = await seen.evaluate((rules) => axe.run(rules), rules);
    const told = found.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
    faults.push(...told.map((fault) => `${path}, ${colorScheme}: ${fault}`));
    await other.close();
  }
}

// What the documentation shows; with --all, everything that is to be looked at after a change of style.
const SHOWN = ["overview-light-1280", "overview-dark-390", "messages-dark-1280", "messages-light-390", "message-light-1280",
  "filter-tester-light-1280"];

async function picture(name, path) {
  if (!pictures) return;
  for (const [width, theme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
    if (!process.argv.includes("--all") && !SHOWN.includes(`${name}-${theme}-${width}`)) continue;
    const other = await browser.newContext({ viewport: { width, height: width > 400 ? 800 : 844 }, colorScheme: theme });
    const seen = await other.newPage();
    await seen.goto(nodes[0] + path);
    const overflow = await seen.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${path} is ${overflow} px too wide at ${width}`);
    await seen.screenshot({ path: join(pictures, `console-${name}-${theme}-${width}.png`) });
    await other.close();
  }
}

async function sendOne(fields) {
  await go(1, `/console/send?queue=orders`);
  for (const [name, value] of Object.entries(fields)) await page.fill(`#${name}`, value);
  await page.click("button.primary");
  await page.waitForSelector(".done");
}

await check("the overview says what is wrong, and names nodes and groups", async () => {
  await go(1, "/console");
  await page.waitForSelector("#nodes");
  assert.match(await text(), /Nothing: every group has a leader/);
  assert.equal(await page.locator("section[aria-labelledby=nodes] tbody tr").count(), 3);
});

await check("a queue is created, and a wrong value is told with what was typed kept", async () => {
  await go(2, "/console/new?kind=queue");
  await page.fill("#name", "orders");
  await page.fill("#p-lock_duration", "soon");
  await page.click("button.primary");
  assert.match(await text(), /'soon' is no duration/);
  assert.equal(await page.inputValue("#name"), "orders");
  await page.fill("#p-lock_duration", "2m");
  await page.click("button.primary");
  await page.waitForURL(/entity\?queue=orders/);
  assert.match(await text(), /Created\./);
  assert.match(await text(), /2m/);
});

await check("messages are sent and shown, and hostile ones are only text", async () => {
  await sendOne({ body: '{"order": 4711, "lines": [{"sku": "A-1", "count": 2}]}', message_id: "m-1",
    content_type: "application/json", subject: "placed", properties: "color: string = red\nquantity: int = 7" });
  await sendOne({ body: HOSTILE, message_id: HOSTILE, subject: HOSTILE, properties: `${"x"}: string = ${HOSTILE}` });
  for (let n = 3; n < 9; n++) {
    await sendOne({ body: `order ${n}`, message_id: `m-${n}`, subject: "placed", properties: `color: string = blue\nquantity: int = ${n}` });
  }
  await go(3, "/console/messages?queue=orders");
  assert.equal(await page.locator("tbody tr").count(), 8);
  await page.locator("tbody th a").nth(1).click();
  await page.waitForSelector("#body");
  assert.ok((await text()).includes(HOSTILE));
  assert.ok(!(await page.title()).includes("owned"));
  assert.equal(await page.locator("main script").count(), 0);
  await go(3, "/console/messages?queue=orders");
  await page.locator("tbody th a").first().click();
  await page.waitForSelector("#body");
  assert.match(await text(), /"order": 4711/);
  assert.match(await page.textContent("main"), /7b 22 6f 72 64 65 72/);
});

await check("a search finds by id and by property, and says how far it looked", async () => {
  await go(1, "/console/messages?queue=orders&id=m-5");
  assert.equal(await page.locator("tbody tr").count(), 1);
  assert.match(await text(), /Looked at 8 messages/);
  await go(1, "/console/messages?queue=orders&property=color&value=blue");
  assert.equal(await page.locator("tbody tr").count(), 6);
});

await check("the history of a message is on its page and found by its id, also once it is gone", async () => {
  await go(2, "/console/new?kind=queue");
  await page.fill("#name", "brief");
  await page.click("button.primary");
  await page.waitForURL(/entity\?queue=brief/);
  await go(2, "/console/send?queue=brief");
  await page.fill("#body", "x");
  await page.fill("#message_id", HOSTILE);
  await page.click("button.primary");
  await page.waitForSelector(".done");
  await go(3, "/console/messages?queue=brief");
  await page.locator("tbody th a").first().click();
  await page.waitForSelector("#history");
  const steps = () => page.locator("[aria-label=Steps] tbody tr").allInnerTexts();
  assert.match((await steps()).join(), /accepted by brief as number 1/);
  await go(1, "/console/purge?queue=brief");
  await page.fill("#typed", "1");
  await page.click("button.danger");
  await go(1, "/console/entity?queue=brief");
  await page.click("nav.tabs >> text=History");
  await page.fill("#id", HOSTILE);
  await page.click("form.search button");
  await page.waitForSelector("[aria-label=Steps]");
  const told = await steps();
  assert.equal(told.length, 2, told.join("; "));
  assert.match(told[1], /deleted by a batch delete/);
  assert.ok(told[0].includes(HOSTILE) && !(await page.title()).includes("owned"));
  await page.fill("#id", "no-such");
  await page.click("form.search button");
  await page.waitForSelector("text=Nothing is recorded of it");
});

await check("the filter tester says which match and why the others do not", async () => {
  await go(1, "/console/filter-tester?queue=orders");
  await page.fill("#expression", "color = 'red' AND quantity > 5");
  await page.click("button.primary");
  assert.match(await text(), /1 of 8 messages match/);
  assert.match(await text(), /color is 'blue'/);
  await page.fill("#expression", "color = ");
  await page.click("button.primary");
  assert.equal(await page.locator("p.wrong").count(), 1);
});

await check("pages are accessible in both themes", async () => {
  for (const path of ["/console", "/console/queues", "/console/entity?queue=orders", "/console/messages?queue=orders",
    "/console/send?queue=orders", "/console/filter-tester?queue=orders&expression=1%3D1", "/console/purge?queue=orders",
    "/console/development", "/console/new?kind=topic", "/console/connections",
    "/console/connections/close?id=1-000000-1",
    "/console/history?queue=orders&by=number&id=1", "/console/sessions?queue=orders",
    "/console/filter-tester", "/console/delete?queue=orders"]) await accessible(path);
  await accessible("/console/sign-in", secured);
  assert.deepEqual(faults, []);
});

const address = await (async () => {
  await go(1, "/console/messages?queue=orders");
  return page.locator("tbody th a").first().getAttribute("href");
})();
for (const [name, path] of [["overview", "/console"], ["messages", "/console/messages?queue=orders"], ["message", address],
  ["filter-tester", "/console/filter-tester?queue=orders&expression=color+%3D+%27red%27+AND+quantity+%3E+5"]]) {
  await picture(name, path);
}

await check("connections are listed, and one is closed behind a question", async () => {
  await go(2, "/console/connections");
  const row = page.locator("tbody tr", { hasText: "HTTP" }).first();
  const id = await row.locator("th").innerText();
  await row.getByRole("link", { name: "Close" }).click();
  assert.match(await text(), new RegExp(`Close connection ${id}`));
  await page.getByRole("link", { name: "Do nothing" }).click();
  assert.match(await text(), new RegExp(id));
  await go(2, `/console/connections/close?id=${id}`);
  await page.getByRole("button", { name: "Close it" }).click();
  await page.waitForURL(/connections\?done=/);
  assert.match(await text(), /The connection is told to end\./);
  await page.waitForFunction((id) => !document.querySelector("main").innerText.includes(id), id);
});

await check("a form without the session's token, or from elsewhere, does nothing", async () => {
  for (const [headers, token] of [[{}, ""], [{ Origin: "https://evil.example" }, await (async () => {
    await go(1, "/console/new?kind=queue");
    return page.inputValue("main input[name=form-token]");
  })()]]) {
    const answer = await context.request.post(`${nodes[0]}/console/new`, { headers,
      form: { "form-token": token, kind: "queue", name: "forged" } });
    assert.equal(answer.status(), 403);
  }
  const found = await context.request.get(`${nodes[0]}/console/entity?queue=forged`);
  assert.equal(found.status(), 404);
});

await check("dead letters are resubmitted, edited and deleted", async () => {
  await go(1, "/console/new?kind=queue");
  await page.fill("#name", "late");
  await page.selectOption("#p-dead_letter_on_expiration", "true");
  await page.click("button.primary");
  for (const id of ["a", "b", "c"]) {
    await go(1, "/console/send?queue=late");
    for (const [field, value] of [["body", "as it was"], ["message_id", id], ["ttl", "200ms"], ["properties", "size: int = 1"]]) {
      await page.fill(`#${field}`, value);
    }
    await page.click("button.primary");
  }
  const dead = "/console/messages?queue=late&part=dead-letter";
  const waitFor = async (count) => {
    const until = Date.now() + 10_000;
    do await go(1, dead); while ((await page.locator("tbody tr").count()) !== count && Date.now() < until);
    assert.equal(await page.locator("tbody tr").count(), count);
  };
  await waitFor(3);
  assert.match(await text(), /TTLExpiredException: 3/);
  await page.check("tbody tr:nth-child(1) input");
  await page.click("text=Delete chosen");
  await page.click("main button.danger");
  assert.match(await text(), /1 of 1 messages were deleted/);
  await waitFor(2);
  await page.locator("tbody th a").first().click();
  await page.click("text=Edit and resubmit");
  assert.equal(await page.inputValue("#body"), "as it was");
  assert.match(await page.inputValue("#properties"), /size: int = 1/);
  await page.fill("#body", "as it should be");
  await page.fill("#ttl", "1h");
  await page.click("button.primary");
  assert.match(await text(), /1 of 1 messages were sent again/);
  await waitFor(1);
  await page.check("tbody input");
  await page.click("text=Resubmit chosen");
  await page.click("main button.primary");
  assert.match(await text(), /1 of 1 messages were sent again/);
  await go(1, "/console/messages?queue=late&id=b");
  assert.match(await text(), /as it should be/);
});

async function create(kind, name, more = {}) {
  await go(1, `/console/new?${new URLSearchParams({ kind, ...(more.topic ? { topic: more.topic } : {}) })}`);
  await page.fill("#name", name);
  for (const [field, value] of Object.entries(more.chosen ?? {})) await page.selectOption(`#${field}`, value);
  await page.click("button.primary");
  await page.waitForURL(/console\/entity/);
}

await check("sessions are listed with what they hold, and lead to their messages", async () => {
  await create("queue", "baskets", { chosen: { "p-requires_session": "true" } });
  for (const [session, body] of [["alice", "one"], ["alice", "two"], [HOSTILE, "three"]]) {
    await go(1, "/console/send?queue=baskets");
    await page.fill("#session_id", session);
    await page.fill("#body", body);
    await page.click("button.primary");
    await page.waitForSelector(".done");
  }
  await go(3, "/console/entity?queue=baskets");
  await page.click("nav.tabs >> text=Sessions");
  const row = page.locator("[aria-label=Sessions] tbody tr", { hasText: "alice" });
  assert.match(await row.innerText(), /^alice\s+2\s+0\s/);
  assert.match(await row.innerText(), /nobody holds it/);
  assert.ok((await text()).includes(HOSTILE) && !(await page.title()).includes("owned"));
  await row.getByRole("link", { name: "alice" }).click();
  await page.waitForURL(/session=alice/);
  assert.equal(await page.locator("[aria-label=Messages] tbody tr, main table tbody tr").count(), 2);
});

await check("rules of a subscription are added, tried on its messages, refused with a reason, and removed", async () => {
  await create("topic", "news");
  await create("subscription", "mail", { topic: "news" });
  for (const color of ["red", "blue"]) {
    await go(1, "/console/send?topic=news");
    await page.fill("#body", color);
    await page.fill("#properties", `color: string = ${color}`);
    await page.click("button.primary");
    await page.waitForSelector(".done");
  }
  await go(2, "/console/rules?topic=news&subscription=mail");
  assert.match(await text(), /\$Default/);
  await page.fill("#rule", "reds");
  await page.fill("#filter", "color = ");
  await page.click("button.primary");
  assert.ok((await page.locator(".wrong").count()) > 0, "a filter that is none is refused with a reason");
  await go(2, "/console/rules?topic=news&subscription=mail");
  await page.fill("#rule", "reds");
  await page.fill("#filter", "color = 'red'");
  await page.click("button.primary");
  await page.waitForSelector(".done");
  const row = page.locator("[aria-label=Rules] tbody tr", { hasText: "reds" });
  await row.getByRole("link", { name: "Test" }).click();
  await page.waitForURL(/filter-tester/);
  assert.match(await text(), /1 of 2 messages match/);
  assert.match(await text(), /color is 'blue'/);
  await go(2, "/console/rules?topic=news&subscription=mail");
  // Who thinks better of it removes nothing.
  page.once("dialog", (dialog) => dialog.dismiss());
  await row.getByRole("button", { name: "Remove" }).click();
  assert.equal(await row.count(), 1);
  page.once("dialog", (dialog) => dialog.accept());
  await row.getByRole("button", { name: "Remove" }).click();
  await page.waitForSelector(".done");
  assert.equal(await row.count(), 0);
});

await check("a fault is added, met, counted and removed, and a wrong one is refused with a reason", async () => {
  await go(1, "/console/development");
  await page.fill("#name", "busy");
  await page.fill("#rule", '{"operation": "send", "entity": "baskets", "effect": "teleport"}');
  await page.click("section[aria-labelledby=faults] form:has(#rule) button");
  assert.match(await text(), /teleport/);
  await go(1, "/console/development");
  await page.fill("#name", "busy");
  await page.fill("#rule", '{"operation": "send", "entity": "baskets", "effect": "refuse", "error": "ServiceBusy", "protocol": "http"}');
  await page.click("section[aria-labelledby=faults] form:has(#rule) button");
  await page.waitForSelector(".done");
  const send = () => context.request.post(`${nodes[0]}/baskets/messages`, { data: "x",
    headers: { "BrokerProperties": '{"SessionId": "bob"}', "Content-Type": "text/plain" } });
  assert.equal((await send()).status(), 429);
  const row = page.locator("[aria-label=Faults] tbody tr", { hasText: "busy" });
  await go(2, "/console/development");
  assert.match(await row.innerText(), /\s1\s+1\s/);
  await row.getByRole("button", { name: "Remove" }).click();
  await page.waitForSelector(".done");
  assert.equal(await row.count(), 0);
  assert.equal((await send()).status(), 201);
});

await check("the clock is moved ahead behind a question, and never by nonsense", async () => {
  await go(1, "/console/development");
  const move = page.locator("section[aria-labelledby=clock] button");
  const time = async () => Date.parse(`${(await page.locator("section[aria-labelledby=clock] time").innerText()).replace(" ", "T")}Z`);
  const before = await time();
  page.once("dialog", (dialog) => dialog.dismiss());
  await page.fill("#by", "30s");
  await move.click();
  await go(1, "/console/development");
  assert.ok(!/moved ahead/.test(await text()), "who thinks better of it moves nothing");
  page.once("dialog", (dialog) => dialog.accept());
  await page.fill("#by", "soon");
  await move.click();
  assert.match(await text(), /'soon' is no duration/);
  await go(1, "/console/development");
  page.once("dialog", (dialog) => dialog.accept());
  await page.fill("#by", "30s");
  await move.click();
  await page.waitForSelector(".done");
  assert.match(await text(), /moved ahead by 30s/);
  assert.ok((await time()) - before >= 30_000);
});

await check("the keyboard leads to the content, along the navigation, and through a form", async () => {
  await go(1, "/console/queues");
  const press = async (key, times = 1) => { for (let n = 0; n < times; n++) await page.keyboard.press(key); };
  const focused = () => page.evaluate(() => {
    const seen = document.activeElement;
    const outline = getComputedStyle(seen);
    return { text: seen.innerText, isSeen: outline.outlineStyle !== "none" || outline.boxShadow !== "none" };
  });
  await press("Tab");
  assert.match((await focused()).text, /To the content/);
  await press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "prefix");
  await page.keyboard.type("bas");
  await press("Enter");
  await page.waitForURL(/prefix=bas/);
  assert.equal(await page.locator("#list tbody tr").count(), 1);
  await press("Tab", 4);
  assert.deepEqual(await focused(), { text: "Queues", isSeen: true });
});

await check("every part answers while a node dies", async () => {
  await go(1, "/console/queues");
  process.stdout.write("kill 3\n");
  await once(process.stdin, "data");
  const until = Date.now() + 6_000;
  let slowest = 0;
  let rounds = 0;
  while (Date.now() < until) {
    for (const path of ["/console", "/console/queues", "/console/messages?queue=orders", "/console/filter-tester?queue=orders&expression=1%3D1",
      "/console/history?queue=orders&by=number&id=1"]) {
      const begun = Date.now();
      await go(1 + (rounds % 2), path);
      slowest = Math.max(slowest, Date.now() - begun);
      const shown = await text();
      assert.ok(shown.length > 40, `${path} is blank`);
    }
    rounds += 1;
  }
  assert.ok(rounds > 0 && slowest < 8_000, `the slowest page took ${slowest} ms`);
  await go(1, "/console/messages?queue=orders");
  assert.equal(await page.locator("tbody tr").count(), 8, "nothing is lost");
  console.log(`    ${rounds} rounds, the slowest page ${slowest} ms`);
});

await check("a purge says how many, asks, and deletes no more than that", async () => {
  await go(1, "/console/purge?queue=orders");
  assert.match(await text(), /8 messages/);
  await page.fill("#typed", "7");
  await page.click("button.danger");
  assert.match(await text(), /nothing was deleted/);
  await go(1, "/console/purge?queue=orders");
  await page.fill("#typed", "8");
  await page.click("button.danger");
  assert.match(await text(), /8 messages of 8 were deleted/);
});

await check("whoever has a key signs in, sees what it may, and is out again", async () => {
  await page.goto(`${secured}/console/queues`);
  await page.waitForURL(/sign-in/);
  await page.fill("#key", "a wrong one");
  await page.click("button.primary");
  assert.match(await text(), /not that of key/);
  await page.fill("#name", "listener");
  await page.fill("#key", process.env.MAYFLY_SECURED_LISTENER);
  await page.click("button.primary");
  await page.waitForURL(/console\/queues/);
  assert.match(await text(), /has no right 'Manage'/);
  assert.equal(await page.locator("header a[href='/console/queues']").count(), 0, "not offered");
  await page.click("text=Sign out");
  await page.waitForURL(/sign-in/);
  await page.fill("#key", process.env.MAYFLY_SECURED_KEY);
  await page.click("button.primary");
  await page.waitForSelector("#overview");
  assert.match(await text(), /Nodes/);
});

await check("over TLS one signs in with a connection string, and the cookie goes nowhere else", async () => {
  const origin = secured.replace("http:", "https:");
  const other = await browser.newContext({ ignoreHTTPSErrors: true });
  const seen = await other.newPage();
  await seen.goto(`${origin}/console`);
  await seen.waitForURL(/^https:.*sign-in/);
  await seen.fill("#key", `Endpoint=sb://localhost/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=${process.env.MAYFLY_SECURED_KEY}`);
  await seen.click("button.primary");
  await seen.waitForSelector("#overview");
  const cookies = await other.cookies(`${origin}/console`);
  assert.equal(cookies.length, 1);
  const [{ secure, httpOnly, sameSite }] = cookies;
  assert.deepEqual({ secure, httpOnly, sameSite }, { secure: true, httpOnly: true, sameSite: "Strict" });
  await seen.click("text=Sign out");
  await seen.waitForURL(/^https:.*sign-in/);
  await other.close();
});

assert.deepEqual(violations, [], "the browser refused to run something");
await browser.close();
process.exit(0);
