// Senders: single messages, batches, messages for later, everything a message can carry.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func text(body string) *sb.Message { return &sb.Message{Body: []byte(body)} }

func sendOne(s *Space, sender *sb.Sender, message *sb.Message) {
	ok(noted(s, sender.SendMessage)(s.ctx, message, nil))
}

// filled adds messages of 10 kB until no other fits, and returns their bodies.
func filled(s *Space, batch *sb.MessageBatch) (texts []string) {
	for {
		next := fmt.Sprintf("%10000d", batch.NumMessages())
		err := noted(s, batch.AddMessage)(text(next), nil)
		if errors.Is(err, sb.ErrMessageTooLarge) {
			return texts
		}
		ok(err)
		texts = append(texts, next)
	}
}

func init() {
	check("sending.one", "A message arrives once.",
		proves((*sb.Client).NewSender, (*sb.Sender).SendMessage, (*sb.Client).NewReceiverForQueue),
		func(s *Space) {
			queue := s.queue()
			sendOne(s, s.sender(queue), text("hello"))
			receiver := s.receiver(queue)
			equal(take(s, receiver, 1), []string{"hello"})
			holds(empty(s, receiver), "it arrives again")
		})

	check("sending.several", "A list of messages arrives in its order.",
		proves((*sb.Sender).SendMessageBatch),
		func(s *Space) {
			queue := s.queue()
			texts := make([]string, 20)
			for n := range texts {
				texts[n] = fmt.Sprint(n)
			}
			s.send(queue, texts...)
			equal(take(s, s.receiver(queue), 20), texts)
		})

	check("sending.batch", "A batch as large as the broker allows arrives whole.",
		proves((*sb.Sender).NewMessageBatch, (*sb.Sender).SendMessageBatch,
			(*sb.MessageBatch).AddMessage, (*sb.MessageBatch).AddAMQPAnnotatedMessage,
			(*sb.MessageBatch).NumBytes, (*sb.MessageBatch).NumMessages),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{MaxMessageSizeInKilobytes: to.Ptr(int64(1024))})
			sender := s.sender(queue)
			batch := got(noted(s, sender.NewMessageBatch)(s.ctx, nil))
			first := &sb.AMQPAnnotatedMessage{Body: sb.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("0")}}}
			ok(noted(s, batch.AddAMQPAnnotatedMessage)(first, nil))
			texts := []string{"0"}
			texts = append(texts, filled(s, batch)...)
			holds(noted(s, batch.NumBytes)() > 262_144, "%d bytes fit", batch.NumBytes())
			equal(int(noted(s, batch.NumMessages)()), len(texts))
			ok(noted(s, sender.SendMessageBatch)(s.ctx, batch, nil))
			options := sb.MessageBatchOptions{MaxBytes: 1000}
			small := got(noted(s, sender.NewMessageBatch)(s.ctx, &options))
			ok(small.AddMessage(text(strings.Repeat("x", 500)), nil))
			err := small.AddMessage(text(strings.Repeat("x", 500)), nil)
			holds(errors.Is(err, sb.ErrMessageTooLarge), "%v", err)
			// What is too much for one call may come in another order: the SDK gives back what arrives between two.
			equal(sorted(take(s, s.receiver(queue), len(texts))), sorted(texts))
		})

	check("sending.batch_default", "A batch as large as the SDK makes it for a queue with the default limit arrives.",
		proves((*sb.Sender).NewMessageBatch),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			batch := got(noted(s, sender.NewMessageBatch)(s.ctx, nil))
			texts := filled(s, batch)
			ok(noted(s, sender.SendMessageBatch)(s.ctx, batch, nil))
			equal(sorted(take(s, s.receiver(queue), len(texts))), sorted(texts))
		})

	check("sending.properties",
		"Every property of a message arrives as it was sent, with those the broker adds.",
		proves((*sb.Sender).SendMessage, (*sb.ReceivedMessage).Message),
		func(s *Space) {
			queue := s.queue()
			at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local) // As the SDK reads instants.
			sent := &sb.Message{
				Body: []byte("body"),
				ApplicationProperties: map[string]any{
					"int": int32(7), "long": int64(1) << 40, "text": "t", "on": true, "half": 0.5, "at": at,
				},
				MessageID:        to.Ptr("id-1"),
				CorrelationID:    to.Ptr("correlation"),
				Subject:          to.Ptr("subject"),
				To:               to.Ptr("to"),
				ReplyTo:          to.Ptr("reply-to"),
				ContentType:      to.Ptr("text/plain"),
				PartitionKey:     to.Ptr("key"),
				SessionID:        to.Ptr("key"),
				ReplyToSessionID: to.Ptr("session"),
				TimeToLive:       to.Ptr(5 * time.Minute),
			}
			sendOne(s, s.sender(queue), sent)
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			// What can be sent is read back from a message that was received.
			equal(noted(s, message.Message)(), sent)
			equal(message.DeliveryCount, 1)
			equal(message.State, sb.MessageStateActive)
			holds(*message.SequenceNumber > 0, "number %d", *message.SequenceNumber)
			equal(*message.EnqueuedSequenceNumber, *message.SequenceNumber)
			holds(message.LockToken != [16]byte{}, "no lock token")
			equal(*message.ExpiresAt, message.EnqueuedTime.Add(5*time.Minute))
			holds(time.Since(*message.EnqueuedTime).Abs() < time.Minute, "%v", message.EnqueuedTime)
			left := time.Until(*message.LockedUntil)
			holds(left > 30*time.Second && left < 61*time.Second, "locked for %v", left)
			holds(message.DeadLetterReason == nil && message.DeadLetterSource == nil, "dead letter")
			complete(s, receiver, message)
		})

	check("sending.annotated", "Bodies of the three AMQP kinds arrive as that kind.",
		proves((*sb.Sender).SendAMQPAnnotatedMessage),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			sent := []sb.AMQPAnnotatedMessageBody{
				{Data: [][]byte{[]byte("a"), []byte("b")}},
				{Value: map[string]any{"k": int64(1)}},
				{Sequence: [][]any{{int64(1), "two"}, {int64(3)}}},
			}
			for _, body := range sent {
				message := &sb.AMQPAnnotatedMessage{Body: body}
				ok(noted(s, sender.SendAMQPAnnotatedMessage)(s.ctx, message, nil))
			}
			for n, message := range receive(s, s.receiver(queue), 3) {
				equal(message.RawAMQPMessage.Body, sent[n])
			}
		})

	check("sending.annotations",
		"Header, properties and annotations of an AMQP message arrive as they were sent.",
		proves((*sb.Sender).SendAMQPAnnotatedMessage),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			sent := &sb.AMQPAnnotatedMessage{
				ApplicationProperties: map[string]any{"colour": "red"},
				Body:                  sb.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("x")}},
				Header:                &sb.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7, TTL: time.Hour},
				MessageAnnotations:    map[any]any{"x-opt-partition-key": "group", "own": "kept"},
				Properties: &sb.AMQPAnnotatedMessageProperties{
					MessageID:       uint64(7),
					CorrelationID:   []byte{1, 2},
					ContentEncoding: to.Ptr("gzip"),
					GroupSequence:   to.Ptr(uint32(3)),
					UserID:          []byte("me"),
				},
			}
			ok(noted(s, sender.SendAMQPAnnotatedMessage)(s.ctx, sent, nil))
			raw := receiveOne(s, s.receiver(queue)).RawAMQPMessage
			equal(raw.ApplicationProperties, sent.ApplicationProperties)
			equal(raw.Header.Priority, 7)
			equal(raw.Header.TTL, time.Hour)
			equal(raw.Header.Durable, true)
			equal(raw.MessageAnnotations["own"], any("kept"))
			equal(raw.MessageAnnotations["x-opt-partition-key"], any("group"))
			equal(raw.Properties.MessageID, any(uint64(7)))
			equal(raw.Properties.CorrelationID, any([]byte{1, 2}))
			equal(raw.Properties.ContentEncoding, to.Ptr("gzip"))
			equal(raw.Properties.GroupSequence, to.Ptr(uint32(3)))
			equal(raw.Properties.UserID, []byte("me"))
		})

	check("sending.large", "A message of 900 kB arrives whole.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{MaxMessageSizeInKilobytes: to.Ptr(int64(1024))})
			body := bytes.Repeat([]byte("0123456789"), 90_000)
			sendOne(s, s.sender(queue), &sb.Message{Body: body})
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			holds(bytes.Equal(message.Body, body), "%d other bytes", len(message.Body))
			complete(s, receiver, message)
		})

	check("sending.too_large", "ErrMessageTooLarge, and the sender goes on.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			err := noted(s, sender.SendMessage)(s.ctx, &sb.Message{Body: make([]byte, 2_000_000)}, nil)
			holds(errors.Is(err, sb.ErrMessageTooLarge), "%v", err)
			sendOne(s, sender, text("after"))
			equal(take(s, s.receiver(queue), 1), []string{"after"})
		})

	check("sending.not_found", "CodeNotFound of a queue or topic that does not exist.",
		proves((*sb.Sender).SendMessage, (*sb.Sender).ScheduleMessages),
		func(s *Space) {
			sender := s.sender(s.name)
			refused(sb.CodeNotFound, noted(s, sender.SendMessage)(s.ctx, text("x"), nil))
			schedule := noted(s, sender.ScheduleMessages)
			_, err := schedule(s.ctx, []*sb.Message{text("x")}, time.Now().Add(time.Hour), nil)
			refused(sb.CodeNotFound, err)
		})

	check("sending.disabled", "An error while a queue is disabled for sending.",
		proves((*sb.Sender).SendMessage, (*admin.Client).UpdateQueue),
		func(s *Space) {
			queue := s.queue()
			setStatus := func(status admin.EntityStatus) {
				properties := admin.QueueProperties{Status: &status}
				got(noted(s, s.admin().UpdateQueue)(s.ctx, queue, properties, nil))
			}
			setStatus(admin.EntityStatusSendDisabled)
			sender := s.sender(queue)
			refusedSaying("entity-disabled", noted(s, sender.SendMessage)(s.ctx, text("x"), nil))
			setStatus(admin.EntityStatusActive)
			sendOne(s, sender, text("y"))
			equal(take(s, s.receiver(queue), 1), []string{"y"})
		})

	check("sending.duplicates",
		"A queue with duplicate detection takes an id once, and says yes to the repeat.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{RequiresDuplicateDetection: to.Ptr(true)})
			sender := s.sender(queue)
			for range 2 {
				sendOne(s, sender, &sb.Message{Body: []byte("x"), MessageID: to.Ptr("same")})
			}
			receiver := s.receiver(queue)
			equal(take(s, receiver, 1), []string{"x"})
			holds(empty(s, receiver), "it is there twice")
		})

	check("sending.time_to_live", "What expires goes to the dead-letter queue, with its reason.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{DeadLetteringOnMessageExpiration: to.Ptr(true)})
			sendOne(s, s.sender(queue), &sb.Message{Body: []byte("x"), TimeToLive: to.Ptr(time.Second)})
			dead := s.deadLetters(queue)
			message := receiveOne(s, dead)
			equal(*message.DeadLetterReason, "TTLExpiredException")
			complete(s, dead, message)
			holds(empty(s, s.receiver(queue)), "it is in its queue as well")
		})

	check("sending.mismatched_keys", "A partition key beside another session id is refused.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			queue := s.queue()
			sender := got(noted(s, s.impatient().NewSender)(queue, nil))
			message := &sb.Message{SessionID: to.Ptr("a"), PartitionKey: to.Ptr("b")}
			refusedSaying("partition", noted(s, sender.SendMessage)(s.ctx, message, nil))
			sendOne(s, sender, text("after"))
		})

	check("sending.closed", "A sender and its client say so when they are used after their close.",
		proves((*sb.Sender).Close, (*sb.Client).Close),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			sendOne(s, sender, text("x"))
			ok(noted(s, sender.Close)(s.ctx))
			refused(sb.CodeClosed, sender.SendMessage(s.ctx, text("y"), nil))
			client := s.newClient(once)
			other := got(noted(s, client.NewSender)(queue, nil))
			sendOne(s, other, text("z"))
			ok(noted(s, client.Close)(s.ctx))
			refusedSaying("closed", other.SendMessage(s.ctx, text("y"), nil))
			refusedSaying("closed", errorOf(client.NewSender(queue, nil)))
		})

	check("scheduling.schedule", "A message is not there before its time, and is then.",
		proves((*sb.Sender).ScheduleMessages, (*sb.Sender).ScheduleAMQPAnnotatedMessages),
		func(s *Space) {
			queue := s.queue()
			soon := time.Now().Add(8 * time.Second).Truncate(time.Millisecond)
			sender := s.sender(queue)
			byCall := []*sb.Message{text("by call")}
			numbers := got(noted(s, sender.ScheduleMessages)(s.ctx, byCall, soon, nil))
			annotated := []*sb.AMQPAnnotatedMessage{
				{Body: sb.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("annotated")}}},
			}
			schedule := noted(s, sender.ScheduleAMQPAnnotatedMessages)
			numbers = append(numbers, got(schedule(s.ctx, annotated, soon, nil))...)
			byProperty := text("by property")
			byProperty.ScheduledEnqueueTime = &soon
			sendOne(s, sender, byProperty)
			receiver := s.receiver(queue)
			peeked := got(noted(s, receiver.PeekMessages)(s.ctx, 10, nil))
			equal(len(peeked), 3)
			for _, message := range peeked {
				equal(message.State, sb.MessageStateScheduled)
			}
			equal([]int64{*peeked[0].SequenceNumber, *peeked[1].SequenceNumber}, numbers)
			messages := receive(s, receiver, 3)
			holds(!time.Now().Before(soon), "it is there before its time")
			equal(sorted(bodies(messages)), []string{"annotated", "by call", "by property"})
			for _, message := range messages {
				holds(message.ScheduledEnqueueTime.Equal(soon), "%v", message.ScheduledEnqueueTime)
				complete(s, receiver, message)
			}
		})

	check("scheduling.cancel", "A cancelled message never comes; cancelling it again is CodeNotFound.",
		proves((*sb.Sender).ScheduleMessages, (*sb.Sender).CancelScheduledMessages),
		func(s *Space) {
			queue := s.queue()
			sender := s.sender(queue)
			messages := []*sb.Message{text("a"), text("b"), text("c")}
			soon := time.Now().Add(8 * time.Second)
			numbers := got(noted(s, sender.ScheduleMessages)(s.ctx, messages, soon, nil))
			equal(len(numbers), 3)
			cancel := noted(s, sender.CancelScheduledMessages)
			ok(cancel(s.ctx, numbers[:1], nil))
			ok(cancel(s.ctx, numbers[1:], nil))
			receiver := s.receiver(queue)
			equal(len(got(receiver.PeekMessages(s.ctx, 10, nil))), 0)
			s.sleep(time.Until(soon))
			holds(empty(s, receiver), "it comes")
			refused(sb.CodeNotFound, cancel(s.ctx, numbers[:1], nil))
		})

	check("scheduling.to_topic",
		"A message scheduled on a topic reaches its subscriptions when it is due.",
		proves((*sb.Sender).ScheduleMessages, (*sb.Sender).CancelScheduledMessages),
		func(s *Space) {
			topic := s.topic("s")
			sender := s.sender(topic)
			soon := time.Now().Add(5 * time.Second)
			messages := []*sb.Message{text("cancelled"), text("kept")}
			numbers := got(noted(s, sender.ScheduleMessages)(s.ctx, messages, soon, nil))
			ok(noted(s, sender.CancelScheduledMessages)(s.ctx, numbers[:1], nil))
			receiver := s.subscriber(topic, "s")
			equal(len(got(receiver.PeekMessages(s.ctx, 10, nil))), 0)
			equal(take(s, receiver, 1), []string{"kept"})
			holds(!time.Now().Before(soon), "it is there before its time")
			holds(empty(s, receiver), "another comes")
		})
}
