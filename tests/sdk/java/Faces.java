import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.ProxyOptions;
import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.credential.TokenCredential;
import com.azure.core.http.HttpClient;
import com.azure.core.http.HttpPipeline;
import com.azure.core.http.policy.HttpLogOptions;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.http.rest.Response;
import com.azure.core.util.ClientOptions;
import com.azure.core.util.Configuration;
import com.azure.core.util.Context;
import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusErrorSource;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusServiceVersion;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.SubscriptionRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.CreateMessageBatchOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.function.Consumer;
import reactor.core.publisher.Flux;

/**
 * The SDK's classes as checks see them: one face for its synchronous and its asynchronous clients, whose
 * methods have the same names. {@link Handle} stands behind each; it calls the method of that name, waits
 * for what it promises, and takes down what was called.
 */
interface Faces {
    interface Sender extends AutoCloseable {
        String getEntityPath();
        String getFullyQualifiedNamespace();
        String getIdentifier();
        Batch createMessageBatch();
        Batch createMessageBatch(CreateMessageBatchOptions options);
        void sendMessage(ServiceBusMessage message);
        void sendMessage(ServiceBusMessage message, Transaction transaction);
        void sendMessages(Iterable<ServiceBusMessage> messages);
        void sendMessages(Iterable<ServiceBusMessage> messages, Transaction transaction);
        void sendMessages(Batch batch);
        void sendMessages(Batch batch, Transaction transaction);
        Long scheduleMessage(ServiceBusMessage message, OffsetDateTime due);
        Long scheduleMessage(ServiceBusMessage message, OffsetDateTime due, Transaction transaction);
        List<Long> scheduleMessages(Iterable<ServiceBusMessage> messages, OffsetDateTime due);
        List<Long> scheduleMessages(Iterable<ServiceBusMessage> messages, OffsetDateTime due, Transaction transaction);
        void cancelScheduledMessage(long number);
        void cancelScheduledMessages(Iterable<Long> numbers);
        Transaction createTransaction();
        void commitTransaction(Transaction transaction);
        void rollbackTransaction(Transaction transaction);
        @Override
        void close();
    }

    interface Batch {
        int getCount();
        int getMaxSizeInBytes();
        int getSizeInBytes();
        boolean tryAddMessage(ServiceBusMessage message);
    }

    interface Transaction {
        ByteBuffer getTransactionId();
    }

    interface Receiver extends AutoCloseable {
        String getFullyQualifiedNamespace();
        String getEntityPath();
        String getSessionId();
        String getIdentifier();
        /** Of the asynchronous client only; it never ends by itself. */
        Flux<ServiceBusReceivedMessage> receiveMessages();
        /** Of the synchronous client only. */
        List<ServiceBusReceivedMessage> receiveMessages(int count);
        List<ServiceBusReceivedMessage> receiveMessages(int count, Duration wait);
        ServiceBusReceivedMessage peekMessage();
        ServiceBusReceivedMessage peekMessage(long number);
        List<ServiceBusReceivedMessage> peekMessages(int count);
        List<ServiceBusReceivedMessage> peekMessages(int count, long number);
        ServiceBusReceivedMessage receiveDeferredMessage(long number);
        /** The one SDK calls this so, the other `receiveDeferredMessages`. */
        List<ServiceBusReceivedMessage> receiveDeferredMessageBatch(Iterable<Long> numbers);
        void complete(ServiceBusReceivedMessage message);
        void complete(ServiceBusReceivedMessage message, CompleteOptions options);
        void abandon(ServiceBusReceivedMessage message);
        void abandon(ServiceBusReceivedMessage message, AbandonOptions options);
        void defer(ServiceBusReceivedMessage message);
        void defer(ServiceBusReceivedMessage message, DeferOptions options);
        void deadLetter(ServiceBusReceivedMessage message);
        void deadLetter(ServiceBusReceivedMessage message, DeadLetterOptions options);
        OffsetDateTime renewMessageLock(ServiceBusReceivedMessage message);
        void renewMessageLock(ServiceBusReceivedMessage message, Duration span, Consumer<Throwable> failed);
        OffsetDateTime renewSessionLock();
        void renewSessionLock(Duration span, Consumer<Throwable> failed);
        byte[] getSessionState();
        void setSessionState(byte[] state);
        Transaction createTransaction();
        void commitTransaction(Transaction transaction);
        void rollbackTransaction(Transaction transaction);
        @Override
        void close();
    }

