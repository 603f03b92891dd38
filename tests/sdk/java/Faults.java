import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Faults on the message plane: what the SDK makes of them, and what is left behind. */
final class Faults {
    /** Met by whoever does something with a check's own entity, until it is closed. */
    private static final class Fault implements AutoCloseable {
        private final Space space;
        private final String name;

        Fault(Space space, String operation, String effect, Map<String, Object> keys) throws Exception {
            this.space = space;
            name = space.name + "-" + operation;
            Map<String, Object> rule = new HashMap<>(keys);
            rule.putAll(Map.of("operation", operation, "effect", effect, "entity", space.name + "*"));
            ask("PUT", BodyPublishers.ofString(new ObjectMapper().writeValueAsString(rule)));
        }

        private void ask(String method, BodyPublisher body) throws Exception {
            URI uri = URI.create("%s://%s/$faults/%s".formatted(space.target.scheme(), space.target.http(), name));
            HttpRequest request = HttpRequest.newBuilder(uri).method(method, body).build();
            HttpResponse<String> answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
            Space.equal(answer.statusCode(), 200, answer.body());
        }

        @Override
        public void close() throws Exception {
            ask("DELETE", BodyPublishers.noBody());
        }
    }

    @Check(
        says = "`refuse`: each error has the SDK's own reason, and nothing is stored.",
        proves = {"ServiceBusSenderClient.sendMessage"})
    static void refused(Space space) throws Exception {
        String queue = space.queue();
        Faces.Sender sender = space.built(space.impatient().sender().queueName(queue));
        for (Map.Entry<String, ServiceBusFailureReason> error : Map.of(
            "QuotaExceeded", ServiceBusFailureReason.QUOTA_EXCEEDED,
            "MessageSizeExceeded", ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED,
            "MessagingEntityDisabled", ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED).entrySet()) {
            try (Fault fault = new Fault(space, "send", "refuse", Map.of("error", error.getKey()))) {
                Space.raises(error.getValue(), () -> sender.sendMessage(new ServiceBusMessage("x")));
            }
        }
        Space.equal(space.admin().getQueueRuntimeProperties(queue).getActiveMessageCount(), 0);
    }

    @Check(
        says = "`lapse`: MESSAGE_LOCK_LOST for the completion, and the message comes again, counted.",
        proves = {"ServiceBusReceiverClient.complete"})
    static void lockLapses(Space space) throws Exception {
        String queue = space.queue();
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, Settling.UNRENEWED);
        try (Fault fault = new Fault(space, "receive", "lapse", Map.of("time", "1s", "hits", 1))) {
            ServiceBusReceivedMessage message = Space.receive(receiver);
            ServiceBusReceivedMessage again = Space.receive(receiver);
            Space.equal(again.getDeliveryCount(), 1L);
            Space.raises(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
            receiver.complete(again);
        }
        Space.empty(receiver);
    }

    @Check(
        says = "`refuse` of a completion: MESSAGE_LOCK_LOST, and the handler meets the message once more.",
        proves = {"ServiceBusReceiverClient.complete"})
    static void twice(Space space) throws Exception {
        String queue = space.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
        space.send(queue, "x");
        Faces.Receiver receiver = space.receiver(queue, Settling.UNRENEWED);
        Map<String, Object> keys = Map.of("error", "MessageLockLost", "hits", 1);
        try (Fault fault = new Fault(space, "complete", "refuse", keys)) {
            ServiceBusReceivedMessage message = Space.receive(receiver);
            Space.raises(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
            ServiceBusReceivedMessage again = Space.receive(receiver);
            Space.equal(again.getDeliveryCount(), 1L);
            receiver.complete(again);
        }
        Space.empty(receiver);
    }
}
