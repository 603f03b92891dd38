// What one program of the SDK meets while the node it is connected to ends, dies or stands still. Started by
// `tests/sdk/ends.py`; `tests/sdk/python/ends.py` says what is told.

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

const (
	endsLock = "PT60S"
	// Deliveries of a message.
	endsDeliveriesMax = 2
	// Between two calls of a kind, and two looks whether something is free.
	endsPause = 50 * time.Millisecond
	// One call for messages may take.
	endsWait = 5 * time.Second
	// Any other call may take, with all the SDK's own tries.
	endsCallMax  = 60 * time.Second
	endsSessions = "sessions"
)

var (
	endsQueues = []string{"work", "renewed", "held", "later", endsSessions}
	endsKinds  = []string{"send", "complete", "renew", "cancel", "peek", "session renew"}
)

// Ends is what one program does, and what comes of it.
type Ends struct {
	sync.Mutex
	amqp, elsewhere, queues string
	calls, lost             map[string]int
	failed                  map[string]map[string]int
	found                   map[string]any
	began, ending           chan struct{}
	beganAt                 time.Time
}

func (ends *Ends) name(queue string) string { return ends.queues + "-" + queue }

func (ends *Ends) client(address string, options *sb.ClientOptions) *sb.Client {
	var cluster Cluster
	return must(sb.NewClientFromConnectionString(cluster.plain(address), options))
}

func (ends *Ends) sender(queue string) *sb.Sender {
	return must(ends.client(ends.amqp, nil).NewSender(ends.name(queue), nil))
}

func (ends *Ends) receiver(queue, address string) *sb.Receiver {
	return must(ends.client(address, nil).NewReceiverForQueue(ends.name(queue), nil))
}

// attempt says whether it was done.
func (ends *Ends) attempt(kind string, call func(context.Context) error) bool {
	most := endsCallMax
	if kind == "receive" {
		most = endsWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	err := call(ctx)
	ends.Lock()
	defer ends.Unlock()
	ends.calls[kind]++
	var typed *sb.Error
	switch {
	case err == nil:
		return true
	case kind == "receive" && errors.Is(err, context.DeadlineExceeded):
		return true // There was none.
	// A session, and the link a message came over, go with the connection, and the SDK says so by either.
	case errors.As(err, &typed) && (typed.Code == sb.CodeLockLost ||
		typed.Code == sb.CodeConnectionLost &&
			(strings.HasPrefix(kind, "session") || kind == "complete" || kind == "settle")):
		ends.lost[kind]++
	default:
		text := strings.SplitN(err.Error(), "\n", 2)[0]
		if ends.failed[kind] == nil {
			ends.failed[kind] = map[string]int{}
		}
		ends.failed[kind][fmt.Sprintf("%T %s", err, text[:min(len(text), 100)])]++
	}
	return false
}

func (ends *Ends) isEnding() bool {
	select {
	case <-ends.ending:
		return true
	default:
		return false
	}
}

func (ends *Ends) repeat(turn func()) {
	for ; !ends.isEnding(); time.Sleep(endsPause) {
		turn()
	}
}

func (ends *Ends) send() {
	sender := ends.sender("work")
	ends.repeat(func() {
		ends.attempt("send", func(ctx context.Context) error {
			return sender.SendMessage(ctx, &sb.Message{Body: []byte("m")}, nil)
		})
	})
}

func (ends *Ends) take(receiver *sb.Receiver, count int) (messages []*sb.ReceivedMessage) {
	ends.attempt("receive", func(ctx context.Context) (err error) {
		messages, err = receiver.ReceiveMessages(ctx, count, nil)
		return err
	})
	return messages
}

func (ends *Ends) receive() {
	receiver := ends.receiver("work", ends.amqp)
	ends.repeat(func() {
		for _, message := range ends.take(receiver, 10) {
			isDone := ends.attempt("complete", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, completeMax)
				defer cancel()
				return receiver.CompleteMessage(ctx, message, nil)
			})
			if !isDone {
				return // What else came over a connection that is gone comes again.
			}
		}
	})
}

func (ends *Ends) renew() {
	receiver := ends.receiver("renewed", ends.amqp)
	var held []*sb.ReceivedMessage
	ends.repeat(func() {
		if len(held) == 0 {
			held = ends.take(receiver, 1)
			return
		}
		isRenewed := ends.attempt("renew", func(ctx context.Context) error {
			return receiver.RenewMessageLock(ctx, held[0], nil)
		})
		if !isRenewed {
			held = nil
		}
	})
}

func (ends *Ends) schedule() {
	sender := ends.sender("later")
	ends.repeat(func() {
		var numbers []int64
		isScheduled := ends.attempt("schedule", func(ctx context.Context) (err error) {
			messages := []*sb.Message{{Body: []byte("m")}}
			numbers, err = sender.ScheduleMessages(ctx, messages, time.Now().Add(time.Hour), nil)
			return err
		})
		if isScheduled {
			ends.attempt("cancel", func(ctx context.Context) error {
				return sender.CancelScheduledMessages(ctx, numbers, nil)
			})
		}
	})
}

func (ends *Ends) peek() {
	receiver := ends.receiver("later", ends.amqp)
	ends.repeat(func() {
		ends.attempt("peek", func(ctx context.Context) error {
			_, err := receiver.PeekMessages(ctx, 1, nil)
			return err
		})
	})
}

