using System.Net.Security;
using System.Security.Cryptography;
using System.Text;
using Azure;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>ServiceBusClient: connection strings, transports, credentials, retries, closing.</summary>
static class Transport
{
    public static void Register(Suite suite)
    {
        suite.Add("client/properties-and-close", async c =>
        {
            var queue = await c.Queue();
            var client = new ServiceBusClient(c.Target.Connection, new ServiceBusClientOptions { Identifier = "my client" });
            Expect.Equal(("my client", ServiceBusTransportType.AmqpTcp, false), (client.Identifier, client.TransportType, client.IsClosed), "properties");
            Expect.Equal(c.Target.Amqp.Split(':')[0], client.FullyQualifiedNamespace, "FullyQualifiedNamespace");
            var (sender, receiver) = (client.CreateSender(queue), client.CreateReceiver(queue));
            await sender.SendMessageAsync(new ServiceBusMessage("x"));
            await client.DisposeAsync();
            Expect.True(client.IsClosed, "IsClosed");
            await Expect.Throws<ObjectDisposedException>(() => sender.SendMessageAsync(new ServiceBusMessage("x")), "send");
            await Expect.Throws<ObjectDisposedException>(() => receiver.ReceiveMessageAsync(TimeSpan.FromSeconds(1)), "receive");
            await Expect.Throws<ObjectDisposedException>(() => { client.CreateSender(queue); return Task.CompletedTask; }, "create");
            await client.DisposeAsync();
        });

        suite.Add("client/connection-string-forms", async c =>
        {
            var queue = await c.Queue();
            foreach (var connection in new[]
            {
                c.Target.Connection,
                c.Target.Connection.TrimEnd(';'),
                $"SharedAccessKey=k;UseDevelopmentEmulator=true;SharedAccessKeyName=anyone;Endpoint=sb://{c.Target.Amqp}/",
                $"endpoint=amqps://{c.Target.Amqp};sharedaccesskeyname=a;sharedaccesskey=b==;usedevelopmentemulator=TRUE",
                c.Target.Connection + "EntityPath=" + queue + ";",
            })
            {
                await using var client = new ServiceBusClient(connection);
                await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
            }
            Expect.Equal(5, (await c.Drain(queue)).Count, "messages");
        });

        suite.Add("client/connection-string-of-one-entity", async c =>
        {
            var queue = await c.Queue();
            await using var client = new ServiceBusClient(c.Target.Connection + $"EntityPath={queue};");
            await Expect.Throws<ArgumentException>(() => { client.CreateSender("another"); return Task.CompletedTask; });
        });

        suite.Add("client/connection-string-properties", c =>
        {
            var p = ServiceBusConnectionStringProperties.Parse("Endpoint=sb://host:5672/;SharedAccessKeyName=n;SharedAccessKey=k=;EntityPath=q");
            Expect.Equal(("host", "n", "k=", "q", 5672), (p.FullyQualifiedNamespace, p.SharedAccessKeyName, p.SharedAccessKey, p.EntityPath, p.Endpoint.Port), "properties");
            Expect.Equal("s", ServiceBusConnectionStringProperties.Parse("Endpoint=sb://host/;SharedAccessSignature=s").SharedAccessSignature, "signature");
            return Task.CompletedTask;
        });

        suite.Add("client/shared-access-signature-in-the-connection-string", async c =>
        {
            var queue = await c.Queue();
            var host = c.Target.Amqp.Split(':')[0];
            var signature = Signature($"amqp://{host}/{queue}", "any", "key", TimeSpan.FromMinutes(10));
            await using var client = new ServiceBusClient($"Endpoint=sb://{c.Target.Amqp};SharedAccessSignature={signature};UseDevelopmentEmulator=true;");
            await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
            Expect.Equal(1, (await c.Drain(queue)).Count, "messages");
        });

        suite.Add("client/custom-endpoint-address", async c =>
        {
            var queue = await c.Queue();
            await using var client = new ServiceBusClient("Endpoint=sb://some-namespace.example.test;" + Target.Key + ";UseDevelopmentEmulator=true;",
                new ServiceBusClientOptions { CustomEndpointAddress = new Uri($"sb://{c.Target.Amqp}") });
            Expect.Equal("some-namespace.example.test", client.FullyQualifiedNamespace, "FullyQualifiedNamespace");
            await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
            Expect.Equal(1, (await c.Drain(queue)).Count, "messages");
        });

        suite.Add("client/web-sockets", async c =>
        {
            var queue = await c.Queue();
            await using var client = new ServiceBusClient(Target.Emulator(c.Target.Http), new ServiceBusClientOptions { TransportType = ServiceBusTransportType.AmqpWebSockets });
            Expect.Equal(ServiceBusTransportType.AmqpWebSockets, client.TransportType, "TransportType");
            await Everything(client, queue);
        });

        suite.Add("client/web-sockets-large", async c =>
        {
            var queue = await c.Queue(o => o.MaxMessageSizeInKilobytes = 1024);
            await using var client = new ServiceBusClient(Target.Emulator(c.Target.Http), new ServiceBusClientOptions { TransportType = ServiceBusTransportType.AmqpWebSockets });
            await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage(new byte[900_000]));
            Expect.Equal(900_000, (await Check.One(client.CreateReceiver(queue))).Body.ToArray().Length, "size");
        });

