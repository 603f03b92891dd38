using System.Text.Json;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>
/// The thinnest programs of .NET's SDK: a connection string, which is MAYFLY_STRING, and nothing else that names a
/// broker. Writes a line of JSON for each part. SSL_CERT_FILE names the authority to trust.
/// </summary>
static class ByString
{
    static readonly TimeSpan ReceiveMax = TimeSpan.FromSeconds(10);

    public static async Task<int> Start(string queue, string[] parts)
    {
        var text = Environment.GetEnvironmentVariable("MAYFLY_STRING") ?? "";
        foreach (var part in parts)
        {
            string? failure = null;
            // Whatever it is: the next part is tried all the same.
            try { await Run(part, text, queue); }
            catch (Exception error) { failure = Expect.Show(error); }
            Console.WriteLine(JsonSerializer.Serialize(new { part, failure }));
        }
        return 0;
    }

    static Task Run(string part, string text, string queue) => part switch
    {
        "client" => ThereAndBack(text, queue, ServiceBusTransportType.AmqpTcp),
        "websocket" => ThereAndBack(text, queue, ServiceBusTransportType.AmqpWebSockets),
        "administration" => Administer(text, queue),
        _ => throw new ArgumentException(part),
    };

    static async Task ThereAndBack(string text, string queue, ServiceBusTransportType transport)
    {
        var once = new ServiceBusRetryOptions { MaxRetries = 0, TryTimeout = TimeSpan.FromSeconds(60) };
        var options = new ServiceBusClientOptions { TransportType = transport, RetryOptions = once };
        await using var client = new ServiceBusClient(text, options);
        var body = $"over {transport}";
        await client.CreateSender(queue).SendMessageAsync(new ServiceBusMessage(body));
        var receiver = client.CreateReceiver(queue);
        var message = await receiver.ReceiveMessageAsync(ReceiveMax);
        Expect.Equal(body, message?.Body.ToString() ?? "", "body");
        await receiver.CompleteMessageAsync(message);
    }

    static async Task Administer(string text, string queue)
    {
        var admin = new ServiceBusAdministrationClient(text);
        await admin.GetNamespacePropertiesAsync();
        var made = (await admin.CreateQueueAsync(queue + "-made")).Value.Name;
        var names = new List<string>();
        await foreach (var found in admin.GetQueuesAsync()) names.Add(found.Name);
        await admin.DeleteQueueAsync(made);
        Expect.True(names.Contains(made), $"{made} was made, and {string.Join(", ", names)} are listed");
    }
}
