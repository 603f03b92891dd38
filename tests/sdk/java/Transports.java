import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.ProxyAuthenticationType;
import com.azure.core.amqp.ProxyOptions;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.time.OffsetDateTime;
import java.util.List;

/** The ways to a broker: AMQP and WebSockets, with TLS and without; HTTP with TLS. */
final class Transports {
    /** Sends, receives, manages, transacts and holds a session. */
    private static void converse(Space space, Faces.Builder builder) {
        String queue = space.queue(new CreateQueueOptions().setSessionRequired(true));
        String topic = space.name + "-topic";
        space.admin().createTopic(topic);
        space.admin().createSubscription(topic, "s");
        Faces.Sender sender = space.built(builder.sender().topicName(topic));
        Faces.Receiver receiver = space.built(builder.receiver().topicName(topic).subscriptionName("s"));
        String text = "x".repeat(150_000);
        sender.sendMessages(List.of(new ServiceBusMessage("a"), new ServiceBusMessage(text)));
        Space.equal(Space.body(receiver.peekMessage()), "a");
        Space.that(Space.take(receiver, 2).equals(List.of("a", text)), "other texts");
        sender.cancelScheduledMessage(
            sender.scheduleMessage(new ServiceBusMessage("later"), OffsetDateTime.now().plusHours(1)));
        sender.sendMessage(new ServiceBusMessage("b"));
        Faces.Transaction transaction = receiver.createTransaction();
        CompleteOptions options = new CompleteOptions().setTransactionContext(
            (ServiceBusTransactionContext) Handle.bare(transaction));
        receiver.complete(Space.receive(receiver), options);
        receiver.commitTransaction(transaction);
        Space.equal(receiver.peekMessages(5, 1), List.of());
        Faces.Rules rules = space.built(builder.ruleManager().topicName(topic).subscriptionName("s"));
        Space.equal(rules.listRules().size(), 1);
        rules.close();
        space.built(builder.sender().queueName(queue)).sendMessage(Space.inSession("a", "a1"));
        Faces.Receiver holder =
            space.opened(space.built(builder.sessionReceiver().queueName(queue)).acceptNextSession());
        Space.equal(Space.take(holder, 1), List.of("a1"));
        holder.setSessionState(new byte[] {1});
    }

    @Check(says = "All goes over plain AMQP.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void amqp(Space space) {
        Faces.Builder plain = space.newBuilder().connectionString(Target.plain(space.target.amqp()));
        converse(space, plain.transportType(AmqpTransportType.AMQP));
    }

    @Check(says = "All goes over AMQP with TLS.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void amqps(Space space) {
        converse(space, space.newBuilder().connectionString(Target.encrypted(space.target.amqps())));
    }

    @Check(
        says = "All goes over WebSockets with TLS.",
        proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void webSockets(Space space) {
        converse(
            space,
            space.newBuilder().connectionString(Target.encrypted(space.target.http()))
                .transportType(AmqpTransportType.AMQP_WEB_SOCKETS)
                .proxyOptions(new ProxyOptions(ProxyAuthenticationType.NONE, null, null, null)));
    }

    @Check(says = "All goes over plain WebSockets.", proves = {"ServiceBusReceiverClient.receiveMessages"})
    static void plainWebSockets(Space space) {
        converse(
            space,
            space.newBuilder().connectionString(Target.plain(space.target.http()))
                .transportType(AmqpTransportType.AMQP_WEB_SOCKETS));
    }

    @Check(
        says = "Administration goes over HTTPS.",
        proves = {"ServiceBusAdministrationClient.createQueue", "ServiceBusAdministrationClient.listQueues"})
    static void https(Space space) {
        Faces.Administration admin = space.built(space.newAdministrationBuilder()
            .connectionString(Target.encrypted(space.target.http()))
            .addPolicy(Target.redirect("https", space.target.http())));
        admin.createQueue(space.name);
        Space.that(admin.listQueues().stream().anyMatch(queue -> queue.getName().equals(space.name)), "not listed");
    }
}