        suite.Add("client/web-sockets-by-custom-endpoint", async c =>
        {
            var queue = await c.Queue();
            await using var client = new ServiceBusClient(c.Target.Connection, new ServiceBusClientOptions
            { TransportType = ServiceBusTransportType.AmqpWebSockets, CustomEndpointAddress = new Uri($"sb://{c.Target.Http}") });
            await Everything(client, queue);
        });

        suite.Add("client/retry-options", async c =>
        {
            var options = new ServiceBusRetryOptions { Mode = ServiceBusRetryMode.Fixed, MaxRetries = 2, Delay = TimeSpan.FromMilliseconds(200), MaxDelay = TimeSpan.FromSeconds(1), TryTimeout = TimeSpan.FromSeconds(3) };
            await using var client = new ServiceBusClient("Endpoint=sb://127.0.0.1:1;" + Target.Key + ";UseDevelopmentEmulator=true;", new ServiceBusClientOptions { RetryOptions = options });
            var clock = System.Diagnostics.Stopwatch.StartNew();
            await Expect.Reason(ServiceBusFailureReason.ServiceCommunicationProblem, () => client.CreateSender("q").SendMessageAsync(new ServiceBusMessage("x")));
            Expect.True(clock.Elapsed.TotalSeconds is > 0.3 and < 10, $"after {clock.Elapsed.TotalSeconds:F1} s");
        });

        suite.Add("client/custom-retry-policy", async c =>
        {
            var policy = new NoRetries();
            await using var client = new ServiceBusClient("Endpoint=sb://127.0.0.1:1;" + Target.Key + ";UseDevelopmentEmulator=true;", new ServiceBusClientOptions { RetryOptions = new ServiceBusRetryOptions { CustomRetryPolicy = policy } });
            await Expect.Throws<ServiceBusException>(() => client.CreateSender("q").SendMessageAsync(new ServiceBusMessage("x")));
            Expect.True(policy.Asked > 0, "the policy was not asked");
        });

        suite.Add("client/idle-connection-and-link", async c =>
        {
            var queue = await c.Queue();
            await using var client = new ServiceBusClient(c.Target.Connection, new ServiceBusClientOptions { ConnectionIdleTimeout = TimeSpan.FromSeconds(10) });
            var sender = client.CreateSender(queue);
            await sender.SendMessageAsync(new ServiceBusMessage("a"));
            await Task.Delay(25_000);
            await sender.SendMessageAsync(new ServiceBusMessage("b"));
            Expect.Equal(2, (await c.Drain(queue)).Count, "messages");
        });

