using System.Diagnostics;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>The cluster under test, as the command line describes it.</summary>
sealed class Target
{
    /// <summary>Plain AMQP, reached as the emulator is.</summary>
    public required string Amqp { get; init; }
    /// <summary>Entity management and WebSockets; over TLS too where <see cref="Amqps"/> is given.</summary>
    public required string Http { get; init; }
    public string? Amqps { get; init; }
    /// <summary>A broker with a secret: its AMQP over TLS, its HTTPS, its secret, and a key that may only listen.</summary>
    public string? SecuredAmqps { get; init; }
    public string? SecuredHttp { get; init; }
    public string Secret { get; init; } = "";
    public string ListenKeyName { get; init; } = "listener";
    public string ListenKey { get; init; } = "";
    /// <summary>For checks that move the cluster's time: the mayfly program and a gRPC port.</summary>
    public string? Mayfly { get; init; }
    public string? Grpc { get; init; }
    /// <summary>For the failover run: the process of `mayfly up`, and the AMQP port of each node.</summary>
    public int? Up { get; init; }
    public string[] Nodes { get; init; } = [];

    public const string Key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE";
    public string Connection => Emulator(Amqp);
    public string AdminConnection => Emulator(Http);
    public static string Emulator(string address) => $"Endpoint=sb://{address};{Key};UseDevelopmentEmulator=true;";

    public ServiceBusAdministrationClient Admin() => new(AdminConnection);

    /// <summary>Moves the cluster's time forward.</summary>
    public async Task Advance(TimeSpan by)
    {
        var start = new ProcessStartInfo(Mayfly!, ["clock", "advance", $"{(int)by.TotalSeconds}s", "--connect", Grpc!])
        { RedirectStandardOutput = true, RedirectStandardError = true };
        using var process = Process.Start(start)!;
        await process.WaitForExitAsync();
        if (process.ExitCode != 0)
            throw new Exception("clock advance: " + await process.StandardError.ReadToEndAsync());
    }
}

/// <summary>Thrown by a check that does not apply to this cluster, with the reason.</summary>
sealed class SkipException(string why) : Exception(why);

/// <summary>A named check's own corner of the cluster: its client, its entities.</summary>
sealed class Check(string name, Target target, ServiceBusAdministrationClient admin) : IAsyncDisposable
{
    readonly List<IAsyncDisposable> owned = [];
    readonly List<(string Name, bool Topic)> entities = [];
    readonly string prefix = name.Replace('/', '-') + "-" + Guid.NewGuid().ToString("N")[..6];
    int made;
    ServiceBusClient? client;

    public Target Target => target;
    public ServiceBusAdministrationClient Admin => admin;

    /// <summary>This check's client, with short retries so that refusals show at once.</summary>
    public ServiceBusClient Client => client ??= NewClient();

    public ServiceBusClient NewClient(Action<ServiceBusClientOptions>? configure = null, string? connection = null)
    {
        var options = new ServiceBusClientOptions();
        configure?.Invoke(options);
        return Own(new ServiceBusClient(connection ?? target.Connection, options));
    }

    /// <summary>A client that waits at most so long for a session, and asks once.</summary>
    public ServiceBusClient Impatient(double seconds = 2) => NewClient(options =>
        options.RetryOptions = new ServiceBusRetryOptions { TryTimeout = TimeSpan.FromSeconds(seconds), MaxRetries = 0 });

    public T Own<T>(T thing) where T : IAsyncDisposable { owned.Add(thing); return thing; }

    public string NewName() => $"{prefix}-{Interlocked.Increment(ref made)}";

    public async Task<string> Queue(Action<CreateQueueOptions>? configure = null)
    {
        var options = new CreateQueueOptions(NewName());
        configure?.Invoke(options);
        entities.Add((options.Name, false));
        await admin.CreateQueueAsync(options);
        return options.Name;
    }

    public async Task<string> Topic(Action<CreateTopicOptions>? configure = null)
    {
        var options = new CreateTopicOptions(NewName());
        configure?.Invoke(options);
        entities.Add((options.Name, true));
        await admin.CreateTopicAsync(options);
        return options.Name;
    }

    /// <summary>A subscription, with its first rule if one is given.</summary>
    public async Task<string> Subscription(string topic, string name = "s", Action<CreateSubscriptionOptions>? configure = null,
        CreateRuleOptions? rule = null)
    {
        var options = new CreateSubscriptionOptions(topic, name);
        configure?.Invoke(options);
        if (rule is null) await admin.CreateSubscriptionAsync(options);
        else await admin.CreateSubscriptionAsync(options, rule);
        return name;
    }

    public ServiceBusSender Sender(string entity) => Client.CreateSender(entity);
    public ServiceBusReceiver Receiver(string queue, Action<ServiceBusReceiverOptions>? configure = null)
    {
        var options = new ServiceBusReceiverOptions();
        configure?.Invoke(options);
        return Client.CreateReceiver(queue, options);
    }

    public async Task Send(string entity, params string[] bodies)
    {
        await using var sender = Sender(entity);
        await sender.SendMessagesAsync(bodies.Select(body => new ServiceBusMessage(body)));
    }

    public async Task SendTo(string entity, string session, params string[] bodies)
    {
        await using var sender = Sender(entity);
        await sender.SendMessagesAsync(bodies.Select(body => new ServiceBusMessage(body) { SessionId = session }));
    }

    /// <summary>One message, or a failure.</summary>
    public static async Task<ServiceBusReceivedMessage> One(ServiceBusReceiver receiver, double seconds = 10) =>
        await receiver.ReceiveMessageAsync(TimeSpan.FromSeconds(seconds)) ?? throw new Exception($"no message within {seconds} s");

