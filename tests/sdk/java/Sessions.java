import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Sessions of queues and subscriptions: held, renewed, lost; their state. */
final class Sessions {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration SHORT = Duration.ofSeconds(5);

    /** A queue with messages 1, 2 and 3 in each of these sessions. */
    static String queueWith(Space space, Duration lock, String... sessions) {
        String queue = space.queue(new CreateQueueOptions().setSessionRequired(true).setLockDuration(lock));
        for (int n = 1; n <= 3; n++) {
            for (String session : sessions) space.send(queue, List.of(Space.inSession(session, session + n)));
        }
        return queue;
    }

    private static Faces.Sessions unrenewed(Space space, Faces.Builder builder, String queue) {
        return space.built(builder.sessionReceiver().queueName(queue).maxAutoLockRenewDuration(Duration.ZERO));
    }

    /** The queue's only session, which another receiver of this client has just closed. It is not asked for by its name:
     * the SDK calls a session's link by that, and may give out the one that still closes. */
    private static Faces.Receiver again(Space space, String queue, String id) {
        Faces.Receiver receiver = space.opened(space.sessions(queue).acceptNextSession());
        Space.equal(receiver.getSessionId(), id);
        return receiver;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    @Check(
        says = "A session's receiver gets its messages in order, and no others.",
        proves = {"ServiceBusSessionReceiverClient.acceptSession", "ServiceBusReceiverClient.getSessionId"})
    static void byId(Space space) {
        String queue = queueWith(space, MINUTE, "a", "b");
        Faces.Receiver holder = space.opened(space.sessions(queue).acceptSession("b"));
        Space.equal(holder.getSessionId(), "b");
        Space.equal(Space.bodies(holder.peekMessages(10)), List.of("b1", "b2", "b3"));
        Space.equal(Space.take(holder, 3), List.of("b1", "b2", "b3"));
        Space.empty(holder);
    }

    @Check(
        says = "Each receiver of the next session gets another one, and the next waits for one to come.",
        proves = {"ServiceBusSessionReceiverClient.acceptNextSession"})
    static void next(Space space) throws Exception {
        String queue = queueWith(space, MINUTE, "a", "b");
        Faces.Sessions sessions = space.sessions(queue);
        Faces.Receiver one = space.opened(sessions.acceptNextSession());
        Faces.Receiver two = space.opened(sessions.acceptNextSession());
        Space.equal(Set.of(one.getSessionId(), two.getSessionId()), Set.of("a", "b"));
        CompletableFuture<Faces.Receiver> waits = CompletableFuture.supplyAsync(sessions::acceptNextSession);
        Thread.sleep(1_000);
        Space.that(!waits.isDone(), "a session");
        space.send(queue, List.of(Space.inSession("c", "c1")));
        Faces.Receiver three = space.opened(waits.get(30, TimeUnit.SECONDS));
        Space.equal(three.getSessionId(), "c");
        Space.equal(Space.take(three, 1), List.of("c1"));
    }

    @Check(
        says = "An error that says it is time when no session comes.",
        proves = {"ServiceBusSessionReceiverClient.acceptNextSession"},
        // The asynchronous client goes on waiting.
        flavours = Flavour.SYNC)
    static void noneAvailable(Space space) throws Exception {
        String queue = queueWith(space, MINUTE);
        Faces.Sessions sessions = unrenewed(space, space.impatient(), queue);
        Throwable error = Space.raises(RuntimeException.class, () -> sessions.acceptNextSession());
        Space.that(error.toString().toLowerCase().contains("time"), error);
    }

    @Check(
        says = "SESSION_CANNOT_BE_LOCKED while another holds the session; its close lets go at once.",
        proves = {"ServiceBusSessionReceiverClient.acceptSession"})
    static void held(Space space) throws Exception {
        String queue = queueWith(space, MINUTE, "a");
        Faces.Receiver holder = space.sessions(queue).acceptSession("a");
        Faces.Sessions sessions = unrenewed(space, space.impatient(), queue);
        Space.raises(ServiceBusFailureReason.SESSION_CANNOT_BE_LOCKED, () -> sessions.acceptSession("a"));
        Space.receive(holder, 3);
        holder.close();
        Faces.Receiver other = again(space, queue, "a");
        List<ServiceBusReceivedMessage> messages = Space.receive(other, 3);
        Space.equal(Space.bodies(messages), List.of("a1", "a2", "a3"));
        Space.equal(messages.stream().map(ServiceBusReceivedMessage::getDeliveryCount).toList(), List.of(0L, 0L, 0L));
    }

    @Check(
        says = "A session's state is what was set last, whoever holds it.",
        proves = {"ServiceBusReceiverClient.getSessionState", "ServiceBusReceiverClient.setSessionState"})
    static void state(Space space) {
        String queue = queueWith(space, MINUTE, "a");
        Faces.Receiver holder = space.sessions(queue).acceptSession("a");
        Space.equal(text(holder.getSessionState()), null);
        holder.setSessionState(bytes("step 2"));
        Space.equal(text(holder.getSessionState()), "step 2");
        holder.close();
        Faces.Receiver other = again(space, queue, "a");
        Space.equal(text(other.getSessionState()), "step 2");
        other.setSessionState(null);
        Space.equal(text(other.getSessionState()), null);
    }

    @Check(
        says = "A session is held for longer than its lock lasts by renewing it.",
        proves = {"ServiceBusReceiverClient.renewSessionLock"})
    static void renew(Space space) throws Exception {
        String queue = queueWith(space, SHORT, "a");
        Faces.Receiver holder = space.opened(unrenewed(space, space.builder(), queue).acceptSession("a"));
        ServiceBusReceivedMessage message = Space.receive(holder);
        Thread.sleep(3_000);
        OffsetDateTime until = holder.renewSessionLock();
        Space.that(until.isAfter(OffsetDateTime.now().plusSeconds(3)), until);
        Thread.sleep(3_000);
        holder.complete(message);
        Space.equal(Space.take(holder, 2), List.of("a2", "a3"));
    }

    @Check(
        says = "The SDK renews a session's lock for as long as it is told to.",
        proves = {"ServiceBusReceiverClient.renewSessionLock"})
    static void renewer(Space space) throws Exception {
        String queue = queueWith(space, SHORT, "a");
        Faces.Receiver holder = space.opened(unrenewed(space, space.builder(), queue).acceptSession("a"));
        ServiceBusReceivedMessage message = Space.receive(holder);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        // The asynchronous client's call lasts as long as it renews.
        CompletableFuture<Void> renewing =
            CompletableFuture.runAsync(() -> holder.renewSessionLock(Duration.ofSeconds(9), failure::set));
        Thread.sleep(8_000);
        holder.complete(message);
        renewing.get();
        Space.equal(failure.get(), null);
    }

    @Check(
        says = "The SDK keeps a session as long as it is told to.",
        proves = {"ServiceBusSessionReceiverClient.acceptSession"})
    static void autoRenew(Space space) throws Exception {
        String queue = queueWith(space, SHORT, "a");
        Faces.Receiver holder = space.opened(space.sessions(queue).acceptSession("a"));
        List<ServiceBusReceivedMessage> messages = Space.receive(holder, 3);
        Thread.sleep(8_000);
        messages.forEach(holder::complete);
        Space.empty(holder);
    }

    @Check(
        says = "SESSION_LOCK_LOST once the lock has ended; the next holder sees a counted delivery.",
        proves = {"ServiceBusReceiverClient.renewSessionLock", "ServiceBusReceiverClient.getSessionState"})
    static void lost(Space space) throws Exception {
        String queue = queueWith(space, SHORT, "a");
        Faces.Receiver holder = space.opened(unrenewed(space, space.impatient(), queue).acceptSession("a"));
        ServiceBusReceivedMessage message = Space.receive(holder);
        Thread.sleep(6_500);
        Space.raises(ServiceBusException.class, () -> holder.complete(message));
        Space.raises(ServiceBusFailureReason.SESSION_LOCK_LOST, holder::renewSessionLock);
        Space.raises(ServiceBusFailureReason.SESSION_LOCK_LOST, holder::getSessionState);
        Faces.Receiver other = space.opened(space.sessions(queue).acceptSession("a"));
        List<ServiceBusReceivedMessage> messages = Space.receive(other, 3);
        Space.equal(Space.bodies(messages), List.of("a1", "a2", "a3"));
        Space.equal(messages.get(0).getDeliveryCount(), 1L);
    }

    @Check(
        says = "A session's holder abandons, defers, fetches and dead-letters; dead letters need no session.",
        proves = {
            "ServiceBusReceiverClient.abandon", "ServiceBusReceiverClient.defer", "ServiceBusReceiverClient.deadLetter",
            "ServiceBusReceiverClient.receiveDeferredMessage"
        })
    static void settle(Space space) {
        String queue = queueWith(space, MINUTE, "a");
        Faces.Receiver holder = space.opened(space.sessions(queue).acceptSession("a"));
        holder.abandon(Space.receive(holder));
        List<ServiceBusReceivedMessage> messages = Space.receive(holder, 3);
        ServiceBusReceivedMessage first = messages.get(0);
        Space.equal(Space.body(first), "a1");
        Space.equal(first.getDeliveryCount(), 1L);
        holder.defer(first);
        holder.deadLetter(messages.get(1), new DeadLetterOptions().setDeadLetterReason("why"));
        holder.complete(messages.get(2));
        ServiceBusReceivedMessage deferred = holder.receiveDeferredMessage(first.getSequenceNumber());
        Space.equal(List.of(Space.body(deferred), deferred.getSessionId()), List.of("a1", "a"));
        holder.complete(deferred);
        Faces.Receiver dead = space.deadLetters(queue);
        ServiceBusReceivedMessage letter = Space.receive(dead);
        Space.equal(List.of(Space.body(letter), letter.getSessionId()), List.of("a2", "a"));
        dead.complete(letter);
    }

    @Check(
        says = "A deferred message of a session is locked as its session is.",
        proves = {"ServiceBusReceiverClient.receiveDeferredMessage"})
    static void deferredLock(Space space) throws Exception {
        String queue = queueWith(space, Duration.ofSeconds(10), "a");
        Faces.Receiver holder = space.opened(unrenewed(space, space.builder(), queue).acceptSession("a"));
        ServiceBusReceivedMessage message = Space.receive(holder);
        holder.defer(message);
        ServiceBusReceivedMessage deferred = holder.receiveDeferredMessage(message.getSequenceNumber());
        for (int n = 0; n < 2; n++) {
            Thread.sleep(6_000);
            holder.renewSessionLock();
        }
        holder.complete(deferred);
        Space.equal(Space.bodies(holder.peekMessages(5)), List.of("a2", "a3"));
    }

    @Check(
        says = "RECEIVE_AND_DELETE from a session.",
        proves = {"ServiceBusSessionReceiverClient.acceptSession"})
    static void andDelete(Space space) {
        String queue = queueWith(space, MINUTE, "a");
        Faces.Receiver holder = space.opened(space
            .built(space.builder().sessionReceiver().queueName(queue).prefetchCount(10)
                .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE))
            .acceptSession("a"));
        Space.equal(Space.bodies(Space.receive(holder, 3)), List.of("a1", "a2", "a3"));
        Space.equal(holder.peekMessages(5), List.of());
    }

