/**
 * Takes orders and sends receipts. A receipt has an id that follows from its order's: the queue of receipts, which
 * detects duplicates, drops a second one.
 */
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;

class Mended {
    public static void main(String[] args) throws Exception {
        ServiceBusClientBuilder client =
            new ServiceBusClientBuilder().connectionString(System.getenv("MAYFLY_CONNECTION_STRING"));
        // By itself the SDK goes on renewing the lock of an order whose completion was refused.
        try (ServiceBusReceiverClient orders =
                client.receiver().queueName("orders").maxAutoLockRenewDuration(Duration.ZERO).buildClient();
            ServiceBusSenderClient receipts = client.sender().queueName("receipts").buildClient()) {
            while (true) {
                for (ServiceBusReceivedMessage order : orders.receiveMessages(1, Duration.ofSeconds(1))) {
                    ServiceBusMessage receipt = new ServiceBusMessage("done").setCorrelationId(order.getMessageId());
                    receipts.sendMessage(receipt.setMessageId("receipt-" + order.getMessageId()));
                    try {
                        orders.complete(order);
                    } catch (ServiceBusException error) {
                        System.out.println(order.getMessageId() + " comes again: " + error.getReason());
                    }
                }
            }
        }
    }
}
