using System.Collections.Concurrent;
using Azure.Messaging.ServiceBus;

namespace Conformance;

/// <summary>ServiceBusSessionProcessor.</summary>
static class SessionProcessor
{
    static Task<string> SessionQueue(Check c, double lockSeconds = 60, int deliveries = 10) => c.Queue(o =>
    {
        (o.RequiresSession, o.LockDuration, o.MaxDeliveryCount) = (true, TimeSpan.FromSeconds(lockSeconds), deliveries);
    });

    static ServiceBusSessionProcessor New(Check c, string queue, Action<ServiceBusSessionProcessorOptions>? configure = null)
    {
        var options = new ServiceBusSessionProcessorOptions { SessionIdleTimeout = TimeSpan.FromSeconds(1) };
        configure?.Invoke(options);
        var processor = c.Own(c.Client.CreateSessionProcessor(queue, options));
        processor.ProcessErrorAsync += _ => Task.CompletedTask;
        return processor;
    }

    static async Task SendMany(Check c, string queue, int sessions, int each)
    {
        await using var sender = c.Sender(queue);
        await sender.SendMessagesAsync(Enumerable.Range(0, sessions * each).Select(i =>
            new ServiceBusMessage((i / sessions).ToString()) { SessionId = $"s{i % sessions}" }));
    }

    static async Task<long> Left(Check c, string queue) => (await c.Admin.GetQueueRuntimePropertiesAsync(queue)).Value.TotalMessageCount;

