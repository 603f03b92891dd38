// Sessions of queues and subscriptions: held, renewed, lost, listed; their state.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func inSession(body, session string) *sb.Message {
	return &sb.Message{Body: []byte(body), SessionID: &session}
}

// queueWith makes a queue with messages 1, 2 and 3 in each of these sessions.
func queueWith(s *Space, lock string, sessions ...string) string {
	queue := s.queue(admin.QueueProperties{RequiresSession: to.Ptr(true), LockDuration: &lock})
	sender := s.sender(queue)
	for n := 1; n <= 3; n++ {
		for _, session := range sessions {
			sendOne(s, sender, inSession(fmt.Sprint(session, n), session))
		}
	}
	return queue
}

// subscriptionWith makes a topic whose subscription `s` has a message in each of these sessions.
func subscriptionWith(s *Space, sessions ...string) string {
	topic := s.topic()
	properties := admin.SubscriptionProperties{RequiresSession: to.Ptr(true)}
	options := admin.CreateSubscriptionOptions{Properties: &properties}
	got(noted(s, s.admin().CreateSubscription)(s.ctx, topic, "s", &options))
	sender := s.sender(topic)
	for _, session := range sessions {
		sendOne(s, sender, inSession(session, session))
	}
	return topic
}

func listed(s *Space, pager *runtime.Pager[sb.ListSessionsResponse]) []string {
	var names []string
	for pager.More() {
		names = append(names, got(pager.NextPage(s.ctx)).Sessions...)
	}
	return sorted(names)
}

