/** Takes orders and sends receipts. The SDK renews the lock of an order while there is work on it. */
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
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
                client.receiver().queueName("orders").maxAutoLockRenewDuration(Duration.ofMinutes(1)).buildClient();
            ServiceBusSenderClient receipts = client.sender().queueName("receipts").buildClient()) {
            while (true) {
                for (ServiceBusReceivedMessage order : orders.receiveMessages(1, Duration.ofSeconds(1))) {
                    // Who asks for chandeliers first waits until they are there.
                    boolean isSlow = order.getBody().toString().equals("chandeliers") && order.getDeliveryCount() == 0;
                    Thread.sleep(isSlow ? 6500 : 20);
                    receipts.sendMessage(new ServiceBusMessage("done").setCorrelationId(order.getMessageId()));
                    orders.complete(order);
                }
            }
        }
    }
}
