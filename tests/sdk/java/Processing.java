import static java.util.stream.IntStream.range;

import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusErrorSource;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** Processors, which call a handler for each message, with and without sessions. */
final class Processing {
    private static final String DELIVERY = "ServiceBusReceivedMessageContext.";

    private static Consumer<ServiceBusReceivedMessageContext> handler(Space space, Consumer<Faces.Delivery> handler) {
        return context -> handler.accept(space.handle(Faces.Delivery.class, context));
    }

    private static Consumer<ServiceBusErrorContext> into(Space space, BlockingQueue<Faces.Trouble> troubles) {
        return context -> troubles.add(space.handle(Faces.Trouble.class, context));
    }

    /** So many of what comes, in its order. */
    private static <T> List<T> next(BlockingQueue<T> queue, int count) throws InterruptedException {
        List<T> items = new ArrayList<>();
        while (items.size() < count) {
            T item = queue.poll(Space.WAIT.multipliedBy(2).toSeconds(), TimeUnit.SECONDS);
            Space.that(item != null, items.size() + " of " + count);
            items.add(item);
        }
        return items;
    }

    @Check(
        says = "A handler gets every message, each of which is completed when it returns.",
        proves = {
            "ServiceBusProcessorClient.start", "ServiceBusProcessorClient.close", "ServiceBusProcessorClient.isRunning",
            "ServiceBusProcessorClient.getQueueName", "ServiceBusProcessorClient.getIdentifier",
            DELIVERY + "getMessage", DELIVERY + "getEntityPath", DELIVERY + "getFullyQualifiedNamespace"
        },
        flavours = Flavour.SYNC)
    static void handle(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "a", "b", "c");
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        BlockingQueue<Faces.Trouble> troubles = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().queueName(queue)
            .processMessage(handler(space, delivery -> {
                Space.equal(
                    List.of(delivery.getEntityPath(), delivery.getFullyQualifiedNamespace()),
                    List.of(queue, "localhost"));
                seen.add(Space.body(delivery.getMessage()));
            }))
            .processError(into(space, troubles)).buildProcessorClient());
        Space.equal(processor.getQueueName(), queue);
        Space.that(!processor.isRunning(), "running");
        processor.start();
        Space.that(processor.isRunning(), "not running");
        Space.that(!processor.getIdentifier().isEmpty(), "no identifier");
        Space.equal(next(seen, 3), List.of("a", "b", "c"));
        space.send(queue, "d");
        Space.equal(next(seen, 1), List.of("d"));
        space.drained(queue);
        processor.close();
        Space.equal(troubles.size(), 0, "errors");
    }

    @Check(
        says = "A processor that is stopped takes nothing, and goes on when it is started again.",
        proves = {"ServiceBusProcessorClient.stop", "ServiceBusProcessorClient.start"},
        flavours = Flavour.SYNC)
    static void stop(Space space) throws Exception {
        String queue = space.queue();
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().queueName(queue)
            .processMessage(handler(space, delivery -> seen.add(Space.body(delivery.getMessage()))))
            .processError(into(space, new LinkedBlockingQueue<>())).buildProcessorClient());
        processor.start();
        space.send(queue, "a");
        Space.equal(next(seen, 1), List.of("a"));
        processor.stop();
        Space.that(!processor.isRunning(), "running");
        space.send(queue, "b");
        Space.equal(seen.poll(Space.QUIET.toSeconds(), TimeUnit.SECONDS), null);
        processor.start();
        // What its link held as it was stopped comes again when the lock of it has ended.
        Space.equal(next(seen, 1), List.of("b"));
    }

    @Check(
        says = "A handler settles in every way, of a processor that leaves it to it.",
        proves = {DELIVERY + "complete", DELIVERY + "abandon", DELIVERY + "defer", DELIVERY + "deadLetter"},
        flavours = Flavour.SYNC)
    static void settle(Space space) throws Exception {
        String queue = space.queue();
        Map<String, Consumer<Faces.Delivery>> ways = new TreeMap<>(Map.of(
            "abandon", Faces.Delivery::abandon,
            "abandon with options", one -> one.abandon(new AbandonOptions().setPropertiesToModify(Map.of("p", 1))),
            "complete", Faces.Delivery::complete,
            "complete with options", one -> one.complete(new CompleteOptions()),
            "dead-letter", Faces.Delivery::deadLetter,
            "dead-letter with options", one -> one.deadLetter(new DeadLetterOptions().setDeadLetterReason("why")),
            "defer", Faces.Delivery::defer,
            "defer with options", one -> one.defer(new DeferOptions().setPropertiesToModify(Map.of("p", 2)))));
        BlockingQueue<String> handled = new LinkedBlockingQueue<>();
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().queueName(queue).disableAutoComplete()
            .processMessage(handler(space, delivery -> {
                String body = Space.body(delivery.getMessage());
                if (delivery.getMessage().getDeliveryCount() == 0) {
                    ways.get(body).accept(delivery);
                    handled.add(body);
                } else {
                    delivery.complete();
                    seen.add(body);
                }
            }))
            .processError(into(space, new LinkedBlockingQueue<>())).buildProcessorClient());
        processor.start();
        space.send(queue, ways.keySet().toArray(String[]::new));
        Space.equal(new HashSet<>(next(handled, 8)), ways.keySet());
        Space.equal(new HashSet<>(next(seen, 2)), Set.of("abandon", "abandon with options"));
        Space.equal(
            new HashSet<>(Space.take(space.deadLetters(queue), 2)), Set.of("dead-letter", "dead-letter with options"));
        processor.stop();
        Space.equal(Space.bodies(space.receiver(queue).peekMessages(9)), List.of("defer", "defer with options"));
    }

    @Check(
        says = "A handler that fails has its message come again, and the error is told.",
        proves = {
            "ServiceBusErrorContext.getException", "ServiceBusErrorContext.getErrorSource",
            "ServiceBusErrorContext.getEntityPath", "ServiceBusErrorContext.getFullyQualifiedNamespace"
        },
        flavours = Flavour.SYNC)
    static void failing(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "x");
        BlockingQueue<Long> counts = new LinkedBlockingQueue<>();
        BlockingQueue<Faces.Trouble> troubles = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().queueName(queue)
            .processMessage(handler(space, delivery -> {
                counts.add(delivery.getMessage().getDeliveryCount());
                if (delivery.getMessage().getDeliveryCount() == 0) throw new IllegalStateException("at first");
            }))
            .processError(into(space, troubles)).buildProcessorClient());
        processor.start();
        Space.equal(next(counts, 2), List.of(0L, 1L));
        Faces.Trouble trouble = next(troubles, 1).get(0);
        Space.that(trouble.getException().toString().contains("at first"), trouble.getException());
        Space.equal(trouble.getErrorSource(), ServiceBusErrorSource.USER_CALLBACK);
        Space.equal(
            List.of(trouble.getEntityPath(), trouble.getFullyQualifiedNamespace()), List.of(queue, "localhost"));
    }

    @Check(
        says = "Handlers run beside each other, as many as are allowed, and the SDK keeps their locks.",
        proves = {"ServiceBusProcessorClient.start"},
        flavours = Flavour.SYNC)
    static void concurrent(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, range(0, 8).mapToObj(String::valueOf).toArray(String[]::new));
        AtomicInteger running = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().queueName(queue).maxConcurrentCalls(4)
            .prefetchCount(0).maxAutoLockRenewDuration(Duration.ofMinutes(1))
            .processMessage(handler(space, delivery -> {
                most.accumulateAndGet(running.incrementAndGet(), Math::max);
                sleep(7_000);
                running.decrementAndGet();
                seen.add(Space.body(delivery.getMessage()));
            }))
            .processError(into(space, new LinkedBlockingQueue<>())).buildProcessorClient());
        processor.start();
        Space.equal(new HashSet<>(next(seen, 8)).size(), 8);
        Space.equal(most.get(), 4);
        space.drained(queue);
        processor.stop();
    }

    @Check(
        says = "A processor of a subscription's dead-letter queue, which removes what it receives.",
        proves = {"ServiceBusProcessorClient.getTopicName", "ServiceBusProcessorClient.getSubscriptionName"},
        flavours = Flavour.SYNC)
    static void ofSubscription(Space space) throws Exception {
        String topic = space.topic("s");
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Faces.Receiver receiver = space.subscriber(topic, "s");
        receiver.deadLetter(Space.receive(receiver));
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().processor().topicName(topic).subscriptionName("s")
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)
            .processMessage(handler(space, delivery -> seen.add(Space.body(delivery.getMessage()))))
            .processError(into(space, new LinkedBlockingQueue<>())).buildProcessorClient());
        Space.equal(List.of(processor.getTopicName(), processor.getSubscriptionName()), List.of(topic, "s"));
        processor.start();
        Space.equal(next(seen, 1), List.of("x"));
    }

    @Check(
        says = "Sessions are handled beside each other, the messages of each in order; one that is idle makes room.",
        proves = {"ServiceBusProcessorClient.start", DELIVERY + "getMessage"},
        flavours = Flavour.SYNC)
    static void sessions(Space space) throws Exception {
        String queue = Sessions.queueWith(space, Duration.ofMinutes(1), "a", "b", "c", "d");
        Map<String, List<String>> seen = new ConcurrentHashMap<>();
        BlockingQueue<String> all = new LinkedBlockingQueue<>();
        BlockingQueue<Faces.Trouble> troubles = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().sessionProcessor().queueName(queue)
            .maxConcurrentSessions(2).maxConcurrentCalls(1).sessionIdleTimeout(Duration.ofSeconds(2))
            .maxAutoLockRenewDuration(Duration.ofMinutes(1)).prefetchCount(0)
            .processMessage(handler(space, delivery -> {
                String body = Space.body(delivery.getMessage());
                seen.computeIfAbsent(delivery.getMessage().getSessionId(), id -> new ArrayList<>()).add(body);
                all.add(body);
            }))
            .processError(into(space, troubles)).buildProcessorClient());
        processor.start();
        next(all, 12);
        space.drained(queue);
        for (String id : List.of("a", "b", "c", "d")) {
            Space.equal(seen.get(id), List.of(id + "1", id + "2", id + "3"));
        }
        processor.close();
        Space.equal(troubles.stream().map(trouble -> trouble.getException().toString()).toList(), List.of(), "errors");
    }

    @Check(
        says = "A session processor of a subscription leaves completion to its handler.",
        proves = {DELIVERY + "complete"},
        flavours = Flavour.SYNC)
    static void sessionsOfSubscription(Space space) throws Exception {
        String topic = space.topic();
        space.admin().createSubscription(topic, "s", new CreateSubscriptionOptions().setSessionRequired(true));
        space.topicSender(topic).sendMessages(List.of(Space.inSession("a", "a1"), Space.inSession("b", "b1")));
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Processor processor = space.opened(space.builder().sessionProcessor().topicName(topic)
            .subscriptionName("s").maxConcurrentSessions(2).subQueue(SubQueue.NONE).receiveMode(ServiceBusReceiveMode.PEEK_LOCK)
            .disableAutoComplete()
            .processMessage(handler(space, delivery -> {
                delivery.complete();
                seen.add(Space.body(delivery.getMessage()));
            }))
            .processError(into(space, new LinkedBlockingQueue<>())).buildProcessorClient());
        processor.start();
        Space.equal(new HashSet<>(next(seen, 2)), Set.of("a1", "b1"));
        processor.stop();
        Space.equal(space.subscriber(topic, "s").peekMessages(5), List.of());
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
