// Receivers: waiting, peeking, removing at once, settling, deferring, renewing.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var deleting = sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}

func numbersOf(messages []*sb.ReceivedMessage) []int64 {
	numbers := make([]int64, len(messages))
	for i, message := range messages {
		numbers[i] = *message.SequenceNumber
	}
	return numbers
}

func peek(s *Space, receiver *sb.Receiver, count int) []*sb.ReceivedMessage {
	return got(noted(s, receiver.PeekMessages)(s.ctx, count, nil))
}

func init() {
	check("receiving.waiting",
		"A receiver gets what is sent while it waits, and nothing when nothing is.",
		proves((*sb.Receiver).ReceiveMessages),
		func(s *Space) {
			queue := s.queue()
			receiver := s.receiver(queue)
			holds(empty(s, receiver), "something comes")
			isDone, result := start(func() ([]*sb.ReceivedMessage, error) {
				return noted(s, receiver.ReceiveMessages)(s.ctx, 1, nil)
			})
			s.sleep(500 * time.Millisecond)
			holds(!isDone(), "it does not wait")
			s.send(queue, "x")
			messages := got(result())
			equal(bodies(messages), []string{"x"})
			complete(s, receiver, messages[0])
			holds(empty(s, receiver), "something comes")
		})

	check("receiving.many", "Calls for some messages at a time get all of them, in order.",
		proves((*sb.Receiver).ReceiveMessages),
		func(s *Space) {
			queue := s.queue()
			texts := make([]string, 80)
			for n := range texts {
				texts[n] = fmt.Sprintf("%03d", n)
			}
			s.send(queue, texts...)
			receiver := s.receiver(queue)
			var seen []string
			for len(seen) < len(texts) {
				options := sb.ReceiveMessagesOptions{TimeAfterFirstMessage: 50 * time.Millisecond}
				messages := got(noted(s, receiver.ReceiveMessages)(s.ctx, 30, &options))
				holds(len(messages) <= 30, "%d messages", len(messages))
				for _, message := range messages {
					complete(s, receiver, message)
				}
				seen = append(seen, bodies(messages)...)
			}
			equal(seen, texts)
			holds(empty(s, receiver), "more come")
		})

	check("receiving.and_delete", "ReceiveAndDelete removes at once, and settles nothing.",
		proves((*sb.Client).NewReceiverForQueue, (*sb.Receiver).ReceiveMessages),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a", "b")
			receiver := got(noted(s, s.client().NewReceiverForQueue)(queue, &deleting))
			messages := receive(s, receiver, 2)
			equal(bodies(messages), []string{"a", "b"})
			refusedSaying("not settleable", receiver.CompleteMessage(s.ctx, messages[0], nil))
			holds(empty(s, s.receiver(queue)), "they are there")
		})

	check("receiving.after_close",
		"What came with ReceiveAndDelete is still given after the receiver's close, in order; then CodeClosed.",
		proves((*sb.Receiver).ReceiveMessages, (*sb.Receiver).Close),
		func(s *Space) {
			queue := s.queue()
			receiver := got(noted(s, s.client().NewReceiverForQueue)(queue, &deleting))
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			_, err := noted(s, receiver.ReceiveMessages)(ctx, 10, nil) // Leaves ten credits.
			cancel()
			holds(errors.Is(err, context.DeadlineExceeded), "%v", err)
			s.send(queue, "a", "b", "c")
			first := got(noted(s, receiver.ReceiveMessages)(s.ctx, 1, nil))
			equal(bodies(first), []string{"a"})
			ok(noted(s, receiver.Close)(s.ctx))
			seen := []string{}
			for {
				messages, err := receiver.ReceiveMessages(s.ctx, 10, nil)
				if err != nil {
					refused(sb.CodeClosed, err)
					break
				}
				seen = append(seen, bodies(messages)...)
			}
			// How many had come by then is for the network to say.
			equal(seen, []string{"b", "c"}[:min(len(seen), 2)])
		})

	check("receiving.peek",
		"A peek goes on from where the last one ended, or from a number, and takes nothing.",
		proves((*sb.Receiver).PeekMessages),
		func(s *Space) {
			queue := s.queue()
			texts := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
			s.send(queue, texts...)
			receiver := s.receiver(queue)
			first := peek(s, receiver, 1)
			equal(bodies(first), texts[:1])
			equal(first[0].State, sb.MessageStateActive)
			rest := peek(s, receiver, 20)
			equal(bodies(rest), texts[1:])
			equal(len(peek(s, receiver, 5)), 0)
			options := sb.PeekMessagesOptions{FromSequenceNumber: rest[4].SequenceNumber}
			sixth := got(noted(s, receiver.PeekMessages)(s.ctx, 1, &options))
			equal(numbersOf(sixth), numbersOf(rest[4:5]))
			equal(take(s, receiver, 10), texts)
		})

	check("receiving.competing",
		"Receivers of one queue share its messages, each of which goes to one of them.",
		proves((*sb.Receiver).ReceiveMessages),
		func(s *Space) {
			queue := s.queue()
			texts := make([]string, 60)
			for n := range texts {
				texts[n] = fmt.Sprintf("%02d", n)
			}
			s.send(queue, texts...)
			var seen []string
			receivers := []*sb.Receiver{s.receiver(queue), s.receiver(queue), s.receiver(queue)}
			for len(seen) < len(texts) {
				for _, receiver := range receivers {
					seen = append(seen, take(s, receiver, 4)...)
				}
			}
			equal(sorted(seen), texts)
		})

	check("receiving.not_found",
		"CodeNotFound of a queue or subscription that does not exist.",
		proves((*sb.Receiver).ReceiveMessages, (*sb.Receiver).PeekMessages),
		func(s *Space) {
			for _, receiver := range []*sb.Receiver{s.receiver(s.name), s.subscriber(s.name, "none")} {
				_, err := noted(s, receiver.ReceiveMessages)(s.ctx, 1, nil)
				refused(sb.CodeNotFound, err)
				_, err = noted(s, receiver.PeekMessages)(s.ctx, 1, nil)
				refused(sb.CodeNotFound, err)
			}
		})

	check("receiving.deleted", "A receiver whose queue is deleted is told so.",
		proves((*sb.Receiver).ReceiveMessages, (*admin.Client).DeleteQueue),
		func(s *Space) {
			queue := s.queue()
			receiver := s.receiver(queue)
			holds(empty(s, receiver), "something comes")
			got(noted(s, s.admin().DeleteQueue)(s.ctx, queue, nil))
			ctx, cancel := context.WithTimeout(s.ctx, 2*wait)
			defer cancel()
			// A call that finds its link closed returns nothing; the next one opens another.
			var err error
			for err == nil {
				_, err = noted(s, receiver.ReceiveMessages)(ctx, 1, nil)
			}
			refusedSaying("amqp:not-found", err)
		})

	check("receiving.closed", "A receiver says so when it is used after its close.",
		proves((*sb.Receiver).Close),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			receiver := s.receiver(queue)
			equal(take(s, receiver, 1), []string{"x"})
			ok(noted(s, receiver.Close)(s.ctx))
			refused(sb.CodeClosed, errorOf(receiver.ReceiveMessages(s.ctx, 1, nil)))
			refused(sb.CodeClosed, errorOf(receiver.PeekMessages(s.ctx, 1, nil)))
		})

	check("settling.complete", "A completed message is gone; completing it twice says that its lock is lost.",
		proves((*sb.Receiver).CompleteMessage, (*sb.Error).Error),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			complete(s, receiver, message)
			// By its token, as another process would: the SDK itself does not send a settlement twice.
			again := &sb.ReceivedMessage{LockToken: message.LockToken}
			err := noted(s, receiver.CompleteMessage)(s.ctx, again, nil)
			refused(sb.CodeLockLost, err)
			var typed *sb.Error
			errors.As(err, &typed)
			holds(noted(s, typed.Error)() != "", "the error says nothing")
			holds(empty(s, receiver), "it comes again")
		})

	check("settling.abandon",
		"An abandoned message comes again, changed as asked, and is dead-lettered when it came too often.",
		proves((*sb.Receiver).AbandonMessage),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{MaxDeliveryCount: to.Ptr(int32(2))})
			s.send(queue, "x")
			receiver := s.receiver(queue)
			for count := range 2 {
				message := receiveOne(s, receiver)
				equal(message.DeliveryCount, uint32(count+1))
				if count > 0 {
					equal(message.ApplicationProperties["tried"], any("once"))
				}
				options := sb.AbandonMessageOptions{PropertiesToModify: map[string]any{"tried": "once"}}
				ok(noted(s, receiver.AbandonMessage)(s.ctx, message, &options))
			}
			dead := s.deadLetters(queue)
			message := receiveOne(s, dead)
			equal(*message.DeadLetterReason, "MaxDeliveryCountExceeded")
			complete(s, dead, message)
		})

	check("settling.dead_letter",
		"A dead-lettered message is in the dead-letter queue, with what was said about it.",
		proves((*sb.Receiver).DeadLetterMessage, (*sb.Receiver).RenewMessageLock),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			receiver := s.receiver(queue)
			options := sb.DeadLetterOptions{
				Reason: to.Ptr("why"), ErrorDescription: to.Ptr("because"),
				PropertiesToModify: map[string]any{"seen": true},
			}
			ok(noted(s, receiver.DeadLetterMessage)(s.ctx, receiveOne(s, receiver), &options))
			holds(empty(s, receiver), "it is in its queue as well")
			dead := s.deadLetters(queue)
			equal(*peek(s, dead, 1)[0].DeadLetterReason, "why")
			message := receiveOne(s, dead)
			equal(*message.DeadLetterReason, "why")
			equal(*message.DeadLetterErrorDescription, "because")
			equal(message.ApplicationProperties["seen"], any(true))
			ok(noted(s, dead.RenewMessageLock)(s.ctx, message, nil))
			complete(s, dead, message)
		})

	check("settling.dead_letter_without_reason", "No reason need be given.",
		proves((*sb.Receiver).DeadLetterMessage),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			receiver := s.receiver(queue)
			ok(noted(s, receiver.DeadLetterMessage)(s.ctx, receiveOne(s, receiver), nil))
			equal(take(s, s.deadLetters(queue), 1), []string{"x"})
		})

	check("settling.elsewhere",
		"A lock outlives its receiver, and another receiver can settle under it.",
		proves((*sb.Receiver).CompleteMessage, (*sb.Receiver).Close),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a", "b", "c", "d")
			first := s.receiver(queue)
			messages := receive(s, first, 4)
			ok(noted(s, first.Close)(s.ctx))
			second := s.receiver(queue)
			holds(empty(s, second), "they come again")
			// With nothing but the token, in each of the four ways.
			byToken := func(n int) *sb.ReceivedMessage {
				return &sb.ReceivedMessage{LockToken: messages[n].LockToken}
			}
			ok(noted(s, second.RenewMessageLock)(s.ctx, byToken(0), nil))
			ok(noted(s, second.CompleteMessage)(s.ctx, byToken(0), nil))
			ok(noted(s, second.DeadLetterMessage)(s.ctx, byToken(1), nil))
			ok(noted(s, second.DeferMessage)(s.ctx, byToken(2), nil))
			ok(noted(s, second.AbandonMessage)(s.ctx, byToken(3), nil))
			equal(take(s, second, 1), []string{"d"})
			equal(take(s, s.deadLetters(queue), 1), []string{"b"})
			deferred := got(second.ReceiveDeferredMessages(s.ctx, numbersOf(messages[2:3]), nil))
			equal(bodies(deferred), []string{"c"})
		})

	check("settling.not_forwarded",
		"What cannot be forwarded is in the dead-letter queue of its source, not that of transfers.",
		proves((*sb.Client).NewReceiverForQueue),
		func(s *Space) {
			target, source := s.name+"-target", s.name+"-source"
			create := noted(s, s.admin().CreateQueue)
			got(create(s.ctx, target, &admin.CreateQueueOptions{
				Properties: &admin.QueueProperties{RequiresSession: to.Ptr(true)},
			}))
			got(create(s.ctx, source, &admin.CreateQueueOptions{
				Properties: &admin.QueueProperties{ForwardTo: to.Ptr(target)},
			}))
			s.send(source, "without a session")
			equal(take(s, s.deadLetters(source), 1), []string{"without a session"})
			// Only what is sent via an entity gets there, which this SDK has no call for.
			options := sb.ReceiverOptions{SubQueue: sb.SubQueueTransfer}
			transfers := got(noted(s, s.client().NewReceiverForQueue)(source, &options))
			holds(empty(s, transfers), "it is in the transfers' as well")
		})

	check("deferring.fetch", "A deferred message comes to who asks by its number, and to nobody else.",
		proves((*sb.Receiver).DeferMessage, (*sb.Receiver).ReceiveDeferredMessages),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a", "b", "c")
			receiver := s.receiver(queue)
			messages := receive(s, receiver, 3)
			options := sb.DeferMessageOptions{PropertiesToModify: map[string]any{"later": "yes"}}
			for _, message := range messages {
				ok(noted(s, receiver.DeferMessage)(s.ctx, message, &options))
			}
			holds(empty(s, receiver), "they come unasked")
			fetch := noted(s, receiver.ReceiveDeferredMessages)
			deferred := got(fetch(s.ctx, numbersOf(messages), nil))
			equal(bodies(deferred), []string{"a", "b", "c"})
			for _, message := range deferred {
				equal(message.State, sb.MessageStateDeferred)
				equal(message.ApplicationProperties["later"], any("yes"))
			}
		})

	check("deferring.settle", "A deferred message that was fetched can be renewed and settled in every way.",
		proves((*sb.Receiver).ReceiveDeferredMessages),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a", "b", "c")
			receiver := s.receiver(queue)
			messages := receive(s, receiver, 3)
			for _, message := range messages {
				ok(noted(s, receiver.DeferMessage)(s.ctx, message, nil))
			}
			fetch := func(numbers ...int64) []*sb.ReceivedMessage {
				return got(noted(s, receiver.ReceiveDeferredMessages)(s.ctx, numbers, nil))
			}
			deferred := fetch(numbersOf(messages)...)
			complete(s, receiver, deferred[0])
			ok(noted(s, receiver.RenewMessageLock)(s.ctx, deferred[1], nil))
			ok(noted(s, receiver.AbandonMessage)(s.ctx, deferred[1], nil))
			ok(noted(s, receiver.DeadLetterMessage)(s.ctx, deferred[2], nil))
			number := *messages[1].SequenceNumber
			ok(noted(s, receiver.DeferMessage)(s.ctx, fetch(number)[0], nil))
			complete(s, receiver, fetch(number)[0])
			equal(take(s, s.deadLetters(queue), 1), []string{"c"})
		})

	check("deferring.unknown",
		"CodeNotFound for a number nobody deferred, and none of the others is locked.",
		proves((*sb.Receiver).ReceiveDeferredMessages),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "a")
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			ok(noted(s, receiver.DeferMessage)(s.ctx, message, nil))
			number := *message.SequenceNumber
			fetch := noted(s, receiver.ReceiveDeferredMessages)
			refused(sb.CodeNotFound, errorOf(fetch(s.ctx, []int64{number, number + 100}, nil)))
			equal(bodies(got(fetch(s.ctx, []int64{number}, nil))), []string{"a"})
		})

	check("deferring.and_delete", "ReceiveAndDelete removes a deferred message.",
		proves((*sb.Receiver).ReceiveDeferredMessages),
		func(s *Space) {
			queue := s.queue()
			s.send(queue, "x")
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			ok(noted(s, receiver.DeferMessage)(s.ctx, message, nil))
			numbers := []int64{*message.SequenceNumber}
			other := got(noted(s, s.client().NewReceiverForQueue)(queue, &deleting))
			fetch := noted(s, other.ReceiveDeferredMessages)
			equal(bodies(got(fetch(s.ctx, numbers, nil))), []string{"x"})
			refused(sb.CodeNotFound, errorOf(fetch(s.ctx, numbers, nil)))
		})

	check("locks.renew", "A lock is held for longer than it lasts by renewing it.",
		proves((*sb.Receiver).RenewMessageLock),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{LockDuration: to.Ptr("PT8S")})
			s.send(queue, "x")
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			before := *message.LockedUntil
			s.sleep(5 * time.Second)
			ok(noted(s, receiver.RenewMessageLock)(s.ctx, message, nil))
			longer := message.LockedUntil.Sub(before)
			holds(longer > 4*time.Second, "%v longer", longer)
			s.sleep(5 * time.Second)
			complete(s, receiver, message)
			holds(empty(s, receiver), "it comes again")
		})

	check("locks.lost", "CodeLockLost once a lock has ended; the message comes again, counted.",
		proves((*sb.Receiver).RenewMessageLock, (*sb.Receiver).CompleteMessage),
		func(s *Space) {
			queue := s.queue(admin.QueueProperties{LockDuration: to.Ptr("PT5S")})
			s.send(queue, "x")
			receiver := s.receiver(queue)
			message := receiveOne(s, receiver)
			s.sleep(6500 * time.Millisecond)
			refused(sb.CodeLockLost, noted(s, receiver.RenewMessageLock)(s.ctx, message, nil))
			refused(sb.CodeLockLost, noted(s, receiver.CompleteMessage)(s.ctx, message, nil))
			again := receiveOne(s, receiver)
			equal(*again.SequenceNumber, *message.SequenceNumber)
			equal(again.DeliveryCount, 2)
			complete(s, receiver, again)
		})
}
