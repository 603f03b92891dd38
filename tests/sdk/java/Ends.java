import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/**
 * What one program of the Java SDK meets while the node it is connected to ends, dies or stands still: the same as
 * `python/ends.py`, which says what is told.
 */
final class Ends {
    private static final Duration LOCK = Duration.ofSeconds(60);
    private static final int DELIVERIES_MAX = 2;
    /** Milliseconds between two calls of a kind, and between two looks whether something is free. */
    private static final long PAUSE = 50;
    /** One call for messages may take. */
    private static final Duration WAIT = Duration.ofSeconds(5);
    /** Of a settlement: see `Failover`. */
    private static final String IN_DOUBT = "due to receive link closure";
    private static final List<String> QUEUES = List.of("work", "renewed", "held", "later");
    private static final String SESSIONS = "sessions";
    private static final List<String> KINDS = List.of("send", "complete", "renew", "cancel", "peek", "session renew");

    private final Map<String, String> options;
    private final Map<String, Integer> calls = new ConcurrentHashMap<>();
    private final Map<String, Integer> lost = new ConcurrentHashMap<>();
    private final Map<String, Map<String, Integer>> failed = new ConcurrentHashMap<>();
    private final Map<String, Object> found = new ConcurrentHashMap<>();
    private final AtomicReference<Throwable> broken = new AtomicReference<>();
    private final CountDownLatch began = new CountDownLatch(1);
    private volatile long beganAt;
    private volatile boolean ending;

    private Ends(Map<String, String> options) {
        this.options = options;
    }

    public static void main(String[] args) throws Exception {
        new Ends(Suite.options(args)).run();
        System.exit(0);
    }

    private interface Turn {
        void take() throws Exception;
    }

    private String name(String queue) {
        return options.get("queues") + "-" + queue;
    }

    private ServiceBusClientBuilder client(String address, int retries) {
        AmqpRetryOptions how = new AmqpRetryOptions().setMaxRetries(retries).setDelay(Duration.ofSeconds(1))
            .setMaxDelay(Duration.ofSeconds(5)).setTryTimeout(Duration.ofSeconds(5));
        return new ServiceBusClientBuilder().connectionString(Target.plain(address)).retryOptions(how);
    }

    private ServiceBusClientBuilder client() {
        return client(options.get("amqp"), 10);
    }

    private ServiceBusSenderClient sender(String queue) {
        return client().sender().queueName(name(queue)).buildClient();
    }

    private ServiceBusReceiverClient receiver(String queue, String address) {
        return client(address, 10).receiver().queueName(name(queue)).maxAutoLockRenewDuration(Duration.ZERO)
            .disableAutoComplete().buildClient();
    }

    private ServiceBusReceiverClient receiver(String queue) {
        return receiver(queue, options.get("amqp"));
    }

    private ServiceBusSessionReceiverClient sessions(ServiceBusClientBuilder client) {
        return client.sessionReceiver().queueName(name(SESSIONS)).maxAutoLockRenewDuration(Duration.ZERO)
            .disableAutoComplete().buildClient();
    }

    /** What came of it; null: it was not done. */
    private <T> T attempt(String kind, Callable<T> call) {
        calls.merge(kind, 1, Integer::sum);
        try {
            return call.call();
        } catch (Exception error) {
            ServiceBusException known = error instanceof ServiceBusException of ? of : null;
            // A session goes with its connection, and the SDK says so by either error.
            boolean isLost = known != null
                && (known.getReason() == ServiceBusFailureReason.MESSAGE_LOCK_LOST
                    || known.getReason() == ServiceBusFailureReason.SESSION_LOCK_LOST
                    || kind.startsWith("session") && known.isTransient()
                    || error.toString().contains(IN_DOUBT));
            if (isLost) {
                lost.merge(kind, 1, Integer::sum);
            } else {
                String text = error.toString().lines().findFirst().orElse("");
                failed.computeIfAbsent(kind, of -> new ConcurrentHashMap<>())
                    .merge(text.substring(0, Math.min(text.length(), 160)), 1, Integer::sum);
            }
            return null;
        }
    }

    private boolean done(String kind, Turn call) {
        Boolean is = attempt(kind, () -> {
            call.take();
            return true;
        });
        return is != null;
    }

    private void repeat(Turn turn) throws Exception {
        while (!ending) {
            turn.take();
            Thread.sleep(PAUSE);
        }
    }

    private void send() throws Exception {
        ServiceBusSenderClient sender = sender("work");
        repeat(() -> done("send", () -> sender.sendMessage(new ServiceBusMessage("m"))));
    }

    private List<ServiceBusReceivedMessage> take(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> taken =
            attempt("receive", () -> receiver.receiveMessages(count, WAIT).stream().toList());
        return taken == null ? List.of() : taken;
    }

    private void receive() throws Exception {
        ServiceBusReceiverClient receiver = receiver("work");
        repeat(() -> take(receiver, 10).forEach(message -> done("complete", () -> receiver.complete(message))));
    }

