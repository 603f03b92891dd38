import jakarta.jms.JMSException;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Ways to a cluster: logins, transports, addresses. */
final class Connecting {
    private Connecting() {}

    static void checks(Check.Group group) {
        group.add("plain", "A rule's name and key log in by SASL PLAIN.", space -> {
            exchange(space, space.session("amqp.saslMechanisms=PLAIN"));
        });
        group.add("anonymous", "SASL ANONYMOUS, where the cluster has no secret.", space -> {
            var uri = "amqp://" + space.cluster.amqp() + "?amqp.saslMechanisms=ANONYMOUS";
            var connection = space.open(new JmsConnectionFactory(uri));
            exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("failover", "failover:(…) passes over a node that is not there.", space -> {
            var uri = "failover:(amqp://localhost:1,amqp://" + space.cluster.amqp() + ")"
                    + "?failover.maxReconnectAttempts=20";
            var connection = space.connectTo(uri);
            exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("webSocket", "amqpws:// at /$servicebus/websocket of the HTTP port.", space -> {
            var uri = "amqpws://" + space.cluster.http() + "/$servicebus/websocket";
            var connection = space.connectTo(uri);
            exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("tls", "amqps://, with the authority in a trust store.", space -> {
            var uri = "amqps://" + System.getenv("MAYFLY_AMQPS") + "?" + Trust.options();
            var connection = space.connectTo(uri);
            exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("webSocketTls", "amqpwss:// at the HTTP port, with the same trust store.", space -> {
            var uri = "amqpwss://" + space.cluster.http() + "/$servicebus/websocket?" + Trust.options();
            var connection = space.connectTo(uri);
            exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("untrusted", "A client that does not trust the authority does not speak.", space -> {
            var uri = "amqps://" + System.getenv("MAYFLY_AMQPS");
            Expect.refused("certification path", "", () -> space.connectTo(uri));
        });
        group.add("manySessions", "A connection has many sessions and links.", space -> {
            var connection = space.connect();
            var name = space.queue();
            for (var n = 0; n < 20; n++) {
                var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Space.send(session, session.createQueue(name), "m" + n);
                var consumer = session.createConsumer(session.createQueue(name));
                Expect.equal("m" + n, Space.text(Space.receive(consumer)), "of session " + n);
                consumer.close();
            }
        });
        group.add("missing", "A queue that is not there is told, and the connection goes on.", space -> {
            var session = space.session();
            var absent = session.createQueue(space.name + "-absent");
            Expect.refused("amqp:not-found", "could not be found", () -> session.createConsumer(absent));
            Expect.refused("amqp:not-found", "could not be found", () -> session.createProducer(absent));
            exchange(space, session);
        });
        group.add("anonymousProducer", "A producer without a destination sends to any queue.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            session.createProducer(null).send(queue, session.createTextMessage("m"));
            Expect.equal("m", Space.text(Space.receive(session.createConsumer(queue))), "body");
        });
    }

    /** A message goes there and comes back. */
    static void exchange(Space space, Session session) throws Exception {
        var queue = session.createQueue(space.queue());
        Space.send(session, queue, "hello");
        var consumer = session.createConsumer(queue);
        Expect.equal("hello", Space.text(Space.receive(consumer)), "body");
        Space.isEmpty(consumer);
    }
}
