import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;
import jakarta.jms.Session;

/** Topics and their subscriptions, which are entities here. */
final class Topics {
    private static final String INSTEAD = "/Subscriptions/";

    private Topics() {}

    static void checks(Check.Group group) {
        group.add("publish", "A producer of a topic publishes to every subscription.", space -> {
            var session = space.session();
            var topic = session.createTopic(space.topic("one", "two"));
            session.createProducer(topic).send(session.createTextMessage("a"));
            for (var name : List.of("one", "two")) {
                var queue = session.createQueue(space.name + "/Subscriptions/" + name);
                Expect.equal(List.of("a"), Space.takeAll(session.createConsumer(queue)), name);
            }
        });
        group.add("consume", "topic/Subscriptions/name is consumed as a queue, or as a topic.", space -> {
            var session = space.session();
            var topic = session.createTopic(space.topic("one"));
            session.createProducer(topic).send(session.createTextMessage("a"));
            session.createProducer(topic).send(session.createTextMessage("b"));
            var path = space.name + "/Subscriptions/one";
            var consumer = session.createConsumer(session.createTopic(path));
            Expect.equal("a", Space.text(Space.receive(consumer)), "body");
            Expect.equal("b", Space.text(Space.receive(consumer)), "body");
            space.cluster.holds(path, 0);
            var browser = session.createBrowser(session.createQueue(path));
            Expect.that(!browser.getEnumeration().hasMoreElements(), "browsed");
        });
        group.add("consumer", "createConsumer of a topic is refused, and says what to consume.", space -> {
            var session = space.session();
            var topic = session.createTopic(space.topic("one"));
            Expect.refused("amqp:not-allowed", "one of its subscriptions", () -> session.createConsumer(topic));
            goesOn(space, session);
        });
        group.add("durable", "createDurableConsumer is refused, and says what to consume.", space -> {
            var factory = new JmsConnectionFactory(space.cluster.uri());
            factory.setClientID(space.name);
            var session = space.open(factory).createSession(false, Session.AUTO_ACKNOWLEDGE);
            var topic = session.createTopic(space.topic("one"));
            Expect.refused("amqp:not-implemented", INSTEAD, () -> session.createDurableConsumer(topic, "d"));
            var path = session.createTopic(space.name + "/Subscriptions/one");
            Expect.refused("amqp:not-implemented", INSTEAD, () -> session.createDurableConsumer(path, "d"));
            goesOn(space, session);
        });
        group.add("shared", "createSharedConsumer is refused, and says what to consume.", space -> {
            var session = space.session();
            var topic = session.createTopic(space.topic("one"));
            Expect.refused("amqp:not-implemented", INSTEAD, () -> session.createSharedConsumer(topic, "s"));
            Expect.refused("amqp:not-implemented", INSTEAD,
                    () -> session.createSharedDurableConsumer(topic, "s"));
            goesOn(space, session);
        });
        group.add("noLocal", "noLocal is refused: nobody is sent what was not asked for.", space -> {
            var session = space.session();
            space.topic("one");
            var topic = session.createTopic(space.name + "/Subscriptions/one");
            Expect.refused("amqp:not-implemented", "no-local", () -> session.createConsumer(topic, null, true));
            goesOn(space, session);
        });
        group.add("unsubscribe", "unsubscribe of what is no subscription is refused.", space -> {
            var session = space.session();
            Expect.refused("amqp:not-found", "", () -> session.unsubscribe("absent"));
            space.topic("one");
            goesOn(space, session);
        });
    }

    /** The refusal has cost neither the session nor the connection. */
    private static void goesOn(Space space, Session session) throws Exception {
        session.createProducer(session.createTopic(space.name)).send(session.createTextMessage("on"));
        var queue = session.createQueue(space.name + "/Subscriptions/one");
        Expect.equal("on", Space.text(Space.receive(session.createConsumer(queue))), "body");
    }
}