    private void renew() throws Exception {
        ServiceBusReceiverClient receiver = receiver("renewed");
        List<ServiceBusReceivedMessage> held = new ArrayList<>();
        repeat(() -> {
            if (held.isEmpty()) held.addAll(take(receiver, 1));
            else if (!done("renew", () -> receiver.renewMessageLock(held.get(0)))) held.clear();
        });
    }

    private void schedule() throws Exception {
        ServiceBusSenderClient sender = sender("later");
        repeat(() -> {
            OffsetDateTime at = OffsetDateTime.now().plusHours(1);
            Long number = attempt("schedule", () -> sender.scheduleMessage(new ServiceBusMessage("m"), at));
            if (number != null) done("cancel", () -> sender.cancelScheduledMessage(number));
        });
    }

    private void peek() throws Exception {
        ServiceBusReceiverClient receiver = receiver("later");
        repeat(() -> done("peek", receiver::peekMessage));
    }

    /** Its state, by one holder after the other. */
    private void session() throws Exception {
        ServiceBusSessionReceiverClient sessions = sessions(client());
        repeat(() -> {
            ServiceBusReceiverClient held = attempt("session accept", () -> sessions.acceptSession("own"));
            if (held == null) return;
            while (!ending && done("session state", () -> held.setSessionState(new byte[] {1}))
                && done("session renew", held::renewSessionLock)) Thread.sleep(PAUSE);
            held.close();
        });
    }

    /** One message and one session, until the end. */
    private void hold() throws Exception {
        ServiceBusReceiverClient receiver = receiver("held");
        List<ServiceBusReceivedMessage> messages =
            receiver.receiveMessages(1, Duration.ofSeconds(30)).stream().toList();
        ServiceBusReceiverClient session = sessions(client()).acceptSession("held");
        found.put("held", messages.size());
        while (!ending) Thread.sleep(PAUSE);
        found.put("settled", done("settle", () -> receiver.complete(messages.get(0))));
        session.close();
    }

    private long since() {
        return (System.nanoTime() - beganAt) / 1_000_000;
    }

    private void lookForSession() throws Exception {
        ServiceBusSessionReceiverClient sessions = sessions(client(options.get("elsewhere"), 0));
        began.await();
        while (!ending) {
            try {
                sessions.acceptSession("held");
                // At the end its holder lets go of it.
                if (!ending) found.put("session_ms", since());
                return;
            } catch (RuntimeException held) {
                Thread.sleep(PAUSE);
            }
        }
    }

    private void lookForMessage() throws Exception {
        ServiceBusReceiverClient receiver = receiver("held", options.get("elsewhere"));
        began.await();
        while (!ending) {
            for (ServiceBusReceivedMessage message : receiver.receiveMessages(1, WAIT)) {
                found.put("message_ms", since());
                found.put("deliveries", message.getDeliveryCount());
                receiver.complete(message);
                return;
            }
        }
    }

    private Thread started(Turn work) {
        Thread thread = new Thread(() -> {
            try {
                work.take();
            } catch (Exception error) {
                broken.compareAndSet(null, error);
            }
        });
        thread.start();
        return thread;
    }

    private void run() throws Exception {
        Target target = new Target("", options.get("http"), "");
        ServiceBusAdministrationClient admin =
            (ServiceBusAdministrationClient) Space.newAdministration(target, Flavour.SYNC);
        List<String> all = new ArrayList<>(QUEUES);
        all.add(SESSIONS);
        for (String queue : all) {
            admin.createQueue(name(queue), new CreateQueueOptions().setLockDuration(LOCK)
                .setMaxDeliveryCount(DELIVERIES_MAX).setSessionRequired(queue.equals(SESSIONS)));
        }
        for (String queue : List.of("renewed", "held")) sender(queue).sendMessage(new ServiceBusMessage("m"));
        List<Thread> threads = new ArrayList<>();
        for (Turn work : List.<Turn>of(
            this::send, this::receive, this::renew, this::schedule, this::peek, this::session, this::hold)) {
            threads.add(started(work));
        }
        while (!(calls.keySet().containsAll(KINDS) && found.containsKey("held"))) {
            if (broken.get() != null) throw new IllegalStateException(broken.get());
            Thread.sleep(PAUSE);
        }
        threads.add(started(this::lookForSession));
        threads.add(started(this::lookForMessage));
        Path json = Path.of(options.get("json"));
        Files.createFile(Path.of(json.toString().replaceFirst("json$", "started")));
        while (System.in.read() != '\n') continue;
        beganAt = System.nanoTime();
        began.countDown();
        while (System.in.read() >= 0) continue;
        ending = true;
        for (Thread thread : threads) thread.join();
        if (broken.get() != null) throw new IllegalStateException(broken.get());
        int dead = 0;
        for (String queue : all) dead += admin.getQueueRuntimeProperties(name(queue)).getDeadLetterMessageCount();
        Map<String, Object> account = new LinkedHashMap<>(found);
        for (String name : List.of("session_ms", "message_ms", "deliveries")) account.putIfAbsent(name, null);
        account.put("dead", dead);
        account.put("calls", calls);
        account.put("lost", lost);
        account.put("failed", failed);
        new ObjectMapper().writeValue(json.toFile(), account);
    }
}
