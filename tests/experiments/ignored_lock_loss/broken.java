/** Takes orders and sends receipts, whether it holds an order still or not. */
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
            new ServiceBusClientBuilder().connectionString(System.getenv("MAYFLY_CONNECTION_STRING"));
        try (ServiceBusReceiverClient orders =
                client.receiver().queueName("orders").maxAutoLockRenewDuration(Duration.ZERO).buildClient();
            ServiceBusSenderClient receipts = client.sender().queueName("receipts").buildClient()) {
            while (true) {
                for (ServiceBusReceivedMessage order : orders.receiveMessages(1, Duration.ofSeconds(1))) {
                    // Who asks for chandeliers first waits until they are there.
                    boolean isSlow = order.getBody().toString().equals("chandeliers") && order.getDeliveryCount() == 0;
                    Thread.sleep(isSlow ? 6500 : 20);
                    receipts.sendMessage(new ServiceBusMessage("done").setCorrelationId(order.getMessageId()));
                    try {
                        orders.complete(order);
                    } catch (ServiceBusException error) {
                        System.out.println(order.getMessageId() + ": " + error.getReason());
                    }
                }
            }
        }
    }
}
