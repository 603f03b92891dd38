import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Where the cluster is, and its entities: made and looked at in Service Bus's ATOM dialect.
 *
 * @param secret what it asks for, or null
 */
record Cluster(String amqp, String http, String secret) {
    private static final HttpClient CLIENT =
            HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
    private static final String SCHEMA =
            "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";

    Cluster(String amqp, String http) {
        this(amqp, http, null);
    }

    /** The broker that asks for keys; AMQP is over TLS there. */
    static Cluster secured() {
        var env = System.getenv();
        return new Cluster(env.get("MAYFLY_SECURED_AMQPS"), env.get("MAYFLY_SECURED_HTTP"),
                env.get("MAYFLY_SECURED_KEY"));
    }

    /** Where clients go, in the way that the driver has chosen: plain, or with TLS. */
    String uri(String... options) throws Exception {
        var chosen = System.getenv().getOrDefault("MAYFLY_TRANSPORT", "plain");
        var all = new ArrayList<>(List.of(options));
        if (!chosen.equals("plain")) all.add(Trust.options());
        var address = switch (chosen) {
            case "amqps" -> "amqps://" + System.getenv("MAYFLY_AMQPS");
            case "wss" -> "amqpwss://" + http + "/$servicebus/websocket";
            default -> "amqp://" + amqp;
        };
        return all.isEmpty() ? address : address + "?" + String.join("&", all);
    }

    /** `properties` are the elements of its description, in the schema's order. */
    void createQueue(String name, String properties) throws Exception {
        put(name, "QueueDescription", properties);
    }

    void createTopic(String name) throws Exception {
        put(name, "TopicDescription", "");
    }

    void createSubscription(String topic, String name) throws Exception {
        put(topic + "/Subscriptions/" + name, "SubscriptionDescription", "");
    }

    /** Whether there is such an entity. */
    boolean has(String name) throws Exception {
        return entry(name).statusCode() == 200 && entry(name).body().contains("<title");
    }

    /** All messages of a queue, whatever their state. */
    int messageCount(String queue) throws Exception {
        var found = entry(queue).body().split("<MessageCount>", 2);
        Expect.that(found.length == 2, queue + " has no count");
        return Integer.parseInt(found[1].substring(0, found[1].indexOf('<')));
    }

    /** Once what is under way is done: the client does not wait for what became of an acknowledgement. */
    void holds(String queue, int count) throws Exception {
        var until = System.currentTimeMillis() + Space.WAIT;
        for (var found = messageCount(queue); found != count; found = messageCount(queue)) {
            Expect.that(System.currentTimeMillis() < until, found + " messages are left, not " + count);
            Thread.sleep(50);
        }
    }

    private HttpResponse<String> entry(String name) throws Exception {
        return ask(HttpRequest.newBuilder(at(name)).GET());
    }

    private void put(String name, String kind, String properties) throws Exception {
        var body =
                "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><"
                        + kind + " xmlns=\"" + SCHEMA + "\">" + properties + "</" + kind
                        + "></content></entry>";
        var request = HttpRequest.newBuilder(at(name)).PUT(BodyPublishers.ofString(body));
        var answer = ask(request.header("content-type", "application/atom+xml"));
        if (answer.statusCode() != 201) {
            throw new IOException(name + ": " + answer.statusCode() + " " + answer.body());
        }
    }

    private URI at(String name) {
        return URI.create("http://" + http + "/" + name + "?api-version=2021-05");
    }

    private HttpResponse<String> ask(HttpRequest.Builder request) throws Exception {
        if (secret != null) request.header("authorization", "Bearer " + secret);
        return CLIENT.send(request.timeout(Duration.ofSeconds(20)).build(), BodyHandlers.ofString());
    }
}