func init() {
	check("sessions.by_id", "A session's receiver gets its messages in order, and no others.",
		proves((*sb.Client).AcceptSessionForQueue, (*sb.SessionReceiver).SessionID,
			(*sb.SessionReceiver).LockedUntil, (*sb.SessionReceiver).ReceiveMessages,
			(*sb.SessionReceiver).CompleteMessage),
		func(s *Space) {
			holder := s.session(queueWith(s, "PT1M", "a", "b"), "b")
			equal(noted(s, holder.SessionID)(), "b")
			left := time.Until(noted(s, holder.LockedUntil)())
			holds(left > 30*time.Second && left < 61*time.Second, "locked for %v", left)
			messages := receive(s, holder, 3)
			equal(bodies(messages), []string{"b1", "b2", "b3"})
			for _, message := range messages {
				equal(*message.SessionID, "b")
				complete(s, holder, message)
			}
			holds(empty(s, holder), "more come")
		})

	check("sessions.next_available",
		"Each receiver of the next session gets another one, and the next waits for one to come.",
		proves((*sb.Client).AcceptNextSessionForQueue),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a", "b")
			next := noted(s, s.client().AcceptNextSessionForQueue)
			one, two := got(next(s.ctx, queue, nil)), got(next(s.ctx, queue, nil))
			equal(sorted([]string{one.SessionID(), two.SessionID()}), []string{"a", "b"})
			isDone, result := start(func() (*sb.SessionReceiver, error) {
				return next(s.ctx, queue, nil)
			})
			s.sleep(time.Second)
			holds(!isDone(), "it does not wait")
			sendOne(s, s.sender(queue), inSession("c1", "c"))
			three := got(result())
			equal(three.SessionID(), "c")
			equal(take(s, three, 1), []string{"c1"})
		})

	check("sessions.none_available", "CodeTimeout when no session comes in time.",
		proves((*sb.Client).AcceptNextSessionForQueue),
		func(s *Space) {
			queue := queueWith(s, "PT1M")
			// The SDK has the broker answer at some instant of the last 30 ms that its context lasts: what is
			// left is too short, now and then, for the answer to be first.
			ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
			defer cancel()
			_, err := noted(s, s.impatient().AcceptNextSessionForQueue)(ctx, queue, nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				refused(sb.CodeTimeout, err)
			}
		})

	check("sessions.held",
		"session-cannot-be-locked while another holds the session; its close lets go at once.",
		proves((*sb.Client).AcceptSessionForQueue, (*sb.SessionReceiver).Close),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a")
			holder := s.session(queue, "a")
			_, err := noted(s, s.client().AcceptSessionForQueue)(s.ctx, queue, "a", nil)
			refusedSaying("session-cannot-be-locked", err)
			receive(s, holder, 3)
			ok(noted(s, holder.Close)(s.ctx))
			messages := receive(s, s.session(queue, "a"), 3)
			equal(bodies(messages), []string{"a1", "a2", "a3"})
			for _, message := range messages {
				equal(message.DeliveryCount, 1)
			}
		})

	check("sessions.state", "A session's state is what was set last, whoever holds it.",
		proves((*sb.SessionReceiver).GetSessionState, (*sb.SessionReceiver).SetSessionState),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a")
			holder := s.session(queue, "a")
			get := func(holder *sb.SessionReceiver) []byte {
				return got(noted(s, holder.GetSessionState)(s.ctx, nil))
			}
			equal(len(get(holder)), 0)
			ok(noted(s, holder.SetSessionState)(s.ctx, []byte("half"), nil))
			equal(get(holder), []byte("half"))
			ok(noted(s, holder.Close)(s.ctx))
			other := s.session(queue, "a")
			equal(get(other), []byte("half"))
			large := bytes.Repeat([]byte{0, 255}, 1000)
			ok(noted(s, other.SetSessionState)(s.ctx, large, nil))
			equal(get(other), large)
			ok(noted(s, other.SetSessionState)(s.ctx, nil, nil))
			equal(len(get(other)), 0)
		})

	check("sessions.renew", "A session is held for longer than its lock lasts by renewing it.",
		proves((*sb.SessionReceiver).RenewSessionLock, (*sb.SessionReceiver).LockedUntil),
		func(s *Space) {
			holder := s.session(queueWith(s, "PT8S", "a"), "a")
			before := noted(s, holder.LockedUntil)()
			message := receiveOne(s, holder)
			s.sleep(5 * time.Second)
			ok(noted(s, holder.RenewSessionLock)(s.ctx, nil))
			longer := noted(s, holder.LockedUntil)().Sub(before)
			holds(longer > 4*time.Second, "%v longer", longer)
			s.sleep(5 * time.Second)
			complete(s, holder, message)
			equal(take(s, holder, 2), []string{"a2", "a3"})
		})

	check("sessions.lost", "A session whose lock has ended settles nothing; the next holder sees a counted delivery.",
		proves((*sb.SessionReceiver).CompleteMessage, (*sb.SessionReceiver).ReceiveMessages),
		func(s *Space) {
			queue := queueWith(s, "PT5S", "a")
			holder := s.session(queue, "a")
			message := receiveOne(s, holder)
			s.sleep(6500 * time.Millisecond)
			// The SDK takes this for a link to be opened again, and goes on for a minute.
			ctx, cancel := context.WithTimeout(s.ctx, quiet)
			defer cancel()
			holds(noted(s, holder.CompleteMessage)(ctx, message, nil) != nil, "it settles")
			_ = holder.Close(s.ctx) // Says once more that the lock is lost.
			messages := receive(s, s.session(queue, "a"), 3)
			equal(bodies(messages), []string{"a1", "a2", "a3"})
			equal(messages[0].DeliveryCount, 2)
		})

	check("sessions.abandon", "An abandoned message is the session's next one.",
		proves((*sb.SessionReceiver).AbandonMessage),
		func(s *Space) {
			holder := s.session(queueWith(s, "PT1M", "a"), "a")
			ok(noted(s, holder.AbandonMessage)(s.ctx, receiveOne(s, holder), nil))
			messages := receive(s, holder, 3)
			equal(bodies(messages), []string{"a1", "a2", "a3"})
			equal(messages[0].DeliveryCount, 2)
		})

	check("sessions.settle", "A session's holder defers and dead-letters; its dead letters need no session.",
		proves((*sb.SessionReceiver).DeferMessage, (*sb.SessionReceiver).DeadLetterMessage),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a")
			holder := s.session(queue, "a")
			messages := receive(s, holder, 3)
			ok(noted(s, holder.DeferMessage)(s.ctx, messages[0], nil))
			ok(noted(s, holder.DeadLetterMessage)(s.ctx, messages[1], nil))
			complete(s, holder, messages[2])
			holds(empty(s, holder), "more come")
			dead := s.deadLetters(queue)
			message := receiveOne(s, dead)
			equal(string(message.Body), "a2")
			equal(*message.SessionID, "a")
			complete(s, dead, message)
		})

	// The SDK's requests for deferred messages and for a peek name no session, those of the others do.
	// Service Bus wants one for deferred messages as well (azure-sdk-for-js#972).
	check("sessions.deferred",
		"The SDK names no session when it asks for deferred messages, and is refused: CodeLockLost.",
		proves((*sb.SessionReceiver).ReceiveDeferredMessages),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a")
			client := s.impatient()
			holder := got(noted(s, client.AcceptSessionForQueue)(s.ctx, queue, "a", nil))
			message := receiveOne(s, holder)
			ok(noted(s, holder.DeferMessage)(s.ctx, message, nil))
			numbers := []int64{*message.SequenceNumber}
			_, err := noted(s, holder.ReceiveDeferredMessages)(s.ctx, numbers, nil)
			refused(sb.CodeLockLost, err)
		})

	check("sessions.peek", "The SDK names no session when it peeks, and sees those of others as well.",
		proves((*sb.SessionReceiver).PeekMessages),
		func(s *Space) {
			holder := s.session(queueWith(s, "PT1M", "a", "b"), "b")
			peeked := got(noted(s, holder.PeekMessages)(s.ctx, 10, nil))
			equal(bodies(peeked), []string{"a1", "b1", "a2", "b2", "a3", "b3"})
		})

	check("sessions.and_delete", "A session's receiver may remove at once.",
		proves((*sb.Client).AcceptSessionForQueue),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a")
			options := sb.SessionReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}
			accept := noted(s, s.client().AcceptSessionForQueue)
			holder := got(accept(s.ctx, queue, "a", &options))
			equal(bodies(receive(s, holder, 3)), []string{"a1", "a2", "a3"})
			counts := got(s.admin().GetQueueRuntimeProperties(s.ctx, queue, nil))
			equal(counts.TotalMessageCount, 0)
		})

	check("sessions.required", "Where sessions are required, messages and receivers without one are refused.",
		proves((*sb.Sender).SendMessage, (*sb.Receiver).ReceiveMessages),
		func(s *Space) {
			queue := queueWith(s, "PT1M")
			client := s.impatient()
			sender := got(noted(s, client.NewSender)(queue, nil))
			refusedSaying("session", noted(s, sender.SendMessage)(s.ctx, text("x"), nil))
			receiver := got(noted(s, client.NewReceiverForQueue)(queue, nil))
			_, err := noted(s, receiver.ReceiveMessages)(s.ctx, 1, nil)
			refusedSaying("session", err)
		})

	check("sessions.not_required", "Where sessions are not, receivers of one are refused.",
		proves((*sb.Client).AcceptSessionForQueue),
		func(s *Space) {
			queue := s.queue()
			_, err := noted(s, s.impatient().AcceptSessionForQueue)(s.ctx, queue, "a", nil)
			refusedSaying("session", err)
		})

	check("sessions.schedule", "A scheduled message joins its session when it is due.",
		proves((*sb.Sender).ScheduleMessages, (*sb.Client).AcceptNextSessionForQueue),
		func(s *Space) {
			queue := queueWith(s, "PT1M")
			soon := time.Now().Add(5 * time.Second)
			messages := []*sb.Message{inSession("x", "a")}
			got(noted(s, s.sender(queue).ScheduleMessages)(s.ctx, messages, soon, nil))
			holder := got(noted(s, s.client().AcceptNextSessionForQueue)(s.ctx, queue, nil))
			holds(!time.Now().Before(soon), "it is there before its time")
			equal(take(s, holder, 1), []string{"x"})
		})

	check("sessions.list_of_queue",
		"Sessions with messages or state are listed; or those whose state changed since.",
		proves((*sb.Client).NewListSessionsForQueuePager),
		func(s *Space) {
			queue := queueWith(s, "PT1M", "a", "b", "c")
			pager := noted(s, s.client().NewListSessionsForQueuePager)
			since := sb.ListSessionsOptions{SessionStateUpdatedAfter: to.Ptr(time.Now().Add(-time.Minute))}
			equal(listed(s, pager(queue, nil)), []string{"a", "b", "c"})
			equal(len(listed(s, pager(queue, &since))), 0)
			holder := s.session(queue, "b")
			ok(noted(s, holder.SetSessionState)(s.ctx, []byte("x"), nil))
			take(s, holder, 3)
			ok(noted(s, holder.Close)(s.ctx))
			equal(listed(s, pager(queue, &since)), []string{"b"})
			equal(listed(s, pager(queue, nil)), []string{"a", "b", "c"})
		})

	check("sessions.list_of_many", "A list of sessions longer than a page is whole.",
		proves((*sb.Client).NewListSessionsForQueuePager),
		func(s *Space) {
			queue := queueWith(s, "PT1M")
			names := make([]string, 250)
			messages := make([]*sb.Message, len(names))
			for n := range names {
				names[n] = fmt.Sprintf("s%03d", n)
				messages[n] = inSession("x", names[n])
			}
			s.sendMessages(queue, messages...)
			pager := noted(s, s.client().NewListSessionsForQueuePager)
			equal(listed(s, pager(queue, nil)), names)
		})

	check("sessions.list_of_subscription", "A subscription's sessions are listed.",
		proves((*sb.Client).NewListSessionsForSubscriptionPager),
		func(s *Space) {
			topic := subscriptionWith(s, "a", "b")
			pager := noted(s, s.client().NewListSessionsForSubscriptionPager)
			equal(listed(s, pager(topic, "s", nil)), []string{"a", "b"})
		})

	check("sessions.of_subscription",
		"A subscription's sessions are held by id, or as they come, and have state.",
		proves((*sb.Client).AcceptSessionForSubscription, (*sb.Client).AcceptNextSessionForSubscription),
		func(s *Space) {
			topic := subscriptionWith(s, "a", "b")
			accept := noted(s, s.client().AcceptSessionForSubscription)
			holder := got(accept(s.ctx, topic, "s", "b", nil))
			equal(take(s, holder, 1), []string{"b"})
			ok(noted(s, holder.SetSessionState)(s.ctx, []byte("done"), nil))
			equal(got(noted(s, holder.GetSessionState)(s.ctx, nil)), []byte("done"))
			next := noted(s, s.client().AcceptNextSessionForSubscription)
			other := got(next(s.ctx, topic, "s", nil))
			equal(noted(s, other.SessionID)(), "a")
			equal(take(s, other, 1), []string{"a"})
		})
}
