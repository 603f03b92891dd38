import static java.util.stream.IntStream.range;

import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.rest.Response;
import com.azure.core.util.Context;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.models.AccessRights;
import com.azure.messaging.servicebus.administration.models.AuthorizationRule;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.MessagingSku;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SharedAccessAuthorizationRule;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.SubscriptionRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.function.Supplier;

/** Queues, topics and subscriptions as the administration client makes, reads and changes them. */
final class Administration {
    private static final Context NONE = Context.NONE;

    private static void recent(OffsetDateTime instant) {
        Duration age = Duration.between(instant, OffsetDateTime.now()).abs();
        Space.that(age.compareTo(Duration.ofMinutes(5)) < 0, instant);
    }

    private static <T> T ok(Response<T> response, int status) {
        Space.equal(response.getStatusCode(), status, "status");
        return response.getValue();
    }

    /**
     * The list has exactly these names of the check. Pages are counted off, so what other checks create between two
     * of them shifts the second: then the list is asked for again.
     */
    private static void lists(Space space, Supplier<List<String>> call, List<String> names) throws Exception {
        List<String> seen = List.of();
        for (int turn = 0; turn < 60 && !seen.equals(names); turn++) {
            if (turn > 0) Thread.sleep(1_000);
            seen = call.get().stream().filter(name -> name.startsWith(space.name)).toList();
        }
        Space.equal(seen, names);
    }

    @Check(
        says = "The namespace has a name, a kind and an age.",
        proves = {
            "ServiceBusAdministrationClient.getNamespaceProperties",
            "ServiceBusAdministrationClient.getNamespacePropertiesWithResponse"
        })
    static void namespace(Space space) {
        for (NamespaceProperties properties : List.of(
            space.admin().getNamespaceProperties(),
            ok(space.admin().getNamespacePropertiesWithResponse(NONE), 200))) {
            Space.that(!properties.getName().isEmpty(), "no name");
            Space.that(MessagingSku.values().contains(properties.getMessagingSku()), properties.getMessagingSku());
            Space.that(properties.getCreatedTime() != null && properties.getModifiedTime() != null, "no age");
        }
    }

