import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Messages that come later. */
final class Scheduling {
    @Check(
        says = "A scheduled message is not there before its time; a cancelled one never.",
        proves = {
            "ServiceBusSenderClient.scheduleMessage", "ServiceBusSenderClient.scheduleMessages",
            "ServiceBusSenderClient.cancelScheduledMessage", "ServiceBusSenderClient.cancelScheduledMessages"
        })
    static void schedule(Space space) {
        String queue = space.queue();
        Faces.Sender sender = space.sender(queue);
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(6);
        Long kept = sender.scheduleMessage(new ServiceBusMessage("kept"), due);
        List<Long> numbers = sender.scheduleMessages(
            List.of(new ServiceBusMessage("one"), new ServiceBusMessage("two"), new ServiceBusMessage("three")), due);
        Space.that(numbers.size() == 3 && numbers.get(0) > kept, numbers);
        sender.sendMessage(new ServiceBusMessage("by property").setScheduledEnqueueTime(due));
        sender.cancelScheduledMessage(numbers.get(0));
        sender.cancelScheduledMessages(numbers.subList(1, 3));
        Faces.Receiver receiver = space.receiver(queue);
        List<ServiceBusReceivedMessage> peeked = receiver.peekMessages(10);
        Space.equal(Space.bodies(peeked), List.of("kept", "by property"));
        for (ServiceBusReceivedMessage message : peeked) {
            Space.equal(message.getState(), ServiceBusMessageState.SCHEDULED);
        }
        Space.equal(new HashSet<>(Space.take(receiver, 2)), Set.of("kept", "by property"));
        Space.that(!OffsetDateTime.now().isBefore(due), "before its time");
        // What is gone cannot be cancelled, which the SDK does not tell.
        sender.cancelScheduledMessage(kept);
    }

    @Check(
        says = "A message scheduled on a topic reaches its subscriptions when it is due.",
        proves = {"ServiceBusSenderClient.scheduleMessage"})
    static void onTopic(Space space) {
        String topic = space.topic("s");
        Faces.Sender sender = space.topicSender(topic);
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(4);
        sender.scheduleMessage(new ServiceBusMessage("kept"), due);
        sender.cancelScheduledMessage(sender.scheduleMessage(new ServiceBusMessage("cancelled"), due));
        Faces.Receiver receiver = space.subscriber(topic, "s");
        Space.equal(Space.take(receiver, 1), List.of("kept"));
        Space.that(!OffsetDateTime.now().isBefore(due), "before its time");
        Space.empty(receiver);
    }
}