    interface Sessions extends AutoCloseable {
        Receiver acceptNextSession();
        Receiver acceptSession(String id);
        @Override
        void close();
    }

    interface Rules extends AutoCloseable {
        String getFullyQualifiedNamespace();
        String getEntityPath();
        void createRule(String name, CreateRuleOptions options);
        List<RuleProperties> listRules();
        void deleteRule(String name);
        @Override
        void close();
    }

    interface Processor extends AutoCloseable {
        void start();
        void stop();
        boolean isRunning();
        String getQueueName();
        String getTopicName();
        String getSubscriptionName();
        String getIdentifier();
        @Override
        void close();
    }

    interface Delivery {
        ServiceBusReceivedMessage getMessage();
        String getEntityPath();
        String getFullyQualifiedNamespace();
        void complete();
        void complete(CompleteOptions options);
        void abandon();
        void abandon(AbandonOptions options);
        void defer();
        void defer(DeferOptions options);
        void deadLetter();
        void deadLetter(DeadLetterOptions options);
    }

    interface Trouble {
        Throwable getException();
        ServiceBusErrorSource getErrorSource();
        String getFullyQualifiedNamespace();
        String getEntityPath();
    }

    interface Builder {
        Builder clientOptions(ClientOptions options);
        Builder fullyQualifiedNamespace(String name);
        Builder customEndpointAddress(String address);
        Builder connectionString(String text);
        Builder enableCrossEntityTransactions();
        Builder configuration(Configuration configuration);
        Builder credential(String namespace, TokenCredential credential);
        Builder credential(TokenCredential credential);
        Builder credential(String namespace, AzureNamedKeyCredential credential);
        Builder credential(AzureNamedKeyCredential credential);
        Builder credential(String namespace, AzureSasCredential credential);
        Builder credential(AzureSasCredential credential);
        Builder proxyOptions(ProxyOptions options);
        Builder retryOptions(AmqpRetryOptions options);
        Builder transportType(AmqpTransportType type);
        SenderBuilder sender();
        ReceiverBuilder receiver();
        SessionsBuilder sessionReceiver();
        ProcessorBuilder processor();
        SessionProcessorBuilder sessionProcessor();
        RulesBuilder ruleManager();
    }

    interface SenderBuilder {
        SenderBuilder queueName(String name);
        SenderBuilder topicName(String name);
        Sender buildClient();
        Sender buildAsyncClient();
    }

    interface ReceiverBuilder {
        ReceiverBuilder disableAutoComplete();
        ReceiverBuilder maxAutoLockRenewDuration(Duration span);
        ReceiverBuilder prefetchCount(int count);
        ReceiverBuilder queueName(String name);
        ReceiverBuilder receiveMode(ServiceBusReceiveMode mode);
        ReceiverBuilder subQueue(SubQueue queue);
        ReceiverBuilder subscriptionName(String name);
        ReceiverBuilder topicName(String name);
        Receiver buildClient();
        Receiver buildAsyncClient();
    }

    interface SessionsBuilder {
        SessionsBuilder disableAutoComplete();
        SessionsBuilder maxAutoLockRenewDuration(Duration span);
        SessionsBuilder prefetchCount(int count);
        SessionsBuilder queueName(String name);
        SessionsBuilder receiveMode(ServiceBusReceiveMode mode);
        SessionsBuilder subQueue(SubQueue queue);
        SessionsBuilder subscriptionName(String name);
        SessionsBuilder topicName(String name);
        Sessions buildClient();
        Sessions buildAsyncClient();
    }

