import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.Session;

/** Temporary destinations, request and reply. */
final class Temporary {
    private Temporary() {}

    static void checks(Check.Group group) {
        group.add("queue", "A temporary queue is one of its connection's, and goes with it.", space -> {
            var connection = space.connect();
            var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var queue = session.createTemporaryQueue();
            Expect.that(space.cluster.has(queue.getQueueName()), "it is no queue of the broker's");
            Space.send(session, queue, "a");
            Expect.equal("a", Space.text(Space.receive(session.createConsumer(queue))), "body");
            connection.close();
            isGone(space, queue);
        });
        group.add("delete", "delete() deletes a temporary queue.", space -> {
            var session = space.session();
            var queue = session.createTemporaryQueue();
            Space.send(session, queue, "a");
            queue.delete();
            isGone(space, queue);
        });
        group.add("topic", "A temporary topic is refused.", space -> {
            var session = space.session();
            Expect.refused("amqp:not-implemented", "temporary queue", session::createTemporaryTopic);
            session.createTemporaryQueue();
        });
        group.add("reply", "Request and reply over a temporary queue.", space -> {
            request(space, true);
        });
        group.add("replyPermanent", "Request and reply over a permanent queue.", space -> request(space, false));
    }

    private static void isGone(Space space, Queue queue) throws Exception {
        var until = System.currentTimeMillis() + Space.WAIT;
        while (space.cluster.has(queue.getQueueName())) {
            Expect.that(System.currentTimeMillis() < until, "the queue stays");
            Thread.sleep(50);
        }
    }

    private static void request(Space space, boolean isTemporary) throws Exception {
        var name = space.queue();
        var server = space.session();
        var producer = server.createProducer(null);
        server.createConsumer(server.createQueue(name)).setMessageListener(request -> {
            try {
                var answer = server.createTextMessage("re: " + Space.text(request));
                answer.setJMSCorrelationID(request.getJMSMessageID());
                producer.send(request.getJMSReplyTo(), answer);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        var client = space.session();
        Queue replies;
        if (isTemporary) {
            replies = client.createTemporaryQueue();
        } else {
            space.cluster.createQueue(name + "-replies", "");
            replies = client.createQueue(name + "-replies");
        }
        var consumer = client.createConsumer(replies);
        for (var n = 0; n < 5; n++) {
            Message request = client.createTextMessage("m" + n);
            request.setJMSReplyTo(replies);
            client.createProducer(client.createQueue(name)).send(request);
            var answer = Space.receive(consumer);
            Expect.equal("re: m" + n, Space.text(answer), "answer");
            Expect.equal(request.getJMSMessageID(), answer.getJMSCorrelationID(), "correlation");
        }
    }
}
