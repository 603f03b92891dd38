import jakarta.jms.Connection;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A broker with a secret: what the name of a key and the key open, by SASL PLAIN over TLS. */
final class Keys {
    private static final String DENIED = "amqp:unauthorized-access";
    private static final String KEY = "b2YgYSBxdWV1ZSBhbmQgb2Ygbm90aGluZyBlbHNlLi4=";

    /** Of a queue: its key `app`, which sends and listens. */
    private static final String RULE = "<AuthorizationRules><AuthorizationRule"
            + " xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\""
            + " i:type=\"SharedAccessAuthorizationRule\">"
            + "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights>"
            + "<AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights>"
            + "<KeyName>app</KeyName><PrimaryKey>" + KEY + "</PrimaryKey><SecondaryKey>" + KEY + "</SecondaryKey>"
            + "</AuthorizationRule></AuthorizationRules>";

    private Keys() {}

    static void checks(Check.Group plain) {
        Check.Group group = (name, says, body) -> plain.add(name, says, space -> inside(space, body));
        group.add("root", "The secret is the key of RootManageSharedAccessKey.", space -> {
            var connection = space.connectTo(amqps(space));
            Connecting.exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("webSocket", "The same through a WebSocket.", space -> {
            var uri = "amqpwss://" + space.cluster.http() + "/$servicebus/websocket?" + Trust.options();
            var connection = space.connectTo(uri);
            Connecting.exchange(space, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        });
        group.add("wrong", "A wrong key is refused; a name that is no key's opens nothing.", space -> {
            var root = "RootManageSharedAccessKey";
            Expect.refused("authenticate", "PLAIN", () -> login(space, root, "wrong"));
            var nobody = login(space, "nobody", "wrong");
            var session = nobody.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Expect.refused(DENIED, "", () -> session.createConsumer(queue));
        });
        group.add("entity", "A queue's own key opens this queue, and no other.", space -> {
            var queue = space.queue(RULE);
            space.cluster.createQueue(queue + "-other", "");
            var session = login(space, "app", KEY).createSession(false, Session.AUTO_ACKNOWLEDGE);
            Space.send(session, session.createQueue(queue), "m");
            var consumer = session.createConsumer(session.createQueue(queue));
            Expect.equal("m", Space.text(Space.receive(consumer)), "body");
            var other = session.createQueue(queue + "-other");
            Expect.refused(DENIED, "", () -> session.createProducer(other));
        });
        group.add("anonymous", "ANONYMOUS opens nothing.", space -> {
            var factory = new JmsConnectionFactory(amqps(space) + "&amqp.saslMechanisms=ANONYMOUS");
            var session = space.open(factory).createSession(false, Session.AUTO_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Expect.refused(DENIED, "", () -> session.createConsumer(queue));
        });
        group.add("listener", "A key that only listens receives, and does not send.", space -> {
            var queue = space.queue();
            var root = space.connectTo(amqps(space)).createSession(false, Session.AUTO_ACKNOWLEDGE);
            Space.send(root, root.createQueue(queue), "m");
            var connection = login(space, "listener", System.getenv("MAYFLY_SECURED_LISTENER"));
            var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var here = session.createQueue(queue);
            Expect.refused(DENIED, "Send", () -> session.createProducer(here));
            Expect.equal("m", Space.text(Space.receive(session.createConsumer(here))), "body");
        });
    }

    /** The check with its own entities at the broker with a secret. */
    private static void inside(Space space, Check.Body body) throws Exception {
        try (var within = new Space(Cluster.secured(), space.name)) {
            body.run(within);
        }
    }

    private static String amqps(Space space) throws Exception {
        return "amqps://" + space.cluster.amqp() + "?" + Trust.options();
    }

    private static Connection login(Space space, String name, String key) throws Exception {
        return space.open(new JmsConnectionFactory(name, key, amqps(space)));
    }
}
