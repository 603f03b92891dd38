import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;

/**
 * What an asynchronous receiver's stream gives, to be asked for as the synchronous client is. The stream is kept from
 * one call to the next: the SDK closes its link, and with it a session, when nobody subscribes any more.
 */
final class Inbox extends BaseSubscriber<ServiceBusReceivedMessage> {
    private final BlockingQueue<ServiceBusReceivedMessage> arrived = new LinkedBlockingQueue<>();
    private long asked;
    private volatile Throwable failure;

    Inbox(ServiceBusReceiverAsyncClient client) {
        client.receiveMessages().subscribe(this);
    }

    @Override
    protected void hookOnSubscribe(Subscription subscription) {
        // Messages are asked for as they are wanted.
    }

    @Override
    protected void hookOnNext(ServiceBusReceivedMessage message) {
        arrived.add(message);
    }

    @Override
    protected void hookOnError(Throwable error) {
        failure = error;
    }

    /** As many messages as come within the span, up to the count. */
    List<ServiceBusReceivedMessage> take(int count, Duration wait) throws Throwable {
        if (count > asked) request(count - asked);
        asked = Math.max(asked, count);
        List<ServiceBusReceivedMessage> taken = new ArrayList<>();
        long until = System.nanoTime() + wait.toNanos();
        while (taken.size() < count && System.nanoTime() < until && !(isDisposed() && arrived.isEmpty())) {
            ServiceBusReceivedMessage message = arrived.poll(20, TimeUnit.MILLISECONDS);
            if (message != null) taken.add(message);
        }
        asked -= taken.size();
        if (taken.isEmpty() && failure != null) throw failure;
        if (taken.isEmpty() && isDisposed()) throw new IllegalStateException("the stream has ended");
        return taken;
    }
}
