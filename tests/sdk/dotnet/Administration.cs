using Azure;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>ServiceBusAdministrationClient: queues, topics, subscriptions. Rules have a file of their own.</summary>
static class Administration
{
    static async Task<List<T>> All<T>(AsyncPageable<T> pages) where T : notnull
    {
        var all = new List<T>();
        await foreach (var one in pages) all.Add(one);
        return all;
    }

    public static void Register(Suite suite)
    {
        suite.Add("admin/namespace", async c =>
        {
            var properties = (await c.Admin.GetNamespacePropertiesAsync()).Value;
            Expect.True(properties.Name is { Length: > 0 }, "Name");
            Expect.True(properties.MessagingSku == MessagingSku.Standard || properties.MessagingSku == MessagingSku.Premium, $"MessagingSku {properties.MessagingSku}");
            Expect.True(properties.CreatedTime.Year >= 2020 && properties.ModifiedTime >= properties.CreatedTime.AddDays(-1), $"times {properties.CreatedTime} {properties.ModifiedTime}");
            _ = (properties.Alias, properties.MessagingUnits);
        });

        suite.Add("admin/queue-defaults", async c =>
        {
            var name = c.NewName();
            var q = (await c.Admin.CreateQueueAsync(name)).Value;
            Expect.Equal(name, q.Name, "Name");
            Expect.Equal((TimeSpan.FromMinutes(1), 1024L, false, false), (q.LockDuration, q.MaxSizeInMegabytes, q.RequiresDuplicateDetection, q.RequiresSession), "defaults");
            Expect.Equal((TimeSpan.MaxValue, TimeSpan.MaxValue, false), (q.DefaultMessageTimeToLive, q.AutoDeleteOnIdle, q.DeadLetteringOnMessageExpiration), "defaults");
            Expect.Equal(10, q.MaxDeliveryCount, "MaxDeliveryCount");
            Expect.Equal((true, EntityStatus.Active, false), (q.EnableBatchedOperations, q.Status, q.EnablePartitioning), "defaults");
            Expect.Null(q.ForwardTo, "ForwardTo");
            Expect.Null(q.ForwardDeadLetteredMessagesTo, "ForwardDeadLetteredMessagesTo");
            Expect.True(q.UserMetadata is null or "", "UserMetadata");
            Expect.Equal(0, q.AuthorizationRules.Count, "AuthorizationRules");
            await c.Admin.DeleteQueueAsync(name);
        });

        suite.Add("admin/queue-every-option", async c =>
        {
            var (name, other, dead) = (c.NewName(), await c.Queue(), await c.Queue());
            var options = new CreateQueueOptions(name)
            {
                LockDuration = TimeSpan.FromSeconds(45), MaxSizeInMegabytes = 2048, RequiresDuplicateDetection = true,
                DefaultMessageTimeToLive = TimeSpan.FromDays(3), AutoDeleteOnIdle = TimeSpan.FromHours(2), DeadLetteringOnMessageExpiration = true,
                DuplicateDetectionHistoryTimeWindow = TimeSpan.FromMinutes(3), MaxDeliveryCount = 7, EnableBatchedOperations = false,
                Status = EntityStatus.ReceiveDisabled, ForwardDeadLetteredMessagesTo = dead, UserMetadata = "<mine & \"yours\">", MaxMessageSizeInKilobytes = 1024,
            };
            options.AuthorizationRules.Add(new SharedAccessAuthorizationRule("all", [AccessRights.Manage, AccessRights.Send, AccessRights.Listen]));
            await c.Admin.CreateQueueAsync(options);
            var q = (await c.Admin.GetQueueAsync(name)).Value;
            Expect.Equal((options.LockDuration, options.MaxSizeInMegabytes, true), (q.LockDuration, q.MaxSizeInMegabytes, q.RequiresDuplicateDetection), "values");
            Expect.Equal((options.DefaultMessageTimeToLive, true), (q.DefaultMessageTimeToLive, q.DeadLetteringOnMessageExpiration), "values");
            Expect.Equal((options.DuplicateDetectionHistoryTimeWindow, 7, false), (q.DuplicateDetectionHistoryTimeWindow, q.MaxDeliveryCount, q.EnableBatchedOperations), "values");
            Expect.Equal((EntityStatus.ReceiveDisabled, "<mine & \"yours\">", 1024L), (q.Status, q.UserMetadata, q.MaxMessageSizeInKilobytes ?? 0), "values");
            Expect.True(q.ForwardDeadLetteredMessagesTo.EndsWith("/" + dead), "ForwardDeadLetteredMessagesTo " + q.ForwardDeadLetteredMessagesTo);
            Expect.Equal("all", q.AuthorizationRules.Single().KeyName, "rule");
            // A description may be made anew from what was read.
            await c.Admin.DeleteQueueAsync(name);
            var copy = new CreateQueueOptions(q) { Status = EntityStatus.Active };
            Expect.Equal(7, (await c.Admin.CreateQueueAsync(copy)).Value.MaxDeliveryCount, "copied");
            await c.Admin.DeleteQueueAsync(name);
        });

        suite.Add("admin/queue-requires-session", async c =>
        {
            var queue = await c.Queue(o => o.RequiresSession = true);
            Expect.True((await c.Admin.GetQueueAsync(queue)).Value.RequiresSession, "RequiresSession");
        });

        suite.Add("admin/queue-partitioned", async c =>
        {
            var queue = await c.Queue(o => o.EnablePartitioning = true);
            Expect.True((await c.Admin.GetQueueAsync(queue)).Value.EnablePartitioning, "EnablePartitioning");
        });

        suite.Add("admin/queue-update", async c =>
        {
            var (name, to) = (await c.Queue(), await c.Queue());
            var q = (await c.Admin.GetQueueAsync(name)).Value;
            (q.LockDuration, q.MaxDeliveryCount, q.DefaultMessageTimeToLive, q.UserMetadata) = (TimeSpan.FromSeconds(20), 3, TimeSpan.FromHours(1), "new");
            (q.AutoDeleteOnIdle, q.DeadLetteringOnMessageExpiration, q.Status, q.EnableBatchedOperations) = (TimeSpan.FromHours(5), true, EntityStatus.SendDisabled, false);
            (q.ForwardDeadLetteredMessagesTo, q.MaxSizeInMegabytes) = (to, 3072);
            q.AuthorizationRules.Add(new SharedAccessAuthorizationRule("sender", [AccessRights.Send]));
            await c.Admin.UpdateQueueAsync(q);
            var back = (await c.Admin.GetQueueAsync(name)).Value;
            Expect.Equal((q.LockDuration, 3, q.DefaultMessageTimeToLive, "new"), (back.LockDuration, back.MaxDeliveryCount, back.DefaultMessageTimeToLive, back.UserMetadata), "values");
            Expect.Equal((true, EntityStatus.SendDisabled, 3072L, false), (back.DeadLetteringOnMessageExpiration, back.Status, back.MaxSizeInMegabytes, back.EnableBatchedOperations), "values");
            Expect.Equal("sender", back.AuthorizationRules.Single().KeyName, "rule");
            back.ForwardDeadLetteredMessagesTo = null;
            back.AuthorizationRules.Clear();
            await c.Admin.UpdateQueueAsync(back);
            var cleared = (await c.Admin.GetQueueAsync(name)).Value;
            Expect.Null(cleared.ForwardDeadLetteredMessagesTo, "ForwardDeadLetteredMessagesTo");
            Expect.Equal(0, cleared.AuthorizationRules.Count, "rules");
        });

        suite.Add("admin/authorization-rules", async c =>
        {
            var queue = await c.Queue(o =>
            {
                o.AuthorizationRules.Add(new SharedAccessAuthorizationRule("listen", Key(1), Key(2), [AccessRights.Listen]));
                o.AuthorizationRules.Add(new SharedAccessAuthorizationRule("generated", [AccessRights.Listen, AccessRights.Send]));
            });
            var rules = (await c.Admin.GetQueueAsync(queue)).Value.AuthorizationRules.Cast<SharedAccessAuthorizationRule>().OrderBy(r => r.KeyName).ToList();
            Expect.Sequence(["generated", "listen"], rules.Select(r => r.KeyName), "names");
            Expect.Equal((Key(1), Key(2)), (rules[1].PrimaryKey, rules[1].SecondaryKey), "keys");
            Expect.True(rules[0].PrimaryKey.Length > 20, "generated key");
            Expect.Sequence([AccessRights.Send, AccessRights.Listen], rules[0].Rights.Order(), "rights");
            Expect.True(rules[1].Rights.Single() == AccessRights.Listen, "rights of listen");
            Expect.Equal("SharedAccessKey", rules[0].ClaimType, "ClaimType");
            Expect.Near(DateTimeOffset.UtcNow, rules[0].CreatedTime, 60, "CreatedTime");
            Expect.Near(DateTimeOffset.UtcNow, rules[0].ModifiedTime, 60, "ModifiedTime");
        });

        suite.Add("admin/exists-and-delete", async c =>
        {
            var (queue, topic) = (c.NewName(), c.NewName());
            Expect.True(!await c.Admin.QueueExistsAsync(queue) && !await c.Admin.TopicExistsAsync(topic), "exist at first");
            await c.Admin.CreateQueueAsync(queue);
            await c.Admin.CreateTopicAsync(topic);
            Expect.True(!await c.Admin.SubscriptionExistsAsync(topic, "s"), "subscription exists at first");
            await c.Admin.CreateSubscriptionAsync(topic, "s");
            Expect.True(await c.Admin.QueueExistsAsync(queue) && await c.Admin.TopicExistsAsync(topic) && await c.Admin.SubscriptionExistsAsync(topic, "s"), "do not exist");
            Expect.True(await c.Admin.RuleExistsAsync(topic, "s", "$Default") && !await c.Admin.RuleExistsAsync(topic, "s", "other"), "rules");
            Expect.True(!await c.Admin.QueueExistsAsync(topic) && !await c.Admin.TopicExistsAsync(queue), "kinds mixed up");
            await c.Admin.DeleteSubscriptionAsync(topic, "s");
            await c.Admin.DeleteQueueAsync(queue);
            await c.Admin.DeleteTopicAsync(topic);
            Expect.True(!await c.Admin.QueueExistsAsync(queue) && !await c.Admin.TopicExistsAsync(topic) && !await c.Admin.SubscriptionExistsAsync(topic, "s"), "still exist");
        });

        suite.Add("admin/already-exists", async c =>
        {
            var (queue, topic) = (await c.Queue(), await c.Topic());
            await c.Subscription(topic);
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateQueueAsync(queue), "queue");
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateTopicAsync(topic), "topic");
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateTopicAsync(queue), "topic of a queue's name");
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateQueueAsync(queue.ToUpperInvariant()), "in capitals");
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateSubscriptionAsync(topic, "s"), "subscription");
            await Expect.Reason(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => c.Admin.CreateRuleAsync(topic, "s", new CreateRuleOptions("$Default")), "rule");
        });

        suite.Add("admin/not-found", async c =>
        {
            const ServiceBusFailureReason gone = ServiceBusFailureReason.MessagingEntityNotFound;
            var topic = await c.Topic();
            await c.Subscription(topic);
            var queue = await c.Queue();
            var q = (await c.Admin.GetQueueAsync(queue)).Value;
            await c.Admin.DeleteQueueAsync(queue);
            await Expect.Reason(gone, () => c.Admin.GetQueueAsync(queue), "get queue");
            await Expect.Reason(gone, () => c.Admin.GetQueueRuntimePropertiesAsync(queue), "queue's counters");
            await Expect.Reason(gone, () => c.Admin.DeleteQueueAsync(queue), "delete queue");
            await Expect.Reason(gone, () => c.Admin.UpdateQueueAsync(q), "update queue");
            await Expect.Reason(gone, () => c.Admin.GetTopicAsync("no-topic"), "get topic");
            await Expect.Reason(gone, () => c.Admin.DeleteTopicAsync("no-topic"), "delete topic");
            await Expect.Reason(gone, () => c.Admin.GetTopicRuntimePropertiesAsync("no-topic"), "topic's counters");
            await Expect.Reason(gone, () => c.Admin.GetQueueAsync(topic), "a topic as queue");
            await Expect.Reason(gone, () => c.Admin.GetSubscriptionAsync(topic, "none"), "get subscription");
            await Expect.Reason(gone, () => c.Admin.GetSubscriptionRuntimePropertiesAsync(topic, "none"), "subscription's counters");
            await Expect.Reason(gone, () => c.Admin.DeleteSubscriptionAsync(topic, "none"), "delete subscription");
            await Expect.Reason(gone, () => c.Admin.CreateSubscriptionAsync("no-topic", "s"), "subscription of no topic");
            await Expect.Reason(gone, () => c.Admin.GetRuleAsync(topic, "s", "none"), "get rule");
            await Expect.Reason(gone, () => c.Admin.DeleteRuleAsync(topic, "s", "none"), "delete rule");
            await Expect.Reason(gone, () => c.Admin.CreateRuleAsync(topic, "none", new CreateRuleOptions("r")), "rule of no subscription");
            await Expect.Reason(gone, () => All(c.Admin.GetSubscriptionsAsync("no-topic")), "list of no topic");
            await Expect.Reason(gone, () => All(c.Admin.GetRulesAsync(topic, "none")), "rules of no subscription");
        });

        suite.Add("admin/bad-values-the-client-refuses", async c =>
        {
            await Expect.Throws<ArgumentException>(() => { _ = new CreateQueueOptions("q") { MaxDeliveryCount = 0 }; return Task.CompletedTask; }, "MaxDeliveryCount");
            await Expect.Throws<ArgumentException>(() => { _ = new CreateQueueOptions("q") { AutoDeleteOnIdle = TimeSpan.FromMinutes(1) }; return Task.CompletedTask; }, "AutoDeleteOnIdle");
            await Expect.Throws<ArgumentException>(() => { _ = new CreateQueueOptions("q") { DefaultMessageTimeToLive = TimeSpan.Zero }; return Task.CompletedTask; }, "DefaultMessageTimeToLive");
            await Expect.Throws<ArgumentException>(() => c.Admin.CreateQueueAsync("a?b"), "name");
            await Expect.Throws<ArgumentException>(() => c.Admin.CreateQueueAsync(new string('x', 261)), "long name");
        });

        suite.Add("admin/bad-values-the-broker-refuses", async c =>
        {
            await Refused(() => c.Admin.CreateQueueAsync(new CreateQueueOptions(c.NewName()) { LockDuration = TimeSpan.FromMinutes(6) }), "LockDuration of 6 min");
            await Refused(() => c.Admin.CreateQueueAsync(new CreateQueueOptions(c.NewName()) { MaxSizeInMegabytes = 7 }), "MaxSizeInMegabytes of 7");
            await Refused(() => c.Admin.CreateQueueAsync(new CreateQueueOptions(c.NewName()) { ForwardTo = "not-there" }), "ForwardTo what is not there");
            await Refused(() => c.Admin.CreateQueueAsync("with spaces"), "spaces in a name");
            var queue = await c.Queue(o => o.RequiresDuplicateDetection = true);
            var topic = await c.Topic();
            await c.Subscription(topic);
            await Refused(() => c.Admin.CreateRuleAsync(topic, "s", new CreateRuleOptions("r", new SqlRuleFilter("a = = b"))), "SQL");
            var s = (await c.Admin.GetSubscriptionAsync(topic, "s")).Value;
            s.RequiresSession = true;
            await Refused(() => c.Admin.UpdateSubscriptionAsync(s), "RequiresSession changed");
        });

        suite.Add("admin/names", async c =>
        {
            foreach (var suffix in new[] { "/with/slashes", ".dots.", "-_-", "MiXed", "~tilde" })
            {
                var name = c.NewName() + suffix;
                await c.Admin.CreateQueueAsync(name);
                Expect.Equal(name.ToLowerInvariant(), (await c.Admin.GetQueueAsync(name)).Value.Name, "Name");
                await c.Send(name, "x");
                Expect.Equal(1, (await c.Drain(name)).Count, "messages of " + name);
                await c.Admin.DeleteQueueAsync(name);
            }
        });

        suite.Add("admin/list-more-than-100-queues", async c =>
        {
            var prefix = c.NewName();
            var names = Enumerable.Range(0, 230).Select(i => $"{prefix}-{i:000}").ToList();
            foreach (var name in names) await c.Admin.CreateQueueAsync(name);
            try
            {
                var all = await All(c.Admin.GetQueuesAsync());
                Expect.Sequence(names, all.Select(q => q.Name).Where(n => n.StartsWith(prefix)).Order(StringComparer.Ordinal), "queues");
                var runtime = await All(c.Admin.GetQueuesRuntimePropertiesAsync());
                Expect.Sequence(names, runtime.Select(q => q.Name).Where(n => n.StartsWith(prefix)).Order(StringComparer.Ordinal), "queues' counters");
                var pages = 0;
                await foreach (var page in c.Admin.GetQueuesAsync().AsPages(pageSizeHint: 50)) { pages++; Expect.True(page.Values.Count <= 100, $"a page of {page.Values.Count}"); }
                Expect.True(pages >= 3, $"{pages} pages");
            }
            finally { foreach (var name in names) await c.Admin.DeleteQueueAsync(name); }
        });

        suite.Add("admin/list-topics-and-subscriptions", async c =>
        {
            var topic = await c.Topic();
            var names = Enumerable.Range(0, 120).Select(i => $"s{i:000}").ToList();
            foreach (var name in names) await c.Subscription(topic, name);
            Expect.Sequence(names, (await All(c.Admin.GetSubscriptionsAsync(topic))).Select(s => s.SubscriptionName).Order(StringComparer.Ordinal), "subscriptions");
            var runtime = await All(c.Admin.GetSubscriptionsRuntimePropertiesAsync(topic));
            Expect.Sequence(names, runtime.Select(s => s.SubscriptionName).Order(StringComparer.Ordinal), "subscriptions' counters");
            Expect.True(runtime.All(s => s.TopicName == topic), "TopicName");
            Expect.True((await All(c.Admin.GetTopicsAsync())).Any(t => t.Name == topic), "the topic is not listed");
            Expect.Equal(120, (await All(c.Admin.GetTopicsRuntimePropertiesAsync())).Single(t => t.Name == topic).SubscriptionCount, "SubscriptionCount");
        });

        suite.Add("admin/queue-runtime-properties", async c =>
        {
            var queue = await c.Queue();
            var start = (await c.Admin.GetQueueRuntimePropertiesAsync(queue)).Value;
            Expect.Near(DateTimeOffset.UtcNow, start.CreatedAt, 30, "CreatedAt");
            Expect.Near(DateTimeOffset.UtcNow, start.UpdatedAt, 30, "UpdatedAt");
            Expect.Equal(0L, start.SizeInBytes, "SizeInBytes");
            await c.Send(queue, "a", "b", "c", "d");
            await c.Sender(queue).ScheduleMessageAsync(new ServiceBusMessage("later"), DateTimeOffset.UtcNow.AddHours(1));
            var receiver = c.Receiver(queue);
            await receiver.DeadLetterMessageAsync(await Check.One(receiver));
            var now = (await c.Admin.GetQueueRuntimePropertiesAsync(queue)).Value;
            Expect.Equal((queue, 5L, 3L, 1L, 1L), (now.Name, now.TotalMessageCount, now.ActiveMessageCount, now.DeadLetterMessageCount, now.ScheduledMessageCount), "counters");
            Expect.Equal((0L, 0L), (now.TransferMessageCount, now.TransferDeadLetterMessageCount), "transfer counters");
            Expect.True(now.SizeInBytes > 5, "SizeInBytes");
            Expect.Near(DateTimeOffset.UtcNow, now.AccessedAt, 120, "AccessedAt");
        });

        suite.Add("admin/topic-defaults-and-every-option", async c =>
        {
            var plain = (await c.Admin.GetTopicAsync(await c.Topic())).Value;
            Expect.Equal((1024L, false, true, EntityStatus.Active), (plain.MaxSizeInMegabytes, plain.RequiresDuplicateDetection, plain.EnableBatchedOperations, plain.Status), "defaults");
            Expect.Equal((TimeSpan.MaxValue, TimeSpan.MaxValue, false), (plain.DefaultMessageTimeToLive, plain.AutoDeleteOnIdle, plain.EnablePartitioning), "defaults");
            var options = new CreateTopicOptions(c.NewName())
            {
                DefaultMessageTimeToLive = TimeSpan.FromDays(2), AutoDeleteOnIdle = TimeSpan.FromHours(3), MaxSizeInMegabytes = 2048, RequiresDuplicateDetection = true,
                DuplicateDetectionHistoryTimeWindow = TimeSpan.FromMinutes(4), EnableBatchedOperations = false, SupportOrdering = true, UserMetadata = "mine", MaxMessageSizeInKilobytes = 1024,
            };
            options.AuthorizationRules.Add(new SharedAccessAuthorizationRule("sender", [AccessRights.Send]));
            await c.Admin.CreateTopicAsync(options);
            var t = (await c.Admin.GetTopicAsync(options.Name)).Value;
            Expect.Equal((options.DefaultMessageTimeToLive, options.AutoDeleteOnIdle, 2048L, true), (t.DefaultMessageTimeToLive, t.AutoDeleteOnIdle, t.MaxSizeInMegabytes, t.RequiresDuplicateDetection), "values");
            Expect.Equal((options.DuplicateDetectionHistoryTimeWindow, false, true, "mine", 1024L), (t.DuplicateDetectionHistoryTimeWindow, t.EnableBatchedOperations, t.SupportOrdering, t.UserMetadata, t.MaxMessageSizeInKilobytes ?? 0), "values");
            Expect.Equal("sender", t.AuthorizationRules.Single().KeyName, "rule");
            (t.DefaultMessageTimeToLive, t.UserMetadata, t.SupportOrdering) = (TimeSpan.FromHours(4), "other", false);
            await c.Admin.UpdateTopicAsync(t);
            var back = (await c.Admin.GetTopicAsync(options.Name)).Value;
            Expect.Equal((TimeSpan.FromHours(4), "other", false), (back.DefaultMessageTimeToLive, back.UserMetadata, back.SupportOrdering), "updated");
            await c.Admin.DeleteTopicAsync(options.Name);
            Expect.Equal("other", (await c.Admin.CreateTopicAsync(new CreateTopicOptions(back))).Value.UserMetadata, "copied");
            await c.Admin.DeleteTopicAsync(options.Name);
        });

        suite.Add("admin/topic-supports-ordering-by-default", async c =>
            Expect.True((await c.Admin.GetTopicAsync(await c.Topic())).Value.SupportOrdering, "SupportOrdering is false"));

        suite.Add("admin/topic-send-disabled-reads-back", async c =>
        {
            var topic = await c.Topic(o => o.Status = EntityStatus.SendDisabled);
            Expect.Equal(EntityStatus.SendDisabled, (await c.Admin.GetTopicAsync(topic)).Value.Status, "Status");
        });

        suite.Add("admin/subscription-receive-disabled-reads-back", async c =>
        {
            var topic = await c.Topic();
            await c.Subscription(topic, configure: o => o.Status = EntityStatus.ReceiveDisabled);
            Expect.Equal(EntityStatus.ReceiveDisabled, (await c.Admin.GetSubscriptionAsync(topic, "s")).Value.Status, "Status");
        });

        suite.Add("admin/subscription-defaults-and-every-option", async c =>
        {
            var (topic, to, dead) = (await c.Topic(), await c.Queue(), await c.Queue());
            await c.Subscription(topic, "plain");
            var plain = (await c.Admin.GetSubscriptionAsync(topic, "plain")).Value;
            Expect.Equal((topic, "plain", TimeSpan.FromMinutes(1), false, 10), (plain.TopicName, plain.SubscriptionName, plain.LockDuration, plain.RequiresSession, plain.MaxDeliveryCount), "defaults");
            Expect.Equal((TimeSpan.MaxValue, TimeSpan.MaxValue, false, true), (plain.DefaultMessageTimeToLive, plain.AutoDeleteOnIdle, plain.DeadLetteringOnMessageExpiration, plain.EnableDeadLetteringOnFilterEvaluationExceptions), "defaults");
            var options = new CreateSubscriptionOptions(topic, "full")
            {
                LockDuration = TimeSpan.FromSeconds(40), DefaultMessageTimeToLive = TimeSpan.FromDays(1), AutoDeleteOnIdle = TimeSpan.FromHours(1), DeadLetteringOnMessageExpiration = true,
                EnableDeadLetteringOnFilterEvaluationExceptions = false, MaxDeliveryCount = 4, ForwardDeadLetteredMessagesTo = dead, EnableBatchedOperations = false, UserMetadata = "mine",
            };
            await c.Admin.CreateSubscriptionAsync(options, new CreateRuleOptions("first", new SqlRuleFilter("a = 1")));
            var s = (await c.Admin.GetSubscriptionAsync(topic, "full")).Value;
            Expect.Equal((options.LockDuration, options.DefaultMessageTimeToLive, true), (s.LockDuration, s.DefaultMessageTimeToLive, s.DeadLetteringOnMessageExpiration), "values");
            Expect.Equal((false, 4, false, "mine"), (s.EnableDeadLetteringOnFilterEvaluationExceptions, s.MaxDeliveryCount, s.EnableBatchedOperations, s.UserMetadata), "values");
            Expect.Sequence(["first"], (await All(c.Admin.GetRulesAsync(topic, "full"))).Select(r => r.Name), "rules");
            (s.MaxDeliveryCount, s.ForwardTo, s.UserMetadata, s.LockDuration) = (9, to, "other", TimeSpan.FromSeconds(10));
            await c.Admin.UpdateSubscriptionAsync(s);
            var back = (await c.Admin.GetSubscriptionAsync(topic, "full")).Value;
            Expect.Equal((9, "other", TimeSpan.FromSeconds(10)), (back.MaxDeliveryCount, back.UserMetadata, back.LockDuration), "updated");
            Expect.True(back.ForwardTo.EndsWith("/" + to), "ForwardTo " + back.ForwardTo);
            var copy = new CreateSubscriptionOptions(back) { SubscriptionName = "copy" };
            Expect.Equal(9, (await c.Admin.CreateSubscriptionAsync(copy)).Value.MaxDeliveryCount, "copied");
        });

        suite.Add("admin/idle-time", async c =>
        {
            var queue = await c.Queue(o => o.AutoDeleteOnIdle = TimeSpan.FromHours(2));
            var q = (await c.Admin.GetQueueAsync(queue)).Value;
            Expect.Equal(TimeSpan.FromHours(2), q.AutoDeleteOnIdle, "of a queue");
            q.AutoDeleteOnIdle = TimeSpan.FromHours(5);
            Expect.Equal(TimeSpan.FromHours(5), (await c.Admin.UpdateQueueAsync(q)).Value.AutoDeleteOnIdle, "updated");
            var topic = await c.Topic();
            await c.Subscription(topic, configure: o => o.AutoDeleteOnIdle = TimeSpan.FromHours(1));
            Expect.Equal(TimeSpan.FromHours(1), (await c.Admin.GetSubscriptionAsync(topic, "s")).Value.AutoDeleteOnIdle, "of a subscription");
        });

        suite.Add("admin/idle-time-stays-with-forwarding", async c =>
        {
            var to = await c.Queue();
            var dead = await c.Queue(o => { o.ForwardDeadLetteredMessagesTo = to; o.AutoDeleteOnIdle = TimeSpan.FromMinutes(20); });
            Expect.Equal(TimeSpan.FromMinutes(20), (await c.Admin.GetQueueAsync(dead)).Value.AutoDeleteOnIdle, "AutoDeleteOnIdle with ForwardDeadLetteredMessagesTo");
            var queue = await c.Queue(o => { o.ForwardTo = to; o.AutoDeleteOnIdle = TimeSpan.FromMinutes(10); });
            Expect.Equal(TimeSpan.FromMinutes(10), (await c.Admin.GetQueueAsync(queue)).Value.AutoDeleteOnIdle, "AutoDeleteOnIdle");
        });

        suite.Add("admin/session-queue-that-forwards", async c =>
        {
            var to = await c.Queue(o => o.RequiresSession = true);
            await c.Queue(o => { o.RequiresSession = true; o.ForwardTo = to; });
        });

        suite.Add("admin/topic-and-subscription-runtime-properties", async c =>
        {
            var topic = await c.Topic();
            await c.Subscription(topic);
            await c.Subscription(topic, "sql", rule: new CreateRuleOptions("r", new SqlRuleFilter("x = 1")));
            await c.Subscription(topic, "correlation", rule: new CreateRuleOptions("r", new CorrelationRuleFilter("x")));
            await c.Send(topic, "a", "b");
            await c.Sender(topic).ScheduleMessageAsync(new ServiceBusMessage("later"), DateTimeOffset.UtcNow.AddHours(1));
            var receiver = c.Client.CreateReceiver(topic, "s");
            await receiver.DeadLetterMessageAsync(await Check.One(receiver));
            var t = (await c.Admin.GetTopicRuntimePropertiesAsync(topic)).Value;
            Expect.Equal((topic, 3, 1L, 1), (t.Name, t.SubscriptionCount, t.ScheduledMessageCount, t.CorrelationFilterCount), "topic");
            Expect.True(t.SizeInBytes > 0, "SizeInBytes");
            Expect.Near(DateTimeOffset.UtcNow, t.CreatedAt, 60, "CreatedAt");
            _ = (t.UpdatedAt, t.AccessedAt);
            var s = (await c.Admin.GetSubscriptionRuntimePropertiesAsync(topic, "s")).Value;
            Expect.Equal((topic, "s", 2L, 1L, 1L), (s.TopicName, s.SubscriptionName, s.TotalMessageCount, s.ActiveMessageCount, s.DeadLetterMessageCount), "subscription");
            Expect.Equal((0L, 0L), (s.TransferMessageCount, s.TransferDeadLetterMessageCount), "transfer counters");
            Expect.Near(DateTimeOffset.UtcNow, s.CreatedAt, 60, "CreatedAt");
            _ = (s.UpdatedAt, s.AccessedAt);
        });

        suite.Add("admin/sql-filter-count-counts-true-filters", async c =>
        {
            var topic = await c.Topic();
            await c.Subscription(topic);
            await c.Subscription(topic, "sql", rule: new CreateRuleOptions("r", new SqlRuleFilter("x = 1")));
            Expect.Equal(2, (await c.Admin.GetTopicRuntimePropertiesAsync(topic)).Value.SqlFilterCount, "SqlFilterCount");
        });

        suite.Add("admin/raw-response", async c =>
        {
            var queue = await c.Queue();
            var response = await c.Admin.GetQueueAsync(queue);
            Expect.Equal(200, response.GetRawResponse().Status, "status");
            Expect.Equal(201, (await c.Admin.CreateTopicAsync(queue + "-t")).GetRawResponse().Status, "status of a creation");
            Expect.Equal(200, (await c.Admin.DeleteTopicAsync(queue + "-t")).Status, "status of a deletion");
        });

        suite.Add("admin/older-service-versions", async c =>
        {
            foreach (var version in Enum.GetValues<ServiceBusAdministrationClientOptions.ServiceVersion>())
            {
                var options = new ServiceBusAdministrationClientOptions(version);
                Expect.Equal(version, options.Version, "Version");
                var admin = new ServiceBusAdministrationClient(c.Target.AdminConnection, options);
                var name = c.NewName();
                await admin.CreateQueueAsync(name);
                Expect.Equal(name, (await admin.GetQueueAsync(name)).Value.Name, "Name");
                await admin.DeleteQueueAsync(name);
            }
        });

        suite.Add("admin/cancelled", async c =>
        {
            using var cancelled = new CancellationTokenSource();
            cancelled.Cancel();
            await Expect.Throws<OperationCanceledException>(() => c.Admin.GetQueueAsync("x", cancelled.Token));
        });

        suite.Add("admin/concurrent-creations-of-one-name", async c =>
        {
            var name = c.NewName();
            var outcomes = await Task.WhenAll(Enumerable.Range(0, 8).Select(async _ =>
            {
                try { await c.Admin.CreateQueueAsync(name); return "created"; }
                catch (ServiceBusException e) { return e.Reason.ToString(); }
            }));
            Expect.Equal((1, 7), (outcomes.Count(o => o == "created"), outcomes.Count(o => o == "MessagingEntityAlreadyExists")), "created, refused: " + string.Join(",", outcomes));
            await c.Admin.DeleteQueueAsync(name);
        });
    }

    /// <summary>A key of the size that the client asks for.</summary>
    public static string Key(byte fill) => Convert.ToBase64String(Enumerable.Repeat(fill, 32).ToArray());

    /// <summary>Refused as a bad request, in whichever way the client says that.</summary>
    public static async Task Refused(Func<Task> action, string what)
    {
        try { await action(); }
        catch (ArgumentException) { return; }
        catch (InvalidOperationException) { return; }
        catch (RequestFailedException e) when (e.Status is 400 or 403 or 409) { return; }
        catch (ServiceBusException e) when (e.Reason is ServiceBusFailureReason.MessagingEntityNotFound or ServiceBusFailureReason.GeneralError) { return; }
        throw new Exception(what + " was accepted");
    }
}
