import static java.util.stream.IntStream.range;

import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.models.CreateMessageBatchOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Senders: single messages, lists, batches, and what is refused. */
final class Sending {
    @Check(says = "A message arrives once.", proves = {"ServiceBusSenderClient.sendMessage"})
    static void one(Space space) {
        String queue = space.queue();
        space.sender(queue).sendMessage(new ServiceBusMessage("hello"));
        Faces.Receiver receiver = space.receiver(queue);
        Space.equal(Space.take(receiver, 1), List.of("hello"));
        Space.empty(receiver);
    }

    @Check(says = "A list of messages arrives in its order.", proves = {"ServiceBusSenderClient.sendMessages"})
    static void several(Space space) {
        String queue = space.queue();
        List<String> texts = range(0, 20).mapToObj(String::valueOf).toList();
        space.sender(queue).sendMessages(texts.stream().map(ServiceBusMessage::new).toList());
        Space.equal(Space.take(space.receiver(queue), 20), texts);
    }

    @Check(
        says = "A batch as large as the broker allows arrives whole.",
        proves = {"ServiceBusSenderClient.createMessageBatch", "ServiceBusSenderClient.sendMessages"})
    static void batch(Space space) {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        Faces.Batch batch = sender.createMessageBatch();
        Space.that(batch.getMaxSizeInBytes() >= 262_144, batch.getMaxSizeInBytes());
        List<String> texts = new ArrayList<>();
        String text = "x".repeat(10_000) + 0;
        while (batch.tryAddMessage(new ServiceBusMessage(text))) {
            texts.add(text);
            text = "x".repeat(10_000) + texts.size();
        }
        Space.equal(batch.getCount(), texts.size());
        Space.that(batch.getSizeInBytes() > batch.getMaxSizeInBytes() - 11_000, batch.getSizeInBytes());
        sender.sendMessages(batch);
        Faces.Batch small = sender.createMessageBatch(new CreateMessageBatchOptions().setMaximumSizeInBytes(1000));
        Space.that(small.tryAddMessage(new ServiceBusMessage(new byte[400])), small.getSizeInBytes());
        Space.that(!small.tryAddMessage(new ServiceBusMessage(new byte[600])), small.getSizeInBytes());
        Space.equal(Space.take(space.receiver(queue), texts.size()), texts);
    }

    @Check(
        says = "A batch counts its messages and bytes, and says no to what does not fit.",
        proves = {
            "ServiceBusMessageBatch.tryAddMessage", "ServiceBusMessageBatch.getCount",
            "ServiceBusMessageBatch.getSizeInBytes", "ServiceBusMessageBatch.getMaxSizeInBytes"
        },
        flavours = Flavour.SYNC)
    static void counted(Space space) {
        Faces.Batch batch = space.sender(space.queue())
            .createMessageBatch(new CreateMessageBatchOptions().setMaximumSizeInBytes(5000));
        Space.equal(List.of(batch.getCount(), batch.getMaxSizeInBytes()), List.of(0, 5000));
        Space.that(batch.tryAddMessage(new ServiceBusMessage(new byte[2000])), batch.getSizeInBytes());
        int one = batch.getSizeInBytes();
        Space.that(one > 2000 && one < 2500, one);
        Space.that(!batch.tryAddMessage(new ServiceBusMessage(new byte[3000])), batch.getSizeInBytes());
        Space.equal(List.of(batch.getCount(), batch.getSizeInBytes()), List.of(1, one));
    }

