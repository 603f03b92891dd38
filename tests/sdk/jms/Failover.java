import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Session;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Sends and receives over JMS until its input ends, then gives account: as `python/failover.py`, which says what is
 * counted. JMS shows no sequence numbers, so the queue always detects duplicates, and a name is a message. It does
 * not say either whether an acknowledgement was carried out, but a commit does: each message is received in a
 * transaction.
 */
public final class Failover {
    /** Milliseconds between two messages. */
    private static final long PAUSE = 10;

    /** Milliseconds one receive waits. */
    private static final long WAIT = 500;

    /** Milliseconds without a message after which there is none left. */
    private static final long QUIET = 3_000;

    /** Milliseconds the last messages may take. */
    private static final long DRAIN_MAX = 90_000;

    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Set<String> unanswered = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();
    private final Set<String> completed = ConcurrentHashMap.newKeySet();
    /** Whose commit was cut off: done or not, nobody knows. */
    private final Set<String> unconfirmed = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> errors = Collections.synchronizedMap(new TreeMap<>());
    private volatile int completedAgain;
    private volatile long longestSend;
    private volatile long lastDelivery = System.currentTimeMillis();
    private volatile boolean isStopping;
    private volatile boolean isEnding;

    public static void main(String[] args) throws Exception {
        var flags = Suite.flags(args);
        var queue = flags.get("--queue");
        var cluster = new Cluster(flags.get("--amqp"), flags.get("--http"));
        cluster.createQueue(queue, "<LockDuration>PT20S</LockDuration>"
                + "<RequiresDuplicateDetection>true</RequiresDuplicateDetection>"
                + "<MaxDeliveryCount>100</MaxDeliveryCount>");
        var json = flags.get("--json");
        var summary = new Failover().run(cluster, queue, Path.of(json.replace(".json", ".started")));
        Files.writeString(Path.of(json), summary);
        // Threads of a client that is in trouble do not keep the program.
        System.exit(0);
    }

    private String run(Cluster cluster, String queue, Path started) throws Exception {
        var nodes = Stream.of(cluster.amqp().split(","))
                .map(address -> "amqp://" + address + "?amqp.idleTimeout=10000")
                .collect(Collectors.joining(","));
        var uri = "failover:(" + nodes + ")?failover.maxReconnectAttempts=-1"
                + "&failover.reconnectDelay=100&failover.useReconnectBackOff=false"
                + "&jms.prefetchPolicy.all=20&jms.requestTimeout=30000";
        var factory = new JmsConnectionFactory("RootManageSharedAccessKey", "key", uri);
        var connection = factory.createConnection();
        connection.start();
        var sender = new Thread(() -> send(connection, queue), "sender");
        var receiver = new Thread(() -> receive(connection, queue), "receiver");
        sender.start();
        receiver.start();
        while (deliveries.isEmpty()) Thread.sleep(50);
        Files.createFile(started);
        while (System.in.read() >= 0) continue;
        isStopping = true;
        sender.join();
        // Also for what was held when the connection died: it comes again when its lock has lapsed.
        var until = System.currentTimeMillis() + DRAIN_MAX;
        while (System.currentTimeMillis() < until) {
            var isQuiet = System.currentTimeMillis() - lastDelivery > QUIET;
            if (isQuiet && lost() == 0 && cluster.messageCount(queue) == 0) break;
            Thread.sleep(500);
        }
        isEnding = true;
        receiver.join(10_000);
        return summary(cluster.messageCount(queue));
    }

    private void send(Connection connection, String queue) {
        try {
            var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var producer = session.createProducer(session.createQueue(queue));
            for (var n = 0; !isStopping; n++) {
                var name = "m" + n;
                var began = System.currentTimeMillis();
                try {
                    producer.send(session.createTextMessage(name));
                    acknowledged.add(name);
                } catch (JMSException error) {
                    unanswered.add(name);
                    failed("final send", error);
                }
                longestSend = Math.max(longestSend, System.currentTimeMillis() - began);
                Thread.sleep(PAUSE);
            }
        } catch (JMSException | InterruptedException error) {
            failed("final sender", error);
        }
    }

    private void receive(Connection connection, String queue) {
        try {
            var session = connection.createSession(true, Session.SESSION_TRANSACTED);
            var consumer = session.createConsumer(session.createQueue(queue));
            while (!isEnding) {
                var message = consumer.receive(WAIT);
                if (message != null) complete(session, message);
            }
        } catch (JMSException error) {
            failed("final receiver", error);
        }
    }

    private void complete(Session session, Message message) throws JMSException {
        var name = message.getBody(String.class);
        lastDelivery = System.currentTimeMillis();
        if (completed.contains(name)) completedAgain++;
        deliveries.merge(name, 1, Integer::sum);
        try {
            session.commit();
            completed.add(name);
            unconfirmed.remove(name);
        } catch (JMSException error) {
            unconfirmed.add(name);
            failed("retryable commit", error);
        }
    }

    private void failed(String doing, Exception error) {
        var text = String.valueOf(error.getMessage());
        var line = doing + ": " + error.getClass().getSimpleName() + " "
                + text.substring(0, Math.min(70, text.length()));
        errors.merge(line, 1, Integer::sum);
    }

    private long lost() {
        return acknowledged.stream().filter(name -> !deliveries.containsKey(name)).count();
    }

    private String summary(int left) {
        var foreign = deliveries.keySet().stream()
                .filter(name -> !acknowledged.contains(name) && !unanswered.contains(name)).count();
        var again = deliveries.values().stream().filter(count -> count > 1).count();
        var reasons = new ArrayList<String>();
        if (lost() > 0) reasons.add(lost() + " lost");
        if (foreign > 0) reasons.add(foreign + " foreign");
        if (left > 0) reasons.add(left + " left");
        if (completedAgain > 0) reasons.add(completedAgain + " completed_again");
        if (acknowledged.isEmpty()) reasons.add("nothing was sent");
        errors.keySet().stream().filter(line -> line.startsWith("final")).forEach(reasons::add);
        var failure = reasons.isEmpty() ? "null" : Suite.quoted(String.join("; ", reasons));
        var told = errors.entrySet().stream()
                .map(error -> Suite.quoted(error.getKey()) + ":" + error.getValue())
                .collect(Collectors.joining(","));
        var counts = List.of("\"acknowledged\":" + acknowledged.size(),
                "\"unanswered\":" + unanswered.size(), "\"received\":" + deliveries.size(),
                "\"lost\":" + lost(), "\"foreign\":" + foreign, "\"left\":" + left,
                "\"completed_again\":" + completedAgain, "\"unconfirmed\":" + unconfirmed.size(),
                "\"delivered_again\":" + again, "\"longest_send\":\"" + longestSend + " ms\"",
                "\"errors\":{" + told + "}", "\"failure\":" + failure);
        return "{" + String.join(",", counts) + "}";
    }
}
