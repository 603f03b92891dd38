using System.Collections.Concurrent;
using System.Diagnostics;
using System.Text.Json;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>
/// Sends and receives over .NET's SDK until its input ends, then gives account: the same program as
/// `../python/failover.py`, which says what is counted. Receives by processor, which the SDK itself brings back after
/// a connection is gone.
/// </summary>
sealed class Worker(string queue, bool detects, ServiceBusAdministrationClient admin)
{
    const string Usage = "failover --amqp HOST:PORT[,HOST:PORT] --http HOST:PORT --queue NAME --json FILE [--detect-duplicates]";
    static readonly TimeSpan LockLasts = TimeSpan.FromSeconds(20);
    /// <summary>Between two messages of a sender.</summary>
    static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(10);
    /// <summary>Without a message after which there is none left.</summary>
    static readonly TimeSpan Quiet = TimeSpan.FromSeconds(3);
    /// <summary>What the last messages may take.</summary>
    static readonly TimeSpan DrainMax = TimeSpan.FromSeconds(90);

    readonly ConcurrentDictionary<string, byte> acknowledged = new();
    readonly ConcurrentDictionary<string, byte> unanswered = new();
    /// <summary>By name of the message: the numbers it was received under.</summary>
    readonly ConcurrentDictionary<string, ConcurrentDictionary<long, byte>> numbers = new();
    readonly ConcurrentDictionary<long, byte> completed = new();
    /// <summary>By number: completions that found no lock.</summary>
    readonly ConcurrentDictionary<long, byte> unconfirmed = new();
    readonly ConcurrentDictionary<string, int> errors = new();
    readonly CancellationTokenSource stop = new();
    readonly Stopwatch clock = Stopwatch.StartNew();
    int completedAgain, deliveredAgain, givenBack;
    /// <summary>Milliseconds.</summary>
    int longestSend;
    /// <summary>Milliseconds of the clock.</summary>
    long lastDelivery;

    public static async Task<int> Start(Arguments arguments)
    {
        if (arguments["amqp"] is not { } amqp || arguments["http"] is not { } http || arguments["queue"] is not { } queue
            || arguments["json"] is not { } json) return Arguments.Refuse(Usage);
        var admin = new ServiceBusAdministrationClient(Target.Emulator(http));
        var detects = arguments["detect-duplicates"] is not null;
        await admin.CreateQueueAsync(new CreateQueueOptions(queue)
        { LockDuration = LockLasts, MaxDeliveryCount = 100, RequiresDuplicateDetection = detects });
        var account = await new Worker(queue, detects, admin).Run(amqp.Split(','), json);
        await File.WriteAllTextAsync(json, JsonSerializer.Serialize(account));
        return 0;
    }

