import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Prefetch, listeners, selectors and browsers. */
final class Consuming {
    private Consuming() {}

    static void checks(Check.Group group) {
        for (var prefetch : List.of(0, 1, 10, 1000)) {
            group.add("prefetch" + prefetch, "All arrive in order with a prefetch of " + prefetch + ".", space -> {
                var session = space.session("jms.prefetchPolicy.all=" + prefetch);
                var queue = session.createQueue(space.queue());
                var bodies = new ArrayList<String>();
                for (var n = 0; n < 30; n++) bodies.add("m" + n);
                Space.send(session, queue, bodies.toArray(String[]::new));
                Expect.equal(bodies, Space.takeAll(session.createConsumer(queue)), "bodies");
            });
        }
        group.add("noWait", "receiveNoWait() has what is there, and nothing of an empty queue.", space -> {
            var session = space.session("jms.prefetchPolicy.all=0");
            var queue = session.createQueue(space.queue());
            var consumer = session.createConsumer(queue);
            Expect.equal(null, consumer.receiveNoWait(), "of an empty queue");
            Space.send(session, queue, "a");
            Expect.equal("a", Space.text(consumer.receiveNoWait()), "body");
        });
        group.add("waiting", "A consumer that waits is served at once.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var heard = new Listened();
            session.createConsumer(queue).setMessageListener(heard);
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "a");
            Expect.equal("a", Space.text(heard.await(1).get(0)), "body");
        });
        // The client releases it, which is no failed delivery.
        group.add("listener", "A listener that fails has its message again, not counted.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var heard = new Listened();
            var counts = Collections.synchronizedList(new ArrayList<Integer>());
            session.createConsumer(queue).setMessageListener(message -> {
                counts.add(count(message));
                heard.onMessage(message);
                if (counts.size() == 1) throw new IllegalStateException("as it is told to");
            });
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "a");
            heard.await(2);
            Expect.equal(List.of(1, 1), counts, "counts");
        });
        group.add("sharing", "Two consumers share a queue, and none of its messages.", space -> {
            var name = space.queue();
            var heard = new Listened();
            for (var n = 0; n < 2; n++) {
                var session = space.session("jms.prefetchPolicy.all=1");
                session.createConsumer(session.createQueue(name)).setMessageListener(heard);
            }
            var session = space.session();
            for (var n = 0; n < 40; n++) Space.send(session, session.createQueue(name), "m" + n);
            var bodies = new java.util.TreeSet<String>();
            for (var message : heard.await(40)) bodies.add(Space.text(message));
            Expect.equal(40, bodies.size(), "different messages");
            Expect.that(heard.isQuiet(), "one came twice");
        });
        group.add("selector", "A consumer with a selector has what it takes; the rest stays for others.", space -> {
            var session = space.session("jms.prefetchPolicy.all=0");
            var queue = session.createQueue(space.queue());
            coloured(session, queue, "red1", "blue2", "red3", "blue4");
            var blue = session.createConsumer(queue, "colour = 'blue' AND number > 1 AND size IS NULL");
            Expect.equal(List.of("blue2", "blue4"), Space.takeAll(blue), "selected");
            Expect.equal(null, blue.receiveNoWait(), "of no more");
            coloured(session, queue, "red5", "blue6");
            Expect.equal("blue6", Space.text(Space.receive(blue)), "what comes");
            blue.close();
            Expect.equal(List.of("red1", "red3", "red5"), Space.takeAll(session.createConsumer(queue)), "rest");
        });
        group.add("selectorHeaders", "A selector sees the headers that the client shows.", space -> {
            var session = space.session("jms.prefetchPolicy.all=0");
            var queue = session.createQueue(space.queue());
            var message = session.createTextMessage("a");
            message.setJMSCorrelationID("one");
            message.setJMSType("order");
            message.setStringProperty("JMSXGroupID", "group");
            session.createProducer(queue).send(message, DeliveryMode.PERSISTENT, 7, 0);
            for (var selector : List.of(
                    "JMSCorrelationID = 'one'", "JMSType LIKE 'or%'", "JMSPriority = 7",
                    "JMSDeliveryMode = 'PERSISTENT'", "JMSTimestamp = " + message.getJMSTimestamp(),
                    "JMSMessageID = '" + message.getJMSMessageID() + "'", "JMSXGroupID IN ('group')")) {
                var shown = session.createBrowser(queue, selector).getEnumeration();
                Expect.equal(List.of("a"), bodies(shown), selector);
                var none = session.createBrowser(queue, "NOT (" + selector + ")").getEnumeration();
                Expect.equal(List.of(), bodies(none), "not " + selector);
            }
        });
        group.add("selectorTransacted", "A selected message that is rolled back comes again, and is settled by a commit.",
                space -> {
            var session = space.connect("jms.prefetchPolicy.all=0").createSession(true, Session.SESSION_TRANSACTED);
            var queue = session.createQueue(space.queue());
            coloured(session, queue, "red1", "blue2");
            session.commit();
            var blue = session.createConsumer(queue, "colour = 'blue'");
            Expect.equal("blue2", Space.text(Space.receive(blue)), "first");
            session.rollback();
            Expect.equal("blue2", Space.text(Space.receive(blue)), "again");
            session.commit();
            space.cluster.holds(space.name, 1);
        });
        group.add("selectorWrong", "What is no selector is refused, with the place; the session goes on.", space -> {
            var session = space.session("jms.validateSelector=false");
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a");
            Expect.refused("amqp:invalid-field", "column 10",
                    () -> session.createConsumer(queue, "colour = "));
            Expect.equal(List.of("a"), Space.takeAll(session.createConsumer(queue)), "the session goes on");
        });
        group.add("browser", "A browser shows all that is there, and takes nothing.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a", "b", "c");
            for (var n = 0; n < 2; n++) {
                var browser = session.createBrowser(queue);
                Expect.equal(List.of("a", "b", "c"), bodies(browser.getEnumeration()), "browsed");
                browser.close();
            }
            space.cluster.holds(space.name, 3);
            Expect.equal(List.of("a", "b", "c"), Space.takeAll(session.createConsumer(queue)), "received");
        });
        group.add("browserSelector", "A browser with a selector shows what it takes, and takes nothing.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            coloured(session, queue, "red1", "blue2", "red3", "blue4");
            var browser = session.createBrowser(queue, "colour <> 'red'");
            Expect.equal(List.of("blue2", "blue4"), bodies(browser.getEnumeration()), "browsed");
            space.cluster.holds(space.name, 4);
        });
        group.add("browserMany", "A browser has many messages, whatever its prefetch.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var all = new ArrayList<String>();
            for (var n = 0; n < 600; n++) all.add("m" + n);
            Space.send(session, queue, all.toArray(String[]::new));
            Expect.equal(all, bodies(session.createBrowser(queue).getEnumeration()), "browsed");
            for (var prefetch : List.of(0, 7)) {
                var other = space.session("jms.prefetchPolicy.all=" + prefetch);
                var browser = other.createBrowser(other.createQueue(space.name));
                Expect.equal(all, bodies(browser.getEnumeration()), "with " + prefetch);
            }
            space.cluster.holds(space.name, 600);
        });
        group.add("browserLocked", "A browser shows locked messages too.", space -> {
            var session = space.connect("jms.prefetchPolicy.all=0")
                    .createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a", "b");
            var locked = Space.receive(session.createConsumer(queue));
            Expect.equal(List.of("a", "b"), bodies(session.createBrowser(queue).getEnumeration()), "browsed");
            locked.acknowledge();
            space.cluster.holds(space.name, 1);
            Expect.equal(List.of("b"), bodies(session.createBrowser(queue).getEnumeration()), "browsed");
        });
    }

    /** Messages whose bodies end in a digit: their colours and numbers. */
    private static void coloured(Session session, Queue queue, String... bodies) throws Exception {
        var producer = session.createProducer(queue);
        for (var body : bodies) {
            var message = session.createTextMessage(body);
            message.setStringProperty("colour", body.substring(0, body.length() - 1));
            message.setIntProperty("number", body.charAt(body.length() - 1) - '0');
            producer.send(message);
        }
        producer.close();
    }

    private static int count(Message message) {
        try {
            return message.getIntProperty("JMSXDeliveryCount");
        } catch (jakarta.jms.JMSException error) {
            return -1;
        }
    }

    private static List<String> bodies(java.util.Enumeration<?> messages) throws Exception {
        var bodies = new ArrayList<String>();
        while (messages.hasMoreElements()) bodies.add(Space.text((Message) messages.nextElement()));
        return bodies;
    }
}