    interface ProcessorBuilder {
        ProcessorBuilder prefetchCount(int count);
        ProcessorBuilder queueName(String name);
        ProcessorBuilder receiveMode(ServiceBusReceiveMode mode);
        ProcessorBuilder subQueue(SubQueue queue);
        ProcessorBuilder subscriptionName(String name);
        ProcessorBuilder topicName(String name);
        ProcessorBuilder processMessage(Consumer<ServiceBusReceivedMessageContext> handler);
        ProcessorBuilder processError(Consumer<ServiceBusErrorContext> handler);
        ProcessorBuilder maxAutoLockRenewDuration(Duration span);
        ProcessorBuilder maxConcurrentCalls(int count);
        ProcessorBuilder disableAutoComplete();
        Processor buildProcessorClient();
    }

    interface SessionProcessorBuilder {
        SessionProcessorBuilder maxAutoLockRenewDuration(Duration span);
        SessionProcessorBuilder sessionIdleTimeout(Duration span);
        SessionProcessorBuilder maxConcurrentSessions(int count);
        SessionProcessorBuilder prefetchCount(int count);
        SessionProcessorBuilder queueName(String name);
        SessionProcessorBuilder receiveMode(ServiceBusReceiveMode mode);
        SessionProcessorBuilder subQueue(SubQueue queue);
        SessionProcessorBuilder subscriptionName(String name);
        SessionProcessorBuilder topicName(String name);
        SessionProcessorBuilder processMessage(Consumer<ServiceBusReceivedMessageContext> handler);
        SessionProcessorBuilder processError(Consumer<ServiceBusErrorContext> handler);
        SessionProcessorBuilder maxConcurrentCalls(int count);
        SessionProcessorBuilder disableAutoComplete();
        Processor buildProcessorClient();
    }

    interface RulesBuilder {
        RulesBuilder topicName(String name);
        RulesBuilder subscriptionName(String name);
        Rules buildClient();
        Rules buildAsyncClient();
    }

    interface AdministrationBuilder {
        AdministrationBuilder addPolicy(HttpPipelinePolicy policy);
        AdministrationBuilder endpoint(String url);
        AdministrationBuilder configuration(Configuration configuration);
        AdministrationBuilder connectionString(String text);
        AdministrationBuilder credential(String namespace, TokenCredential credential);
        AdministrationBuilder credential(TokenCredential credential);
        AdministrationBuilder credential(AzureSasCredential credential);
        AdministrationBuilder httpClient(HttpClient client);
        AdministrationBuilder httpLogOptions(HttpLogOptions options);
        AdministrationBuilder clientOptions(ClientOptions options);
        AdministrationBuilder pipeline(HttpPipeline pipeline);
        AdministrationBuilder retryPolicy(HttpPipelinePolicy policy);
        AdministrationBuilder retryOptions(RetryOptions options);
        AdministrationBuilder serviceVersion(ServiceBusServiceVersion version);
        Administration buildClient();
        Administration buildAsyncClient();
    }