    async Task<Dictionary<string, object?>> Run(string[] addresses, string json)
    {
        var (clients, processors, sending) = (new List<ServiceBusClient>(), new List<ServiceBusProcessor>(), new List<Task>());
        foreach (var address in addresses)
        {
            var retries = new ServiceBusRetryOptions
            { MaxRetries = 10, Delay = TimeSpan.FromSeconds(1), MaxDelay = TimeSpan.FromSeconds(5), TryTimeout = TimeSpan.FromSeconds(15) };
            var client = new ServiceBusClient(Target.Emulator(address), new ServiceBusClientOptions { RetryOptions = retries });
            clients.Add(client);
            var sender = client.CreateSender(queue);
            sending.Add(Task.Run(() => SendAll(sender)));
            var processor = client.CreateProcessor(queue, new ServiceBusProcessorOptions
            { MaxConcurrentCalls = 10, AutoCompleteMessages = false, MaxAutoLockRenewalDuration = TimeSpan.Zero });
            processor.ProcessMessageAsync += Take;
            processor.ProcessErrorAsync += args => { Failed(args.ErrorSource.ToString().ToLowerInvariant(), args.Exception); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            processors.Add(processor);
        }
        while (numbers.IsEmpty) await Task.Delay(50);
        await File.WriteAllTextAsync(Path.ChangeExtension(json, "started"), "");
        await Console.In.ReadToEndAsync();
        stop.Cancel();
        await Task.WhenAll(sending);
        await Drained();
        foreach (var processor in processors) await processor.CloseAsync();
        foreach (var client in clients) await client.DisposeAsync();
        return Account(await Left());
    }

    async Task<long> Left() => (await admin.GetQueueRuntimePropertiesAsync(queue)).Value.TotalMessageCount;

    async Task SendAll(ServiceBusSender sender)
    {
        var run = Guid.NewGuid().ToString("N")[..8];
        for (var n = 0; !stop.IsCancellationRequested; n++)
        {
            var name = $"{run}-{n}";
            var began = clock.ElapsedMilliseconds;
            try
            {
                await sender.SendMessageAsync(new ServiceBusMessage(name) { MessageId = name });
                acknowledged[name] = 1;
            }
            catch (Exception error)
            {
                unanswered[name] = 1;
                Failed("send", error);
            }
            Processor.InterlockedMax(ref longestSend, (int)(clock.ElapsedMilliseconds - began));
            await Task.Delay(Pause);
        }
    }

    async Task Take(ProcessMessageEventArgs args)
    {
        var number = args.Message.SequenceNumber;
        Interlocked.Exchange(ref lastDelivery, clock.ElapsedMilliseconds);
        var known = numbers.GetOrAdd(args.Message.MessageId, _ => new());
        if (completed.ContainsKey(number)) Interlocked.Increment(ref completedAgain);
        if (!known.TryAdd(number, 1)) Interlocked.Increment(ref deliveredAgain);
        if (unconfirmed.TryRemove(number, out _)) Interlocked.Increment(ref givenBack);
        try
        {
            await args.CompleteMessageAsync(args.Message);
            completed[number] = 1;
        }
        catch (ServiceBusException lost) when (lost.Reason == ServiceBusFailureReason.MessageLockLost) { unconfirmed[number] = 1; }
        catch (Exception error) { Failed("complete", error); }
    }

    void Failed(string doing, Exception error)
    {
        var passes = error is ServiceBusException { IsTransient: true };
        var text = Expect.Show(error);
        var line = $"{(passes ? "retryable" : "final")} {doing}: {text[..Math.Min(text.Length, 160)]}";
        errors.AddOrUpdate(line, 1, (_, count) => count + 1);
    }

    int Lost() => acknowledged.Keys.Count(name => !numbers.ContainsKey(name));

    /// <summary>Also of what a receiver held whose connection died: it comes again when its lock has lapsed.</summary>
    async Task Drained()
    {
        var until = clock.Elapsed + DrainMax;
        while (clock.Elapsed < until)
        {
            var isQuiet = clock.ElapsedMilliseconds - Interlocked.Read(ref lastDelivery) > Quiet.TotalMilliseconds;
            if (isQuiet && Lost() == 0 && await Left() == 0) return;
            await Task.Delay(500);
        }
    }

    Dictionary<string, object?> Account(long left)
    {
        var counts = new Dictionary<string, long>
        {
            ["acknowledged"] = acknowledged.Count,
            ["unanswered"] = unanswered.Count,
            ["received"] = numbers.Count,
            ["lost"] = Lost(),
            ["foreign"] = numbers.Keys.Count(name => !acknowledged.ContainsKey(name) && !unanswered.ContainsKey(name)),
            ["left"] = left,
            ["completed_again"] = completedAgain,
            ["unconfirmed"] = unconfirmed.Count,
            ["given_back"] = givenBack,
            ["delivered_again"] = deliveredAgain,
            ["stored_twice"] = numbers.Values.Count(known => known.Count > 1),
        };
        var wrong = new List<string> { "lost", "foreign", "left", "completed_again" };
        if (detects) wrong.Add("stored_twice");
        var reasons = wrong.Where(name => counts[name] > 0).Select(name => $"{counts[name]} {name}").ToList();
        reasons.AddRange(errors.Keys.Where(line => line.StartsWith("final")));
        if (acknowledged.IsEmpty) reasons.Add("nothing was sent");
        var account = counts.ToDictionary(count => count.Key, count => (object?)count.Value);
        account["longest_send"] = $"{longestSend} ms";
        account["errors"] = errors;
        account["failure"] = reasons.Count > 0 ? string.Join("; ", reasons) : null;
        return account;
    }
}
