/** Takes orders and sends receipts. A receipt that is refused is written down, and the order done. */
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;

class Broken {
    public static void main(String[] args) throws Exception {
        ServiceBusClientBuilder client =
            new ServiceBusClientBuilder().connectionString(System.getenv("MAYFLY_CONNECTION_STRING"))
                .retryOptions(new AmqpRetryOptions().setMaxRetries(0));
        try (ServiceBusReceiverClient orders =
                client.receiver().queueName("orders").buildClient();
            ServiceBusSenderClient receipts = client.sender().queueName("receipts").buildClient()) {
            while (true) {
                for (ServiceBusReceivedMessage order : orders.receiveMessages(1, Duration.ofSeconds(1))) {
                    try {
                        receipts.sendMessage(new ServiceBusMessage("done").setCorrelationId(order.getMessageId()));
                    } catch (ServiceBusException error) {
                        System.out.println("no receipt for " + order.getMessageId() + ": " + error.getReason());
                    }
                    orders.complete(order);
                }
            }
        }
    }
}