// session sets the state of one, by one holder after the other.
func (ends *Ends) session() {
	client := ends.client(ends.amqp, nil)
	ends.repeat(func() {
		var held *sb.SessionReceiver
		isHeld := ends.attempt("session accept", func(ctx context.Context) (err error) {
			held, err = client.AcceptSessionForQueue(ctx, ends.name(endsSessions), "own", nil)
			return err
		})
		for isHeld && !ends.isEnding() {
			isHeld = ends.attempt("session state", func(ctx context.Context) error {
				return held.SetSessionState(ctx, []byte("s"), nil)
			}) && ends.attempt("session renew", func(ctx context.Context) error {
				return held.RenewSessionLock(ctx, nil)
			})
			time.Sleep(endsPause)
		}
		if held != nil {
			ctx, cancel := context.WithTimeout(context.Background(), endsWait)
			_ = held.Close(ctx)
			cancel()
		}
	})
}

// hold keeps one message and one session until the end.
func (ends *Ends) hold() {
	receiver := ends.receiver("held", ends.amqp)
	ctx := context.Background()
	messages := must(receiver.ReceiveMessages(ctx, 1, nil))
	must(ends.client(ends.amqp, nil).AcceptSessionForQueue(ctx, ends.name(endsSessions), "held", nil))
	ends.find("held", len(messages))
	<-ends.ending
	ends.find("settled", ends.attempt("settle", func(ctx context.Context) error {
		return receiver.CompleteMessage(ctx, messages[0], nil)
	}))
}

func (ends *Ends) find(name string, value any) {
	ends.Lock()
	defer ends.Unlock()
	ends.found[name] = value
}

func (ends *Ends) since() int64 { return time.Since(ends.beganAt).Milliseconds() }

func (ends *Ends) lookForSession() {
	client := ends.client(ends.elsewhere, &sb.ClientOptions{RetryOptions: sb.RetryOptions{MaxRetries: -1}})
	<-ends.began
	for ; !ends.isEnding(); time.Sleep(endsPause) {
		ctx, cancel := context.WithTimeout(context.Background(), endsWait)
		_, err := client.AcceptSessionForQueue(ctx, ends.name(endsSessions), "held", nil)
		cancel()
		if err == nil {
			// At the end its holder lets go of it.
			if !ends.isEnding() {
				ends.find("session_ms", ends.since())
			}
			return
		}
	}
}

func (ends *Ends) lookForMessage() {
	receiver := ends.receiver("held", ends.elsewhere)
	<-ends.began
	ends.repeat(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endsWait)
		defer cancel()
		messages, _ := receiver.ReceiveMessages(ctx, 1, nil)
		for _, message := range messages {
			ends.find("message_ms", ends.since())
			ends.find("deliveries", message.DeliveryCount-1)
			must(0, receiver.CompleteMessage(context.Background(), message, nil))
		}
	})
}

func (ends *Ends) isBusy() bool {
	ends.Lock()
	defer ends.Unlock()
	for _, kind := range endsKinds {
		if ends.calls[kind] == 0 {
			return false
		}
	}
	return ends.found["held"] != nil
}

func (ends *Ends) run(started string) {
	ctx := context.Background()
	for _, queue := range []string{"renewed", "held"} {
		must(0, ends.sender(queue).SendMessage(ctx, &sb.Message{Body: []byte("m")}, nil))
	}
	var work sync.WaitGroup
	for _, part := range []func(){
		ends.send, ends.receive, ends.renew, ends.schedule, ends.peek, ends.session, ends.hold,
	} {
		work.Go(part)
	}
	for !ends.isBusy() {
		time.Sleep(endsPause)
	}
	work.Go(ends.lookForSession)
	work.Go(ends.lookForMessage)
	must(0, os.WriteFile(started, nil, 0o644))
	input := bufio.NewReader(os.Stdin)
	must(input.ReadString('\n'))
	ends.beganAt = time.Now()
	close(ends.began)
	must(io.Copy(io.Discard, input))
	close(ends.ending)
	work.Wait()
}

func ends(args []string) int {
	flags := flag.NewFlagSet("ends", flag.ExitOnError)
	all := &Ends{
		calls: map[string]int{}, lost: map[string]int{}, failed: map[string]map[string]int{},
		found: map[string]any{"session_ms": nil, "message_ms": nil, "deliveries": nil},
		began: make(chan struct{}), ending: make(chan struct{}),
	}
	flags.StringVar(&all.amqp, "amqp", "", "`HOST:PORT` that leads to the node")
	flags.StringVar(&all.elsewhere, "elsewhere", "", "`HOST:PORT` of another node")
	flags.StringVar(&all.queues, "queues", "", "what their `NAMES` begin with; they are made")
	http := flags.String("http", "", "`HOST:PORT` of another node")
	path := flags.String("json", "", "the `FILE` the account is written to")
	_ = flags.Parse(args)
	var cluster Cluster
	administration := must(admin.NewClientFromConnectionString(cluster.plain(*http), plainHTTP()))
	ctx := context.Background()
	for _, queue := range endsQueues {
		properties := admin.QueueProperties{
			LockDuration: to.Ptr(endsLock), MaxDeliveryCount: to.Ptr(int32(endsDeliveriesMax)),
			RequiresSession: to.Ptr(queue == endsSessions),
		}
		options := admin.CreateQueueOptions{Properties: &properties}
		must(administration.CreateQueue(ctx, all.name(queue), &options))
	}
	all.run(strings.TrimSuffix(*path, ".json") + ".started")
	dead := 0
	for _, queue := range endsQueues {
		dead += int(must(administration.GetQueueRuntimeProperties(ctx, all.name(queue), nil)).DeadLetterMessageCount)
	}
	account := all.found
	account["dead"], account["calls"], account["lost"], account["failed"] = dead, all.calls, all.lost, all.failed
	writeJSON(*path, account)
	return 0
}
