import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;

/** Bodies, headers and properties. */
final class Messages {
    private static final String DEAD_LETTER = "<DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration>";

    private Messages() {}

    private record Exchange(Session session, String queue) {
        Message there(Message message) throws Exception {
            session.createProducer(session.createQueue(queue)).send(message);
            try (var consumer = session.createConsumer(session.createQueue(queue))) {
                return Space.receive(consumer);
            }
        }
    }

    private static Exchange exchange(Space space, String... options) throws Exception {
        return new Exchange(space.session(options), space.queue());
    }

    static void checks(Check.Group group) {
        group.add("text", "TextMessage: any text, none at all, and one of 200,000 characters.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var consumer = session.createConsumer(queue);
            for (var text : new String[] {"", null, "é日本\uD83D\uDE00\n", "x".repeat(200_000)}) {
                session.createProducer(queue).send(session.createTextMessage(text));
                Expect.equal(text, ((TextMessage) Space.receive(consumer)).getText(), "text");
            }
        });
        group.add("bytes", "BytesMessage: every type that is written is read.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createBytesMessage();
            sent.writeInt(-7);
            sent.writeDouble(1.5);
            sent.writeUTF("é");
            sent.writeBytes(new byte[] {0, -1});
            var got = (BytesMessage) exchange.there(sent);
            Expect.equal(-7, got.readInt(), "int");
            Expect.equal(1.5, got.readDouble(), "double");
            Expect.equal("é", got.readUTF(), "text");
            var bytes = new byte[2];
            Expect.equal(2, got.readBytes(bytes), "bytes read");
            Expect.equal(new byte[] {0, -1}, bytes, "bytes");
        });
        group.add("map", "MapMessage: every type of value.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createMapMessage();
            sent.setString("text", "t");
            sent.setLong("long", Long.MIN_VALUE);
            sent.setBoolean("truth", true);
            sent.setChar("char", 'é');
            sent.setBytes("bytes", new byte[] {1, 2});
            sent.setObject("null", null);
            var got = (MapMessage) exchange.there(sent);
            Expect.equal("t", got.getString("text"), "text");
            Expect.equal(Long.MIN_VALUE, got.getLong("long"), "long");
            Expect.equal(true, got.getBoolean("truth"), "truth");
            Expect.equal('é', got.getChar("char"), "char");
            Expect.equal(new byte[] {1, 2}, got.getBytes("bytes"), "bytes");
            Expect.that(got.itemExists("null") && got.getObject("null") == null, "null");
        });
        group.add("stream", "StreamMessage: values in their order.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createStreamMessage();
            sent.writeInt(1);
            sent.writeString("two");
            sent.writeBytes(new byte[] {3});
            sent.writeFloat(4.5f);
            var got = (StreamMessage) exchange.there(sent);
            Expect.equal(1, got.readInt(), "int");
            Expect.equal("two", got.readString(), "text");
            Expect.equal(new byte[] {3}, got.readObject(), "bytes");
            Expect.equal(4.5f, got.readFloat(), "float");
        });
        group.add("object", "ObjectMessage, serialized by Java and as a value of AMQP.", space -> {
            var exchange = exchange(space, "jms.deserializationPolicy.allowList=*");
            var sent = exchange.session.createObjectMessage(new ArrayList<>(List.of("a", 1)));
            var got = (ObjectMessage) exchange.there(sent);
            Expect.equal(List.of("a", 1), got.getObject(), "serialized");
            sent = exchange.session.createObjectMessage("value");
            sent.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", true);
            got = (ObjectMessage) exchange.there(sent);
            Expect.equal("value", got.getObject(), "typed");
        });
        group.add("empty", "A Message without a body.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createMessage();
            sent.setIntProperty("n", 1);
            Expect.equal(1, exchange.there(sent).getIntProperty("n"), "property");
        });
        group.add("headers", "Id, type, correlation, reply address, priority and mode arrive.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var producer = session.createProducer(queue);
            var sent = session.createTextMessage("m");
            sent.setJMSType("type");
            sent.setJMSCorrelationID("correlation");
            sent.setJMSReplyTo(session.createQueue("answers"));
            producer.send(sent, DeliveryMode.NON_PERSISTENT, 7, 0);
            var got = Space.receive(session.createConsumer(queue));
            Expect.equal(sent.getJMSMessageID(), got.getJMSMessageID(), "id");
            Expect.equal("type", got.getJMSType(), "type");
            Expect.equal("correlation", got.getJMSCorrelationID(), "correlation");
            Expect.equal("answers", ((jakarta.jms.Queue) got.getJMSReplyTo()).getQueueName(), "reply");
            Expect.equal(queue, got.getJMSDestination(), "destination");
            Expect.equal(7, got.getJMSPriority(), "priority");
            Expect.equal(DeliveryMode.NON_PERSISTENT, got.getJMSDeliveryMode(), "mode");
            Expect.equal(0L, got.getJMSExpiration(), "expiration");
            Expect.equal(sent.getJMSTimestamp(), got.getJMSTimestamp(), "timestamp");
            Expect.equal(false, got.getJMSRedelivered(), "redelivered");
        });
        group.add("ids", "Ids and correlations of every type AMQP has.", space -> {
            var session = space.session("jms.messageIDPolicy.messageIDType=UUID");
            var queue = session.createQueue(space.queue());
            var consumer = session.createConsumer(queue);
            for (var correlation : new String[] {"text", "ID:AMQP_ULONG:42", "ID:AMQP_BINARY:0102",
                    "ID:AMQP_UUID:e7ef9c33-4e3c-4a8f-8a5c-5a1d5e9d0b3a"}) {
                var sent = session.createMessage();
                sent.setJMSCorrelationID(correlation);
                session.createProducer(queue).send(sent);
                var got = Space.receive(consumer);
                Expect.equal(correlation, got.getJMSCorrelationID(), "correlation");
                Expect.equal(sent.getJMSMessageID(), got.getJMSMessageID(), "id");
            }
        });
        group.add("properties", "User properties of every type keep type and value.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createTextMessage("m");
            var values = new Object[] {true, (byte) 1, (short) 2, 3, 4L, 5.5f, 6.5, "seven"};
            for (var n = 0; n < values.length; n++) sent.setObjectProperty("p" + n, values[n]);
            var got = exchange.there(sent);
            for (var n = 0; n < values.length; n++) {
                Expect.equal(values[n], got.getObjectProperty("p" + n), "p" + n);
            }
        });
        group.add("groups", "JMSXGroupID is Service Bus's session, JMSXGroupSeq arrives.", space -> {
            var exchange = exchange(space);
            var sent = exchange.session.createTextMessage("m");
            sent.setStringProperty("JMSXGroupID", "group");
            sent.setIntProperty("JMSXGroupSeq", 3);
            var got = exchange.there(sent);
            Expect.equal("group", got.getStringProperty("JMSXGroupID"), "group");
            Expect.equal(3, got.getIntProperty("JMSXGroupSeq"), "sequence");
        });
        group.add("sessionsQueue", "A consumer of a queue that requires sessions is told so.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue("<RequiresSession>true</RequiresSession>"));
            Expect.refused("amqp:not-allowed", "session", () -> session.createConsumer(queue));
        });
        // Unless it is told not to, the client itself throws away what is past its time to live, dead
        // letters too.
        group.add("timeToLive", "Its time to live ends a message; it is dead-lettered where asked.", space -> {
            var session = space.session("jms.localMessageExpiry=false");
            var queue = session.createQueue(space.queue(DEAD_LETTER));
            var producer = session.createProducer(queue);
            producer.setTimeToLive(3_600_000);
            var sent = session.createTextMessage("long");
            producer.send(sent);
            var consumer = session.createConsumer(queue);
            var kept = Space.receive(consumer).getJMSExpiration() - sent.getJMSExpiration();
            Expect.that(Math.abs(kept) < 5_000, "it expires " + kept + " ms off");
            consumer.close();
            producer.setTimeToLive(500);
            producer.send(session.createTextMessage("short"));
            var dead = session.createConsumer(session.createQueue(space.name + "/$DeadLetterQueue"));
            var got = Space.receive(dead);
            Expect.equal("short", Space.text(got), "body");
            Expect.equal("TTLExpiredException", got.getStringProperty("DeadLetterReason"), "reason");
        });
        group.add("deliveryDelay", "A delivery delay is a scheduled message.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var producer = session.createProducer(queue);
            producer.setDeliveryDelay(2_000);
            var before = System.currentTimeMillis();
            producer.send(session.createTextMessage("later"));
            Expect.equal("later", Space.text(Space.receive(session.createConsumer(queue))), "body");
            var after = System.currentTimeMillis() - before;
            Expect.that(after >= 2_000, "it comes after " + after + " ms");
        });
        group.add("sizes", "A message above the limit is refused, and the link goes on.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var producer = session.createProducer(queue);
            var big = session.createBytesMessage();
            big.writeBytes(new byte[2_000_000]);
            Expect.refused("amqp:link:message-size-exceeded", "", () -> producer.send(big));
            producer.send(session.createTextMessage("small"));
            Expect.equal("small", Space.text(Space.receive(session.createConsumer(queue))), "body");
        });
        group.add("asynchronous", "A completion listener hears of each message.", space -> {
            var session = space.session();
            var queue = session.createQueue(space.queue());
            var producer = session.createProducer(queue);
            var heard = new Listened();
            for (var n = 0; n < 50; n++) producer.send(session.createTextMessage("m" + n), heard);
            heard.await(50);
            space.cluster.holds(space.name, 50);
        });
    }
}
