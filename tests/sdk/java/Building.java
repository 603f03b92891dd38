import com.azure.core.amqp.AmqpClientOptions;
import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.ProxyOptions;
import com.azure.core.credential.AccessToken;
import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.credential.TokenCredential;
import com.azure.core.http.HttpClient;
import com.azure.core.http.HttpPipelineBuilder;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.HttpLogOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.http.policy.RetryPolicy;
import com.azure.core.util.ClientOptions;
import com.azure.core.util.ConfigurationBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusServiceVersion;
import com.azure.messaging.servicebus.models.SubQueue;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import reactor.core.publisher.Mono;

/** What the builders of clients are told, as far as the broker or its clients' answers show it. */
final class Building {
    private static final String KEY_NAME = "RootManageSharedAccessKey";
    private static final TokenCredential TOKEN =
        request -> Mono.just(new AccessToken("a.token.of.nobody", OffsetDateTime.now().plusHours(1)));

    private static AzureSasCredential signature() throws GeneralSecurityException {
        String resource = URLEncoder.encode("sb://localhost/", StandardCharsets.UTF_8);
        long expiry = Instant.now().plusSeconds(3600).getEpochSecond();
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec("SAS_KEY_VALUE".getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        byte[] signed = mac.doFinal((resource + "\n" + expiry).getBytes(StandardCharsets.UTF_8));
        String text = URLEncoder.encode(Base64.getEncoder().encodeToString(signed), StandardCharsets.UTF_8);
        return new AzureSasCredential(
            "SharedAccessSignature sr=%s&sig=%s&se=%d&skn=%s".formatted(resource, text, expiry, KEY_NAME));
    }

    private static void works(Space space, String queue, Faces.Builder builder) {
        space.built(builder.sender().queueName(queue)).sendMessage(new ServiceBusMessage("x"));
        Space.equal(Space.take(space.built(builder.receiver().queueName(queue)), 1), List.of("x"));
    }

    @Check(
        says = "Every kind of credential opens a cluster without a secret, at the address that is given apart.",
        proves = {
            "ServiceBusClientBuilder.credential", "ServiceBusClientBuilder.fullyQualifiedNamespace",
            "ServiceBusClientBuilder.customEndpointAddress"
        },
        flavours = Flavour.SYNC)
    static void credentials(Space space) throws Exception {
        String queue = space.queue();
        AzureNamedKeyCredential key = new AzureNamedKeyCredential(KEY_NAME, "SAS_KEY_VALUE");
        AzureSasCredential signature = signature();
        List<UnaryOperator<Faces.Builder>> ways = List.of(
            builder -> builder.fullyQualifiedNamespace("localhost").credential(key),
            builder -> builder.credential("localhost", key),
            builder -> builder.fullyQualifiedNamespace("localhost").credential(signature),
            builder -> builder.credential("localhost", signature),
            builder -> builder.fullyQualifiedNamespace("localhost").credential(TOKEN),
            builder -> builder.credential("localhost", TOKEN));
        for (UnaryOperator<Faces.Builder> way : ways) {
            String address = "https://" + space.target.amqps();
            works(space, queue, way.apply(space.newBuilder()).customEndpointAddress(address));
        }
    }

    @Check(
        says = "Clients have the name they are given, and take a configuration and a proxy that is none.",
        proves = {
            "ServiceBusClientBuilder.clientOptions", "ServiceBusClientBuilder.configuration",
            "ServiceBusClientBuilder.proxyOptions", "ServiceBusClientBuilder.connectionString"
        },
        flavours = Flavour.SYNC)
    static void named(Space space) {
        String queue = space.queue();
        Faces.Builder builder = space.newBuilder().connectionString(Target.plain(space.target.amqp()))
            .clientOptions(new AmqpClientOptions().setIdentifier("me"))
            .configuration(new ConfigurationBuilder().build()).proxyOptions(ProxyOptions.SYSTEM_DEFAULTS);
        works(space, queue, builder);
        Space.equal(space.built(builder.sender().queueName(queue)).getIdentifier(), "me");
        Space.equal(space.built(builder.receiver().queueName(queue)).getIdentifier(), "me");
    }

    @Check(
        says = "A send to nowhere is tried as often, and for as long, as the options say.",
        proves = {"ServiceBusClientBuilder.retryOptions"},
        flavours = Flavour.SYNC)
    static void retries(Space space) throws Exception {
        List<Long> spans = new ArrayList<>();
        for (int retries : List.of(0, 3)) {
            AmqpRetryOptions options = new AmqpRetryOptions().setMode(AmqpRetryMode.FIXED).setMaxRetries(retries)
                .setDelay(Duration.ofSeconds(1)).setTryTimeout(Duration.ofSeconds(2));
            // Nothing listens there, and nothing may.
            Faces.Sender sender = space.built(space.newBuilder()
                .connectionString(Target.plain("localhost:1")).retryOptions(options).sender().queueName("nowhere"));
            long began = System.nanoTime();
            Space.raises(RuntimeException.class, () -> sender.sendMessage(new ServiceBusMessage("x")));
            spans.add(Duration.ofNanos(System.nanoTime() - began).toMillis());
        }
        Space.that(spans.get(1) - spans.get(0) > 2_000, spans);
    }

    @Check(
        says = "Every sub-builder is told what it builds for.",
        proves = {
            "ServiceBusClientBuilder.sender", "ServiceBusClientBuilder.receiver",
            "ServiceBusClientBuilder.sessionReceiver", "ServiceBusClientBuilder.processor",
            "ServiceBusClientBuilder.sessionProcessor", "ServiceBusClientBuilder.ruleManager",
            "ServiceBusClientBuilder.transportType", "ServiceBusClientBuilder.enableCrossEntityTransactions",
            "ServiceBusSessionReceiverClientBuilder.subQueue"
        },
        flavours = Flavour.SYNC)
    static void subBuilders(Space space) throws Exception {
        String queue = space.queue();
        Faces.Builder builder = space.newBuilder().connectionString(Target.plain(space.target.amqp()))
            .enableCrossEntityTransactions()
            .transportType(AmqpTransportType.AMQP);
        works(space, queue, builder);
        // What is for nothing is refused when it is built.
        Space.raises(IllegalStateException.class, () -> builder.sender().buildClient());
        Space.raises(IllegalStateException.class, () -> builder.receiver().topicName("t").buildClient());
        Space.raises(IllegalStateException.class, () -> builder.sender().topicName("t").queueName("q").buildClient());
        Space.raises(IllegalStateException.class, () -> builder.sessionReceiver().topicName("t").buildClient());
        Space.raises(IllegalStateException.class, () -> builder.ruleManager().topicName("t").buildClient());
        // Dead letters need no session, and are not to be had by one.
        Faces.Sessions sessions = space.opened(space.impatient().sessionReceiver().queueName(queue)
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete()
            .buildClient());
        Space.raises(RuntimeException.class, () -> sessions.acceptSession("a"));
        for (AutoCloseable client : List.of(
            builder.processor().queueName(queue).processMessage(context -> { }).processError(context -> { })
                .buildProcessorClient(),
            builder.sessionProcessor().queueName(queue).prefetchCount(1).subQueue(
                SubQueue.NONE).processMessage(context -> { })
                .processError(context -> { }).buildProcessorClient())) {
            client.close();
        }
        space.opened(builder.sender().queueName(queue).buildAsyncClient());
        space.opened(builder.receiver().queueName(queue).disableAutoComplete().buildAsyncClient());
        space.opened(builder.sessionReceiver().queueName(queue).buildAsyncClient());
        space.opened(builder.ruleManager().topicName("t").subscriptionName("s").buildAsyncClient());
    }

    @Check(
        says = "The administration client takes every kind of credential, and a pipeline of one's own.",
        proves = {
            "ServiceBusAdministrationClientBuilder.credential", "ServiceBusAdministrationClientBuilder.endpoint",
            "ServiceBusAdministrationClientBuilder.pipeline", "ServiceBusAdministrationClientBuilder.addPolicy",
            "ServiceBusAdministrationClientBuilder.connectionString",
            "ServiceBusAdministrationClientBuilder.buildClient",
            "ServiceBusAdministrationClientBuilder.buildAsyncClient"
        },
        flavours = Flavour.SYNC)
    static void administration(Space space) throws Exception {
        String queue = space.queue();
        AzureSasCredential signature = signature();
        List<UnaryOperator<Faces.AdministrationBuilder>> ways = List.of(
            builder -> builder.connectionString(Target.encrypted(space.target.http())),
            builder -> builder.endpoint("https://localhost").credential(TOKEN),
            builder -> builder.credential("localhost", TOKEN),
            builder -> builder.endpoint("https://localhost").credential(signature));
        for (UnaryOperator<Faces.AdministrationBuilder> way : ways) {
            Faces.AdministrationBuilder builder =
                way.apply(space.newAdministrationBuilder()).addPolicy(Target.redirect("https", space.target.http()));
            Space.that(builder.buildClient().getQueueExists(queue), way);
            Space.that(builder.buildAsyncClient().getQueueExists(queue), way);
        }
        Faces.AdministrationBuilder own = space.newAdministrationBuilder().credential("localhost", TOKEN)
            .pipeline(new HttpPipelineBuilder().policies(Target.redirect("http", space.target.http())).build());
        Space.that(own.buildClient().getQueueExists(queue), "missing");
    }

    @Check(
        says = "The administration client takes an HTTP client, retries, a version and more.",
        proves = {
            "ServiceBusAdministrationClientBuilder.httpClient", "ServiceBusAdministrationClientBuilder.httpLogOptions",
            "ServiceBusAdministrationClientBuilder.clientOptions",
            "ServiceBusAdministrationClientBuilder.configuration",
            "ServiceBusAdministrationClientBuilder.retryOptions", "ServiceBusAdministrationClientBuilder.retryPolicy",
            "ServiceBusAdministrationClientBuilder.serviceVersion"
        },
        flavours = Flavour.SYNC)
    static void administrationOptions(Space space) {
        String queue = space.queue();
        RetryOptions once = new RetryOptions(new FixedDelayOptions(1, Duration.ofMillis(100)));
        for (ServiceBusServiceVersion version : ServiceBusServiceVersion.values()) {
            Faces.AdministrationBuilder builder = space.newAdministrationBuilder()
                .connectionString(Target.plain(space.target.http()))
                .addPolicy(Target.redirect("http", space.target.http())).httpClient(HttpClient.createDefault())
                .httpLogOptions(new HttpLogOptions()).clientOptions(new ClientOptions().setApplicationId("tests"))
                .configuration(new ConfigurationBuilder().build()).serviceVersion(version)
                .retryOptions(once);
            Space.equal(builder.buildClient().getQueue(queue).getName(), queue);
        }
        Faces.AdministrationBuilder builder = space.newAdministrationBuilder()
            .connectionString(Target.plain(space.target.http()))
            .addPolicy(Target.redirect("http", space.target.http())).retryPolicy(new RetryPolicy());
        Space.equal(builder.buildClient().getQueue(queue).getName(), queue);
    }
}