    /** The contexts are the synchronous client's: {@link Handle} leaves them away for the other. */
    interface Administration {
        QueueProperties createQueue(String name);
        QueueProperties createQueue(String name, CreateQueueOptions options);
        Response<QueueProperties> createQueueWithResponse(String name, CreateQueueOptions options, Context context);
        RuleProperties createRule(String topic, String subscription, String name);
        /** See {@link Space#createRule}. */
        RuleProperties createRule(String topic, String oneName, String otherName, CreateRuleOptions options);
        Response<RuleProperties> createRuleWithResponse(
            String topic, String subscription, String name, CreateRuleOptions options, Context context);
        SubscriptionProperties createSubscription(String topic, String name);
        SubscriptionProperties createSubscription(String topic, String name, CreateSubscriptionOptions options);
        SubscriptionProperties createSubscription(
            String topic, String name, String rule, CreateSubscriptionOptions options, CreateRuleOptions ofRule);
        Response<SubscriptionProperties> createSubscriptionWithResponse(
            String topic, String name, CreateSubscriptionOptions options, Context context);
        Response<SubscriptionProperties> createSubscriptionWithResponse(
            String topic, String name, String rule, CreateSubscriptionOptions options, CreateRuleOptions ofRule,
            Context context);
        TopicProperties createTopic(String name);
        TopicProperties createTopic(String name, CreateTopicOptions options);
        Response<TopicProperties> createTopicWithResponse(String name, CreateTopicOptions options, Context context);
        void deleteQueue(String name);
        Response<Void> deleteQueueWithResponse(String name, Context context);
        void deleteRule(String topic, String subscription, String name);
        Response<Void> deleteRuleWithResponse(String topic, String subscription, String name, Context context);
        void deleteSubscription(String topic, String name);
        Response<Void> deleteSubscriptionWithResponse(String topic, String name, Context context);
        void deleteTopic(String name);
        Response<Void> deleteTopicWithResponse(String name, Context context);
        QueueProperties getQueue(String name);
        Response<QueueProperties> getQueueWithResponse(String name, Context context);
        boolean getQueueExists(String name);
        Response<Boolean> getQueueExistsWithResponse(String name, Context context);
        QueueRuntimeProperties getQueueRuntimeProperties(String name);
        Response<QueueRuntimeProperties> getQueueRuntimePropertiesWithResponse(String name, Context context);
        NamespaceProperties getNamespaceProperties();
        Response<NamespaceProperties> getNamespacePropertiesWithResponse(Context context);
        RuleProperties getRule(String topic, String subscription, String name);
        Response<RuleProperties> getRuleWithResponse(String topic, String subscription, String name, Context context);
        SubscriptionProperties getSubscription(String topic, String name);
        Response<SubscriptionProperties> getSubscriptionWithResponse(String topic, String name, Context context);
        boolean getSubscriptionExists(String topic, String name);
        Response<Boolean> getSubscriptionExistsWithResponse(String topic, String name, Context context);
        SubscriptionRuntimeProperties getSubscriptionRuntimeProperties(String topic, String name);
        Response<SubscriptionRuntimeProperties> getSubscriptionRuntimePropertiesWithResponse(
            String topic, String name, Context context);
        TopicProperties getTopic(String name);
        Response<TopicProperties> getTopicWithResponse(String name, Context context);
        boolean getTopicExists(String name);
        Response<Boolean> getTopicExistsWithResponse(String name, Context context);
        TopicRuntimeProperties getTopicRuntimeProperties(String name);
        Response<TopicRuntimeProperties> getTopicRuntimePropertiesWithResponse(String name, Context context);
        List<QueueProperties> listQueues();
        List<QueueProperties> listQueues(Context context);
        List<RuleProperties> listRules(String topic, String subscription);
        List<RuleProperties> listRules(String topic, String subscription, Context context);
        List<SubscriptionProperties> listSubscriptions(String topic);
        List<SubscriptionProperties> listSubscriptions(String topic, Context context);
        List<TopicProperties> listTopics();
        List<TopicProperties> listTopics(Context context);
        QueueProperties updateQueue(QueueProperties queue);
        Response<QueueProperties> updateQueueWithResponse(QueueProperties queue, Context context);
        RuleProperties updateRule(String topic, String subscription, RuleProperties rule);
        Response<RuleProperties> updateRuleWithResponse(
            String topic, String subscription, RuleProperties rule, Context context);
        SubscriptionProperties updateSubscription(SubscriptionProperties subscription);
        Response<SubscriptionProperties> updateSubscriptionWithResponse(
            SubscriptionProperties subscription, Context context);
        TopicProperties updateTopic(TopicProperties topic);
        Response<TopicProperties> updateTopicWithResponse(TopicProperties topic, Context context);
    }
}
