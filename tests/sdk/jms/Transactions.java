import jakarta.jms.Session;
import java.util.List;

/** Local transactions: SESSION_TRANSACTED. */
final class Transactions {
    private Transactions() {}

    private static Session transacted(Space space, String... options) throws Exception {
        return space.connect(options).createSession(true, Session.SESSION_TRANSACTED);
    }

    static void checks(Check.Group group) {
        group.add("send", "What is sent is there after the commit, and gone after a rollback.", space -> {
            var session = transacted(space);
            var queue = session.createQueue(space.queue());
            var other = space.session();
            var consumer = other.createConsumer(other.createQueue(space.name));
            var producer = session.createProducer(queue);
            producer.send(session.createTextMessage("dropped"));
            session.rollback();
            producer.send(session.createTextMessage("a"));
            producer.send(session.createTextMessage("b"));
            Space.isEmpty(consumer);
            session.commit();
            Expect.equal(List.of("a", "b"), Space.takeAll(consumer), "bodies");
        });
        group.add("receive", "What is received is completed by the commit.", space -> {
            var session = transacted(space);
            var queue = session.createQueue(space.queue());
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "a", "b");
            var consumer = session.createConsumer(queue);
            Expect.equal("a", Space.text(Space.receive(consumer)), "body");
            session.commit();
            Expect.equal("b", Space.text(Space.receive(consumer)), "body");
            session.commit();
            space.cluster.holds(space.name, 0);
        });
        group.add("rollback", "What is received comes again after a rollback, in order.", space -> {
            var session = transacted(space);
            var queue = session.createQueue(space.queue());
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "a", "b");
            var consumer = session.createConsumer(queue);
            Space.receive(consumer);
            Space.receive(consumer);
            session.rollback();
            for (var body : List.of("a", "b")) {
                var again = Space.receive(consumer);
                Expect.equal(body, Space.text(again), "body");
                Expect.equal(2, again.getIntProperty("JMSXDeliveryCount"), "count");
            }
            session.commit();
            Space.isEmpty(consumer);
            space.cluster.holds(space.name, 0);
        });
        group.add("sameQueue", "Receive and send in one transaction, on one queue.", space -> {
            var session = transacted(space, "jms.prefetchPolicy.all=1");
            var queue = session.createQueue(space.queue());
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "1");
            var consumer = session.createConsumer(queue);
            var producer = session.createProducer(queue);
            for (var n = 1; n <= 3; n++) {
                Expect.equal("" + n, Space.text(Space.receive(consumer)), "body");
                producer.send(session.createTextMessage("" + (n + 1)));
                session.commit();
            }
            space.cluster.holds(space.name, 1);
        });
        group.add("twoQueues", "Receive from one queue and send to another in one transaction.", space -> {
            var session = transacted(space);
            var queue = session.createQueue(space.queue());
            space.cluster.createQueue(space.name + "-to", "");
            var other = space.session();
            Space.send(other, other.createQueue(space.name), "a");
            var consumer = session.createConsumer(queue);
            Space.receive(consumer);
            Space.send(session, session.createQueue(space.name + "-to"), "b");
            session.commit();
            var to = other.createConsumer(other.createQueue(space.name + "-to"));
            Expect.equal("b", Space.text(Space.receive(to)), "body");
            space.cluster.holds(space.name, 0);
        });
        group.add("closed", "A connection that is closed takes its transaction back.", space -> {
            var connection = space.connect();
            var session = connection.createSession(true, Session.SESSION_TRANSACTED);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "dropped");
            connection.close();
            space.cluster.holds(space.name, 0);
        });
    }
}