    @Check(
        says = "Every property of a message arrives as it was sent, with those the broker adds.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void properties(Space space) {
        String queue = space.queue();
        ServiceBusMessage sent = new ServiceBusMessage("body")
            .setMessageId("id-1").setCorrelationId("correlation").setSubject("subject").setTo("to")
            .setReplyTo("reply-to").setContentType("text/plain").setSessionId("key").setPartitionKey("key")
            .setReplyToSessionId("session").setTimeToLive(Duration.ofMinutes(5));
        Map<String, Object> properties = Map.of(
            "int", 7, "long", 1L << 40, "text", "t", "on", true, "half", 0.5, "float", 0.25f, "short", (short) 3,
            "byte", (byte) -1, "char", 'c', "uuid", UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"));
        sent.getApplicationProperties().putAll(properties);
        space.sender(queue).sendMessage(sent);
        Faces.Receiver receiver = space.receiver(queue);
        ServiceBusReceivedMessage got = Space.receive(receiver);
        Space.equal(
            List.of(got.getMessageId(), got.getCorrelationId(), got.getSubject(), got.getTo(), got.getReplyTo()),
            List.of("id-1", "correlation", "subject", "to", "reply-to"));
        Space.equal(
            List.of(got.getContentType(), got.getSessionId(), got.getPartitionKey(), got.getReplyToSessionId()),
            List.of("text/plain", "key", "key", "session"));
        Space.equal(got.getApplicationProperties(), properties);
        Space.equal(got.getTimeToLive(), Duration.ofMinutes(5));
        Space.equal(got.getExpiresAt(), got.getEnqueuedTime().plusMinutes(5));
        Space.equal(got.getDeliveryCount(), 0L);
        Space.equal(got.getState(), ServiceBusMessageState.ACTIVE);
        Space.that(got.getSequenceNumber() > 0, got.getSequenceNumber());
        Space.equal(got.getEnqueuedSequenceNumber(), got.getSequenceNumber());
        UUID.fromString(got.getLockToken());
        Space.that(got.getLockedUntil().isAfter(OffsetDateTime.now()), got.getLockedUntil());
        Duration age = Duration.between(got.getEnqueuedTime(), OffsetDateTime.now()).abs();
        Space.that(age.compareTo(Duration.ofMinutes(1)) < 0, age);
        Space.equal(got.getDeadLetterReason(), null);
        Space.equal(got.getDeadLetterSource(), null);
        receiver.complete(got);
    }

    @Check(says = "Bodies of the three AMQP kinds arrive as that kind.", proves = {"ServiceBusSenderClient.sendMessage"})
    static void annotated(Space space) {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        sender.sendMessage(new ServiceBusMessage(AmqpMessageBody.fromData(new byte[] {1, 2})));
        sender.sendMessage(new ServiceBusMessage(AmqpMessageBody.fromValue(new HashMap<>(Map.of("k", List.of(1, "two"))))));
        sender.sendMessage(new ServiceBusMessage(AmqpMessageBody.fromSequence(List.of(1, "two", 3L))));
        List<AmqpMessageBody> bodies = Space.receive(space.receiver(queue), 3).stream()
            .map(ServiceBusReceivedMessage::getRawAmqpMessage).map(AmqpAnnotatedMessage::getBody).toList();
        Space.equal(
            bodies.stream().map(AmqpMessageBody::getBodyType).toList(),
            List.of(AmqpMessageBodyType.DATA, AmqpMessageBodyType.VALUE, AmqpMessageBodyType.SEQUENCE));
        Space.equal(List.of(bodies.get(0).getFirstData()[0], bodies.get(0).getFirstData()[1]), List.of((byte) 1, (byte) 2));
        Space.equal(bodies.get(1).getValue(), Map.of("k", List.of(1, "two")));
        Space.equal(bodies.get(2).getSequence(), List.of(1, "two", 3L));
    }

    @Check(says = "A message of 900 kB arrives whole.", proves = {"ServiceBusSenderClient.sendMessage"})
    static void large(Space space) {
        String queue = space.queue(new CreateQueueOptions().setMaxMessageSizeInKilobytes(1024));
        String text = "0123456789".repeat(90_000);
        space.sender(queue).sendMessage(new ServiceBusMessage(text));
        Space.that(Space.take(space.receiver(queue), 1).equals(List.of(text)), "another text");
    }

    @Check(says = "MESSAGE_SIZE_EXCEEDED, and the sender goes on.", proves = {"ServiceBusSenderClient.sendMessage"})
    static void tooLarge(Space space) throws Exception {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        ServiceBusMessage huge = new ServiceBusMessage(new byte[2_000_000]);
        Space.raises(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, () -> sender.sendMessage(huge));
        sender.sendMessage(new ServiceBusMessage("after"));
        Space.equal(Space.take(space.receiver(queue), 1), List.of("after"));
    }

    @Check(
        says = "MESSAGING_ENTITY_NOT_FOUND of a queue and a topic that do not exist.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void notFound(Space space) throws Exception {
        Faces.Builder builder = space.impatient();
        for (Faces.SenderBuilder of :
            List.of(builder.sender().queueName(space.name), builder.sender().topicName(space.name))) {
            Faces.Sender sender = space.built(of);
            Space.raises(
                ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND,
                () -> sender.sendMessage(new ServiceBusMessage("x")));
        }
    }

    @Check(
        says = "MESSAGING_ENTITY_DISABLED while a queue is disabled for sending.",
        proves = {"ServiceBusSenderClient.sendMessage", "ServiceBusAdministrationClient.updateQueue"})
    static void disabled(Space space) throws Exception {
        String queue = space.queue();
        QueueProperties properties = space.admin().getQueue(queue);
        space.admin().updateQueue(properties.setStatus(EntityStatus.SEND_DISABLED));
        Faces.Sender sender = space.built(space.impatient().sender().queueName(queue));
        Space.raises(
            ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED, () -> sender.sendMessage(new ServiceBusMessage("x")));
        space.admin().updateQueue(properties.setStatus(EntityStatus.ACTIVE));
        space.send(queue, "y");
        Space.equal(Space.take(space.receiver(queue), 1), List.of("y"));
    }

    @Check(
        says = "A queue with duplicate detection takes an id once, and says yes to the repeat.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void duplicates(Space space) {
        String queue = space.queue(new CreateQueueOptions().setDuplicateDetectionRequired(true));
        Faces.Sender sender = space.sender(queue);
        for (int n = 0; n < 2; n++) sender.sendMessage(new ServiceBusMessage("x").setMessageId("same"));
        Faces.Receiver receiver = space.receiver(queue);
        Space.equal(Space.take(receiver, 1), List.of("x"));
        Space.empty(receiver);
    }

    @Check(
        says = "What expires goes to the dead-letter queue, with its reason.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void timeToLive(Space space) {
        String queue = space.queue(new CreateQueueOptions().setDeadLetteringOnMessageExpiration(true));
        space.sender(queue).sendMessage(new ServiceBusMessage("x").setTimeToLive(Duration.ofSeconds(1)));
        Faces.Receiver dead = space.deadLetters(queue);
        ServiceBusReceivedMessage letter = Space.receive(dead);
        Space.equal(letter.getDeadLetterReason(), "TTLExpiredException");
        dead.complete(letter);
        Space.empty(space.receiver(queue));
    }

    @Check(
        says = "A partition key beside another session id is refused.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void mismatchedKeys(Space space) throws Exception {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        // The SDK's setters refuse the pair; its AMQP form does not look.
        ServiceBusMessage message = new ServiceBusMessage("x").setSessionId("a");
        message.getRawAmqpMessage().getMessageAnnotations().put("x-opt-partition-key", "b");
        ServiceBusException error = Space.raises(ServiceBusException.class, () -> sender.sendMessage(message));
        Space.that(error.getMessage().toLowerCase().contains("partition"), error.getMessage());
        sender.sendMessage(new ServiceBusMessage("after"));
        Space.equal(Space.take(space.receiver(queue), 1), List.of("after"));
    }

    @Check(
        says = "A sender knows what it is for, and says so when it is used after its close.",
        proves = {
            "ServiceBusSenderClient.close", "ServiceBusSenderClient.getEntityPath",
            "ServiceBusSenderClient.getFullyQualifiedNamespace", "ServiceBusSenderClient.getIdentifier"
        })
    static void closed(Space space) throws Exception {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        Space.equal(List.of(sender.getEntityPath(), sender.getFullyQualifiedNamespace()), List.of(queue, "localhost"));
        Space.that(!sender.getIdentifier().isEmpty(), "no identifier");
        sender.sendMessage(new ServiceBusMessage("x"));
        sender.close();
        Space.raises(IllegalStateException.class, () -> sender.sendMessage(new ServiceBusMessage("y")));
    }
}
