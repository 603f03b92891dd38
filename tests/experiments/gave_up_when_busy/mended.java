/**
 * Takes orders and sends receipts. The SDK waits and tries again; an order is done once its receipt is sent, and goes back
 * where that cannot be.
 */
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;

class Mended {
    public static void main(String[] args) throws Exception {
        ServiceBusClientBuilder client =
            new ServiceBusClientBuilder().connectionString(System.getenv("MAYFLY_CONNECTION_STRING"));
        try (ServiceBusReceiverClient orders =
                client.receiver().queueName("orders").buildClient();
            ServiceBusSenderClient receipts = client.sender().queueName("receipts").buildClient()) {
            while (true) {
                for (ServiceBusReceivedMessage order : orders.receiveMessages(1, Duration.ofSeconds(1))) {
                    try {
                        receipts.sendMessage(new ServiceBusMessage("done").setCorrelationId(order.getMessageId()));
                        orders.complete(order);
                    } catch (ServiceBusException error) {
                        if (error.getReason() != ServiceBusFailureReason.SERVICE_BUSY) throw error;
                        System.out.println(order.getMessageId() + " goes back: " + error.getReason());
                        orders.abandon(order);
                    }
                }
            }
        }
    }
}
