import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;

/** Transactions: all of what is done in one is done, or none. */
final class Transactions {
    private static ServiceBusTransactionContext context(Faces.Transaction transaction) {
        return (ServiceBusTransactionContext) Handle.bare(transaction);
    }

    @Check(
        says = "What is sent in a transaction is there once it commits, and never if it is rolled back.",
        proves = {
            "ServiceBusSenderClient.createTransaction", "ServiceBusSenderClient.commitTransaction",
            "ServiceBusSenderClient.rollbackTransaction", "ServiceBusSenderClient.sendMessage",
            "ServiceBusSenderClient.sendMessages"
        })
    static void send(Space space) {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        Faces.Receiver receiver = space.receiver(queue);
        Faces.Transaction given = sender.createTransaction();
        sender.sendMessage(new ServiceBusMessage("a"), given);
        sender.sendMessages(List.of(new ServiceBusMessage("b"), new ServiceBusMessage("c")), given);
        Faces.Batch batch = sender.createMessageBatch();
        batch.tryAddMessage(new ServiceBusMessage("d"));
        sender.sendMessages(batch, given);
        Space.equal(receiver.peekMessages(5), List.of());
        sender.commitTransaction(given);
        Space.equal(Space.take(receiver, 4), List.of("a", "b", "c", "d"));
        Faces.Transaction taken = sender.createTransaction();
        sender.sendMessage(new ServiceBusMessage("never"), taken);
        sender.rollbackTransaction(taken);
        Space.empty(receiver);
    }

    @Check(
        says = "A transaction has an identifier of its own.",
        proves = {"ServiceBusTransactionContext.getTransactionId"},
        flavours = Flavour.SYNC)
    static void identified(Space space) {
        Faces.Sender sender = space.sender(space.queue());
        Faces.Transaction one = sender.createTransaction();
        Faces.Transaction two = sender.createTransaction();
        Space.that(one.getTransactionId().remaining() > 0, "no identifier");
        Space.that(!one.getTransactionId().equals(two.getTransactionId()), one.getTransactionId());
        sender.rollbackTransaction(one);
        sender.rollbackTransaction(two);
    }

    @Check(
        says = "Messages scheduled in a transaction are scheduled once it commits, and never if it is rolled back.",
        proves = {"ServiceBusSenderClient.scheduleMessage", "ServiceBusSenderClient.scheduleMessages"})
    static void schedule(Space space) {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        OffsetDateTime due = OffsetDateTime.now().plusHours(1);
        Faces.Transaction taken = sender.createTransaction();
        sender.scheduleMessage(new ServiceBusMessage("never"), due, taken);
        sender.rollbackTransaction(taken);
        Faces.Transaction given = sender.createTransaction();
        sender.scheduleMessage(new ServiceBusMessage("a"), due, given);
        sender.scheduleMessages(List.of(new ServiceBusMessage("b"), new ServiceBusMessage("c")), due, given);
        sender.commitTransaction(given);
        Space.equal(Space.bodies(space.receiver(queue).peekMessages(5)), List.of("a", "b", "c"));
    }

    @Check(
        says = "Settlements of every kind are done once their transaction commits.",
        proves = {
            "ServiceBusReceiverClient.createTransaction", "ServiceBusReceiverClient.commitTransaction",
            "ServiceBusReceiverClient.complete", "ServiceBusReceiverClient.abandon", "ServiceBusReceiverClient.defer",
            "ServiceBusReceiverClient.deadLetter"
        })
    static void settle(Space space) {
        String queue = space.queue();
        space.send(queue, "complete", "abandon", "defer", "dead-letter");
        Faces.Receiver receiver = space.receiver(queue);
        List<ServiceBusReceivedMessage> messages = Space.receive(receiver, 4);
        Faces.Transaction transaction = receiver.createTransaction();
        ServiceBusTransactionContext context = context(transaction);
        receiver.complete(messages.get(0), new CompleteOptions().setTransactionContext(context));
        receiver.abandon(messages.get(1), new AbandonOptions().setTransactionContext(context));
        receiver.defer(messages.get(2), new DeferOptions().setTransactionContext(context));
        receiver.deadLetter(messages.get(3), new DeadLetterOptions().setTransactionContext(context));
        Space.equal(receiver.peekMessages(5, 1).size(), 4);
        receiver.commitTransaction(transaction);
        Space.equal(Space.take(receiver, 1), List.of("abandon"));
        receiver.complete(receiver.receiveDeferredMessage(messages.get(2).getSequenceNumber()));
        Space.equal(Space.take(space.deadLetters(queue), 1), List.of("dead-letter"));
        Space.equal(receiver.peekMessages(5, 1), List.of());
    }