    @Check(
        says = "A queue is read as it was made.",
        proves = {
            "ServiceBusAdministrationClient.createQueue", "ServiceBusAdministrationClient.createQueueWithResponse",
            "ServiceBusAdministrationClient.getQueue", "ServiceBusAdministrationClient.getQueueWithResponse"
        })
    static void queue(Space space) {
        Faces.Administration admin = space.admin();
        CreateQueueOptions options = new CreateQueueOptions().setAutoDeleteOnIdle(Duration.ofHours(2))
            .setDeadLetteringOnMessageExpiration(true).setDefaultMessageTimeToLive(Duration.ofDays(3))
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(7)).setLockDuration(Duration.ofSeconds(45))
            .setMaxDeliveryCount(3).setMaxSizeInMegabytes(2048).setDuplicateDetectionRequired(true)
            .setSessionRequired(true).setUserMetadata("a <b> & 'c' \u00fc").setMaxMessageSizeInKilobytes(512);
        String second = space.name + "-second";
        for (QueueProperties queue : List.of(
            admin.createQueue(space.name, options), admin.getQueue(space.name),
            ok(admin.createQueueWithResponse(second, options, NONE), 201),
            ok(admin.getQueueWithResponse(second, NONE), 200))) {
            Space.that(queue.getName().startsWith(space.name), queue.getName());
            Space.equal(queue.getStatus(), EntityStatus.ACTIVE);
            Space.equal(
                List.of(
                    queue.getAutoDeleteOnIdle(), queue.getDefaultMessageTimeToLive(),
                    queue.getDuplicateDetectionHistoryTimeWindow(), queue.getLockDuration()),
                List.of(Duration.ofHours(2), Duration.ofDays(3), Duration.ofMinutes(7), Duration.ofSeconds(45)));
            Space.equal(
                List.of(
                    queue.isDeadLetteringOnMessageExpiration(), queue.isDuplicateDetectionRequired(),
                    queue.isSessionRequired(), queue.isPartitioningEnabled()),
                List.of(true, true, true, false));
            Space.equal(
                List.of((long) queue.getMaxDeliveryCount(), queue.getMaxSizeInMegabytes(),
                    queue.getMaxMessageSizeInKilobytes()),
                List.of(3L, 2048L, 512L));
            Space.equal(queue.getUserMetadata(), "a <b> & 'c' \u00fc");
        }
    }

    @Check(
        says = "What is left unsaid has the defaults of Service Bus.",
        proves = {"ServiceBusAdministrationClient.createQueue"})
    static void defaults(Space space) {
        QueueProperties queue = space.admin().createQueue(space.name);
        Space.equal(
            List.of(
                queue.isDeadLetteringOnMessageExpiration(), queue.isDuplicateDetectionRequired(),
                queue.isSessionRequired(), queue.isBatchedOperationsEnabled()),
            List.of(false, false, false, true));
        Space.equal(queue.getLockDuration(), Duration.ofMinutes(1));
        Space.equal(queue.getMaxDeliveryCount(), 10);
        Space.equal(queue.getMaxSizeInMegabytes(), 1024L);
        Space.equal(queue.getForwardTo(), null);
        Space.that(queue.getDefaultMessageTimeToLive().toDays() > 10_000_000, queue.getDefaultMessageTimeToLive());
    }

    @Check(
        says = "A queue's properties are changed; missing queues' are not.",
        proves = {
            "ServiceBusAdministrationClient.updateQueue", "ServiceBusAdministrationClient.updateQueueWithResponse"
        })
    static void updateQueue(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        QueueProperties queue = admin.createQueue(space.name);
        admin.updateQueue(queue.setMaxDeliveryCount(7).setLockDuration(Duration.ofSeconds(20)));
        ok(admin.updateQueueWithResponse(
            queue.setStatus(EntityStatus.RECEIVE_DISABLED).setUserMetadata("new"), NONE), 200);
        QueueProperties got = admin.getQueue(space.name);
        Space.equal(List.of(got.getMaxDeliveryCount(), got.getLockDuration()), List.of(7, Duration.ofSeconds(20)));
        Space.equal(List.of(got.getStatus(), got.getUserMetadata()), List.of(EntityStatus.RECEIVE_DISABLED, "new"));
        admin.deleteQueue(space.name);
        Space.raises(ResourceNotFoundException.class, () -> admin.updateQueue(queue));
    }

    @Check(
        says = "A queue's authorization rules are made, drawn keys are told, and changes last.",
        proves = {"ServiceBusAdministrationClient.createQueue", "ServiceBusAdministrationClient.updateQueue"})
    static void authorization(Space space) {
        Faces.Administration admin = space.admin();
        CreateQueueOptions options = new CreateQueueOptions();
        options.getAuthorizationRules()
            .add(new SharedAccessAuthorizationRule("shop", "first", "second", List.of(AccessRights.SEND)));
        options.getAuthorizationRules().add(new SharedAccessAuthorizationRule(
            "boss", List.of(AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)));
        admin.createQueue(space.name, options);
        QueueProperties queue = admin.getQueue(space.name);
        AuthorizationRule shop = queue.getAuthorizationRules().get(0);
        AuthorizationRule boss = queue.getAuthorizationRules().get(1);
        Space.equal(
            List.of(shop.getKeyName(), shop.getAccessRights(), shop.getPrimaryKey(), shop.getSecondaryKey()),
            List.of("shop", List.of(AccessRights.SEND), "first", "second"));
        Space.equal(new HashSet<>(boss.getAccessRights()).size(), 3);
        Space.equal(List.of(boss.getPrimaryKey().length(), boss.getSecondaryKey().length()), List.of(44, 44));
        Space.that(!boss.getPrimaryKey().equals(boss.getSecondaryKey()), "one key");
        recent(shop.getCreatedAt());
        String text = "Endpoint=sb://%s;SharedAccessKeyName=boss;SharedAccessKey=%s;EntityPath=%s;".formatted(
            space.target.amqp(), boss.getPrimaryKey(), space.name) + "UseDevelopmentEmulator=true;";
        try (var sender = new ServiceBusClientBuilder().connectionString(text).sender().queueName(space.name)
            .buildClient()) {
            sender.sendMessage(new ServiceBusMessage("signed by the boss"));
        }
        Space.equal(Space.take(space.receiver(space.name), 1), List.of("signed by the boss"));
        queue.getAuthorizationRules().remove(1);
        ((SharedAccessAuthorizationRule) shop).setPrimaryKey("third");
        admin.updateQueue(queue);
        List<AuthorizationRule> rules = admin.getQueue(space.name).getAuthorizationRules();
        Space.equal(rules.stream().map(AuthorizationRule::getKeyName).toList(), List.of("shop"));
        Space.equal(List.of(rules.get(0).getPrimaryKey(), rules.get(0).getSecondaryKey()), List.of("third", "second"));
    }

    @Check(
        says = "Counts of a queue add up.",
        proves = {
            "ServiceBusAdministrationClient.getQueueRuntimeProperties",
            "ServiceBusAdministrationClient.getQueueRuntimePropertiesWithResponse"
        })
    static void queueRuntime(Space space) {
        String queue = space.queue();
        space.send(queue, "a", "b", "c");
        OffsetDateTime later = OffsetDateTime.now().plusHours(1);
        space.sender(queue).scheduleMessages(List.of(new ServiceBusMessage("d"), new ServiceBusMessage("e")), later);
        Faces.Receiver receiver = space.receiver(queue);
        receiver.deadLetter(Space.receive(receiver));
        for (QueueRuntimeProperties counts : List.of(
            space.admin().getQueueRuntimeProperties(queue),
            ok(space.admin().getQueueRuntimePropertiesWithResponse(queue, NONE), 200))) {
            Space.equal(counts.getName(), queue);
            Space.equal(
                List.of(
                    counts.getActiveMessageCount(), counts.getScheduledMessageCount(),
                    counts.getDeadLetterMessageCount(), counts.getTransferMessageCount(),
                    counts.getTransferDeadLetterMessageCount()),
                List.of(2, 2, 1, 0, 0));
            Space.equal(counts.getTotalMessageCount(), 5L);
            Space.that(counts.getSizeInBytes() > 0, counts.getSizeInBytes());
            recent(counts.getCreatedAt());
            recent(counts.getUpdatedAt());
            recent(counts.getAccessedAt());
        }
    }

    @Check(
        says = "Every queue is listed, over several pages, until it is deleted.",
        proves = {"ServiceBusAdministrationClient.listQueues", "ServiceBusAdministrationClient.deleteQueue"})
    static void listQueues(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        List<String> names = range(0, 110).mapToObj(n -> "%s-%03d".formatted(space.name, n)).toList();
        names.forEach(admin::createQueue);
        lists(space, () -> admin.listQueues().stream().map(QueueProperties::getName).toList(), names);
        admin.deleteQueue(names.get(0));
        lists(
            space, () -> admin.listQueues(NONE).stream().map(QueueProperties::getName).toList(),
            names.subList(1, names.size()));
    }

    @Check(
        says = "A deleted queue is not there, and another of its name is new.",
        proves = {
            "ServiceBusAdministrationClient.deleteQueue", "ServiceBusAdministrationClient.deleteQueueWithResponse",
            "ServiceBusAdministrationClient.getQueueExists",
            "ServiceBusAdministrationClient.getQueueExistsWithResponse"
        })
    static void deleteQueue(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        String queue = space.queue();
        space.send(queue, "x");
        Space.that(admin.getQueueExists(queue), "missing");
        admin.deleteQueue(queue);
        Space.that(!admin.getQueueExists(queue), "there");
        Space.that(!admin.getQueueExistsWithResponse(queue, NONE).getValue(), "there");
        Space.raises(ResourceNotFoundException.class, () -> admin.getQueue(queue));
        Space.raises(ResourceNotFoundException.class, () -> admin.deleteQueue(queue));
        admin.createQueue(queue);
        Space.equal(admin.getQueueRuntimeProperties(queue).getTotalMessageCount(), 0L);
        ok(admin.deleteQueueWithResponse(queue, NONE), 200);
    }

    @Check(
        says = "A topic is read as it was made, changed, counted, listed and deleted.",
        proves = {
            "ServiceBusAdministrationClient.createTopic", "ServiceBusAdministrationClient.createTopicWithResponse",
            "ServiceBusAdministrationClient.getTopic", "ServiceBusAdministrationClient.getTopicWithResponse",
            "ServiceBusAdministrationClient.updateTopic", "ServiceBusAdministrationClient.updateTopicWithResponse",
            "ServiceBusAdministrationClient.getTopicExists",
            "ServiceBusAdministrationClient.getTopicExistsWithResponse",
            "ServiceBusAdministrationClient.getTopicRuntimeProperties",
            "ServiceBusAdministrationClient.getTopicRuntimePropertiesWithResponse",
            "ServiceBusAdministrationClient.listTopics", "ServiceBusAdministrationClient.deleteTopic",
            "ServiceBusAdministrationClient.deleteTopicWithResponse"
        })
    static void topic(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        CreateTopicOptions options = new CreateTopicOptions().setAutoDeleteOnIdle(Duration.ofHours(2))
            .setDefaultMessageTimeToLive(Duration.ofDays(3)).setDuplicateDetectionRequired(true)
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(7)).setMaxSizeInMegabytes(2048)
            .setOrderingSupported(true).setUserMetadata("metadata").setMaxMessageSizeInKilobytes(512);
        String second = space.name + "-second";
        for (TopicProperties topic : List.of(
            admin.createTopic(space.name, options), admin.getTopic(space.name),
            ok(admin.createTopicWithResponse(second, options, NONE), 201),
            ok(admin.getTopicWithResponse(second, NONE), 200))) {
            Space.that(topic.getName().startsWith(space.name), topic.getName());
            Space.equal(
                List.of(
                    topic.getAutoDeleteOnIdle(), topic.getDefaultMessageTimeToLive(),
                    topic.getDuplicateDetectionHistoryTimeWindow()),
                List.of(Duration.ofHours(2), Duration.ofDays(3), Duration.ofMinutes(7)));
            Space.equal(
                List.of(topic.isDuplicateDetectionRequired(), topic.isOrderingSupported(), topic.getUserMetadata()),
                List.of(true, true, "metadata"));
            Space.equal(
                List.of(topic.getMaxSizeInMegabytes(), topic.getMaxMessageSizeInKilobytes()), List.of(2048L, 512L));
        }
        TopicProperties topic = admin.getTopic(space.name);
        admin.updateTopic(topic.setDefaultMessageTimeToLive(Duration.ofMinutes(9)));
        ok(admin.updateTopicWithResponse(topic.setStatus(EntityStatus.DISABLED), NONE), 200);
        TopicProperties changed = admin.getTopic(space.name);
        Space.equal(
            List.of(changed.getDefaultMessageTimeToLive(), changed.getStatus()),
            List.of(Duration.ofMinutes(9), EntityStatus.DISABLED));
        admin.createSubscription(space.name, "s");
        for (TopicRuntimeProperties counts : List.of(
            admin.getTopicRuntimeProperties(space.name),
            ok(admin.getTopicRuntimePropertiesWithResponse(space.name, NONE), 200))) {
            Space.equal(List.of(counts.getSubscriptionCount(), counts.getScheduledMessageCount()), List.of(1, 0));
            recent(counts.getCreatedAt());
        }
        lists(
            space, () -> admin.listTopics().stream().map(TopicProperties::getName).toList(),
            List.of(space.name, second));
        Space.that(admin.getTopicExists(space.name), "missing");
        admin.deleteTopic(space.name);
        Space.that(!admin.getTopicExists(space.name), "there");
        Space.that(!admin.getTopicExistsWithResponse(space.name, NONE).getValue(), "there");
        lists(space, () -> admin.listTopics(NONE).stream().map(TopicProperties::getName).toList(), List.of(second));
        Space.raises(ResourceNotFoundException.class, () -> admin.getTopic(space.name));
        Space.raises(ResourceNotFoundException.class, () -> admin.updateTopic(topic));
        ok(admin.deleteTopicWithResponse(second, NONE), 200);
    }

    @Check(
        says = "A subscription is read as it was made, changed, counted, listed and deleted.",
        proves = {
            "ServiceBusAdministrationClient.createSubscription",
            "ServiceBusAdministrationClient.createSubscriptionWithResponse",
            "ServiceBusAdministrationClient.getSubscription",
            "ServiceBusAdministrationClient.getSubscriptionWithResponse",
            "ServiceBusAdministrationClient.updateSubscription",
            "ServiceBusAdministrationClient.updateSubscriptionWithResponse",
            "ServiceBusAdministrationClient.getSubscriptionExists",
            "ServiceBusAdministrationClient.getSubscriptionExistsWithResponse",
            "ServiceBusAdministrationClient.getSubscriptionRuntimeProperties",
            "ServiceBusAdministrationClient.getSubscriptionRuntimePropertiesWithResponse",
            "ServiceBusAdministrationClient.listSubscriptions", "ServiceBusAdministrationClient.deleteSubscription",
            "ServiceBusAdministrationClient.deleteSubscriptionWithResponse"
        })
    static void subscription(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        String topic = space.topic();
        CreateSubscriptionOptions options = new CreateSubscriptionOptions().setAutoDeleteOnIdle(Duration.ofHours(2))
            .setDeadLetteringOnMessageExpiration(true).setEnableDeadLetteringOnFilterEvaluationExceptions(false)
            .setDefaultMessageTimeToLive(Duration.ofDays(3)).setLockDuration(Duration.ofSeconds(45))
            .setMaxDeliveryCount(3).setUserMetadata("metadata");
        CreateRuleOptions rule = new CreateRuleOptions(new TrueRuleFilter());
        for (SubscriptionProperties subscription : List.of(
            admin.createSubscription(topic, "s", options), admin.getSubscription(topic, "s"),
            ok(admin.createSubscriptionWithResponse(topic, "t", options, NONE), 201),
            ok(admin.getSubscriptionWithResponse(topic, "t", NONE), 200),
            admin.createSubscription(topic, "u", "mine", options, rule),
            ok(admin.createSubscriptionWithResponse(topic, "v", "mine", options, rule, NONE), 201))) {
            Space.equal(subscription.getTopicName(), topic);
            Space.that("stuv".contains(subscription.getSubscriptionName()), subscription.getSubscriptionName());
            Space.equal(
                List.of(
                    subscription.getAutoDeleteOnIdle(), subscription.getDefaultMessageTimeToLive(),
                    subscription.getLockDuration()),
                List.of(Duration.ofHours(2), Duration.ofDays(3), Duration.ofSeconds(45)));
            Space.equal(
                List.of(
                    subscription.isDeadLetteringOnMessageExpiration(),
                    subscription.isDeadLetteringOnFilterEvaluationExceptions(), subscription.isSessionRequired(),
                    subscription.getMaxDeliveryCount(), subscription.getUserMetadata()),
                List.of(true, false, false, 3, "metadata"));
        }
        for (String name : List.of("u", "v")) {
            Space.equal(admin.listRules(topic, name).stream().map(RuleProperties::getName).toList(), List.of("mine"));
        }
        SubscriptionProperties subscription = admin.getSubscription(topic, "s");
        admin.updateSubscription(subscription.setMaxDeliveryCount(7));
        ok(admin.updateSubscriptionWithResponse(subscription.setUserMetadata("new"), NONE), 200);
        SubscriptionProperties changed = admin.getSubscription(topic, "s");
        Space.equal(List.of(changed.getMaxDeliveryCount(), changed.getUserMetadata()), List.of(7, "new"));
        space.topicSender(topic).sendMessages(List.of(new ServiceBusMessage("a"), new ServiceBusMessage("b")));
        Faces.Receiver receiver = space.subscriber(topic, "s");
        receiver.deadLetter(Space.receive(receiver));
        for (SubscriptionRuntimeProperties counts : List.of(
            admin.getSubscriptionRuntimeProperties(topic, "s"),
            ok(admin.getSubscriptionRuntimePropertiesWithResponse(topic, "s", NONE), 200))) {
            Space.equal(
                List.of(counts.getActiveMessageCount(), counts.getDeadLetterMessageCount()), List.of(1, 1));
            Space.equal(counts.getTotalMessageCount(), 2L);
            recent(counts.getCreatedAt());
        }
        Space.that(admin.getSubscriptionExists(topic, "s"), "missing");
        admin.deleteSubscription(topic, "s");
        Space.that(!admin.getSubscriptionExists(topic, "s"), "there");
        Space.that(!admin.getSubscriptionExistsWithResponse(topic, "s", NONE).getValue(), "there");
        Space.raises(ResourceNotFoundException.class, () -> admin.getSubscription(topic, "s"));
        Space.raises(ResourceNotFoundException.class, () -> admin.updateSubscription(subscription));
        ok(admin.deleteSubscriptionWithResponse(topic, "t", NONE), 200);
        for (List<SubscriptionProperties> listed :
            List.of(admin.listSubscriptions(topic), admin.listSubscriptions(topic, NONE))) {
            Space.equal(
                listed.stream().map(SubscriptionProperties::getSubscriptionName).toList(), List.of("u", "v"));
        }
    }

    @Check(
        says = "A rule is made, read, changed, listed and deleted with the answer's status.",
        proves = {
            "ServiceBusAdministrationClient.createRuleWithResponse",
            "ServiceBusAdministrationClient.getRuleWithResponse",
            "ServiceBusAdministrationClient.updateRuleWithResponse",
            "ServiceBusAdministrationClient.deleteRuleWithResponse", "ServiceBusAdministrationClient.listRules"
        })
    static void ruleResponses(Space space) {
        Faces.Administration admin = space.admin();
        String topic = space.topic("s");
        CreateRuleOptions options = new CreateRuleOptions(new TrueRuleFilter());
        RuleProperties rule = ok(admin.createRuleWithResponse(topic, "s", "rule", options, NONE), 201);
        Space.equal(rule.getName(), "rule");
        ok(admin.updateRuleWithResponse(topic, "s", rule, NONE), 200);
        Space.equal(ok(admin.getRuleWithResponse(topic, "s", "rule", NONE), 200).getName(), "rule");
        Space.equal(admin.listRules(topic, "s", NONE).size(), 2);
        ok(admin.deleteRuleWithResponse(topic, "s", "rule", NONE), 200);
        Space.equal(admin.listRules(topic, "s").size(), 1);
    }

    @Check(
        says = "ResourceExistsException for names that are taken, of queues and topics alike.",
        proves = {
            "ServiceBusAdministrationClient.createQueue", "ServiceBusAdministrationClient.createTopic",
            "ServiceBusAdministrationClient.createSubscription"
        })
    static void taken(Space space) throws Exception {
        Faces.Administration admin = space.admin();
        String topic = space.topic("s");
        Space.raises(ResourceExistsException.class, () -> admin.createTopic(topic));
        Space.raises(ResourceExistsException.class, () -> admin.createQueue(topic));
        Space.raises(ResourceExistsException.class, () -> admin.createSubscription(topic, "s"));
        Space.raises(ResourceNotFoundException.class, () -> admin.createSubscription(topic + "-missing", "s"));
    }

    @Check(says = "Values out of their bounds are refused.", proves = {"ServiceBusAdministrationClient.createQueue"})
    static void badValues(Space space) throws Exception {
        for (CreateQueueOptions options : List.of(
            new CreateQueueOptions().setLockDuration(Duration.ofHours(1)),
            new CreateQueueOptions().setMaxDeliveryCount(0),
            new CreateQueueOptions().setAutoDeleteOnIdle(Duration.ofSeconds(1)))) {
            HttpResponseException error = Space.raises(
                HttpResponseException.class, () -> space.admin().createQueue(space.name, options));
            Space.equal(error.getResponse().getStatusCode(), 400);
        }
        Space.that(!space.admin().getQueueExists(space.name), "there");
    }

    @Check(
        says = "A queue says where it forwards to, and stops when it is told to.",
        proves = {"ServiceBusAdministrationClient.createQueue", "ServiceBusAdministrationClient.updateQueue"})
    static void forwarding(Space space) {
        Faces.Administration admin = space.admin();
        String target = space.queue();
        String source = space.name + "-source";
        QueueProperties made = admin.createQueue(
            source, new CreateQueueOptions().setForwardTo(target).setForwardDeadLetteredMessagesTo(target));
        Space.equal(made.getForwardDeadLetteredMessagesTo(), made.getForwardTo());
        Space.that(made.getForwardTo().endsWith(target), made.getForwardTo());
        space.send(source, "x");
        Space.equal(Space.take(space.receiver(target), 1), List.of("x"));
        admin.updateQueue(made.setForwardTo(null).setForwardDeadLetteredMessagesTo(null));
        Space.equal(admin.getQueue(source).getForwardTo(), null);
    }
}
