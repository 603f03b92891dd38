import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.exception.HttpResponseException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * A namespace of a profile, as Java's SDK meets it.
 *
 * <pre>Profiles PROFILE QUEUE    the string is MAYFLY_STRING; a line of JSON for each part</pre>
 *
 * `SSL_CERT_FILE` names the authority to trust, as a user's `-Djavax.net.ssl.trustStore` would.
 */
final class Profiles {
    private static final int KILOBYTE = 1024;
    private static final Duration RECEIVE_MAX = Duration.ofSeconds(10);
    private static final AmqpRetryOptions ONCE =
        new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(60));

    private final String queue;
    private final String sku;
    private final boolean isBasic;
    private final boolean isLarge;
    private final int messageKilobytes;
    private final ServiceBusClientBuilder builder;
    private final ServiceBusAdministrationClient admin;

    private Profiles(String profile, String queue, String text) {
        this.queue = queue;
        sku = Map.of("self-hosted", "Standard", "basic", "Basic", "standard", "Standard", "premium", "Premium")
            .get(profile);
        isBasic = profile.equals("basic");
        isLarge = List.of("self-hosted", "premium").contains(profile);
        messageKilobytes = profile.equals("premium") ? 1024 : 256;
        builder = new ServiceBusClientBuilder().connectionString(text).retryOptions(ONCE);
        admin = new ServiceBusAdministrationClientBuilder().connectionString(text).buildClient();
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> env = System.getenv();
        if (env.containsKey("SSL_CERT_FILE")) Target.trust(Path.of(env.get("SSL_CERT_FILE")));
        Profiles tier = new Profiles(args[0], args[1], env.get("MAYFLY_STRING"));
        for (String part : List.of("namespace", "entities", "sizes", "features")) {
            String failure = null;
            try {
                tier.run(part);
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

    private void run(String part) {
        switch (part) {
            case "namespace" -> namespace();
            case "entities" -> entities();
            case "sizes" -> sizes();
            case "features" -> features();
            default -> throw new IllegalArgumentException(part);
        }
    }

    private void namespace() {
        NamespaceProperties told = admin.getNamespaceProperties();
        Space.equal(told.getMessagingSku().toString().toLowerCase(), sku.toLowerCase());
    }

    private void entities() {
        // Of its own accord this SDK says "for ever", which Basic refuses (Azure/azure-cli#15142).
        QueueProperties made = isBasic ? admin.createQueue(queue, options()) : admin.createQueue(queue);
        Space.equal(made.getDefaultMessageTimeToLive().equals(Duration.ofDays(14)), isBasic);
        Space.equal(made.getMaxMessageSizeInKilobytes(), (long) messageKilobytes);
        refused(!isBasic, () -> admin.createTopic(queue + "-topic"));
        create(!isBasic, "sessions", said -> said.setSessionRequired(true));
        create(!isBasic, "once", said -> said.setDuplicateDetectionRequired(true));
        create(!isBasic, "forwards", said -> said.setForwardTo(queue));
        create(!isBasic, "month", said -> said.setDefaultMessageTimeToLive(Duration.ofDays(30)));
        create(isLarge, "10", said -> said.setMaxSizeInMegabytes(10_240));
        create(isLarge, "large", said -> said.setMaxMessageSizeInKilobytes(1024));
    }

    private void create(boolean isTaken, String name, UnaryOperator<CreateQueueOptions> said) {
        refused(isTaken, () -> admin.createQueue(queue + "-" + name, said.apply(options())));
    }

    private CreateQueueOptions options() {
        CreateQueueOptions options = new CreateQueueOptions();
        return isBasic ? options.setDefaultMessageTimeToLive(Duration.ofDays(14)) : options;
    }

    /** That something is created, or refused in the service's words. */
    private void refused(boolean isTaken, Runnable create) {
        try {
            create.run();
        } catch (HttpResponseException error) {
            String told = error.getMessage();
            Space.that(!isTaken, told);
            Space.that(told.contains("SubCode=40000") && told.contains("is using '" + sku + "' tier"), told);
            return;
        }
        Space.that(isTaken, "it was created");
    }

    private void sizes() {
        try (ServiceBusSenderClient sender = builder.sender().queueName(queue).buildClient()) {
            int batch = sender.createMessageBatch().getMaxSizeInBytes();
            Space.that(batch > 200 * KILOBYTE && batch <= messageKilobytes * KILOBYTE, batch);
            sender.sendMessage(new ServiceBusMessage("x".repeat(200 * KILOBYTE)));
            try {
                sender.sendMessage(new ServiceBusMessage("x".repeat(300 * KILOBYTE)));
                Space.equal(messageKilobytes, 1024);
            } catch (ServiceBusException error) {
                Space.that(messageKilobytes == 256, error);
                Space.equal(error.getReason(), ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED);
            }
        }
    }

    /** SCHED-15, the one that every tier has, and transactions, which Basic has not (QUOTA-35). */
    private void features() {
        try (ServiceBusSenderClient sender = builder.sender().queueName(queue).buildClient();
            ServiceBusReceiverClient receiver = builder.receiver().queueName(queue).buildClient()) {
            sender.scheduleMessage(new ServiceBusMessage("later"), OffsetDateTime.now().plusSeconds(1));
            String body = "";
            while (!body.equals("later")) {
                body = "none";
                for (ServiceBusReceivedMessage message : receiver.receiveMessages(1, RECEIVE_MAX)) {
                    body = message.getBody().toString();
                    receiver.complete(message);
                }
                Space.that(!body.equals("none"), "no message");
            }
            try {
                ServiceBusTransactionContext transaction = sender.createTransaction();
                sender.sendMessage(new ServiceBusMessage("in it"), transaction);
                sender.commitTransaction(transaction);
                Space.that(!isBasic, "a transaction was taken");
            } catch (RuntimeException error) {
                Space.that(isBasic, error);
                String told = String.valueOf(error.getMessage()) + error.getCause();
                Space.that(told.contains("Transaction is unsupported because the namespace"), told);
            }
        }
    }
}