    @Check(
        says = "After a rollback a message stays locked as it was, and comes again when its lock has ended.",
        proves = {"ServiceBusReceiverClient.rollbackTransaction", "ServiceBusReceiverClient.complete"})
    static void rolledBack(Space space) {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(8)));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, Settling.UNRENEWED);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        Faces.Transaction transaction = receiver.createTransaction();
        // The SDK takes the message for settled from here on: whoever wants it again waits.
        receiver.complete(message, new CompleteOptions().setTransactionContext(context(transaction)));
        receiver.rollbackTransaction(transaction);
        Space.empty(receiver);
        ServiceBusReceivedMessage again = Space.receive(receiver);
        Space.equal(again.getDeliveryCount(), 1L);
        receiver.complete(again);
        Space.equal(receiver.peekMessages(5, 1), List.of());
    }

    @Check(
        says = "A message is taken from one queue and another sent to a second, together.",
        proves = {"ServiceBusReceiverClient.complete", "ServiceBusSenderClient.sendMessage"})
    static void acrossCompleteFirst(Space space) {
        across(space, true);
    }

    @Check(
        says = "A message is sent to a second queue before the one it answers is completed, together.",
        proves = {"ServiceBusReceiverClient.complete", "ServiceBusSenderClient.sendMessage"})
    static void acrossSendFirst(Space space) {
        across(space, false);
    }

    private static void across(Space space, boolean completesFirst) {
        String source = space.queue();
        String target = space.name + "-target";
        space.admin().createQueue(target);
        space.send(source, "question");
        Faces.Builder builder =
            space.target.usual(space.newBuilder()).enableCrossEntityTransactions();
        Faces.Receiver receiver = space.built(builder.receiver().queueName(source));
        Faces.Sender sender = space.built(builder.sender().queueName(target));
        ServiceBusReceivedMessage message = Space.receive(receiver);
        Faces.Transaction transaction = receiver.createTransaction();
        CompleteOptions options = new CompleteOptions().setTransactionContext(context(transaction));
        if (completesFirst) receiver.complete(message, options);
        sender.sendMessage(new ServiceBusMessage("answer"), transaction);
        if (!completesFirst) receiver.complete(message, options);
        receiver.commitTransaction(transaction);
        Space.equal(Space.take(space.receiver(target), 1), List.of("answer"));
        Space.equal(receiver.peekMessages(5, 1), List.of());
    }

    @Check(
        says = "A session's messages are settled in a transaction; after a rollback its holder goes on.",
        proves = {"ServiceBusReceiverClient.commitTransaction", "ServiceBusReceiverClient.rollbackTransaction"})
    static void inSession(Space space) {
        String queue = space.queue(new CreateQueueOptions().setSessionRequired(true));
        space.send(queue, List.of(Space.inSession("a", "a1"), Space.inSession("a", "a2")));
        Faces.Receiver holder = space.opened(space.sessions(queue).acceptSession("a"));
        List<ServiceBusReceivedMessage> messages = Space.receive(holder, 2);
        Faces.Transaction taken = holder.createTransaction();
        holder.complete(messages.get(0), new CompleteOptions().setTransactionContext(context(taken)));
        holder.rollbackTransaction(taken);
        Faces.Transaction given = holder.createTransaction();
        holder.complete(messages.get(1), new CompleteOptions().setTransactionContext(context(given)));
        holder.commitTransaction(given);
        Space.equal(Space.bodies(holder.peekMessages(5, 1)), List.of("a1"));
        holder.setSessionState(new byte[] {1});
    }
}
