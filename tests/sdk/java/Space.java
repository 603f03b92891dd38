import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/** What one check works with: clients that are closed after it, entities nobody else uses. */
final class Space implements AutoCloseable {
    /** In which a message that is there arrives, on a busy machine. */
    static final Duration WAIT = Duration.ofSeconds(10);
    /** Without a message after which there is none. */
    static final Duration QUIET = Duration.ofSeconds(2);

    private static final Map<AmqpErrorCondition, ServiceBusFailureReason> REASONS = Map.of(
        AmqpErrorCondition.NOT_FOUND, ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND,
        AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED, ServiceBusFailureReason.SESSION_CANNOT_BE_LOCKED,
        AmqpErrorCondition.SESSION_LOCK_LOST, ServiceBusFailureReason.SESSION_LOCK_LOST,
        AmqpErrorCondition.MESSAGE_LOCK_LOST, ServiceBusFailureReason.MESSAGE_LOCK_LOST);

    final Target target;
    final Flavour flavour;
    final String name;
    final Set<String> used = ConcurrentHashMap.newKeySet();
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final Object underlying;
    private Faces.Builder builder;

    /** {@code administration} is a client that all checks of a flavour share. */
    Space(Target target, Flavour flavour, String check, Object administration) {
        this.target = target;
        this.flavour = flavour;
        this.underlying = administration;
        String kind = flavour.name().toLowerCase();
        String unique = UUID.randomUUID().toString().substring(0, 6);
        // Service Bus has the names of queues in lower case.
        name = "%s-%s-%s".formatted(check.replace('.', '-'), kind, unique).toLowerCase();
    }

    static Object newAdministration(Target target, Flavour flavour) {
        ServiceBusAdministrationClientBuilder builder = new ServiceBusAdministrationClientBuilder()
            .connectionString(Target.plain(target.http()))
            .addPolicy(Target.redirect(target.scheme(), target.http()));
        return flavour == Flavour.SYNC ? builder.buildClient() : builder.buildAsyncClient();
    }

    @Override
    public void close() throws Exception {
        while (!open.isEmpty()) open.pop().close();
    }

    <T> T handle(Class<T> face, Object thing) {
        return Handle.of(face, thing, used);
    }

    /** Closed at the end of the check. */
    synchronized <T extends AutoCloseable> T opened(T client) {
        open.push(client);
        return client;
    }

    Faces.Administration admin() {
        return handle(Faces.Administration.class, underlying);
    }

    Faces.AdministrationBuilder newAdministrationBuilder() {
        return handle(Faces.AdministrationBuilder.class, new ServiceBusAdministrationClientBuilder());
    }

    Faces.Builder newBuilder() {
        return handle(Faces.Builder.class, new ServiceBusClientBuilder());
    }

    /** Its clients share one connection. */
    synchronized Faces.Builder builder() {
        if (builder == null) builder = target.usual(newBuilder());
        return builder;
    }

    /** Of clients that do not try again, for errors which the SDK takes for passing ones. */
    Faces.Builder impatient() {
        AmqpRetryOptions once = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(WAIT);
        return target.usual(newBuilder()).retryOptions(once);
    }

    String queue() {
        return queue(new CreateQueueOptions());
    }

    String queue(CreateQueueOptions options) {
        admin().createQueue(name, options);
        return name;
    }

    /** A topic, with subscriptions that take everything. */
    String topic(String... subscriptions) {
        admin().createTopic(name);
        for (String subscription : subscriptions) admin().createSubscription(name, subscription);
        return name;
    }

    /** Of the synchronous client, this call alone takes the rule's name before the subscription's. */
    RuleProperties createRule(String topic, String subscription, String name, CreateRuleOptions options) {
        return flavour == Flavour.SYNC
            ? admin().createRule(topic, name, subscription, options)
            : admin().createRule(topic, subscription, name, options);
    }

    Faces.Sender built(Faces.SenderBuilder builder) {
        return opened(flavour == Flavour.SYNC ? builder.buildClient() : builder.buildAsyncClient());
    }

    Faces.Receiver built(Faces.ReceiverBuilder builder) {
        if (flavour == Flavour.SYNC) return opened(builder.buildClient());
        return opened(builder.disableAutoComplete().buildAsyncClient());
    }

    Faces.Sessions built(Faces.SessionsBuilder builder) {
        if (flavour == Flavour.SYNC) return opened(builder.buildClient());
        return opened(builder.disableAutoComplete().buildAsyncClient());
    }

    Faces.Rules built(Faces.RulesBuilder builder) {
        return opened(flavour == Flavour.SYNC ? builder.buildClient() : builder.buildAsyncClient());
    }