    /// <summary>As many as asked for, over several calls if need be.</summary>
    public static async Task<List<ServiceBusReceivedMessage>> Many(ServiceBusReceiver receiver, int count, double seconds = 15)
    {
        var all = new List<ServiceBusReceivedMessage>();
        var clock = Stopwatch.StartNew();
        while (all.Count < count && clock.Elapsed.TotalSeconds < seconds)
            all.AddRange(await receiver.ReceiveMessagesAsync(count - all.Count, TimeSpan.FromSeconds(2)));
        return all.Count == count ? all : throw new Exception($"{all.Count} of {count} messages within {seconds} s");
    }

    /// <summary>Everything there is, taken and deleted.</summary>
    public async Task<List<ServiceBusReceivedMessage>> Drain(string queue, SubQueue part = SubQueue.None, double wait = 1.5) =>
        await Drain(Receiver(queue, o => { o.ReceiveMode = ServiceBusReceiveMode.ReceiveAndDelete; o.SubQueue = part; }), wait);

    public async Task<List<ServiceBusReceivedMessage>> Drain(string topic, string subscription, SubQueue part = SubQueue.None, double wait = 1.5) =>
        await Drain(Client.CreateReceiver(topic, subscription, new ServiceBusReceiverOptions
        { ReceiveMode = ServiceBusReceiveMode.ReceiveAndDelete, SubQueue = part }), wait);

    static async Task<List<ServiceBusReceivedMessage>> Drain(ServiceBusReceiver receiver, double wait)
    {
        var all = new List<ServiceBusReceivedMessage>();
        while (true)
        {
            var some = await receiver.ReceiveMessagesAsync(200, TimeSpan.FromSeconds(wait));
            if (some.Count == 0) break;
            all.AddRange(some);
        }
        await receiver.DisposeAsync();
        return all;
    }

    public static async Task Until(Func<Task<bool>> condition, string what, double seconds = 15)
    {
        var clock = Stopwatch.StartNew();
        while (!await condition())
        {
            if (clock.Elapsed.TotalSeconds > seconds) throw new Exception($"not within {seconds} s: {what}");
            await Task.Delay(100);
        }
    }

    public static Task Until(Func<bool> condition, string what, double seconds = 15) =>
        Until(() => Task.FromResult(condition()), what, seconds);

    public async ValueTask DisposeAsync()
    {
        foreach (var thing in Enumerable.Reverse(owned))
            try { await thing.DisposeAsync().AsTask().WaitAsync(TimeSpan.FromSeconds(20)); } catch (Exception) { }
        foreach (var (name, topic) in entities)
            try { if (topic) await admin.DeleteTopicAsync(name); else await admin.DeleteQueueAsync(name); } catch (Exception) { }
    }
}

/// <summary>Something to be done when a check ends.</summary>
sealed class Undo(Func<Task> action) : IAsyncDisposable
{
    public async ValueTask DisposeAsync() => await action();
}

/// <summary>What a check expects.</summary>
static class Expect
{
    public static void Equal<T>(T expected, T actual, string what)
    {
        if (!EqualityComparer<T>.Default.Equals(expected, actual))
            throw new Exception($"{what}: expected {Show(expected)}, was {Show(actual)}");
    }

    public static void Sequence<T>(IEnumerable<T> expected, IEnumerable<T> actual, string what)
    {
        var (e, a) = (expected.ToList(), actual.ToList());
        if (!e.SequenceEqual(a)) throw new Exception($"{what}: expected [{string.Join(",", e.Take(20))}] ({e.Count}), was [{string.Join(",", a.Take(20))}] ({a.Count})");
    }

    public static void True(bool holds, string what) { if (!holds) throw new Exception(what); }
    public static void Null(object? thing, string what) { if (thing is not null) throw new Exception($"{what}: expected nothing, was {Show(thing)}"); }

    /// <summary>Within so many seconds of each other.</summary>
    public static void Near(DateTimeOffset expected, DateTimeOffset actual, double seconds, string what)
    {
        if (Math.Abs((expected - actual).TotalSeconds) > seconds)
            throw new Exception($"{what}: expected about {expected:O}, was {actual:O}");
    }

    public static async Task<T> Throws<T>(Func<Task> action, string what = "") where T : Exception
    {
        try { await action(); }
        catch (T caught) { return caught; }
        catch (Exception other) { throw new Exception($"{what}: expected {typeof(T).Name}, was {Show(other)}"); }
        throw new Exception($"{what}: expected {typeof(T).Name}, nothing was thrown");
    }

    public static async Task<ServiceBusException> Reason(ServiceBusFailureReason reason, Func<Task> action, string what = "")
    {
        var caught = await Throws<ServiceBusException>(action, what.Length > 0 ? what : reason.ToString());
        if (caught.Reason != reason) throw new Exception($"{what}: expected {reason}, was {Show(caught)}");
        return caught;
    }

    public static string Show(object? thing) => thing switch
    {
        null => "null",
        ServiceBusException e => $"ServiceBusException({e.Reason}): {Line(e.Message)}",
        Exception e => $"{e.GetType().Name}: {Line(e.Message)}",
        string s => $"\"{(s.Length > 80 ? s[..80] + "…" : s)}\"",
        byte[] b => $"byte[{b.Length}]",
        _ => $"{thing} ({thing.GetType().Name})",
    };

    public static string Line(string text)
    {
        var line = text.ReplaceLineEndings(" ");
        return line.Length > 300 ? line[..300] + "…" : line;
    }
}
