import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What one check works with: connections that are closed after it, entities nobody else uses. */
final class Space implements AutoCloseable {
    /** Milliseconds in which a message that is there arrives, on a busy machine. */
    static final long WAIT = 10_000;

    /** Milliseconds without a message after which there is none. */
    static final long QUIET = 1_000;

    final Cluster cluster;
    final String name;
    private final String key;
    private final List<Connection> connections = new ArrayList<>();

    Space(Cluster cluster, String check) {
        this.cluster = cluster;
        // Without a secret any will do.
        key = cluster.secret() == null ? "key" : cluster.secret();
        name = check.replace('.', '-') + "-jms-" + UUID.randomUUID().toString().substring(0, 6);
    }

    /** With what a client of Service Bus has: a rule's name, and its key. */
    Connection connect(String... options) throws Exception {
        return connectTo(cluster.uri(options));
    }

    Connection connectTo(String uri) throws JMSException {
        return open(new JmsConnectionFactory("RootManageSharedAccessKey", key, uri));
    }

    Connection open(JmsConnectionFactory factory) throws JMSException {
        var connection = factory.createConnection();
        connections.add(connection);
        connection.start();
        return connection;
    }

    Session session(String... options) throws Exception {
        return connect(options).createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    /** A queue of this check's own. */
    String queue() throws Exception {
        return queue("");
    }

    String queue(String properties) throws Exception {
        cluster.createQueue(name, properties);
        return name;
    }

    /** A topic, with subscriptions that take everything. */
    String topic(String... subscriptions) throws Exception {
        cluster.createTopic(name);
        for (var subscription : subscriptions) cluster.createSubscription(name, subscription);
        return name;
    }

    /** A text for each body, in order. */
    static void send(Session session, Queue queue, String... bodies) throws JMSException {
        var producer = session.createProducer(queue);
        for (var body : bodies) producer.send(session.createTextMessage(body));
        producer.close();
    }

    /** The message that is there. */
    static Message receive(MessageConsumer consumer) throws JMSException {
        var message = consumer.receive(WAIT);
        Expect.that(message != null, "no message arrives");
        return message;
    }

    static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    /** The bodies of all that come. */
    static List<String> takeAll(MessageConsumer consumer) throws JMSException {
        var bodies = new ArrayList<String>();
        for (var next = consumer.receive(QUIET); next != null; next = consumer.receive(QUIET)) {
            bodies.add(text(next));
        }
        return bodies;
    }

    static void isEmpty(MessageConsumer consumer) throws JMSException {
        var message = consumer.receive(QUIET);
        Expect.that(message == null, "a message is there: " + message);
    }

    @Override
    public void close() {
        for (var connection : connections) {
            try {
                connection.close();
            } catch (JMSException error) {
                // One whose connection is gone; its check has told.
                continue;
            }
        }
    }
}