    @Check(
        says = "Where sessions are required, messages and receivers without one are refused; elsewhere, those of one.",
        proves = {"ServiceBusSenderClient.sendMessage", "ServiceBusReceiverClient.receiveMessages"})
    static void required(Space space) throws Exception {
        String queue = queueWith(space, MINUTE);
        Faces.Builder builder = space.impatient();
        Faces.Sender sender = space.built(builder.sender().queueName(queue));
        Space.raises(ServiceBusException.class, () -> sender.sendMessage(new ServiceBusMessage("x")));
        Faces.Receiver receiver = space.built(builder.receiver().queueName(queue));
        Throwable error = Space.raises(RuntimeException.class, () -> receiver.receiveMessages(1, Space.WAIT));
        String told = error + " " + error.getCause();
        Space.that(told.contains("requires sessions"), told);
        String plain = space.name + "-plain";
        space.admin().createQueue(plain);
        Faces.Sessions sessions = space.built(builder.sessionReceiver().queueName(plain));
        Space.raises(RuntimeException.class, () -> sessions.acceptSession("a"));
    }

    @Check(
        says = "A scheduled message joins its session when it is due.",
        proves = {"ServiceBusSenderClient.scheduleMessage"})
    static void schedule(Space space) {
        String queue = queueWith(space, MINUTE);
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(3);
        space.sender(queue).scheduleMessage(Space.inSession("a", "later"), due);
        Faces.Receiver holder = space.opened(space.sessions(queue).acceptSession("a"));
        Space.equal(Space.take(holder, 1), List.of("later"));
        Space.that(!OffsetDateTime.now().isBefore(due), "before its time");
    }

    @Check(
        says = "A subscription's sessions are held by id, or as they come, and have state.",
        proves = {
            "ServiceBusSessionReceiverClient.acceptSession", "ServiceBusSessionReceiverClient.acceptNextSession",
            "ServiceBusSessionReceiverClient.close"
        })
    static void ofSubscription(Space space) {
        String topic = space.topic();
        space.admin().createSubscription(topic, "s", new CreateSubscriptionOptions().setSessionRequired(true));
        space.topicSender(topic).sendMessages(List.of(Space.inSession("a", "a1"), Space.inSession("b", "b1")));
        Faces.Sessions sessions =
            space.built(space.builder().sessionReceiver().topicName(topic).subscriptionName("s"));
        Faces.Receiver named = space.opened(sessions.acceptSession("b"));
        Space.equal(Space.take(named, 1), List.of("b1"));
        Faces.Receiver next = space.opened(sessions.acceptNextSession());
        Space.equal(next.getSessionId(), "a");
        Space.equal(Space.take(next, 1), List.of("a1"));
        next.setSessionState(bytes("done"));
        Space.equal(text(next.getSessionState()), "done");
        sessions.close();
        Space.equal(next.getSessionId(), "a");
    }
}
