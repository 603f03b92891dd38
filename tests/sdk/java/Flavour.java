import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerAsyncClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationAsyncClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** One of the two kinds of clients in the package. */
enum Flavour {
    /** With what both kinds have in common. */
    SYNC(
        ServiceBusClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusSenderClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusReceiverClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusSessionReceiverClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusProcessorClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusSessionProcessorClientBuilder.class,
        ServiceBusClientBuilder.ServiceBusRuleManagerBuilder.class,
        ServiceBusSenderClient.class,
        ServiceBusMessageBatch.class,
        ServiceBusTransactionContext.class,
        ServiceBusReceiverClient.class,
        ServiceBusSessionReceiverClient.class,
        ServiceBusProcessorClient.class,
        ServiceBusReceivedMessageContext.class,
        ServiceBusErrorContext.class,
        ServiceBusRuleManagerClient.class,
        ServiceBusAdministrationClientBuilder.class,
        ServiceBusAdministrationClient.class),
    ASYNC(
        ServiceBusSenderAsyncClient.class,
        ServiceBusReceiverAsyncClient.class,
        ServiceBusSessionReceiverAsyncClient.class,
        ServiceBusRuleManagerAsyncClient.class,
        ServiceBusAdministrationAsyncClient.class);

    private final List<Class<?>> classes;

    Flavour(Class<?>... classes) {
        this.classes = List.of(classes);
    }

    /** Every public method, overloads apart. */
    Stream<Method> methods() {
        return classes.stream()
            .flatMap(kind -> Arrays.stream(kind.getDeclaredMethods()))
            .filter(method -> Modifier.isPublic(method.getModifiers()))
            .filter(method -> !method.isBridge() && !method.isAnnotationPresent(Deprecated.class));
    }

    /** A method of the synchronous client as this kind calls it. */
    String own(String method) {
        if (this == SYNC) return method;
        String renamed = method.replace("receiveDeferredMessageBatch", "receiveDeferredMessages");
        return renamed.replaceFirst("Client\\.", "AsyncClient.");
    }
}
