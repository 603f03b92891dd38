import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;

/** How messages are settled, and how their locks are kept and lost. */
final class Settling {
    /** A receiver that leaves locks alone. */
    static final UnaryOperator<Faces.ReceiverBuilder> UNRENEWED =
        options -> options.maxAutoLockRenewDuration(Duration.ZERO);

    @Check(
        says = "A completed message is gone, a second completion is refused.",
        proves = {"ServiceBusReceiverClient.complete"})
    static void complete(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "a", "b");
        Faces.Receiver receiver = space.receiver(queue);
        List<ServiceBusReceivedMessage> messages = Space.receive(receiver, 2);
        receiver.complete(messages.get(0));
        receiver.complete(messages.get(1), new CompleteOptions());
        Space.raises(RuntimeException.class, () -> receiver.complete(messages.get(0)));
        Space.empty(receiver);
    }

    @Check(
        says = "An abandoned message comes again at once, counted and with the properties given.",
        proves = {"ServiceBusReceiverClient.abandon"})
    static void abandon(Space space) {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue);
        receiver.abandon(Space.receive(receiver));
        ServiceBusReceivedMessage again = Space.receive(receiver);
        Space.equal(again.getDeliveryCount(), 1L);
        receiver.abandon(again, new AbandonOptions().setPropertiesToModify(Map.of("tried", "twice")));
        ServiceBusReceivedMessage third = Space.receive(receiver);
        Space.equal(third.getDeliveryCount(), 2L);
        Space.equal(third.getApplicationProperties().get("tried"), "twice");
        receiver.complete(third);
    }

    @Check(
        says = "A dead-lettered message carries what was said about it.",
        proves = {"ServiceBusReceiverClient.deadLetter", "ServiceBusReceiverClient.complete"})
    static void deadLetter(Space space) {
        String queue = space.queue();
        space.send(queue, "a", "b");
        Faces.Receiver receiver = space.receiver(queue);
        List<ServiceBusReceivedMessage> messages = Space.receive(receiver, 2);
        receiver.deadLetter(messages.get(0));
        receiver.deadLetter(
            messages.get(1),
            new DeadLetterOptions().setDeadLetterReason("why").setDeadLetterErrorDescription("because")
                .setPropertiesToModify(Map.of("more", 1)));
        Faces.Receiver dead = space.deadLetters(queue);
        List<ServiceBusReceivedMessage> letters = Space.receive(dead, 2);
        Space.equal(Space.bodies(letters), List.of("a", "b"));
        ServiceBusReceivedMessage letter = letters.get(1);
        Space.equal(
            List.of(letter.getDeadLetterReason(), letter.getDeadLetterErrorDescription()), List.of("why", "because"));
        Space.equal(letter.getApplicationProperties().get("more"), 1);
        letters.forEach(dead::complete);
        Space.empty(receiver);
    }

    @Check(
        says = "After MaxDeliveryCount deliveries a message is dead-lettered.",
        proves = {"ServiceBusReceiverClient.abandon"})
    static void maxDeliveryCount(Space space) {
        String queue = space.queue(new CreateQueueOptions().setMaxDeliveryCount(2));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue);
        for (int n = 0; n < 2; n++) receiver.abandon(Space.receive(receiver));
        ServiceBusReceivedMessage letter = Space.receive(space.deadLetters(queue));
        Space.equal(letter.getDeadLetterReason(), "MaxDeliveryCountExceeded");
    }

    @Check(
        says = "A lock outlives its receiver, and another receiver can settle under it.",
        proves = {"ServiceBusReceiverClient.complete"})
    static void elsewhere(Space space) {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver first = space.receiver(queue);
        ServiceBusReceivedMessage message = Space.receive(first);
        first.close();
        Faces.Receiver second = space.receiver(queue);
        Space.empty(second);
        second.complete(message);
        Space.empty(second);
    }

    @Check(
        says = "What cannot be forwarded is in the dead-letter queue of its source, not that of transfers.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void notForwarded(Space space) {
        String target = space.name + "-target";
        String source = space.name + "-source";
        space.admin().createQueue(target, new CreateQueueOptions().setSessionRequired(true));
        space.admin().createQueue(source, new CreateQueueOptions().setForwardTo(target));
        space.send(source, "without a session");
        Space.equal(Space.take(space.deadLetters(source), 1), List.of("without a session"));
        Space.empty(space.receiver(source, options -> options.subQueue(SubQueue.TRANSFER_DEAD_LETTER_QUEUE)));
    }

    @Check(
        says = "A lock is held for longer than it lasts by renewing it.",
        proves = {"ServiceBusReceiverClient.renewMessageLock"})
    static void renew(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, UNRENEWED);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        OffsetDateTime until = message.getLockedUntil();
        Thread.sleep(3_000);
        OffsetDateTime renewed = receiver.renewMessageLock(message);
        Space.that(Duration.between(until, renewed).toMillis() > 2_000, renewed);
        Thread.sleep(3_000);
        receiver.complete(message);
        Space.empty(receiver);
    }

    @Check(
        says = "The SDK renews a lock for as long as it is told to.",
        proves = {"ServiceBusReceiverClient.renewMessageLock"})
    static void renewer(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, UNRENEWED);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        // The asynchronous client's call lasts as long as it renews.
        CompletableFuture<Void> renewing = CompletableFuture.runAsync(
            () -> receiver.renewMessageLock(message, Duration.ofSeconds(10), failure::set));
        Thread.sleep(8_000);
        receiver.complete(message);
        renewing.get();
        Space.equal(failure.get(), null);
        Space.empty(receiver);
    }

    @Check(
        says = "A receiver that renews keeps the locks of all it receives.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void autoRenew(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, "a", "b");
        Faces.Receiver receiver =
            space.receiver(queue, options -> options.maxAutoLockRenewDuration(Duration.ofMinutes(1)));
        List<ServiceBusReceivedMessage> messages = Space.receive(receiver, 2);
        Thread.sleep(8_000);
        messages.forEach(receiver::complete);
        Space.empty(receiver);
    }

    @Check(
        says = "MESSAGE_LOCK_LOST once a lock has ended; the message comes again, counted.",
        proves = {"ServiceBusReceiverClient.complete", "ServiceBusReceiverClient.renewMessageLock"})
    static void lost(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, UNRENEWED);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        Thread.sleep(6_500);
        Space.raises(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
        Space.raises(ServiceBusException.class, () -> receiver.renewMessageLock(message));
        ServiceBusReceivedMessage again = Space.receive(receiver);
        Space.equal(again.getDeliveryCount(), 1L);
        receiver.complete(again);
    }
}
