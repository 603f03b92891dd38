// Topics: each subscription gets its copies, filtered, and settles them for itself; their rules.

package main

import (
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func createRule(s *Space, topic, subscription, name string, filter admin.RuleFilter, action admin.RuleAction) admin.RuleProperties {
	options := admin.CreateRuleOptions{Name: &name, Filter: filter, Action: action}
	return got(noted(s, s.admin().CreateRule)(s.ctx, topic, subscription, &options)).RuleProperties
}

func getRule(s *Space, topic, subscription, name string) admin.RuleProperties {
	response := got(noted(s, s.admin().GetRule)(s.ctx, topic, subscription, name, nil))
	holds(response != nil, "no rule %s", name)
	return response.RuleProperties
}

func deleteRule(s *Space, topic, subscription, name string) {
	got(noted(s, s.admin().DeleteRule)(s.ctx, topic, subscription, name, nil))
}

func listRules(s *Space, topic, subscription string, options *admin.ListRulesOptions) []admin.RuleProperties {
	var rules []admin.RuleProperties
	pager := noted(s, s.admin().NewListRulesPager)(topic, subscription, options)
	for pager.More() {
		rules = append(rules, got(pager.NextPage(s.ctx)).Rules...)
	}
	return rules
}

func init() {
	check("topics.fan_out", "Every subscription gets every message, in order; each settles its own copy.",
		proves((*sb.Client).NewSender, (*sb.Client).NewReceiverForSubscription),
		func(s *Space) {
			topic := s.topic("one", "two")
			s.send(topic, "a", "b", "c")
			one := s.subscriber(topic, "one")
			equal(take(s, one, 3), []string{"a", "b", "c"})
			holds(empty(s, one), "more come")
			equal(take(s, s.subscriber(topic, "two"), 3), []string{"a", "b", "c"})
		})

	check("topics.dead_letter", "A subscription has a dead-letter queue of its own.",
		proves((*sb.Client).NewReceiverForSubscription, (*sb.Receiver).DeadLetterMessage),
		func(s *Space) {
			topic := s.topic("one", "two")
			s.send(topic, "x")
			one := s.subscriber(topic, "one")
			options := sb.DeadLetterOptions{Reason: to.Ptr("why"), ErrorDescription: to.Ptr("because")}
			ok(noted(s, one.DeadLetterMessage)(s.ctx, receiveOne(s, one), &options))
			subqueue := sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}
			open := noted(s, s.client().NewReceiverForSubscription)
			dead := got(open(topic, "one", &subqueue))
			message := receiveOne(s, dead)
			equal(*message.DeadLetterReason, "why")
			equal(*message.DeadLetterErrorDescription, "because")
			complete(s, dead, message)
			equal(take(s, s.subscriber(topic, "two"), 1), []string{"x"})
		})

	check("topics.settle",
		"A subscription's messages are peeked, renewed, abandoned and completed like a queue's.",
		proves((*sb.Receiver).AbandonMessage, (*sb.Receiver).RenewMessageLock),
		func(s *Space) {
			topic := s.topic("s")
			s.send(topic, "x")
			receiver := s.subscriber(topic, "s")
			peeked := peek(s, receiver, 1)
			message := receiveOne(s, receiver)
			equal(*message.SequenceNumber, *peeked[0].SequenceNumber)
			ok(noted(s, receiver.RenewMessageLock)(s.ctx, message, nil))
			ok(noted(s, receiver.AbandonMessage)(s.ctx, message, nil))
			message = receiveOne(s, receiver)
			equal(message.DeliveryCount, 2)
			complete(s, receiver, message)
			holds(empty(s, receiver), "more come")
		})

	check("topics.defer", "A subscription defers for itself.",
		proves((*sb.Receiver).DeferMessage, (*sb.Receiver).ReceiveDeferredMessages),
		func(s *Space) {
			topic := s.topic("one", "other")
			s.send(topic, "x")
			receiver := s.subscriber(topic, "one")
			message := receiveOne(s, receiver)
			ok(noted(s, receiver.DeferMessage)(s.ctx, message, nil))
			equal(take(s, s.subscriber(topic, "other"), 1), []string{"x"})
			numbers := []int64{*message.SequenceNumber}
			deferred := got(noted(s, receiver.ReceiveDeferredMessages)(s.ctx, numbers, nil))
			equal(bodies(deferred), []string{"x"})
		})

	check("topics.and_delete", "ReceiveAndDelete from a subscription.",
		proves((*sb.Client).NewReceiverForSubscription),
		func(s *Space) {
			topic := s.topic("s")
			s.send(topic, "x")
			open := noted(s, s.client().NewReceiverForSubscription)
			receive(s, got(open(topic, "s", &deleting)), 1)
			holds(empty(s, s.subscriber(topic, "s")), "it is there")
		})

	check("topics.filters", "SQL and correlation filters choose, over properties of every kind.",
		proves((*admin.Client).CreateRule, (*admin.Client).DeleteRule, (*sb.Sender).SendMessage),
		func(s *Space) {
			topic := s.topic("dear", "news", "none")
			for _, subscription := range []string{"dear", "news", "none"} {
				deleteRule(s, topic, subscription, "$Default")
			}
			createRule(s, topic, "dear", "rule", &admin.SQLFilter{
				Expression: "price > @limit AND sys.Label = 'offer'",
				Parameters: map[string]any{"@limit": 10},
			}, nil)
			createRule(s, topic, "news", "rule", &admin.CorrelationFilter{
				Subject:               to.Ptr("news"),
				ApplicationProperties: map[string]any{"urgent": true, "level": 3},
			}, nil)
			sender := s.sender(topic)
			for _, message := range []sb.Message{
				{Body: []byte("dear"), Subject: to.Ptr("offer"), ApplicationProperties: map[string]any{"price": 10.5}},
				{Body: []byte("cheap"), Subject: to.Ptr("offer"), ApplicationProperties: map[string]any{"price": 3}},
				{Body: []byte("other"), Subject: to.Ptr("demand"), ApplicationProperties: map[string]any{"price": 100}},
				{Body: []byte("urgent news"), Subject: to.Ptr("news"), ApplicationProperties: map[string]any{"urgent": true, "level": int32(3)}},
				{Body: []byte("old news"), Subject: to.Ptr("news"), ApplicationProperties: map[string]any{"urgent": false, "level": int32(3)}},
			} {
				sendOne(s, sender, &message)
			}
			equal(take(s, s.subscriber(topic, "dear"), 1), []string{"dear"})
			equal(take(s, s.subscriber(topic, "news"), 1), []string{"urgent news"})
			for _, subscription := range []string{"dear", "news", "none"} {
				holds(empty(s, s.subscriber(topic, subscription)), "more come to %s", subscription)
			}
		})

	check("topics.actions", "A rule with an action makes a copy of its own, changed, which names the rule.",
		proves((*admin.Client).CreateRule),
		func(s *Space) {
			topic := s.topic("s")
			action := &admin.SQLAction{
				Expression: "SET price = price * @factor; SET sys.Label = 'doubled'; REMOVE secret",
				Parameters: map[string]any{"@factor": 2},
			}
			createRule(s, topic, "s", "double", &admin.SQLFilter{Expression: "1=1"}, action)
			properties := map[string]any{"price": int32(21), "secret": "x"}
			sendOne(s, s.sender(topic), &sb.Message{ApplicationProperties: properties})
			messages := receive(s, s.subscriber(topic, "s"), 2)
			equal(messages[0].ApplicationProperties, properties)
			changed := messages[1].ApplicationProperties
			equal(fmt.Sprintln(changed["price"], changed["RuleName"], changed["secret"]), "42 double <nil>\n")
			equal(*messages[1].Subject, "doubled")
		})

	check("topics.misused", "A topic is not received from, a subscription not sent to.",
		proves((*sb.Receiver).ReceiveMessages, (*sb.Sender).SendMessage),
		func(s *Space) {
			topic := s.topic("s")
			client := s.impatient()
			receiver := got(noted(s, client.NewReceiverForQueue)(topic, nil))
			holds(errorOf(noted(s, receiver.ReceiveMessages)(s.ctx, 1, nil)) != nil, "it is received from")
			sender := got(noted(s, client.NewSender)(topic+"/Subscriptions/s", nil))
			holds(noted(s, sender.SendMessage)(s.ctx, text("x"), nil) != nil, "it is sent to")
		})

	check("topics.forwarded", "A subscription forwards what it gets to a queue.",
		proves((*admin.Client).CreateSubscription),
		func(s *Space) {
			queue, topic := s.queue(), s.name+"-topic"
			got(noted(s, s.admin().CreateTopic)(s.ctx, topic, nil))
			options := admin.CreateSubscriptionOptions{
				Properties: &admin.SubscriptionProperties{ForwardTo: &queue},
			}
			got(noted(s, s.admin().CreateSubscription)(s.ctx, topic, "s", &options))
			s.send(topic, "x")
			equal(take(s, s.receiver(queue), 1), []string{"x"})
		})

	check("rules.default", "A new subscription has one rule, which takes everything and can be deleted.",
		proves((*admin.Client).NewListRulesPager, (*admin.Client).GetRule, (*admin.Client).DeleteRule),
		func(s *Space) {
			topic := s.topic("s")
			all := admin.RuleProperties{Name: "$Default", Filter: &admin.TrueFilter{}}
			equal(listRules(s, topic, "s", nil), []admin.RuleProperties{all})
			equal(getRule(s, topic, "s", "$Default"), all)
			deleteRule(s, topic, "s", "$Default")
			equal(len(listRules(s, topic, "s", nil)), 0)
		})

	check("rules.default_given", "A subscription may be made with another first rule.",
		proves((*admin.Client).CreateSubscription, (*admin.Client).NewListRulesPager),
		func(s *Space) {
			topic := s.topic()
			rule := admin.RuleProperties{
				Name:   "first",
				Filter: &admin.SQLFilter{Expression: "a = 1"},
				Action: &admin.SQLAction{Expression: "SET a = 2"},
			}
			options := admin.CreateSubscriptionOptions{
				Properties: &admin.SubscriptionProperties{DefaultRule: &rule},
			}
			got(noted(s, s.admin().CreateSubscription)(s.ctx, topic, "s", &options))
			equal(listRules(s, topic, "s", nil), []admin.RuleProperties{rule})
		})

	check("rules.sql",
		"A SQL filter with parameters of every type, and an action, are read as they were made.",
		proves((*admin.Client).CreateRule, (*admin.Client).GetRule),
		func(s *Space) {
			topic := s.topic("s")
			// Of the types the SDK knows. It writes every integer as an xsd:int, and reads an int64.
			filter := &admin.SQLFilter{
				Expression: "text = @text AND number > @int",
				Parameters: map[string]any{
					"@text": "a'b<&>", "@int": int64(5), "@half": 0.5, "@on": true,
					"@at": time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
				},
			}
			action := &admin.SQLAction{
				Expression: "SET number = @int", Parameters: map[string]any{"@int": int64(5)},
			}
			rule := admin.RuleProperties{Name: "rule", Filter: filter, Action: action}
			equal(createRule(s, topic, "s", "rule", filter, action), rule)
			equal(getRule(s, topic, "s", "rule"), rule)
		})

	check("rules.precise", "An instant in a rule is read with every digit it was made with.",
		proves((*admin.Client).CreateRule, (*admin.Client).GetRule),
		func(s *Space) {
			topic := s.topic("s")
			at := time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
			filter := &admin.SQLFilter{Expression: "at < @at", Parameters: map[string]any{"@at": at}}
			createRule(s, topic, "s", "rule", filter, nil)
			equal(getRule(s, topic, "s", "rule"), admin.RuleProperties{Name: "rule", Filter: filter})
		})

	check("rules.correlation", "A correlation filter is read as it was made.",
		proves((*admin.Client).CreateRule, (*admin.Client).GetRule),
		func(s *Space) {
			topic := s.topic("s")
			all := &admin.CorrelationFilter{
				CorrelationID: to.Ptr("c"), MessageID: to.Ptr("m"), To: to.Ptr("t"),
				ReplyTo: to.Ptr("r"), Subject: to.Ptr("l"), SessionID: to.Ptr("s"),
				ReplyToSessionID: to.Ptr("rs"), ContentType: to.Ptr("text/plain"),
				ApplicationProperties: map[string]any{"text": "x", "int": int64(5), "on": false, "half": 0.5},
			}
			one := &admin.CorrelationFilter{Subject: to.Ptr("only")}
			createRule(s, topic, "s", "all", all, nil)
			createRule(s, topic, "s", "one", one, nil)
			equal(getRule(s, topic, "s", "all"), admin.RuleProperties{Name: "all", Filter: all})
			equal(getRule(s, topic, "s", "one"), admin.RuleProperties{Name: "one", Filter: one})
		})

	check("rules.constant", "Filters that take everything or nothing keep their kind.",
		proves((*admin.Client).CreateRule, (*admin.Client).NewListRulesPager),
		func(s *Space) {
			topic := s.topic("s")
			createRule(s, topic, "s", "all", &admin.TrueFilter{}, nil)
			createRule(s, topic, "s", "none", &admin.FalseFilter{}, nil)
			createRule(s, topic, "s", "unsaid", nil, nil)
			equal(listRules(s, topic, "s", nil), []admin.RuleProperties{
				{Name: "$Default", Filter: &admin.TrueFilter{}},
				{Name: "all", Filter: &admin.TrueFilter{}},
				{Name: "none", Filter: &admin.FalseFilter{}},
				{Name: "unsaid", Filter: &admin.TrueFilter{}},
			})
		})

	check("rules.update", "A rule's filter and action are changed, a missing rule's are not.",
		proves((*admin.Client).UpdateRule),
		func(s *Space) {
			topic := s.topic("s")
			update := noted(s, s.admin().UpdateRule)
			rule := createRule(s, topic, "s", "rule", &admin.SQLFilter{Expression: "a = 1"}, nil)
			rule.Filter = &admin.CorrelationFilter{Subject: to.Ptr("l")}
			rule.Action = &admin.SQLAction{Expression: "SET a = 2"}
			equal(got(update(s.ctx, topic, "s", rule)).RuleProperties, rule)
			equal(getRule(s, topic, "s", "rule"), rule)
			rule.Filter, rule.Action = &admin.FalseFilter{}, nil
			got(update(s.ctx, topic, "s", rule))
			equal(getRule(s, topic, "s", "rule"), rule)
			rule.Name = "missing"
			status(404, errorOf(update(s.ctx, topic, "s", rule)))
		})

	check("rules.many", "A list of rules longer than a page is whole.",
		proves((*admin.Client).NewListRulesPager),
		func(s *Space) {
			topic := s.topic("s")
			names := []string{"$Default"}
			for n := range 25 {
				name := fmt.Sprintf("r%03d", n)
				createRule(s, topic, "s", name, &admin.SQLFilter{Expression: "a = 1"}, nil)
				names = append(names, name)
			}
			for _, options := range []*admin.ListRulesOptions{nil, {MaxPageSize: 10}} {
				var seen []string
				for _, rule := range listRules(s, topic, "s", options) {
					seen = append(seen, rule.Name)
				}
				equal(seen, names)
			}
		})

	check("rules.refused",
		"A name that is taken or missing, and an expression that is none, are told apart.",
		proves((*admin.Client).CreateRule, (*admin.Client).GetRule, (*admin.Client).DeleteRule),
		func(s *Space) {
			topic := s.topic("s")
			create := func(subscription, name, expression string) error {
				filter := &admin.SQLFilter{Expression: expression}
				options := admin.CreateRuleOptions{Name: &name, Filter: filter}
				return errorOf(noted(s, s.admin().CreateRule)(s.ctx, topic, subscription, &options))
			}
			ok(create("s", "rule", "a = 1"))
			status(409, create("s", "rule", "a = 1"))
			status(404, create("missing", "rule", "a = 1"))
			status(400, create("s", "bad", "this is no expression"))
			// What this SDK gets of what is missing is nothing, and no error.
			missing := got(noted(s, s.admin().GetRule)(s.ctx, topic, "s", "missing", nil))
			holds(missing == nil, "%v", missing)
			status(404, errorOf(noted(s, s.admin().DeleteRule)(s.ctx, topic, "s", "missing", nil)))
		})
}