    Faces.Administration built(Faces.AdministrationBuilder builder) {
        return flavour == Flavour.SYNC ? builder.buildClient() : builder.buildAsyncClient();
    }

    Faces.Sender sender(String queue) {
        return built(builder().sender().queueName(queue));
    }

    Faces.Sender topicSender(String topic) {
        return built(builder().sender().topicName(topic));
    }

    Faces.Receiver receiver(String queue) {
        return receiver(queue, UnaryOperator.identity());
    }

    Faces.Receiver receiver(String queue, UnaryOperator<Faces.ReceiverBuilder> options) {
        return built(options.apply(builder().receiver().queueName(queue)));
    }

    Faces.Receiver deadLetters(String queue) {
        return receiver(queue, options -> options.subQueue(SubQueue.DEAD_LETTER_QUEUE));
    }

    Faces.Receiver subscriber(String topic, String subscription) {
        return built(builder().receiver().topicName(topic).subscriptionName(subscription));
    }

    Faces.Sessions sessions(String queue) {
        return built(builder().sessionReceiver().queueName(queue));
    }

    void send(String queue, String... texts) {
        send(queue, Arrays.stream(texts).map(ServiceBusMessage::new).toList());
    }

    void send(String queue, List<ServiceBusMessage> messages) {
        try (Faces.Sender sender = built(builder().sender().queueName(queue))) {
            sender.sendMessages(messages);
        }
    }

    static ServiceBusMessage inSession(String session, String text) {
        return new ServiceBusMessage(text).setSessionId(session);
    }

    static ServiceBusReceivedMessage receive(Faces.Receiver receiver) {
        return receive(receiver, 1).get(0);
    }

    /** Exactly so many messages, however many calls it takes. */
    static List<ServiceBusReceivedMessage> receive(Faces.Receiver receiver, int count) {
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        long until = System.nanoTime() + WAIT.multipliedBy(2).toNanos();
        while (messages.size() < count && System.nanoTime() < until) {
            messages.addAll(receiver.receiveMessages(count - messages.size(), WAIT));
        }
        equal(messages.size(), count, "messages that arrived");
        return messages;
    }

    static String body(ServiceBusReceivedMessage message) {
        return message.getBody().toString();
    }

    static List<String> bodies(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(Space::body).toList();
    }

    /** The bodies of so many messages, completed. */
    static List<String> take(Faces.Receiver receiver, int count) {
        List<ServiceBusReceivedMessage> messages = receive(receiver, count);
        messages.forEach(receiver::complete);
        return bodies(messages);
    }

    static void empty(Faces.Receiver receiver) {
        equal(bodies(receiver.receiveMessages(1, QUIET)), List.of(), "messages left");
    }

    /** Soon nothing is in the queue, however it is locked: what was handed out has been settled. */
    void drained(String queue) throws InterruptedException {
        Faces.Receiver receiver = receiver(queue);
        long until = System.nanoTime() + WAIT.toNanos();
        List<String> left;
        do {
            left = bodies(receiver.peekMessages(100, 1));
            if (!left.isEmpty()) Thread.sleep(100);
        } while (!left.isEmpty() && System.nanoTime() < until);
        equal(left, List.of(), "messages left");
    }

    static void equal(Object seen, Object expected) {
        equal(seen, expected, "");
    }

    static void equal(Object seen, Object expected, String what) {
        if (Objects.equals(seen, expected)) return;
        throw new AssertionError("%s%s, not %s".formatted(what.isEmpty() ? "" : what + ": ", seen, expected));
    }

    static void that(boolean holds, Object seen) {
        if (!holds) throw new AssertionError("unexpected: " + seen);
    }

    /** What is expected to fail. */
    @FunctionalInterface
    interface Attempt {
        void make() throws Exception;
    }

    /** The exception of that kind which the attempt ends with. */
    static <E extends Throwable> E raises(Class<E> kind, Attempt attempt) throws Exception {
        try {
            attempt.make();
        } catch (Throwable error) {
            if (kind.isInstance(error)) return kind.cast(error);
            throw error;
        }
        throw new AssertionError(kind.getSimpleName() + " was expected, not success");
    }

    /** By what the SDK makes of the broker's error: it is not everywhere a {@link ServiceBusException}. */
    static void raises(ServiceBusFailureReason reason, Attempt attempt) throws Exception {
        Throwable error = raises(RuntimeException.class, attempt);
        List<ServiceBusFailureReason> reasons = new ArrayList<>();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ServiceBusException known) reasons.add(known.getReason());
            if (cause instanceof AmqpException known) reasons.add(REASONS.get(known.getErrorCondition()));
        }
        if (!reasons.contains(reason)) throw new AssertionError(reason + " was expected, not " + error, error);
    }
}