    public static void Register(Suite suite)
    {
        suite.Add("session-processor/order", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 12, 10);
            var seen = new ConcurrentDictionary<string, ConcurrentQueue<string>>();
            var processor = New(c, queue, o => o.MaxConcurrentSessions = 4);
            processor.ProcessMessageAsync += async args =>
            {
                await Task.Delay(5);
                seen.GetOrAdd(args.SessionId, _ => new()).Enqueue(args.Message.Body.ToString());
            };
            await processor.StartProcessingAsync();
            await Check.Until(async () => await Left(c, queue) == 0, "the queue empty", 60);
            await processor.StopProcessingAsync();
            Expect.Equal(12, seen.Count, "sessions");
            foreach (var (id, bodies) in seen) Expect.Sequence(Enumerable.Range(0, 10).Select(i => i.ToString()), bodies, "order in " + id);
        });

        suite.Add("session-processor/options-and-properties", async c =>
        {
            var queue = await SessionQueue(c);
            var processor = New(c, queue, o =>
            {
                (o.Identifier, o.MaxConcurrentSessions, o.MaxConcurrentCallsPerSession, o.PrefetchCount, o.AutoCompleteMessages) = ("me", 3, 2, 5, false);
                (o.MaxAutoLockRenewalDuration, o.SessionIdleTimeout, o.ReceiveMode) = (TimeSpan.FromMinutes(1), TimeSpan.FromSeconds(9), ServiceBusReceiveMode.PeekLock);
            });
            Expect.Equal(("me", 3, 2, 5, false), (processor.Identifier, processor.MaxConcurrentSessions, processor.MaxConcurrentCallsPerSession, processor.PrefetchCount, processor.AutoCompleteMessages), "properties");
            Expect.Equal((TimeSpan.FromMinutes(1), TimeSpan.FromSeconds(9), ServiceBusReceiveMode.PeekLock, queue, c.Client.FullyQualifiedNamespace),
                (processor.MaxAutoLockRenewalDuration, processor.SessionIdleTimeout, processor.ReceiveMode, processor.EntityPath, processor.FullyQualifiedNamespace), "properties");
            await processor.CloseAsync();
            Expect.True(processor.IsClosed, "IsClosed");
        });

        suite.Add("session-processor/opening-and-closing", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 3, 2);
            var (opened, closed, states) = (new ConcurrentBag<string>(), new ConcurrentBag<string>(), new ConcurrentBag<string>());
            var processor = New(c, queue, o => o.MaxConcurrentSessions = 3);
            processor.SessionInitializingAsync += async args =>
            {
                opened.Add(args.SessionId);
                Expect.True(args.SessionLockedUntil > DateTimeOffset.UtcNow, "SessionLockedUntil");
                await args.RenewSessionLockAsync();
                await args.SetSessionStateAsync(new BinaryData("opened"));
            };
            processor.SessionClosingAsync += async args =>
            {
                closed.Add(args.SessionId);
                states.Add((await args.GetSessionStateAsync()).ToString());
            };
            processor.ProcessMessageAsync += async args => await args.SetSessionStateAsync(new BinaryData((await args.GetSessionStateAsync()) + "+" + args.Message.Body));
            await processor.StartProcessingAsync();
            await Check.Until(() => closed.Count >= 3, "three sessions closed", 30);
            await processor.StopProcessingAsync();
            Expect.Sequence(["s0", "s1", "s2"], opened.Distinct().Order(), "opened");
            Expect.Sequence(["opened+0+1", "opened+0+1", "opened+0+1"], states.Take(3), "states");
        });

        suite.Add("session-processor/only-these-sessions", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 4, 2);
            var seen = new ConcurrentBag<string>();
            var processor = New(c, queue, o => { o.SessionIds.Add("s1"); o.SessionIds.Add("s3"); });
            processor.ProcessMessageAsync += args => { seen.Add(args.SessionId); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            await Check.Until(() => seen.Count == 4, "four handled", 20);
            await Task.Delay(1500);
            await processor.StopProcessingAsync();
            Expect.Sequence(["s1", "s1", "s3", "s3"], seen.Order(), "sessions");
            Expect.Equal(4L, await Left(c, queue), "left");
        });

        suite.Add("session-processor/calls-per-session", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 1, 30);
            var (running, most, done) = (0, 0, 0);
            var processor = New(c, queue, o => { o.MaxConcurrentSessions = 1; o.MaxConcurrentCallsPerSession = 5; });
            processor.ProcessMessageAsync += async _ =>
            {
                Processor.InterlockedMax(ref most, Interlocked.Increment(ref running));
                await Task.Delay(150);
                Interlocked.Decrement(ref running);
                Interlocked.Increment(ref done);
            };
            await processor.StartProcessingAsync();
            await Check.Until(() => done == 30, "all handled", 30);
            await processor.StopProcessingAsync();
            Expect.Equal(5, most, "most at a time");
        });

        suite.Add("session-processor/sessions-at-a-time", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 6, 4);
            var (running, most, done) = (0, 0, 0);
            var processor = New(c, queue, o => o.MaxConcurrentSessions = 3);
            processor.ProcessMessageAsync += async _ =>
            {
                Processor.InterlockedMax(ref most, Interlocked.Increment(ref running));
                await Task.Delay(200);
                Interlocked.Decrement(ref running);
                Interlocked.Increment(ref done);
            };
            await processor.StartProcessingAsync();
            await Check.Until(() => done == 24, "all handled", 30);
            await processor.StopProcessingAsync();
            Expect.Equal(3, most, "most at a time");
        });

        suite.Add("session-processor/release-session", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 2, 3);
            var order = new ConcurrentQueue<string>();
            var processor = New(c, queue, o => { o.MaxConcurrentSessions = 1; o.SessionIdleTimeout = TimeSpan.FromSeconds(30); });
            processor.ProcessMessageAsync += args => { order.Enqueue(args.SessionId); args.ReleaseSession(); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            await Check.Until(() => order.Count == 6, "all handled", 25);
            await processor.StopProcessingAsync();
            Expect.True(order.Take(2).Distinct().Count() == 2, "a released session came back before the other: " + string.Join(",", order));
        });

        suite.Add("session-processor/release-when-opening", async c =>
        {
            var queue = await SessionQueue(c);
            await c.SendTo(queue, "a", "x");
            var (opened, handled) = (0, 0);
            var processor = New(c, queue);
            processor.SessionInitializingAsync += args => { if (Interlocked.Increment(ref opened) == 1) args.ReleaseSession(); return Task.CompletedTask; };
            processor.ProcessMessageAsync += _ => { Interlocked.Increment(ref handled); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            await Check.Until(() => handled == 1, "handled", 20);
            await processor.StopProcessingAsync();
            Expect.True(opened >= 2, $"opened {opened}");
        });

        suite.Add("session-processor/throwing-handler", async c =>
        {
            var queue = await SessionQueue(c, deliveries: 2);
            await c.SendTo(queue, "a", "poison", "fine");
            var seen = new ConcurrentQueue<string>();
            var processor = New(c, queue);
            processor.ProcessMessageAsync += args =>
            {
                seen.Enqueue($"{args.Message.Body}{args.Message.DeliveryCount}");
                return args.Message.Body.ToString() == "poison" ? throw new Exception("mine") : Task.CompletedTask;
            };
            await processor.StartProcessingAsync();
            await Check.Until(() => seen.Contains("fine1"), "fine handled", 25);
            await processor.StopProcessingAsync();
            Expect.Sequence(["poison1", "poison2", "fine1"], seen, "deliveries");
            Expect.Equal("MaxDeliveryCountExceeded", (await c.Drain(queue, SubQueue.DeadLetter)).Single().DeadLetterReason, "reason");
        });

        suite.Add("session-processor/renews-locks", async c =>
        {
            var queue = await SessionQueue(c, 5);
            await c.SendTo(queue, "a", "slow");
            var counts = new ConcurrentBag<int>();
            var processor = New(c, queue);
            processor.ProcessMessageAsync += async args => { counts.Add(args.Message.DeliveryCount); await Task.Delay(12_000); };
            await processor.StartProcessingAsync();
            await Check.Until(async () => await Left(c, queue) == 0, "the queue empty", 25);
            await processor.StopProcessingAsync();
            Expect.Sequence([1], counts, "deliveries");
        });

        suite.Add("session-processor/lock-lost-event", async c =>
        {
            var queue = await SessionQueue(c, 5);
            await c.SendTo(queue, "a", "slow");
            var lost = new TaskCompletionSource<SessionLockLostEventArgs>();
            var deliveries = 0;
            var processor = New(c, queue, o => o.MaxAutoLockRenewalDuration = TimeSpan.Zero);
            processor.ProcessMessageAsync += async args =>
            {
                if (Interlocked.Increment(ref deliveries) > 1) return;
                args.SessionLockLostAsync += e => { lost.TrySetResult(e); return Task.CompletedTask; };
                await Task.Delay(7000);
            };
            await processor.StartProcessingAsync();
            Expect.Equal("slow", (await lost.Task.WaitAsync(TimeSpan.FromSeconds(15))).Message.Body.ToString(), "message");
            await Check.Until(async () => await Left(c, queue) == 0, "handled again", 25);
            await processor.StopProcessingAsync();
        });

        suite.Add("session-processor/settles-by-hand", async c =>
        {
            var queue = await SessionQueue(c);
            await c.SendTo(queue, "a", "complete", "abandon", "defer", "dead");
            var seen = new ConcurrentQueue<string>();
            var processor = New(c, queue, o => o.AutoCompleteMessages = false);
            processor.ProcessMessageAsync += async args =>
            {
                var body = args.Message.Body.ToString();
                seen.Enqueue(body);
                switch (body)
                {
                    case "complete": await args.CompleteMessageAsync(args.Message); break;
                    case "abandon" when args.Message.DeliveryCount == 1: await args.AbandonMessageAsync(args.Message); break;
                    case "abandon": await args.RenewSessionLockAsync(); await args.CompleteMessageAsync(args.Message); break;
                    case "defer": await args.DeferMessageAsync(args.Message); break;
                    case "dead": await args.DeadLetterMessageAsync(args.Message, "r", "d"); break;
                }
            };
            await processor.StartProcessingAsync();
            await Check.Until(() => seen.Contains("dead"), "all handled", 20);
            await processor.StopProcessingAsync();
            Expect.Sequence(["complete", "abandon", "abandon", "defer", "dead"], seen, "order");
            Expect.Equal(1, (await c.Drain(queue, SubQueue.DeadLetter)).Count, "dead letters");
        });

        suite.Add("session-processor/receive-actions", async c =>
        {
            var queue = await SessionQueue(c);
            await c.SendTo(queue, "a", "1", "2", "3");
            await c.SendTo(queue, "b", "other");
            var got = new TaskCompletionSource<string>();
            var processor = New(c, queue, o => o.SessionIds.Add("a"));
            processor.ProcessMessageAsync += async args =>
            {
                if (got.Task.IsCompleted) return;
                var actions = args.GetReceiveActions();
                var peeked = await actions.PeekMessagesAsync(10, 1);
                var more = await actions.ReceiveMessagesAsync(1, TimeSpan.FromSeconds(5));
                got.TrySetResult($"{peeked.Count} {more.Single().Body}");
            };
            await processor.StartProcessingAsync();
            Expect.Equal("3 2", await got.Task.WaitAsync(TimeSpan.FromSeconds(15)), "peeked, received");
            await processor.StopProcessingAsync();
        });

        suite.Add("session-processor/update-concurrency-and-prefetch", async c =>
        {
            var queue = await SessionQueue(c);
            await SendMany(c, queue, 8, 10);
            var (running, most, done) = (0, 0, 0);
            var processor = New(c, queue, o => o.MaxConcurrentSessions = 1);
            processor.ProcessMessageAsync += async _ =>
            {
                Processor.InterlockedMax(ref most, Interlocked.Increment(ref running));
                await Task.Delay(60);
                Interlocked.Decrement(ref running);
                Interlocked.Increment(ref done);
            };
            await processor.StartProcessingAsync();
            await Check.Until(() => done >= 3, "some handled");
            processor.UpdateConcurrency(6, 1);
            processor.UpdatePrefetchCount(5);
            Expect.Equal((6, 1, 5), (processor.MaxConcurrentSessions, processor.MaxConcurrentCallsPerSession, processor.PrefetchCount), "properties");
            await Check.Until(() => done == 80, "all handled", 40);
            await processor.StopProcessingAsync();
            Expect.True(most is > 1 and <= 6, $"most at a time {most}");
        });

        suite.Add("session-processor/of-a-subscription", async c =>
        {
            var topic = await c.Topic();
            await c.Subscription(topic, configure: o => o.RequiresSession = true);
            var processor = c.Own(c.Client.CreateSessionProcessor(topic, "s"));
            var got = new TaskCompletionSource<string>();
            processor.ProcessErrorAsync += _ => Task.CompletedTask;
            processor.ProcessMessageAsync += args =>
            {
                got.TrySetResult($"{args.SessionId} {args.EntityPath} {args.Message.Body}");
                return Task.CompletedTask;
            };
            await processor.StartProcessingAsync();
            await c.SendTo(topic, "a", "hello");
            Expect.Equal($"a {topic}/Subscriptions/s hello", await got.Task.WaitAsync(TimeSpan.FromSeconds(15)), "arguments");
            await processor.StopProcessingAsync().WaitAsync(TimeSpan.FromSeconds(30));
            await processor.DisposeAsync();
            Expect.True(processor.IsClosed, "still open");
        });

        suite.Add("session-processor/stop-while-accepting", async c =>
        {
            var queue = await SessionQueue(c);
            var processor = New(c, queue, o => o.MaxConcurrentSessions = 4);
            processor.ProcessMessageAsync += _ => Task.CompletedTask;
            await processor.StartProcessingAsync();
            await Task.Delay(2000);
            await processor.StopProcessingAsync().WaitAsync(TimeSpan.FromSeconds(10));
            await c.SendTo(queue, "a", "x");
            await using var session = await c.Impatient(5).AcceptSessionAsync(queue, "a");
            Expect.Equal(1, (await Check.One(session)).DeliveryCount, "DeliveryCount");
        });

        suite.Add("session-processor/error-of-the-session", async c =>
        {
            var queue = await c.Queue();
            var got = new TaskCompletionSource<ProcessErrorEventArgs>();
            var processor = c.Own(c.Client.CreateSessionProcessor(queue));
            processor.ProcessMessageAsync += _ => Task.CompletedTask;
            processor.ProcessErrorAsync += args => { got.TrySetResult(args); return Task.CompletedTask; };
            await processor.StartProcessingAsync();
            var error = await got.Task.WaitAsync(TimeSpan.FromSeconds(15));
            Expect.Equal(ServiceBusErrorSource.AcceptSession, error.ErrorSource, "ErrorSource");
            Expect.True(error.Exception is InvalidOperationException, Expect.Show(error.Exception));
            await processor.StopProcessingAsync();
        });
    }
}
