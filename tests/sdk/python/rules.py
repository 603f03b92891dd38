"""Rules as the administration client makes, reads, changes and deletes them."""

import datetime
from datetime import timedelta

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from harness import Space, check, collect, equal, raises

ADMIN = "ServiceBusAdministrationClient"


@check(f"{ADMIN}.list_rules", f"{ADMIN}.get_rule", f"{ADMIN}.delete_rule")
async def default(space: Space) -> None:
    """A new subscription has one rule, which takes everything and can be deleted."""
    topic = await space.topic("s")
    admin = await space.admin()
    [rule] = await collect(await admin.list_rules(topic, "s"))
    equal(rule.name, "$Default")
    assert isinstance(rule.filter, TrueRuleFilter), rule.filter
    rule = await admin.get_rule(topic, "s", "$Default")
    equal((rule.name, rule.action), ("$Default", None))
    await admin.delete_rule(topic, "s", "$Default")
    equal(await collect(await admin.list_rules(topic, "s")), [])


@check(f"{ADMIN}.create_rule", f"{ADMIN}.get_rule")
async def sql(space: Space) -> None:
    """A SQL filter with parameters of every type, and an action, are read as they were made."""
    topic = await space.topic("s")
    admin = await space.admin()
    parameters = {
        "@text": "a'b<&>",
        "@int": 5,
        "@large": 2**40,
        "@half": 0.5,
        "@on": True,
        "@at": datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        "@span": timedelta(hours=1),
    }
    made = await admin.create_rule(
        topic,
        "s",
        "rule",
        filter=SqlRuleFilter("text = @text AND number > @int", parameters),
        action=SqlRuleAction("SET number = @int", {"@int": 5}),
    )
    got = await admin.get_rule(topic, "s", "rule")
    for rule in (made, got):
        equal(rule.name, "rule")
        assert type(rule.filter) is SqlRuleFilter, rule.filter
        equal(rule.filter.sql_expression, "text = @text AND number > @int")
        equal(rule.filter.parameters, parameters)
        equal(rule.action.sql_expression, "SET number = @int")
        equal(rule.action.parameters, {"@int": 5})
    age = datetime.datetime.now(datetime.timezone.utc) - got.created_at_utc
    assert abs(age) < timedelta(minutes=5), age


@check(f"{ADMIN}.create_rule", f"{ADMIN}.get_rule")
async def correlation(space: Space) -> None:
    """A correlation filter is read as it was made."""
    topic = await space.topic("s")
    admin = await space.admin()
    fields = {
        "correlation_id": "c",
        "message_id": "m",
        "to": "t",
        "reply_to": "r",
        "label": "l",
        "session_id": "s",
        "reply_to_session_id": "rs",
        "content_type": "text/plain",
        "properties": {"text": "x", "int": 5, "on": False, "half": 0.5},
    }
    await admin.create_rule(topic, "s", "all", filter=CorrelationRuleFilter(**fields))
    await admin.create_rule(topic, "s", "one", filter=CorrelationRuleFilter(label="only"))
    got = await admin.get_rule(topic, "s", "all")
    assert isinstance(got.filter, CorrelationRuleFilter), got.filter
    for name, value in fields.items():
        equal(getattr(got.filter, name), value, name)
    one = await admin.get_rule(topic, "s", "one")
    equal((one.filter.label, one.filter.to, one.filter.properties or {}), ("only", None, {}))


@check(f"{ADMIN}.create_rule", f"{ADMIN}.list_rules")
async def constant(space: Space) -> None:
    """Filters that take everything or nothing keep their kind."""
    topic = await space.topic("s")
    admin = await space.admin()
    await admin.create_rule(topic, "s", "all", filter=TrueRuleFilter())
    await admin.create_rule(topic, "s", "none", filter=FalseRuleFilter())
    await admin.create_rule(topic, "s", "unsaid")
    rules = await collect(await admin.list_rules(topic, "s"))
    kinds = {rule.name: type(rule.filter) for rule in rules}
    true, false = TrueRuleFilter, FalseRuleFilter
    equal(kinds, {"$Default": true, "all": true, "none": false, "unsaid": true})


@check(f"{ADMIN}.update_rule")
async def update(space: Space) -> None:
    """A rule's filter and action are changed, a missing rule's are not."""
    topic = await space.topic("s")
    admin = await space.admin()
    rule = await admin.create_rule(topic, "s", "rule", filter=SqlRuleFilter("a = 1"))
    rule.filter = CorrelationRuleFilter(label="l")
    rule.action = SqlRuleAction("SET a = 2")
    await admin.update_rule(topic, "s", rule)
    got = await admin.get_rule(topic, "s", "rule")
    equal((got.filter.label, got.action.sql_expression), ("l", "SET a = 2"))
    await admin.update_rule(topic, "s", rule, filter=SqlRuleFilter("a = 3"))
    equal((await admin.get_rule(topic, "s", "rule")).filter.sql_expression, "a = 3")
    rule.name = "missing"
    await raises(ResourceNotFoundError, admin.update_rule(topic, "s", rule))


@check(f"{ADMIN}.list_rules")
async def many(space: Space) -> None:
    """A list of rules longer than a page is whole."""
    topic = await space.topic("s")
    admin = await space.admin()
    names = [f"r{n:03}" for n in range(120)]
    for name in names:
        await admin.create_rule(topic, "s", name, filter=SqlRuleFilter("a = 1"))
    rules = await collect(await admin.list_rules(topic, "s"))
    equal([rule.name for rule in rules], ["$Default", *names])


@check(f"{ADMIN}.create_rule", f"{ADMIN}.get_rule", f"{ADMIN}.delete_rule")
async def refused(space: Space) -> None:
    """A name that is taken or missing, and an expression that is none, are told apart."""
    topic = await space.topic("s")
    admin = await space.admin()
    await admin.create_rule(topic, "s", "rule")
    await raises(ResourceExistsError, admin.create_rule(topic, "s", "rule"))
    await raises(ResourceNotFoundError, admin.get_rule(topic, "s", "missing"))
    await raises(ResourceNotFoundError, admin.delete_rule(topic, "s", "missing"))
    await raises(ResourceNotFoundError, admin.create_rule(topic, "missing", "rule"))
    bad = SqlRuleFilter("this is no expression")
    error = await raises(HttpResponseError, admin.create_rule(topic, "s", "bad", filter=bad))
    equal(error.status_code, 400)
