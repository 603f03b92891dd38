import static java.util.stream.IntStream.range;

import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import reactor.core.Disposable;

/** Receivers: by call and by stream, peeking, prefetching, and what is refused. */
final class Receiving {
    @Check(
        says = "A call ends with what is there, and without a message when none comes.",
        proves = {"ServiceBusReceiverClient.receiveMessages", "ServiceBusReceiverClient.complete"},
        flavours = Flavour.SYNC)
    static void call(Space space) {
        String queue = space.queue();
        space.send(queue, "a", "b", "c");
        Faces.Receiver receiver = space.receiver(queue);
        // Without a span the SDK waits a minute for the rest: so many are there.
        List<ServiceBusReceivedMessage> messages = receiver.receiveMessages(3);
        Space.equal(Space.bodies(messages), List.of("a", "b", "c"));
        messages.forEach(receiver::complete);
        long began = System.nanoTime();
        Space.empty(receiver);
        long waited = System.nanoTime() - began;
        Space.that(waited < Space.WAIT.toNanos(), Duration.ofNanos(waited));
    }

    @Check(
        says = "A stream gives every message as it comes, and completes each when its handler returns.",
        proves = {"ServiceBusReceiverClient.receiveMessages"},
        flavours = Flavour.ASYNC)
    static void stream(Space space) throws Exception {
        String queue = space.queue();
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Faces.Receiver client = space.opened(space.builder().receiver().queueName(queue).buildAsyncClient());
        Disposable stream = client.receiveMessages().subscribe(message -> seen.add(Space.body(message)));
        space.send(queue, "a", "b");
        for (String text : List.of("a", "b")) Space.equal(seen.poll(10, TimeUnit.SECONDS), text);
        space.send(queue, "c");
        Space.equal(seen.poll(10, TimeUnit.SECONDS), "c");
        space.drained(queue);
        stream.dispose();
    }

    @Check(
        says = "RECEIVE_AND_DELETE removes at once, and settles nothing.",
        proves = {"ServiceBusReceiverClient.receiveMessages", "ServiceBusReceiverClient.complete"})
    static void andDelete(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "a", "b");
        Faces.Receiver receiver =
            space.receiver(queue, options -> options.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE));
        ServiceBusReceivedMessage message = Space.receive(receiver, 2).get(0);
        Space.raises(UnsupportedOperationException.class, () -> receiver.complete(message));
        receiver.close();
        Space.empty(space.receiver(queue));
    }

    @Check(
        says = "Receivers of one queue share its messages, each of which goes to one of them.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void competing(Space space) {
        String queue = space.queue();
        List<String> texts = range(0, 20).mapToObj(String::valueOf).toList();
        space.send(queue, texts.toArray(String[]::new));
        Faces.Receiver one = space.receiver(queue);
        Faces.Receiver two = space.receiver(queue);
        Set<String> seen = new HashSet<>(Space.take(one, 10));
        seen.addAll(Space.take(two, 10));
        Space.equal(seen, Set.copyOf(texts));
    }

    @Check(
        says = "A receiver that prefetches gives every message once, in order.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void prefetched(Space space) {
        String queue = space.queue();
        List<String> texts = range(0, 30).mapToObj(String::valueOf).toList();
        space.send(queue, texts.toArray(String[]::new));
        Faces.Receiver receiver = space.receiver(queue, options -> options.prefetchCount(50));
        Space.equal(Space.take(receiver, 30), texts);
        Space.empty(receiver);
    }

    @Check(
        says = "A peek goes on from where the last one ended, or from a number, and takes nothing.",
        proves = {"ServiceBusReceiverClient.peekMessage", "ServiceBusReceiverClient.peekMessages"})
    static void peek(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "a", "b", "c", "d", "e");
        Faces.Receiver receiver = space.receiver(queue);
        ServiceBusReceivedMessage first = receiver.peekMessage();
        Space.equal(Space.body(first), "a");
        Space.equal(Space.bodies(receiver.peekMessages(2)), List.of("b", "c"));
        Space.equal(Space.body(receiver.peekMessage()), "d");
        long number = first.getSequenceNumber();
        Space.equal(Space.body(receiver.peekMessage(number + 1)), "b");
        Space.equal(Space.bodies(receiver.peekMessages(10, number + 3)), List.of("d", "e"));
        Space.equal(first.getLockToken(), null);
        Space.raises(UnsupportedOperationException.class, () -> receiver.complete(first));
        Space.equal(Space.take(receiver, 5), List.of("a", "b", "c", "d", "e"));
        Space.equal(space.receiver(queue).peekMessage(), null);
    }

    @Check(
        says = "MESSAGING_ENTITY_NOT_FOUND of a queue and a subscription that do not exist.",
        proves = {"ServiceBusReceiverClient.receiveMessages", "ServiceBusReceiverClient.peekMessage"})
    static void notFound(Space space) throws Exception {
        Faces.Builder builder = space.impatient();
        Faces.Receiver ofQueue = space.built(builder.receiver().queueName(space.name + "-missing"));
        Space.raises(
            ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> ofQueue.receiveMessages(1, Space.WAIT));
        Faces.Receiver ofSubscription =
            space.built(builder.receiver().topicName(space.topic()).subscriptionName("missing"));
        Space.raises(
            ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> ofSubscription.receiveMessages(1, Space.WAIT));
        Space.raises(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, ofSubscription::peekMessage);
    }

    @Check(
        says = "A receiver whose queue is deleted is told so.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void deleted(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver receiver = space.built(space.impatient().receiver().queueName(queue));
        Space.equal(Space.take(receiver, 1), List.of("x"));
        space.admin().deleteQueue(queue);
        Space.raises(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> {
            // Of a link that ends while it is unused, the SDK's next call need not hear.
            for (int n = 0; n < 5; n++) receiver.receiveMessages(1, Space.QUIET);
        });
    }

    @Check(
        says = "A receiver knows what it is for, and says so when it is used after its close.",
        proves = {
            "ServiceBusReceiverClient.close", "ServiceBusReceiverClient.getEntityPath",
            "ServiceBusReceiverClient.getFullyQualifiedNamespace", "ServiceBusReceiverClient.getIdentifier",
            "ServiceBusReceiverClient.getSessionId"
        })
    static void closed(Space space) throws Exception {
        String queue = space.queue();
        Faces.Receiver receiver = space.receiver(queue);
        Space.equal(
            List.of(receiver.getEntityPath(), receiver.getFullyQualifiedNamespace()), List.of(queue, "localhost"));
        Space.equal(receiver.getSessionId(), null);
        Space.that(!receiver.getIdentifier().isEmpty(), "no identifier");
        Space.equal(space.deadLetters(queue).getEntityPath(), queue + "/$deadletterqueue");
        receiver.close();
        Throwable error = Space.raises(RuntimeException.class, () -> receiver.receiveMessages(1, Space.QUIET));
        String told = error + " " + error.getCause();
        Space.that(told.contains("disposed") || told.contains("terminated"), told);
        Space.raises(IllegalStateException.class, receiver::peekMessage);
    }

    @Check(says = "One connection serves many senders and receivers.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void many(Space space) {
        String queue = space.queue();
        for (int n = 0; n < 5; n++) space.sender(queue).sendMessage(new ServiceBusMessage("m" + n));
        Set<String> seen = new HashSet<>();
        for (int n = 0; n < 5; n++) seen.addAll(Space.take(space.receiver(queue), 1));
        Space.equal(seen.size(), 5);
    }
}
