import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.EmptyRuleAction;
import com.azure.messaging.servicebus.administration.models.FalseRuleFilter;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Rules, as the rule manager has them over AMQP and the administration client over HTTP. */
final class Rules {
    private static Faces.Rules manager(Space space, Faces.Builder builder, String topic) {
        return space.built(builder.ruleManager().topicName(topic).subscriptionName("s"));
    }

    private static Map<String, RuleProperties> named(List<RuleProperties> rules) {
        return rules.stream().collect(Collectors.toMap(RuleProperties::getName, Function.identity()));
    }

    private static List<String> names(List<RuleProperties> rules) {
        return rules.stream().map(RuleProperties::getName).toList();
    }

    @Check(
        says = "The rule manager lists, makes and deletes rules, which choose from then on.",
        proves = {
            "ServiceBusRuleManagerClient.createRule", "ServiceBusRuleManagerClient.listRules",
            "ServiceBusRuleManagerClient.deleteRule", "ServiceBusRuleManagerClient.getEntityPath",
            "ServiceBusRuleManagerClient.getFullyQualifiedNamespace", "ServiceBusRuleManagerClient.close"
        })
    static void manager(Space space) throws Exception {
        String topic = space.topic("s");
        Faces.Rules manager = manager(space, space.builder(), topic);
        Space.equal(
            List.of(manager.getEntityPath(), manager.getFullyQualifiedNamespace()),
            List.of(topic + "/subscriptions/s", "localhost"));
        Space.equal(names(manager.listRules()), List.of("$Default"));
        manager.createRule(
            "sql",
            new CreateRuleOptions(new SqlRuleFilter("price > 10")).setAction(new SqlRuleAction("SET seen = true")));
        CorrelationRuleFilter news = new CorrelationRuleFilter().setLabel("news");
        news.getProperties().put("level", 3);
        manager.createRule("correlation", new CreateRuleOptions(news));
        manager.deleteRule("$Default");
        Map<String, RuleProperties> rules = named(manager.listRules());
        Space.equal(rules.keySet(), Set.of("correlation", "sql"));
        Space.equal(((SqlRuleFilter) rules.get("sql").getFilter()).getSqlExpression(), "price > 10");
        Space.equal(((SqlRuleAction) rules.get("sql").getAction()).getSqlExpression(), "SET seen = true");
        CorrelationRuleFilter got = (CorrelationRuleFilter) rules.get("correlation").getFilter();
        Space.equal(got.getLabel(), "news");
        // The number is one in the broker; the SDK makes text of all it reads.
        Space.equal(got.getProperties(), Map.of("level", "3"));
        Faces.Sender sender = space.topicSender(topic);
        for (int price : List.of(11, 9)) {
            ServiceBusMessage offer = new ServiceBusMessage("for " + price);
            offer.getApplicationProperties().put("price", price);
            sender.sendMessage(offer);
        }
        ServiceBusMessage told = new ServiceBusMessage("news").setSubject("news");
        told.getApplicationProperties().put("level", 3);
        sender.sendMessage(told);
        Space.equal(Space.take(space.subscriber(topic, "s"), 2), List.of("for 11", "news"));
        manager.close();
        Space.raises(IllegalStateException.class, manager::listRules);
    }

    @Check(
        says = "A rule whose name is taken or missing, and an expression that is none, are refused.",
        proves = {"ServiceBusRuleManagerClient.createRule", "ServiceBusRuleManagerClient.deleteRule"})
    static void managerRefused(Space space) throws Exception {
        Faces.Rules manager = manager(space, space.impatient(), space.topic("s"));
        CreateRuleOptions all = new CreateRuleOptions(new TrueRuleFilter());
        Space.raises(
            ServiceBusFailureReason.MESSAGING_ENTITY_ALREADY_EXISTS, () -> manager.createRule("$Default", all));
        Space.raises(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> manager.deleteRule("missing"));
        CreateRuleOptions bad = new CreateRuleOptions(new SqlRuleFilter("this is no expression"));
        Space.raises(RuntimeException.class, () -> manager.createRule("bad", bad));
        Space.equal(names(manager.listRules()), List.of("$Default"));
    }

    @Check(says = "A list of rules longer than a page is whole.", proves = {"ServiceBusRuleManagerClient.listRules"})
    static void managerMany(Space space) {
        String topic = space.topic("s");
        Faces.Rules manager = manager(space, space.builder(), topic);
        CreateRuleOptions none = new CreateRuleOptions(new FalseRuleFilter());
        for (int n = 0; n < 120; n++) manager.createRule("r" + n, none);
        Space.equal(manager.listRules().size(), 121);
        Space.equal(space.admin().listRules(topic, "s").size(), 121);
    }

    @Check(
        says = "A new subscription has one rule, which takes everything and can be deleted.",
        proves = {
            "ServiceBusAdministrationClient.listRules", "ServiceBusAdministrationClient.getRule",
            "ServiceBusAdministrationClient.deleteRule"
        })
    static void byDefault(Space space) {
        String topic = space.topic("s");
        Faces.Administration admin = space.admin();
        Space.equal(names(admin.listRules(topic, "s")), List.of("$Default"));
        RuleProperties rule = admin.getRule(topic, "s", "$Default");
        Space.that(rule.getFilter() instanceof TrueRuleFilter, rule.getFilter());
        Space.that(rule.getAction() == null || rule.getAction() instanceof EmptyRuleAction, rule.getAction());
        admin.deleteRule(topic, "s", "$Default");
        Space.equal(names(admin.listRules(topic, "s")), List.of());
    }