        suite.Add("client/many-at-once", async c =>
        {
            var queue = await c.Queue();
            await Task.WhenAll(Enumerable.Range(0, 40).Select(async i =>
            {
                await using var client = new ServiceBusClient(c.Target.Connection);
                await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage(i.ToString()));
            }));
            Expect.Equal(40, (await c.Drain(queue)).Count, "messages");
        });

        suite.Add("client/many-links-on-one-connection", async c =>
        {
            var queues = new List<string>();
            for (var i = 0; i < 30; i++) queues.Add(await c.Queue());
            await Task.WhenAll(queues.Select(async queue =>
            {
                await c.Client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage(queue));
                Expect.Equal(queue, (await Check.One(c.Receiver(queue))).Body.ToString(), "body");
            }));
        });

        // AMQP over TLS, HTTPS and wss, trusted by what SSL_CERT_FILE names.
        suite.Add("tls/amqps", async c =>
        {
            NeedTls(c);
            var queue = await c.Queue();
            await using var client = new ServiceBusClient($"Endpoint=sb://localhost;{Target.Key}", new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.Amqps!) });
            await Everything(client, queue);
        });

        suite.Add("tls/wss", async c =>
        {
            NeedTls(c);
            var queue = await c.Queue();
            await using var client = new ServiceBusClient($"Endpoint=sb://localhost;{Target.Key}", new ServiceBusClientOptions
            { TransportType = ServiceBusTransportType.AmqpWebSockets, CustomEndpointAddress = Address(c.Target.Http) });
            await Everything(client, queue);
        });

        suite.Add("tls/certificate-callback", async c =>
        {
            NeedTls(c);
            var queue = await c.Queue();
            SslPolicyErrors? seen = null;
            await using var client = new ServiceBusClient($"Endpoint=sb://localhost;{Target.Key}", new ServiceBusClientOptions
            {
                CustomEndpointAddress = Address(c.Target.Amqps!),
                CertificateValidationCallback = (_, _, _, errors) => { seen = errors; return true; },
            });
            await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
            Expect.True(seen is not null, "not asked");
            await using var refusing = new ServiceBusClient($"Endpoint=sb://localhost;{Target.Key}", new ServiceBusClientOptions
            {
                CustomEndpointAddress = Address(c.Target.Amqps!), CertificateValidationCallback = (_, _, _, _) => false,
                RetryOptions = new ServiceBusRetryOptions { MaxRetries = 0, TryTimeout = TimeSpan.FromSeconds(5) },
            });
            await Expect.Throws<Exception>(() => refusing.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x")));
        });

        suite.Add("tls/administration-without-emulator", async c =>
        {
            NeedTls(c);
            var admin = new ServiceBusAdministrationClient($"Endpoint=sb://{c.Target.Http};{Target.Key}");
            var name = c.NewName();
            await admin.CreateQueueAsync(name);
            Expect.True(await admin.QueueExistsAsync(name), "does not exist");
            await admin.DeleteQueueAsync(name);
        });

        suite.Add("tls/named-key-and-signature-credentials", async c =>
        {
            NeedTls(c);
            var queue = await c.Queue();
            await using (var client = new ServiceBusClient("localhost", new AzureNamedKeyCredential("RootManageSharedAccessKey", "SAS_KEY_VALUE"), new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.Amqps!) }))
                await Everything(client, queue);
            var signature = Signature($"amqps://localhost/{queue}", "any", "key", TimeSpan.FromMinutes(10));
            await using (var client = new ServiceBusClient("localhost", new AzureSasCredential(signature), new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.Amqps!) }))
                await Everything(client, queue);
            var admin = new ServiceBusAdministrationClient($"https://{c.Target.Http}", new AzureNamedKeyCredential("RootManageSharedAccessKey", "SAS_KEY_VALUE"));
            Expect.True(await admin.QueueExistsAsync(queue), "named key");
            var signed = new ServiceBusAdministrationClient($"https://{c.Target.Http}", new AzureSasCredential(Signature($"https://localhost/", "any", "key", TimeSpan.FromMinutes(10))));
            Expect.True(await signed.QueueExistsAsync(queue), "signature");
        });

        // A cluster that asks for keys.
        suite.Add("secret/right-key", async c =>
        {
            var queue = await SecuredQueue(c);
            await using var client = Secured(c, Root(c));
            await Everything(client, queue);
        });

        suite.Add("secret/right-key-over-web-sockets", async c =>
        {
            var queue = await SecuredQueue(c);
            await using var client = new ServiceBusClient(Root(c), new ServiceBusClientOptions { TransportType = ServiceBusTransportType.AmqpWebSockets, CustomEndpointAddress = Address(c.Target.SecuredHttp!) });
            await Everything(client, queue);
        });

        suite.Add("secret/wrong-key", async c =>
        {
            var queue = await SecuredQueue(c);
            await using var client = Secured(c, "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=wrong");
            await Expect.Throws<UnauthorizedAccessException>(() => client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x")), "send");
            await Expect.Throws<UnauthorizedAccessException>(() => client.CreateReceiver(queue).ReceiveMessageAsync(TimeSpan.FromSeconds(2)), "receive");
            await Expect.Throws<UnauthorizedAccessException>(() => client.CreateReceiver(queue).PeekMessageAsync(), "peek");
            await using var nobody = Secured(c, "Endpoint=sb://localhost;SharedAccessKeyName=nobody;SharedAccessKey=" + c.Target.Secret);
            await Expect.Throws<UnauthorizedAccessException>(() => nobody.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x")), "unknown name");
        });

        suite.Add("secret/processor-with-a-wrong-key", async c =>
        {
            var queue = await SecuredQueue(c);
            await using var client = Secured(c, "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=wrong");
            await using var processor = client.CreateProcessor(queue);
            var got = new TaskCompletionSource<Exception>();
            processor.ProcessMessageAsync += _ => Task.CompletedTask;
            processor.ProcessErrorAsync += args => { got.TrySetResult(args.Exception); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            Expect.True(await got.Task.WaitAsync(TimeSpan.FromSeconds(15)) is UnauthorizedAccessException, Expect.Show(got.Task.Result));
            await processor.StopProcessingAsync();
        });

        suite.Add("secret/signatures", async c =>
        {
            var queue = await SecuredQueue(c);
            var good = Signature($"amqps://localhost/{queue}", "RootManageSharedAccessKey", c.Target.Secret, TimeSpan.FromMinutes(10));
            await using (var client = Secured(c, $"Endpoint=sb://localhost;SharedAccessSignature={good}")) await Everything(client, queue);
            await using (var client = new ServiceBusClient("localhost", new AzureSasCredential(good), new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.SecuredAmqps!) })) await Everything(client, queue);
            foreach (var (what, signature) in new[]
            {
                ("expired", Signature($"amqps://localhost/{queue}", "RootManageSharedAccessKey", c.Target.Secret, TimeSpan.FromMinutes(-10))),
                ("for another queue", Signature("amqps://localhost/another", "RootManageSharedAccessKey", c.Target.Secret, TimeSpan.FromMinutes(10))),
                ("by another key", Signature($"amqps://localhost/{queue}", "RootManageSharedAccessKey", "wrong", TimeSpan.FromMinutes(10))),
            })
            {
                await using var client = new ServiceBusClient("localhost", new AzureSasCredential(signature), new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.SecuredAmqps!) });
                await Expect.Throws<UnauthorizedAccessException>(() => client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x")), what);
            }
        });

        suite.Add("secret/listen-only", async c =>
        {
            var queue = await SecuredQueue(c);
            await using (var root = Secured(c, Root(c))) await root.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
            await using var client = Secured(c, $"Endpoint=sb://localhost;SharedAccessKeyName={c.Target.ListenKeyName};SharedAccessKey={c.Target.ListenKey}");
            await Expect.Throws<UnauthorizedAccessException>(() => client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("y")), "send");
            await Expect.Throws<UnauthorizedAccessException>(() => client.CreateSender(queue).ScheduleMessageAsync(new ServiceBusMessage("y"), DateTimeOffset.UtcNow), "schedule");
            var receiver = client.CreateReceiver(queue);
            await receiver.CompleteMessageAsync(await Check.One(receiver));
            var admin = new ServiceBusAdministrationClient($"Endpoint=sb://{c.Target.SecuredHttp};SharedAccessKeyName={c.Target.ListenKeyName};SharedAccessKey={c.Target.ListenKey}");
            await Expect.Throws<UnauthorizedAccessException>(() => admin.CreateQueueAsync(c.NewName()), "administration");
        });

        suite.Add("secret/authorization-rules-of-a-queue", async c =>
        {
            var queue = await SecuredQueue(c, o => o.AuthorizationRules.Add(new SharedAccessAuthorizationRule("sender", Administration.Key(1), Administration.Key(2), [AccessRights.Send])));
            var other = await SecuredQueue(c);
            foreach (var key in new[] { Administration.Key(1), Administration.Key(2) })
            {
                await using var client = Secured(c, $"Endpoint=sb://localhost;SharedAccessKeyName=sender;SharedAccessKey={key};EntityPath={queue}");
                await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage("x"));
                await Expect.Throws<UnauthorizedAccessException>(() => client.CreateReceiver(queue).ReceiveMessageAsync(TimeSpan.FromSeconds(2)), "receive");
            }
            await using var elsewhere = Secured(c, $"Endpoint=sb://localhost;SharedAccessKeyName=sender;SharedAccessKey={Administration.Key(1)}");
            await Expect.Throws<UnauthorizedAccessException>(() => elsewhere.CreateSender(other).SendMessageAsync(new ServiceBusMessage("x")), "another queue");
        });

        suite.Add("secret/administration", async c =>
        {
            if (c.Target.SecuredHttp is null) throw new SkipException("no MAYFLY_SECURED_HTTP");
            var wrong = new ServiceBusAdministrationClient($"Endpoint=sb://{c.Target.SecuredHttp};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=wrong");
            await Expect.Throws<UnauthorizedAccessException>(() => wrong.GetNamespacePropertiesAsync(), "wrong key");
            var right = SecuredAdmin(c);
            _ = await right.GetNamespacePropertiesAsync();
            var named = new ServiceBusAdministrationClient($"https://{c.Target.SecuredHttp}", new AzureNamedKeyCredential("RootManageSharedAccessKey", c.Target.Secret));
            _ = await named.GetNamespacePropertiesAsync();
            var signed = new ServiceBusAdministrationClient($"https://{c.Target.SecuredHttp}", new AzureSasCredential(Signature("https://localhost/", "RootManageSharedAccessKey", c.Target.Secret, TimeSpan.FromMinutes(10))));
            _ = await signed.GetNamespacePropertiesAsync();
        });

        suite.Add("secret/signature-is-renewed", async c =>
        {
            var queue = await SecuredQueue(c);
            string Sign(int seconds) => Signature($"amqps://localhost/{queue}", "RootManageSharedAccessKey", c.Target.Secret, TimeSpan.FromSeconds(seconds));
            var credential = new AzureSasCredential(Sign(25));
            await using var client = new ServiceBusClient("localhost", credential, new ServiceBusClientOptions { CustomEndpointAddress = Address(c.Target.SecuredAmqps!) });
            var (sender, receiver) = (client.CreateSender(queue), client.CreateReceiver(queue));
            for (var i = 0; i < 6; i++)
            {
                await sender.SendMessageAsync(new ServiceBusMessage("x"));
                await receiver.CompleteMessageAsync(await Check.One(receiver));
                await Task.Delay(8000);
                if (i == 1) credential.Update(Sign(600));
            }
        });
    }

    sealed class NoRetries : ServiceBusRetryPolicy
    {
        public int Asked;
        public override TimeSpan CalculateTryTimeout(int attemptCount) => TimeSpan.FromSeconds(3);
        public override TimeSpan? CalculateRetryDelay(Exception lastException, int attemptCount) { Asked++; return null; }
    }

    /// <summary>A little of each kind of link: send, schedule, cancel, peek, receive, settle.</summary>
    static async Task Everything(ServiceBusClient client, string queue)
    {
        await using var sender = client.CreateSender(queue);
        await using var receiver = client.CreateReceiver(queue);
        await sender.SendMessageAsync(new ServiceBusMessage("hello"));
        var scheduled = await sender.ScheduleMessageAsync(new ServiceBusMessage("later"), DateTimeOffset.UtcNow.AddHours(1));
        await sender.CancelScheduledMessageAsync(scheduled);
        Expect.Equal("hello", (await receiver.PeekMessageAsync()).Body.ToString(), "peeked");
        var message = await Check.One(receiver);
        await receiver.RenewMessageLockAsync(message);
        await receiver.CompleteMessageAsync(message);
        Expect.Null(await receiver.PeekMessageAsync(1), "left");
    }

    static void NeedTls(Check c) { if (c.Target.Amqps is null) throw new SkipException("no MAYFLY_AMQPS"); }
    static Uri Address(string address) => new("sb://localhost:" + address.Split(':')[1]);
    static string Root(Check c) => $"Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={c.Target.Secret}";
    static ServiceBusAdministrationClient SecuredAdmin(Check c) => new($"Endpoint=sb://{c.Target.SecuredHttp};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={c.Target.Secret}");

    static ServiceBusClient Secured(Check c, string connection) => new(connection, new ServiceBusClientOptions
    { CustomEndpointAddress = Address(c.Target.SecuredAmqps!), RetryOptions = new ServiceBusRetryOptions { MaxRetries = 1, TryTimeout = TimeSpan.FromSeconds(10) } });

    static async Task<string> SecuredQueue(Check c, Action<CreateQueueOptions>? configure = null)
    {
        if (c.Target.SecuredAmqps is null || c.Target.SecuredHttp is null) throw new SkipException("no MAYFLY_SECURED_AMQPS and MAYFLY_SECURED_HTTP");
        var options = new CreateQueueOptions(c.NewName());
        configure?.Invoke(options);
        var admin = SecuredAdmin(c);
        await admin.CreateQueueAsync(options);
        c.Own(new Undo(() => admin.DeleteQueueAsync(options.Name)));
        return options.Name;
    }

    /// <summary>A shared access signature, as the service's documentation computes it.</summary>
    public static string Signature(string resource, string name, string key, TimeSpan life)
    {
        var expiry = DateTimeOffset.UtcNow.Add(life).ToUnixTimeSeconds();
        var encoded = Uri.EscapeDataString(resource);
        var signature = Convert.ToBase64String(HMACSHA256.HashData(Encoding.UTF8.GetBytes(key), Encoding.UTF8.GetBytes($"{encoded}\n{expiry}")));
        return $"SharedAccessSignature sr={encoded}&sig={Uri.EscapeDataString(signature)}&se={expiry}&skn={Uri.EscapeDataString(name)}";
    }
}
