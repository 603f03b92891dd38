import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.ProxyAuthenticationType;
import com.azure.core.amqp.ProxyOptions;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.http.policy.HttpPipelineSyncPolicy;
import com.azure.core.util.UrlBuilder;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.MalformedURLException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;

/**
 * Where the cluster under test is, each as `HOST:PORT`.
 *
 * @param amqp without TLS
 * @param http with and without TLS, and with WebSockets at a path of theirs
 * @param amqps AMQP over TLS
 */
record Target(String amqp, String http, String amqps) {
    private static final String PASSWORD = "unguarded";

    /** For what goes without TLS, which any key opens: the cluster has no secret. */
    static String plain(String address) {
        return encrypted(address) + "UseDevelopmentEmulator=true;";
    }

    static String encrypted(String address) {
        return "Endpoint=sb://" + address + ";SharedAccessKeyName=RootManageSharedAccessKey;"
            + "SharedAccessKey=SAS_KEY_VALUE;";
    }

    /** How all goes: `plain`, or with TLS, `amqps` or `wss`. */
    private static String transport() {
        return System.getenv().getOrDefault("MAYFLY_TRANSPORT", "plain");
    }

    /** A client that speaks AMQP as the driver has chosen. */
    Faces.Builder usual(Faces.Builder builder) {
        return switch (transport()) {
            case "amqps" -> builder.connectionString(encrypted(amqps));
            // Without a proxy of none it goes to Azure's port of WebSockets.
            case "wss" -> builder.connectionString(encrypted(http))
                .transportType(AmqpTransportType.AMQP_WEB_SOCKETS)
                .proxyOptions(new ProxyOptions(ProxyAuthenticationType.NONE, null, null, null));
            default -> builder.connectionString(plain(amqp));
        };
    }

    /** As the driver has chosen for administration. */
    String scheme() {
        return transport().equals("plain") ? "http" : "https";
    }

    /** Requests go there: the administration client itself knows `https` and port 443 only. */
    static HttpPipelinePolicy redirect(String scheme, String address) {
        String port = address.substring(address.lastIndexOf(':') + 1);
        return new HttpPipelineSyncPolicy() {
            @Override
            protected void beforeSendingRequest(HttpPipelineCallContext context) {
                UrlBuilder url = UrlBuilder.parse(context.getHttpRequest().getUrl());
                try {
                    context.getHttpRequest().setUrl(url.setScheme(scheme).setPort(port).toUrl());
                } catch (MalformedURLException error) {
                    throw new IllegalStateException(error);
                }
            }
        };
    }

    /** Has this machine's Java trust the authority besides nobody. To be called before anything uses TLS. */
    static void trust(Path authority) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(authority)) {
            store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        Path file = Files.createTempFile("authority", ".p12");
        file.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", file.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
    }
}