    @Check(
        says = "A SQL filter with parameters, and an action, are read as they were made.",
        proves = {"ServiceBusAdministrationClient.createRule", "ServiceBusAdministrationClient.getRule"})
    static void sql(Space space) {
        String topic = space.topic("s");
        // The administration client of this SDK makes text of every value: others it reads back otherwise.
        Map<String, Object> parameters = Map.of("@text", "a'b<&>", "@int", "5");
        SqlRuleFilter filter = new SqlRuleFilter("text = @text AND number > @int");
        filter.getParameters().putAll(parameters);
        SqlRuleAction action = new SqlRuleAction("SET number = @int");
        action.getParameters().put("@int", "5");
        RuleProperties made =
            space.createRule(topic, "s", "rule", new CreateRuleOptions(filter).setAction(action));
        for (RuleProperties rule : List.of(made, space.admin().getRule(topic, "s", "rule"))) {
            Space.equal(rule.getName(), "rule");
            SqlRuleFilter got = (SqlRuleFilter) rule.getFilter();
            Space.equal(got.getSqlExpression(), filter.getSqlExpression());
            Space.equal(got.getParameters(), parameters);
            Space.equal(((SqlRuleAction) rule.getAction()).getSqlExpression(), "SET number = @int");
            Space.equal(((SqlRuleAction) rule.getAction()).getParameters(), Map.of("@int", "5"));
        }
    }

    @Check(
        says = "A correlation filter is read as it was made.",
        proves = {"ServiceBusAdministrationClient.createRule", "ServiceBusAdministrationClient.getRule"})
    static void correlation(Space space) {
        String topic = space.topic("s");
        CorrelationRuleFilter filter = new CorrelationRuleFilter("c").setMessageId("m").setTo("t").setReplyTo("r")
            .setLabel("l").setSessionId("s").setReplyToSessionId("rs").setContentType("text/plain");
        filter.getProperties().putAll(Map.of("text", "x", "other", "y"));
        space.createRule(topic, "s", "all", new CreateRuleOptions(filter));
        CorrelationRuleFilter got =
            (CorrelationRuleFilter) space.admin().getRule(topic, "s", "all").getFilter();
        Space.equal(
            List.of(got.getCorrelationId(), got.getMessageId(), got.getTo(), got.getReplyTo(), got.getLabel()),
            List.of("c", "m", "t", "r", "l"));
        Space.equal(
            List.of(got.getSessionId(), got.getReplyToSessionId(), got.getContentType()),
            List.of("s", "rs", "text/plain"));
        Space.equal(got.getProperties(), filter.getProperties());
    }

    @Check(
        says = "Filters that take everything or nothing keep their kind.",
        proves = {"ServiceBusAdministrationClient.createRule", "ServiceBusAdministrationClient.listRules"})
    static void constant(Space space) {
        String topic = space.topic("s");
        space.createRule(topic, "s", "all", new CreateRuleOptions(new TrueRuleFilter()));
        space.createRule(topic, "s", "none", new CreateRuleOptions(new FalseRuleFilter()));
        space.admin().createRule(topic, "s", "unsaid");
        Map<String, Class<?>> kinds = space.admin().listRules(topic, "s").stream()
            .collect(Collectors.toMap(RuleProperties::getName, rule -> rule.getFilter().getClass()));
        Class<?> all = TrueRuleFilter.class;
        Space.equal(kinds, Map.of("$Default", all, "all", all, "none", FalseRuleFilter.class, "unsaid", all));
    }

    @Check(
        says = "A rule's filter and action are changed; a missing rule, a taken name and a bad expression are refused.",
        proves = {"ServiceBusAdministrationClient.updateRule"})
    static void update(Space space) throws Exception {
        String topic = space.topic("s");
        Faces.Administration admin = space.admin();
        RuleProperties rule =
            space.createRule(topic, "s", "rule", new CreateRuleOptions(new SqlRuleFilter("a = 1")));
        rule.setFilter(new CorrelationRuleFilter().setLabel("l")).setAction(new SqlRuleAction("SET a = 2"));
        admin.updateRule(topic, "s", rule);
        RuleProperties got = admin.getRule(topic, "s", "rule");
        Space.equal(((CorrelationRuleFilter) got.getFilter()).getLabel(), "l");
        Space.equal(((SqlRuleAction) got.getAction()).getSqlExpression(), "SET a = 2");
        admin.deleteRule(topic, "s", "rule");
        Space.raises(ResourceNotFoundException.class, () -> admin.updateRule(topic, "s", rule));
        Space.raises(ResourceNotFoundException.class, () -> admin.getRule(topic, "s", "rule"));
        Space.raises(ResourceNotFoundException.class, () -> admin.deleteRule(topic, "s", "rule"));
        Space.raises(ResourceExistsException.class, () -> admin.createRule(topic, "s", "$Default"));
        CreateRuleOptions bad = new CreateRuleOptions(new SqlRuleFilter("this is no expression"));
        HttpResponseException error =
            Space.raises(HttpResponseException.class, () -> space.createRule(topic, "s", "bad", bad));
        Space.equal(error.getResponse().getStatusCode(), 400);
    }
}
