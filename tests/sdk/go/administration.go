// Queues, topics and subscriptions as the administration client makes, reads and changes them.

package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// has says that the properties are those expected among others: fields left nil are not looked at.
func has[T any](properties, expected T) {
	seen, wanted := reflect.ValueOf(properties), reflect.ValueOf(expected)
	for n := range wanted.NumField() {
		if field := wanted.Field(n); !field.IsNil() {
			equal(seen.Field(n).Interface(), field.Interface(), wanted.Type().Field(n).Name)
		}
	}
}

func isRecent(instants ...time.Time) {
	for _, instant := range instants {
		holds(time.Since(instant).Abs() < 5*time.Minute, "%v", instant)
	}
}

// itemsOf are those of all pages.
func itemsOf[Page, Item any](s *Space, pager *runtime.Pager[Page], items func(Page) []Item) []Item {
	var all []Item
	for pager.More() {
		all = append(all, items(got(pager.NextPage(s.ctx)))...)
	}
	return all
}

// lists says that exactly these names of the check are listed. Pages are counted off, so what other
// checks create between two of them shifts the second: then the list is asked for again.
func lists[Page, Item any](
	s *Space, names []string, open func() *runtime.Pager[Page], items func(Page) []Item, name func(Item) string,
) {
	var seen []string
	for range 60 {
		seen = nil
		for _, item := range itemsOf(s, open(), items) {
			if strings.HasPrefix(name(item), s.name) {
				seen = append(seen, name(item))
			}
		}
		if reflect.DeepEqual(seen, names) {
			return
		}
		s.sleep(time.Second)
	}
	equal(seen, names)
}

func subscriptionsOf(s *Space, topic string, pageSize int32) (names []string) {
	options := admin.ListSubscriptionsOptions{MaxPageSize: pageSize}
	pager := noted(s, s.admin().NewListSubscriptionsPager)(topic, &options)
	for pager.More() {
		for _, item := range got(pager.NextPage(s.ctx)).Subscriptions {
			names = append(names, item.SubscriptionName)
		}
	}
	return names
}

var active = to.Ptr(admin.EntityStatusActive)

var fullQueue = admin.QueueProperties{
	AutoDeleteOnIdle:                    to.Ptr("PT2H"),
	DeadLetteringOnMessageExpiration:    to.Ptr(true),
	DefaultMessageTimeToLive:            to.Ptr("P3D"),
	DuplicateDetectionHistoryTimeWindow: to.Ptr("PT7M"),
	EnableBatchedOperations:             to.Ptr(false),
	LockDuration:                        to.Ptr("PT45S"),
	MaxDeliveryCount:                    to.Ptr(int32(3)),
	MaxMessageSizeInKilobytes:           to.Ptr(int64(512)),
	MaxSizeInMegabytes:                  to.Ptr(int32(2048)),
	RequiresDuplicateDetection:          to.Ptr(true),
	RequiresSession:                     to.Ptr(true),
	Status:                              active,
	UserMetadata:                        to.Ptr("a <b> & 'c' ü"),
}

var fullTopic = admin.TopicProperties{
	AutoDeleteOnIdle:                    to.Ptr("PT2H"),
	DefaultMessageTimeToLive:            to.Ptr("P3D"),
	DuplicateDetectionHistoryTimeWindow: to.Ptr("PT7M"),
	EnableBatchedOperations:             to.Ptr(false),
	MaxMessageSizeInKilobytes:           to.Ptr(int64(512)),
	MaxSizeInMegabytes:                  to.Ptr(int32(2048)),
	RequiresDuplicateDetection:          to.Ptr(true),
	Status:                              active,
	SupportOrdering:                     to.Ptr(true),
	UserMetadata:                        to.Ptr("metadata"),
}

var fullSubscription = admin.SubscriptionProperties{
	AutoDeleteOnIdle:                                to.Ptr("PT2H"),
	DeadLetteringOnMessageExpiration:                to.Ptr(true),
	DefaultMessageTimeToLive:                        to.Ptr("P3D"),
	EnableBatchedOperations:                         to.Ptr(false),
	EnableDeadLetteringOnFilterEvaluationExceptions: to.Ptr(false),
	LockDuration:                                    to.Ptr("PT45S"),
	MaxDeliveryCount:                                to.Ptr(int32(3)),
	RequiresSession:                                 to.Ptr(true),
	Status:                                          active,
	UserMetadata:                                    to.Ptr("metadata"),
}

