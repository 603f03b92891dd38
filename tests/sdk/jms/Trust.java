import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;

/** The authority of the brokers under test, as a trust store of Java's: the file is MAYFLY_AUTHORITY. */
final class Trust {
    private static final String PASSWORD = "unguarded";
    private static Path store;

    private Trust() {}

    /** Of a connection's URI. */
    static synchronized String options() throws Exception {
        if (store == null) store = made(Path.of(System.getenv("MAYFLY_AUTHORITY")));
        return "transport.trustStoreLocation=" + store + "&transport.trustStorePassword=" + PASSWORD;
    }

    private static Path made(Path authority) throws Exception {
        var keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        try (var pem = Files.newInputStream(authority)) {
            keys.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        var file = Files.createTempFile("authority", ".p12");
        file.toFile().deleteOnExit();
        try (var out = Files.newOutputStream(file)) {
            keys.store(out, PASSWORD.toCharArray());
        }
        return file;
    }
}
