import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.util.List;
import java.util.Map;

/** Topics: each subscription gets its copies, filtered, and settles them for itself. */
final class Topics {
    private static ServiceBusMessage with(String text, Map<String, Object> properties) {
        ServiceBusMessage message = new ServiceBusMessage(text);
        message.getApplicationProperties().putAll(properties);
        return message;
    }

    @Check(
        says = "Every subscription gets every message, in order; each settles its own copy.",
        proves = {"ServiceBusSenderClient.sendMessages", "ServiceBusReceiverClient.receiveMessages"})
    static void fanOut(Space space) {
        String topic = space.topic("one", "two");
        space.topicSender(topic)
            .sendMessages(List.of(new ServiceBusMessage("a"), new ServiceBusMessage("b"), new ServiceBusMessage("c")));
        Faces.Receiver one = space.subscriber(topic, "one");
        Space.equal(one.getEntityPath(), topic + "/subscriptions/one");
        Space.equal(Space.take(one, 3), List.of("a", "b", "c"));
        Space.empty(one);
        Space.equal(Space.take(space.subscriber(topic, "two"), 3), List.of("a", "b", "c"));
    }

    @Check(
        says = "A subscription has a dead-letter queue of its own.",
        proves = {"ServiceBusReceiverClient.deadLetter"})
    static void deadLetter(Space space) {
        String topic = space.topic("one", "two");
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Faces.Receiver one = space.subscriber(topic, "one");
        one.deadLetter(Space.receive(one), new DeadLetterOptions().setDeadLetterReason("why"));
        Faces.Receiver dead = space.built(space.builder().receiver().topicName(topic).subscriptionName("one")
            .subQueue(SubQueue.DEAD_LETTER_QUEUE));
        ServiceBusReceivedMessage letter = Space.receive(dead);
        Space.equal(letter.getDeadLetterReason(), "why");
        dead.complete(letter);
        Space.equal(Space.take(space.subscriber(topic, "two"), 1), List.of("x"));
    }

    @Check(
        says = "A subscription's messages are peeked, renewed, abandoned and completed like a queue's.",
        proves = {"ServiceBusReceiverClient.abandon", "ServiceBusReceiverClient.renewMessageLock"})
    static void settle(Space space) {
        String topic = space.topic("s");
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Faces.Receiver receiver = space.subscriber(topic, "s");
        ServiceBusReceivedMessage peeked = receiver.peekMessage();
        ServiceBusReceivedMessage message = Space.receive(receiver);
        Space.equal(message.getSequenceNumber(), peeked.getSequenceNumber());
        receiver.renewMessageLock(message);
        receiver.abandon(message);
        message = Space.receive(receiver);
        Space.equal(message.getDeliveryCount(), 1L);
        receiver.complete(message);
        Space.empty(receiver);
    }

    @Check(says = "RECEIVE_AND_DELETE from a subscription.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void andDelete(Space space) {
        String topic = space.topic("s");
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Space.receive(space.built(space.builder().receiver().topicName(topic).subscriptionName("s")
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)));
        Space.empty(space.subscriber(topic, "s"));
    }

    @Check(
        says = "SQL and correlation filters choose, over properties of every kind.",
        proves = {"ServiceBusRuleManagerClient.createRule", "ServiceBusSenderClient.sendMessage"})
    static void filters(Space space) {
        String topic = space.topic();
        SqlRuleFilter dear = new SqlRuleFilter("price > 10 AND sys.Label = 'offer'");
        CorrelationRuleFilter news = new CorrelationRuleFilter().setLabel("news");
        news.getProperties().putAll(Map.of("urgent", true, "level", 3));
        // By AMQP, as the administration client sends every value as text.
        for (var rule : Map.of("dear", dear, "news", news).entrySet()) {
            space.admin().createSubscription(topic, rule.getKey());
            Faces.Rules rules =
                space.built(space.builder().ruleManager().topicName(topic).subscriptionName(rule.getKey()));
            rules.deleteRule("$Default");
            rules.createRule("rule", new CreateRuleOptions(rule.getValue()));
        }
        Faces.Sender sender = space.topicSender(topic);
        sender.sendMessage(with("dear", Map.of("price", 10.5)).setSubject("offer"));
        sender.sendMessage(with("cheap", Map.of("price", 3)).setSubject("offer"));
        sender.sendMessage(with("other subject", Map.of("price", 100)).setSubject("demand"));
        sender.sendMessage(with("urgent news", Map.of("urgent", true, "level", 3)).setSubject("news"));
        sender.sendMessage(with("old news", Map.of("urgent", false, "level", 3)).setSubject("news"));
        for (var expected : Map.of("dear", "dear", "news", "urgent news").entrySet()) {
            Faces.Receiver receiver = space.subscriber(topic, expected.getKey());
            Space.equal(Space.take(receiver, 1), List.of(expected.getValue()));
            Space.empty(receiver);
        }
    }

    @Check(
        says = "A rule with an action makes a copy of its own, changed, which names the rule.",
        proves = {"ServiceBusAdministrationClient.createRule"})
    static void actions(Space space) {
        String topic = space.topic("s");
        SqlRuleAction action = new SqlRuleAction("SET price = price * 2; SET sys.Label = 'doubled'; REMOVE secret");
        space.createRule(topic, "s", "double", new CreateRuleOptions(new SqlRuleFilter("1=1")).setAction(action));
        space.topicSender(topic).sendMessage(with("m", Map.of("price", 21, "secret", "x")));
        List<ServiceBusReceivedMessage> copies = Space.receive(space.subscriber(topic, "s"), 2);
        Space.equal(copies.get(0).getApplicationProperties(), Map.of("price", 21, "secret", "x"));
        ServiceBusReceivedMessage doubled = copies.get(1);
        // Integers of SQL are 64 bits wide.
        Space.equal(((Number) doubled.getApplicationProperties().get("price")).intValue(), 42);
        Space.equal(doubled.getApplicationProperties().keySet(), java.util.Set.of("price", "RuleName"));
        Space.equal(doubled.getSubject(), "doubled");
    }

    @Check(says = "A topic is not received from.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void misused(Space space) throws Exception {
        Faces.Receiver receiver = space.built(space.impatient().receiver().queueName(space.topic("s")));
        Space.raises(RuntimeException.class, () -> receiver.receiveMessages(1, Space.WAIT));
    }

    @Check(
        says = "A subscription forwards what it gets to a queue.",
        proves = {"ServiceBusAdministrationClient.createSubscription"})
    static void forwarded(Space space) {
        String queue = space.queue();
        String topic = space.name + "-topic";
        space.admin().createTopic(topic);
        space.admin().createSubscription(topic, "s", new CreateSubscriptionOptions().setForwardTo(queue));
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Space.equal(Space.take(space.receiver(queue), 1), List.of("x"));
    }
}