func init() {
	check("administration.namespace", "The namespace has a name, a kind and an age.",
		proves(admin.NewClientFromConnectionString, (*admin.Client).GetNamespaceProperties),
		func(s *Space) {
			properties := got(noted(s, s.admin().GetNamespaceProperties)(s.ctx, nil))
			holds(properties.Name != "", "no name")
			holds(!properties.CreatedTime.IsZero() && !properties.ModifiedTime.IsZero(), "%v", properties)
			kinds := map[string]bool{"Basic": true, "Standard": true, "Premium": true}
			holds(kinds[properties.SKU], "%s", properties.SKU)
		})

	check("administration.queue_properties", "A queue is read as it was made.",
		proves((*admin.Client).CreateQueue, (*admin.Client).GetQueue),
		func(s *Space) {
			options := admin.CreateQueueOptions{Properties: &fullQueue}
			made := got(noted(s, s.admin().CreateQueue)(s.ctx, s.name, &options))
			read := got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil))
			equal([]string{made.QueueName, read.QueueName}, []string{s.name, s.name})
			has(made.QueueProperties, fullQueue)
			has(read.QueueProperties, fullQueue)
		})

	check("administration.queue_defaults", "What is left unsaid has the defaults of Service Bus.",
		proves((*admin.Client).CreateQueue),
		func(s *Space) {
			made := got(noted(s, s.admin().CreateQueue)(s.ctx, s.name, nil))
			has(made.QueueProperties, admin.QueueProperties{
				DeadLetteringOnMessageExpiration:    to.Ptr(false),
				DuplicateDetectionHistoryTimeWindow: to.Ptr("PT10M"),
				EnableBatchedOperations:             to.Ptr(true),
				EnablePartitioning:                  to.Ptr(false),
				LockDuration:                        to.Ptr("PT1M"),
				MaxDeliveryCount:                    to.Ptr(int32(10)),
				MaxSizeInMegabytes:                  to.Ptr(int32(1024)),
				RequiresDuplicateDetection:          to.Ptr(false),
				RequiresSession:                     to.Ptr(false),
				Status:                              active,
			})
			holds(made.ForwardTo == nil, "it forwards")
			for _, span := range []*string{made.DefaultMessageTimeToLive, made.AutoDeleteOnIdle} {
				holds(strings.HasPrefix(*span, "P10675199D"), "%s", *span)
			}
		})

	check("administration.update_queue",
		"A queue's properties are changed; fixed ones and missing queues are not.",
		proves((*admin.Client).UpdateQueue),
		func(s *Space) {
			s.queue()
			update := noted(s, s.admin().UpdateQueue)
			properties := got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil)).QueueProperties
			properties.MaxDeliveryCount, properties.LockDuration = to.Ptr(int32(7)), to.Ptr("PT20S")
			properties.Status = to.Ptr(admin.EntityStatusReceiveDisabled)
			properties.UserMetadata = to.Ptr("new")
			updated := got(update(s.ctx, s.name, properties, nil))
			read := got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil))
			has(updated.QueueProperties, properties)
			has(read.QueueProperties, properties)
			properties.RequiresSession = to.Ptr(true)
			status(400, errorOf(update(s.ctx, s.name, properties, nil)))
			status(404, errorOf(update(s.ctx, s.name+"-missing", properties, nil)))
		})

	check("administration.queue_authorization",
		"A queue's authorization rules are made, drawn keys are told, and changes last.",
		proves((*admin.Client).CreateQueue, (*admin.Client).UpdateQueue, sb.NewClientFromConnectionString),
		func(s *Space) {
			properties := admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{
				{
					KeyName: to.Ptr("shop"), AccessRights: []admin.AccessRight{admin.AccessRightSend},
					PrimaryKey: to.Ptr("first"), SecondaryKey: to.Ptr("second"),
				},
				{KeyName: to.Ptr("boss"), AccessRights: []admin.AccessRight{
					admin.AccessRightManage, admin.AccessRightSend, admin.AccessRightListen,
				}},
			}}
			s.queue(properties)
			rules := got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil)).AuthorizationRules
			equal(len(rules), 2)
			shop, boss := rules[0], rules[1]
			equal([]string{*shop.KeyName, *shop.PrimaryKey, *shop.SecondaryKey}, []string{"shop", "first", "second"})
			equal(shop.AccessRights, []admin.AccessRight{admin.AccessRightSend})
			isRecent(*shop.CreatedTime, *shop.ModifiedTime)
			equal(len(boss.AccessRights), 3)
			equal([]int{len(*boss.PrimaryKey), len(*boss.SecondaryKey)}, []int{44, 44})
			text := fmt.Sprintf("Endpoint=sb://%s;UseDevelopmentEmulator=true;EntityPath=%s;"+
				"SharedAccessKeyName=boss;SharedAccessKey=%s", s.cluster.amqp, s.name, *boss.PrimaryKey)
			client := s.closing(got(noted(s, sb.NewClientFromConnectionString)(text, nil)))
			sendOne(s, got(noted(s, client.NewSender)(s.name, nil)), &sb.Message{Body: []byte("signed")})
			receiver := got(noted(s, client.NewReceiverForQueue)(s.name, nil))
			equal(take(s, receiver, 1), []string{"signed"})
			shop.AccessRights, shop.PrimaryKey = []admin.AccessRight{admin.AccessRightListen}, to.Ptr("third")
			properties.AuthorizationRules = []admin.AuthorizationRule{shop}
			got(noted(s, s.admin().UpdateQueue)(s.ctx, s.name, properties, nil))
			rules = got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil)).AuthorizationRules
			equal(len(rules), 1)
			equal([]string{*rules[0].PrimaryKey, *rules[0].SecondaryKey}, []string{"third", "second"})
		})

	check("administration.queue_runtime", "Counts of a queue add up.",
		proves((*admin.Client).GetQueueRuntimeProperties),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a", "b", "c")
			later := []*sb.Message{text("d"), text("e")}
			schedule := noted(s, s.sender(queue).ScheduleMessages)
			got(schedule(s.ctx, later, time.Now().Add(time.Hour), nil))
			receiver := s.receiver(queue)
			ok(noted(s, receiver.DeadLetterMessage)(s.ctx, receiveOne(s, receiver), nil))
			counts := got(noted(s, s.admin().GetQueueRuntimeProperties)(s.ctx, queue, nil))
			isRecent(counts.CreatedAt, counts.UpdatedAt, counts.AccessedAt)
			holds(counts.SizeInBytes > 0, "no bytes")
			equal(counts.QueueName, queue)
			equal([]int64{
				counts.TotalMessageCount, int64(counts.ActiveMessageCount),
				int64(counts.ScheduledMessageCount), int64(counts.DeadLetterMessageCount),
				int64(counts.TransferMessageCount), int64(counts.TransferDeadLetterMessageCount),
			}, []int64{5, 2, 2, 1, 0, 0})
		})

	check("administration.list_queues", "Every queue is listed, over several pages.",
		proves((*admin.Client).NewListQueuesPager, (*admin.Client).NewListQueuesRuntimePropertiesPager),
		func(s *Space) {
			names := make([]string, 30)
			for n := range names {
				names[n] = fmt.Sprintf("%s-%03d", s.name, n)
				got(noted(s, s.admin().CreateQueue)(s.ctx, names[n], nil))
			}
			for _, size := range []int32{0, 20} {
				open := func() *runtime.Pager[admin.ListQueuesResponse] {
					options := admin.ListQueuesOptions{MaxPageSize: size}
					return noted(s, s.admin().NewListQueuesPager)(&options)
				}
				lists(s, names, open,
					func(page admin.ListQueuesResponse) []admin.QueueItem { return page.Queues },
					func(item admin.QueueItem) string { return item.QueueName })
			}
			open := func() *runtime.Pager[admin.ListQueuesRuntimePropertiesResponse] {
				options := admin.ListQueuesRuntimePropertiesOptions{MaxPageSize: 20}
				return noted(s, s.admin().NewListQueuesRuntimePropertiesPager)(&options)
			}
			lists(s, names, open,
				func(page admin.ListQueuesRuntimePropertiesResponse) []admin.QueueRuntimePropertiesItem {
					holds(len(page.QueueRuntimeProperties) <= 20, "a page of %d", len(page.QueueRuntimeProperties))
					return page.QueueRuntimeProperties
				},
				func(item admin.QueueRuntimePropertiesItem) string { return item.QueueName })
		})

	check("administration.delete_queue", "A deleted queue is not there, and another of its name is new.",
		proves((*admin.Client).DeleteQueue),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			remove := noted(s, s.admin().DeleteQueue)
			got(remove(s.ctx, queue, nil))
			holds(got(noted(s, s.admin().GetQueue)(s.ctx, queue, nil)) == nil, "it is there")
			status(404, errorOf(remove(s.ctx, queue, nil)))
			s.queue()
			counts := got(noted(s, s.admin().GetQueueRuntimeProperties)(s.ctx, queue, nil))
			equal(counts.TotalMessageCount, 0)
		})

	check("administration.topic_properties", "A topic is read as it was made.",
		proves((*admin.Client).CreateTopic, (*admin.Client).GetTopic),
		func(s *Space) {
			options := admin.CreateTopicOptions{Properties: &fullTopic}
			made := got(noted(s, s.admin().CreateTopic)(s.ctx, s.name, &options))
			read := got(noted(s, s.admin().GetTopic)(s.ctx, s.name, nil))
			equal([]string{made.TopicName, read.TopicName}, []string{s.name, s.name})
			has(made.TopicProperties, fullTopic)
			has(read.TopicProperties, fullTopic)
		})

	check("administration.update_topic", "A topic's properties are changed; a missing topic's are not.",
		proves((*admin.Client).UpdateTopic),
		func(s *Space) {
			s.topic()
			update := noted(s, s.admin().UpdateTopic)
			properties := got(noted(s, s.admin().GetTopic)(s.ctx, s.name, nil)).TopicProperties
			properties.DefaultMessageTimeToLive = to.Ptr("PT9M")
			properties.Status = to.Ptr(admin.EntityStatusDisabled)
			updated := got(update(s.ctx, s.name, properties, nil))
			read := got(noted(s, s.admin().GetTopic)(s.ctx, s.name, nil))
			has(updated.TopicProperties, properties)
			has(read.TopicProperties, properties)
			status(404, errorOf(update(s.ctx, s.name+"-missing", properties, nil)))
		})

	check("administration.topic_runtime",
		"A topic counts its subscriptions and what is scheduled on it.",
		proves((*admin.Client).GetTopicRuntimeProperties),
		func(s *Space) {
			topic := s.topic("one", "two")
			later := []*sb.Message{text("x")}
			got(noted(s, s.sender(topic).ScheduleMessages)(s.ctx, later, time.Now().Add(time.Hour), nil))
			counts := got(noted(s, s.admin().GetTopicRuntimeProperties)(s.ctx, topic, nil))
			isRecent(counts.CreatedAt, counts.UpdatedAt, counts.AccessedAt)
			holds(counts.SizeInBytes > 0, "no bytes")
			equal(counts.TopicName, topic)
			equal([]int32{counts.SubscriptionCount, counts.ScheduledMessageCount}, []int32{2, 1})
		})

	check("administration.filter_counts",
		"A topic counts the SQL and correlation filters of its subscriptions, first rules included.",
		proves((*admin.Client).GetTopicRuntimeProperties),
		func(s *Space) {
			topic := s.topic("one", "two")
			counts := func() []int32 {
				counts := got(noted(s, s.admin().GetTopicRuntimeProperties)(s.ctx, topic, nil))
				return []int32{counts.SQLFilterCount, counts.CorrelationFilterCount}
			}
			equal(counts(), []int32{2, 0})
			createRule(s, topic, "one", "c", &admin.CorrelationFilter{Subject: to.Ptr("l")}, nil)
			createRule(s, topic, "one", "s", &admin.SQLFilter{Expression: "a = 1"}, nil)
			equal(counts(), []int32{3, 1})
		})

	check("administration.list_topics", "Every topic is listed until it is deleted.",
		proves((*admin.Client).NewListTopicsPager, (*admin.Client).NewListTopicsRuntimePropertiesPager,
			(*admin.Client).DeleteTopic),
		func(s *Space) {
			names := []string{s.name + "-0", s.name + "-1", s.name + "-2"}
			for _, name := range names {
				got(noted(s, s.admin().CreateTopic)(s.ctx, name, nil))
			}
			lists(s, names,
				func() *runtime.Pager[admin.ListTopicsResponse] {
					return noted(s, s.admin().NewListTopicsPager)(nil)
				},
				func(page admin.ListTopicsResponse) []admin.TopicItem { return page.Topics },
				func(item admin.TopicItem) string { return item.TopicName })
			got(noted(s, s.admin().DeleteTopic)(s.ctx, names[1], nil))
			lists(s, []string{names[0], names[2]},
				func() *runtime.Pager[admin.ListTopicsRuntimePropertiesResponse] {
					return noted(s, s.admin().NewListTopicsRuntimePropertiesPager)(nil)
				},
				func(page admin.ListTopicsRuntimePropertiesResponse) []admin.TopicRuntimePropertiesItem {
					return page.TopicRuntimeProperties
				},
				func(item admin.TopicRuntimePropertiesItem) string { return item.TopicName })
			holds(got(noted(s, s.admin().GetTopic)(s.ctx, names[1], nil)) == nil, "it is there")
		})

	check("administration.subscription_properties", "A subscription is read as it was made.",
		proves((*admin.Client).CreateSubscription, (*admin.Client).GetSubscription),
		func(s *Space) {
			topic := s.topic()
			options := admin.CreateSubscriptionOptions{Properties: &fullSubscription}
			made := got(noted(s, s.admin().CreateSubscription)(s.ctx, topic, "s", &options))
			read := got(noted(s, s.admin().GetSubscription)(s.ctx, topic, "s", nil))
			equal([]string{read.TopicName, read.SubscriptionName}, []string{topic, "s"})
			has(made.SubscriptionProperties, fullSubscription)
			has(read.SubscriptionProperties, fullSubscription)
		})

	check("administration.update_subscription",
		"A subscription's properties are changed; a missing one's are not.",
		proves((*admin.Client).UpdateSubscription),
		func(s *Space) {
			topic := s.topic("s")
			update := noted(s, s.admin().UpdateSubscription)
			read := got(noted(s, s.admin().GetSubscription)(s.ctx, topic, "s", nil))
			properties := read.SubscriptionProperties
			// Not its status: the SDK leaves that of a subscription out of what it sends.
			properties.MaxDeliveryCount = to.Ptr(int32(7))
			properties.UserMetadata = to.Ptr("new")
			updated := got(update(s.ctx, topic, "s", properties, nil))
			read = got(noted(s, s.admin().GetSubscription)(s.ctx, topic, "s", nil))
			has(updated.SubscriptionProperties, properties)
			has(read.SubscriptionProperties, properties)
			status(404, errorOf(update(s.ctx, topic, "missing", properties, nil)))
		})

	check("administration.subscription_runtime", "Counts of a subscription are its own.",
		proves((*admin.Client).GetSubscriptionRuntimeProperties),
		func(s *Space) {
			topic := s.topic("one", "two")
			s.send(topic, "a", "b", "c")
			receiver := s.subscriber(topic, "one")
			ok(noted(s, receiver.DeadLetterMessage)(s.ctx, receiveOne(s, receiver), nil))
			read := noted(s, s.admin().GetSubscriptionRuntimeProperties)
			one, two := got(read(s.ctx, topic, "one", nil)), got(read(s.ctx, topic, "two", nil))
			isRecent(one.CreatedAt, one.UpdatedAt, one.AccessedAt)
			equal([]int64{one.TotalMessageCount, int64(one.ActiveMessageCount), int64(one.DeadLetterMessageCount)},
				[]int64{3, 2, 1})
			equal([]int32{two.ActiveMessageCount, two.DeadLetterMessageCount}, []int32{3, 0})
		})

	check("administration.list_subscriptions",
		"Every subscription of a topic is listed until it is deleted.",
		proves((*admin.Client).NewListSubscriptionsPager,
			(*admin.Client).NewListSubscriptionsRuntimePropertiesPager, (*admin.Client).DeleteSubscription),
		func(s *Space) {
			topic := s.topic("a", "b", "c")
			equal(subscriptionsOf(s, topic, 0), []string{"a", "b", "c"})
			got(noted(s, s.admin().DeleteSubscription)(s.ctx, topic, "b", nil))
			equal(subscriptionsOf(s, topic, 0), []string{"a", "c"})
			pager := noted(s, s.admin().NewListSubscriptionsRuntimePropertiesPager)(topic, nil)
			page := got(pager.NextPage(s.ctx)).SubscriptionRuntimeProperties
			equal([]string{page[0].SubscriptionName, page[1].SubscriptionName}, []string{"a", "c"})
			holds(got(noted(s, s.admin().GetSubscription)(s.ctx, topic, "b", nil)) == nil, "it is there")
		})

	check("administration.pages_after_delete", "Pages that were listed before a deletion tell nothing twice after it.",
		proves((*admin.Client).NewListSubscriptionsPager),
		func(s *Space) {
			topic := s.topic("a", "b", "c")
			equal(subscriptionsOf(s, topic, 2), []string{"a", "b", "c"})
			got(noted(s, s.admin().DeleteSubscription)(s.ctx, topic, "b", nil))
			equal(subscriptionsOf(s, topic, 2), []string{"a", "c"})
		})

	check("administration.taken", "409 for names that are taken, of queues and topics alike.",
		proves((*admin.Client).CreateQueue, (*admin.Client).CreateTopic, (*admin.Client).CreateSubscription),
		func(s *Space) {
			topic, queue := s.topic("s"), s.name+"-queue"
			createQueue := noted(s, s.admin().CreateQueue)
			got(createQueue(s.ctx, queue, nil))
			status(409, errorOf(createQueue(s.ctx, queue, nil)))
			status(409, errorOf(createQueue(s.ctx, topic, nil)))
			status(409, errorOf(noted(s, s.admin().CreateTopic)(s.ctx, queue, nil)))
			status(409, errorOf(noted(s, s.admin().CreateSubscription)(s.ctx, topic, "s", nil)))
		})

	check("administration.missing", "What does not exist is nothing to read, and 404 to change.",
		proves((*admin.Client).GetQueue, (*admin.Client).GetTopic, (*admin.Client).GetSubscription,
			(*admin.Client).NewListSubscriptionsPager),
		func(s *Space) {
			topic := s.topic()
			client := s.admin()
			holds(got(noted(s, client.GetQueue)(s.ctx, "missing", nil)) == nil, "a queue")
			holds(got(noted(s, client.GetQueueRuntimeProperties)(s.ctx, "missing", nil)) == nil, "its counts")
			holds(got(noted(s, client.GetTopic)(s.ctx, "missing", nil)) == nil, "a topic")
			holds(got(noted(s, client.GetTopicRuntimeProperties)(s.ctx, "missing", nil)) == nil, "its counts")
			holds(got(noted(s, client.GetSubscription)(s.ctx, topic, "missing", nil)) == nil, "a subscription")
			runtimeOf := noted(s, client.GetSubscriptionRuntimeProperties)
			holds(got(runtimeOf(s.ctx, topic, "missing", nil)) == nil, "its counts")
			status(404, errorOf(noted(s, client.CreateSubscription)(s.ctx, "missing", "s", nil)))
			status(404, errorOf(noted(s, client.DeleteTopic)(s.ctx, "missing", nil)))
			status(404, errorOf(noted(s, client.DeleteSubscription)(s.ctx, topic, "missing", nil)))
			status(404, errorOf(noted(s, client.NewListSubscriptionsPager)("missing", nil).NextPage(s.ctx)))
		})

	check("administration.bad_values", "Values out of their bounds are refused, and say which.",
		proves((*admin.Client).CreateQueue),
		func(s *Space) {
			create := noted(s, s.admin().CreateQueue)
			for name, properties := range map[string]admin.QueueProperties{
				"LockDuration":     {LockDuration: to.Ptr("PT1H")},
				"MaxDeliveryCount": {MaxDeliveryCount: to.Ptr(int32(0))},
				"AutoDeleteOnIdle": {AutoDeleteOnIdle: to.Ptr("PT1S")},
			} {
				err := errorOf(create(s.ctx, s.name, &admin.CreateQueueOptions{Properties: &properties}))
				status(400, err)
				refusedSaying(name, err)
			}
			status(400, errorOf(create(s.ctx, s.name+"@", nil)))
			holds(got(noted(s, s.admin().GetQueue)(s.ctx, s.name, nil)) == nil, "it is there")
		})

	check("administration.forwarding", "A queue says where it forwards to, and stops when it is told to.",
		proves((*admin.Client).CreateQueue, (*admin.Client).UpdateQueue),
		func(s *Space) {
			target, source := s.name+"-target", s.name+"-source"
			create := noted(s, s.admin().CreateQueue)
			got(create(s.ctx, target, nil))
			properties := admin.QueueProperties{ForwardTo: &target, ForwardDeadLetteredMessagesTo: &target}
			made := got(create(s.ctx, source, &admin.CreateQueueOptions{Properties: &properties}))
			for _, name := range []*string{made.ForwardTo, made.ForwardDeadLetteredMessagesTo} {
				holds(strings.HasSuffix(*name, "/"+target), "%s", *name)
			}
			s.send(source, "x")
			equal(take(s, s.receiver(target), 1), []string{"x"})
			properties = made.QueueProperties
			properties.ForwardTo, properties.ForwardDeadLetteredMessagesTo = nil, nil
			got(noted(s, s.admin().UpdateQueue)(s.ctx, source, properties, nil))
			holds(got(noted(s, s.admin().GetQueue)(s.ctx, source, nil)).ForwardTo == nil, "it forwards")
		})
}
