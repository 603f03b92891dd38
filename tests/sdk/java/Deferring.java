import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.List;
import java.util.Map;

/** Messages put aside, which come to who asks for them by their number. */
final class Deferring {
    @Check(
        says = "A deferred message comes to who asks by its number, and can be settled in every way.",
        proves = {
            "ServiceBusReceiverClient.defer", "ServiceBusReceiverClient.receiveDeferredMessage",
            "ServiceBusReceiverClient.receiveDeferredMessageBatch"
        })
    static void defer(Space space) {
        String queue = space.queue();
        space.send(queue, "a", "b", "c");
        Faces.Receiver receiver = space.receiver(queue);
        List<ServiceBusReceivedMessage> messages = Space.receive(receiver, 3);
        DeferOptions options = new DeferOptions().setPropertiesToModify(Map.of("set", "aside"));
        receiver.defer(messages.get(0), options);
        receiver.defer(messages.get(1));
        receiver.defer(messages.get(2));
        Space.empty(receiver);
        List<Long> numbers = messages.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList();
        List<ServiceBusReceivedMessage> deferred = receiver.receiveDeferredMessageBatch(numbers);
        Space.equal(Space.bodies(deferred), List.of("a", "b", "c"));
        for (ServiceBusReceivedMessage message : deferred) {
            Space.equal(message.getState(), ServiceBusMessageState.DEFERRED);
        }
        Space.equal(deferred.get(0).getApplicationProperties().get("set"), "aside");
        receiver.renewMessageLock(deferred.get(0));
        receiver.complete(deferred.get(0));
        receiver.abandon(deferred.get(1));
        receiver.deadLetter(deferred.get(2));
        receiver.complete(receiver.receiveDeferredMessage(numbers.get(1)));
        Space.equal(Space.take(space.deadLetters(queue), 1), List.of("c"));
        Space.equal(receiver.peekMessages(5), List.of());
    }

    @Check(
        says = "Nothing for numbers of which nobody deferred one, and none of the others is locked.",
        proves = {"ServiceBusReceiverClient.receiveDeferredMessageBatch"})
    static void unknown(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        receiver.defer(message);
        long number = message.getSequenceNumber();
        // The SDK makes an empty answer of MESSAGE_NOT_FOUND.
        Space.equal(receiver.receiveDeferredMessageBatch(List.of(number, number + 1000)), List.of());
        Space.raises(ServiceBusException.class, () -> receiver.receiveDeferredMessage(number + 1000));
        receiver.complete(receiver.receiveDeferredMessage(number));
    }

    @Check(
        says = "RECEIVE_AND_DELETE removes a deferred message.",
        proves = {"ServiceBusReceiverClient.receiveDeferredMessage"})
    static void andDelete(Space space) {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue);
        ServiceBusReceivedMessage message = Space.receive(receiver);
        receiver.defer(message);
        Faces.Receiver deleting =
            space.receiver(queue, options -> options.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE));
        Space.equal(Space.body(deleting.receiveDeferredMessage(message.getSequenceNumber())), "x");
        Space.equal(receiver.peekMessages(5), List.of());
    }

    @Check(
        says = "A subscription defers for itself; other subscriptions keep their copies.",
        proves = {"ServiceBusReceiverClient.defer"})
    static void inSubscription(Space space) {
        String topic = space.topic("one", "two");
        space.topicSender(topic).sendMessage(new ServiceBusMessage("x"));
        Faces.Receiver one = space.subscriber(topic, "one");
        ServiceBusReceivedMessage message = Space.receive(one);
        one.defer(message);
        Space.equal(Space.take(space.subscriber(topic, "two"), 1), List.of("x"));
        one.complete(one.receiveDeferredMessage(message.getSequenceNumber()));
        Space.equal(one.peekMessages(5), List.of());
    }
}
