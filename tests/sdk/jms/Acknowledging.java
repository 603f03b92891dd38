import jakarta.jms.Message;
import jakarta.jms.Session;
import java.util.List;

/** Modes of acknowledgement, redelivery, and what each outcome does here. */
final class Acknowledging {
    /** Qpid JMS's own mode: each message for itself. */
    private static final int INDIVIDUAL = 101;

    private static final String LOCK = "<LockDuration>PT5S</LockDuration>";
    private static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";

    private Acknowledging() {}

    static void checks(Check.Group group) {
        for (var mode : List.of("auto", "duplicatesOk")) {
            var says = "In this mode what is received is completed: " + mode + ".";
            group.add(mode, says, space -> {
                var number = mode.equals("auto") ? Session.AUTO_ACKNOWLEDGE : Session.DUPS_OK_ACKNOWLEDGE;
                var session = space.connect().createSession(false, number);
                var queue = session.createQueue(space.queue(LOCK));
                Space.send(session, queue, "a", "b", "c");
                var consumer = session.createConsumer(queue);
                Expect.equal(List.of("a", "b", "c"), Space.takeAll(consumer), "bodies");
                consumer.close();
                space.cluster.holds(space.name, 0);
            });
        }
        group.add("client", "acknowledge() completes all that the session received.", space -> {
            var session = space.connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a", "b", "c");
            var consumer = session.createConsumer(queue);
            Space.receive(consumer);
            Space.receive(consumer).acknowledge();
            consumer.close();
            space.cluster.holds(space.name, 1);
        });
        group.add("individual", "Individual acknowledgement completes one message, in any order.", space -> {
            var session = space.connect().createSession(false, INDIVIDUAL);
            var queue = session.createQueue(space.queue(LOCK));
            Space.send(session, queue, "a", "b", "c");
            var consumer = session.createConsumer(queue);
            var messages = List.of(
                    Space.receive(consumer), Space.receive(consumer), Space.receive(consumer));
            messages.get(2).acknowledge();
            messages.get(0).acknowledge();
            session.close();
            var other = space.session();
            var again = Space.receive(other.createConsumer(other.createQueue(space.name)));
            Expect.equal("b", Space.text(again), "what is left");
        });
        // The client does it by itself, with what it has.
        group.add("recover", "recover() delivers again, redelivered and counted.", space -> {
            var session = space.connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a", "b");
            var consumer = session.createConsumer(queue);
            var first = Space.receive(consumer);
            Expect.equal(1, first.getIntProperty("JMSXDeliveryCount"), "first count");
            session.recover();
            for (var body : List.of("a", "b")) {
                var again = Space.receive(consumer);
                Expect.equal(body, Space.text(again), "order");
                if (!body.equals("a")) continue;
                Expect.equal(true, again.getJMSRedelivered(), "redelivered");
                Expect.equal(2, again.getIntProperty("JMSXDeliveryCount"), "second count");
            }
        });
        group.add("closed", "What is not acknowledged comes to another after its lock.", space -> {
            var connection = space.connect();
            var session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue(LOCK));
            Space.send(session, queue, "a");
            Space.receive(session.createConsumer(queue));
            connection.close();
            var other = space.session();
            var again = Space.receive(other.createConsumer(other.createQueue(space.name)));
            Expect.equal("a", Space.text(again), "body");
        });
        group.add("outcomes", "JMS_AMQP_ACK_TYPE: accept, reject, release, modify, not here.", space -> {
            var session = space.connect("jms.prefetchPolicy.all=0").createSession(false, INDIVIDUAL);
            var queue = session.createQueue(space.queue());
            var consumer = session.createConsumer(queue);
            settle(session, consumer, queue, 1);
            Space.isEmpty(consumer);
            settle(session, consumer, queue, 2);
            Space.isEmpty(consumer);
            var dead = session.createConsumer(session.createQueue(space.name + "/$DeadLetterQueue"));
            Space.receive(dead).acknowledge();
            settle(session, consumer, queue, 3);
            var released = Space.receive(consumer);
            Expect.equal(1, released.getIntProperty("JMSXDeliveryCount"), "a release's count");
            released.acknowledge();
            settle(session, consumer, queue, 4);
            var failed = Space.receive(consumer);
            Expect.equal(2, failed.getIntProperty("JMSXDeliveryCount"), "a failure's count");
            failed.acknowledge();
            settle(session, consumer, queue, 5);
            Space.isEmpty(consumer);
            space.cluster.holds(space.name, 1);
        });
        group.add("maximum", "A message whose deliveries fail too often is dead-lettered.", space -> {
            var session = space.connect("jms.prefetchPolicy.all=0").createSession(false, INDIVIDUAL);
            var queue = session.createQueue(space.queue("<MaxDeliveryCount>2</MaxDeliveryCount>"));
            var consumer = session.createConsumer(queue);
            settle(session, consumer, queue, 4);
            var again = Space.receive(consumer);
            again.setIntProperty(ACK_TYPE, 4);
            again.acknowledge();
            var dead = session.createConsumer(session.createQueue(space.name + "/$DeadLetterQueue"));
            var got = Space.receive(dead);
            Expect.equal("MaxDeliveryCountExceeded", got.getStringProperty("DeadLetterReason"), "reason");
        });
        group.add("redeliveryPolicy", "maxRedeliveries with outcome REJECTED dead-letters.", space -> {
            var session = space.connect("jms.redeliveryPolicy.maxRedeliveries=1",
                    "jms.redeliveryPolicy.outcome=REJECTED", "jms.prefetchPolicy.all=0")
                    .createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "poison");
            var consumer = session.createConsumer(queue);
            for (var n = 0; n < 2; n++) {
                Space.receive(consumer);
                session.recover();
            }
            Space.isEmpty(consumer);
            var dead = session.createConsumer(session.createQueue(space.name + "/$DeadLetterQueue"));
            Expect.equal("poison", Space.text(Space.receive(dead)), "body");
        });
        group.add("settled", "presettlePolicy: the consumer's messages are received and deleted.", space -> {
            var session = space.connect("jms.presettlePolicy.presettleConsumers=true",
                    "jms.prefetchPolicy.all=1").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a");
            Space.receive(session.createConsumer(queue));
            space.cluster.holds(space.name, 0);
        });
        group.add("presettledProducer", "presettlePolicy: a producer that asks for no answer.", space -> {
            var session = space.session("jms.presettlePolicy.presettleProducers=true");
            var queue = session.createQueue(space.queue());
            Space.send(session, queue, "a", "b");
            var consumer = session.createConsumer(queue);
            Expect.equal(List.of("a", "b"), Space.takeAll(consumer), "bodies");
        });
    }

    private static void settle(Session session, jakarta.jms.MessageConsumer consumer,
            jakarta.jms.Queue queue, int type) throws Exception {
        Space.send(session, queue, "m" + type);
        Message message = Space.receive(consumer);
        message.setIntProperty(ACK_TYPE, type);
        message.acknowledge();
    }
}
