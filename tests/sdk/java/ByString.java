import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The thinnest programs of Java's SDK: a connection string, and nothing else that names a broker.
 *
 * <pre>ByString QUEUE PART…    the string is MAYFLY_STRING; a line of JSON for each part</pre>
 *
 * `SSL_CERT_FILE` names the authority to trust, as a user's `-Djavax.net.ssl.trustStore` would.
 */
final class ByString {
    private static final Duration RECEIVE_MAX = Duration.ofSeconds(10);
    /** What a try may take: on a busy machine a connection alone takes seconds. */
    private static final Duration TRY_MAX = Duration.ofSeconds(60);
    private static final AmqpRetryOptions ONCE = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(TRY_MAX);

    public static void main(String[] args) throws Exception {
        Map<String, String> env = System.getenv();
        if (env.containsKey("SSL_CERT_FILE")) Target.trust(Path.of(env.get("SSL_CERT_FILE")));
        String text = env.get("MAYFLY_STRING");
        for (String part : List.of(args).subList(1, args.length)) {
            String failure = null;
            try {
                run(part, text, args[0]);
            } catch (Exception | AssertionError error) {
                // Whatever it is: the next part is tried all the same.
                failure = error + (error.getCause() == null ? "" : ": " + error.getCause());
            }
            Map<String, String> outcome = new HashMap<>();
            outcome.put("part", part);
            outcome.put("failure", failure);
            System.out.println(new ObjectMapper().writeValueAsString(outcome));
        }
        System.exit(0);
    }

    private static void run(String part, String text, String queue) {
        switch (part) {
            case "client" -> thereAndBack(text, queue, AmqpTransportType.AMQP);
            case "websocket" -> thereAndBack(text, queue, AmqpTransportType.AMQP_WEB_SOCKETS);
            case "administration" -> administer(text, queue);
            default -> throw new IllegalArgumentException(part);
        }
    }

    private static void thereAndBack(String text, String queue, AmqpTransportType transport) {
        ServiceBusClientBuilder builder =
            new ServiceBusClientBuilder().connectionString(text).transportType(transport).retryOptions(ONCE);
        List<String> bodies = new ArrayList<>();
        try (ServiceBusSenderClient sender = builder.sender().queueName(queue).buildClient();
            ServiceBusReceiverClient receiver = builder.receiver().queueName(queue).buildClient()) {
            sender.sendMessage(new ServiceBusMessage("over " + transport));
            for (ServiceBusReceivedMessage message : receiver.receiveMessages(1, RECEIVE_MAX)) {
                bodies.add(message.getBody().toString());
                receiver.complete(message);
            }
        }
        Space.equal(bodies, List.of("over " + transport));
    }

    private static void administer(String text, String queue) {
        ServiceBusAdministrationClient admin =
            new ServiceBusAdministrationClientBuilder().connectionString(text).buildClient();
        admin.getNamespaceProperties();
        String made = admin.createQueue(queue + "-made").getName();
        List<String> names = admin.listQueues().stream().map(QueueProperties::getName).toList();
        admin.deleteQueue(made);
        Space.that(names.contains(made), names);
    }
}
