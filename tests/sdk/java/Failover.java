import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends and receives over the Java SDK until its input ends, then gives account: the same program as
 * `python/failover.py`, which says what is counted. Receives by processor, which the SDK itself brings back after a
 * connection is gone.
 */
final class Failover {
    private static final Duration LOCK = Duration.ofSeconds(20);
    /** Milliseconds between two messages of a sender. */
    private static final long PAUSE = 10;
    /** Without a message after which there is none left. */
    private static final Duration QUIET = Duration.ofSeconds(3);
    /** What the last messages may take. */
    private static final Duration DRAIN_MAX = Duration.ofSeconds(90);
    /** Unless it is told otherwise, the SDK waits a minute for the answer to what it sent on a connection that is gone. */
    private static final AmqpRetryOptions RETRIES = new AmqpRetryOptions().setMaxRetries(10)
        .setDelay(Duration.ofSeconds(1)).setMaxDelay(Duration.ofSeconds(5)).setTryTimeout(Duration.ofSeconds(5));

    /** A completion whose link ended before its answer: the message comes again if it was not done, and not if it was. */
    private static final String IN_DOUBT = "didn't receive the disposition acknowledgment due to receive link closure";

    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Set<String> unanswered = ConcurrentHashMap.newKeySet();
    /** By name of the message: the numbers it was received under. */
    private final ConcurrentMap<String, Set<Long>> numbers = new ConcurrentHashMap<>();
    private final Set<Long> completed = ConcurrentHashMap.newKeySet();
    /** By number: completions that found no lock. */
    private final Set<Long> unconfirmed = ConcurrentHashMap.newKeySet();
    private final ConcurrentMap<String, Integer> errors = new ConcurrentHashMap<>();
    private final AtomicInteger completedAgain = new AtomicInteger();
    private final AtomicInteger deliveredAgain = new AtomicInteger();
    private final AtomicInteger givenBack = new AtomicInteger();
    private final AtomicLong longestSend = new AtomicLong();
    private volatile long lastDelivery = System.nanoTime();
    private volatile boolean stopping;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = Suite.options(args);
        Target target = new Target("", options.get("http"), "");
        ServiceBusAdministrationClient admin =
            (ServiceBusAdministrationClient) Space.newAdministration(target, Flavour.SYNC);
        String queue = options.get("queue");
        boolean detects = options.containsKey("detect-duplicates");
        admin.createQueue(queue, new CreateQueueOptions().setLockDuration(LOCK).setMaxDeliveryCount(100)
            .setDuplicateDetectionRequired(detects));
        Path json = Path.of(options.get("json"));
        Map<String, Object> account = new Failover().run(options.get("amqp").split(","), queue, json, admin, detects);
        new ObjectMapper().writeValue(json.toFile(), account);
        System.exit(0);
    }

    private Map<String, Object> run(
        String[] addresses, String queue, Path json, ServiceBusAdministrationClient admin, boolean detects)
        throws Exception {
        List<Thread> senders = new ArrayList<>();
        List<ServiceBusProcessorClient> processors = new ArrayList<>();
        for (String address : addresses) {
            ServiceBusClientBuilder builder =
                new ServiceBusClientBuilder().connectionString(Target.plain(address)).retryOptions(RETRIES);
            ServiceBusSenderClient sender = builder.sender().queueName(queue).buildClient();
            Thread thread = new Thread(() -> send(sender));
            thread.start();
            senders.add(thread);
            ServiceBusProcessorClient processor = builder.processor().queueName(queue).maxConcurrentCalls(10)
                .maxAutoLockRenewDuration(Duration.ZERO).disableAutoComplete().processMessage(this::receive)
                .processError(this::told).buildProcessorClient();
            processor.start();
            processors.add(processor);
        }
        while (numbers.isEmpty()) Thread.sleep(50);
        Files.createFile(Path.of(json.toString().replaceFirst("json$", "started")));
        while (System.in.read() >= 0) continue;
        stopping = true;
        for (Thread thread : senders) thread.join();
        waitDrained(admin, queue);
        processors.forEach(ServiceBusProcessorClient::close);
        return summary(left(admin, queue), detects);
    }

    private static long left(ServiceBusAdministrationClient admin, String queue) {
        return admin.getQueueRuntimeProperties(queue).getTotalMessageCount();
    }

    private void send(ServiceBusSenderClient sender) {
        String run = UUID.randomUUID().toString().substring(0, 8);
        for (int n = 0; !stopping; n++) {
            String name = run + "-" + n;
            long began = System.nanoTime();
            try {
                sender.sendMessage(new ServiceBusMessage(name).setMessageId(name));
                acknowledged.add(name);
            } catch (RuntimeException error) {
                unanswered.add(name);
                failed("send", error);
            }
            longestSend.accumulateAndGet(System.nanoTime() - began, Math::max);
            sleep(PAUSE);
        }
    }

    private void receive(ServiceBusReceivedMessageContext context) {
        ServiceBusReceivedMessage message = context.getMessage();
        long number = message.getSequenceNumber();
        lastDelivery = System.nanoTime();
        Set<Long> known = numbers.computeIfAbsent(message.getMessageId(), name -> ConcurrentHashMap.newKeySet());
        if (completed.contains(number)) completedAgain.incrementAndGet();
        if (!known.add(number)) deliveredAgain.incrementAndGet();
        if (unconfirmed.remove(number)) givenBack.incrementAndGet();
        try {
            context.complete();
            completed.add(number);
        } catch (RuntimeException error) {
            boolean isLost = error instanceof ServiceBusException settled
                && settled.getReason() == ServiceBusFailureReason.MESSAGE_LOCK_LOST;
            if (isLost) unconfirmed.add(number);
            else failed("complete", error);
        }
    }

    private void told(ServiceBusErrorContext context) {
        failed(context.getErrorSource().toString().toLowerCase(), context.getException());
    }

    private void failed(String doing, Throwable error) {
        String text = error.toString().lines().findFirst().orElse("");
        boolean passes = error instanceof ServiceBusException known && (known.isTransient() || text.contains(IN_DOUBT));
        String line = "%s %s: %s".formatted(
            passes ? "retryable" : "final", doing, text.substring(0, Math.min(text.length(), 160)));
        errors.merge(line, 1, Integer::sum);
    }

    private Set<String> lost() {
        Set<String> lost = new HashSet<>(acknowledged);
        lost.removeAll(numbers.keySet());
        return lost;
    }

    /** Also for what a receiver held whose connection died: it comes again when its lock has lapsed. */
    private void waitDrained(ServiceBusAdministrationClient admin, String queue) {
        long until = System.nanoTime() + DRAIN_MAX.toNanos();
        while (System.nanoTime() < until) {
            boolean isQuiet = System.nanoTime() - lastDelivery > QUIET.toNanos();
            if (isQuiet && lost().isEmpty() && left(admin, queue) == 0) return;
            sleep(500);
        }
    }

    private Map<String, Object> summary(long left, boolean detects) {
        Set<String> foreign = new HashSet<>(numbers.keySet());
        foreign.removeAll(acknowledged);
        foreign.removeAll(unanswered);
        Map<String, Object> account = new LinkedHashMap<>();
        account.put("acknowledged", acknowledged.size());
        account.put("unanswered", unanswered.size());
        account.put("received", numbers.size());
        account.put("lost", lost().size());
        account.put("foreign", foreign.size());
        account.put("left", left);
        account.put("completed_again", completedAgain.get());
        account.put("unconfirmed", unconfirmed.size());
        account.put("given_back", givenBack.get());
        account.put("delivered_again", deliveredAgain.get());
        account.put("stored_twice", numbers.values().stream().filter(known -> known.size() > 1).count());
        account.put("longest_send", "%.1f s".formatted(longestSend.get() / 1e9));
        account.put("errors", errors);
        List<String> wrong = new ArrayList<>(List.of("lost", "foreign", "left", "completed_again"));
        if (detects) wrong.add("stored_twice");
        List<String> reasons = new ArrayList<>();
        for (String name : wrong) {
            if (((Number) account.get(name)).longValue() > 0) reasons.add(account.get(name) + " " + name);
        }
        errors.keySet().stream().filter(line -> line.startsWith("final")).forEach(reasons::add);
        if (acknowledged.isEmpty()) reasons.add("nothing was sent");
        account.put("failure", reasons.isEmpty() ? null : String.join("; ", reasons));
        return account;
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
