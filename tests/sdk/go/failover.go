// Sends and receives until its input ends, then gives account. Started by `tests/sdk/failover.py`,
// which kills nodes meanwhile; `tests/sdk/python/failover.py` says what is counted.

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"github.com/Azure/go-amqp"
)

const (
	// Between two messages of a sender.
	pause = 10 * time.Millisecond
	// One call for messages may take, with the way to a new link.
	receiveMax = 3 * time.Second
	// Without a message after which there is none left.
	drained = 3 * time.Second
	// The last messages may take.
	drainMax = 90 * time.Second
	// A send may take, with all the SDK's own tries.
	sendMax = 60 * time.Second
	// A completion may take. The SDK itself goes on for half a minute with a message whose connection
	// is gone, which it can settle no more.
	completeMax = 10 * time.Second
)

// Account is of what was sent and received.
type Account struct {
	sync.Mutex
	acknowledged, unanswered map[string]bool
	numbers                  map[string]map[int64]bool
	completed                map[int64]bool
	unconfirmed              map[int64]bool
	errors                   map[string]int
	completedAgain           int
	deliveredAgain           int
	givenBack                int
	lastDelivery             time.Time
	longestSend              time.Duration
}

// isRetryable is for what a client may see while a node is down: that trying again can help.
func isRetryable(err error) bool {
	var typed *sb.Error
	if errors.As(err, &typed) {
		return typed.Code == sb.CodeConnectionLost || typed.Code == sb.CodeTimeout
	}
	var condition *amqp.Error
	if errors.As(err, &condition) {
		return condition.Condition == "com.microsoft:server-busy"
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func (account *Account) failed(doing string, err error) {
	kind := "final"
	if isRetryable(err) {
		kind = "retryable"
	}
	text := strings.SplitN(err.Error(), "\n", 2)[0]
	account.errors[fmt.Sprintf("%s %s: %T %s", kind, doing, err, text[:min(len(text), 90)])]++
}

func (account *Account) delivered(name string, number int64) {
	account.lastDelivery = time.Now()
	if account.completed[number] {
		account.completedAgain++
	}
	if account.numbers[name] == nil {
		account.numbers[name] = map[int64]bool{}
	}
	if account.numbers[name][number] {
		account.deliveredAgain++
	}
	if account.unconfirmed[number] {
		delete(account.unconfirmed, number)
		account.givenBack++
	}
	account.numbers[name][number] = true
}

func (account *Account) lost() (count int) {
	for name := range account.acknowledged {
		if account.numbers[name] == nil {
			count++
		}
	}
	return count
}

func (account *Account) summary(left int64, detectsDuplicates bool) map[string]any {
	foreign, storedTwice := 0, 0
	for name, numbers := range account.numbers {
		if !account.acknowledged[name] && !account.unanswered[name] {
			foreign++
		}
		if len(numbers) > 1 {
			storedTwice++
		}
	}
	var reasons []string
	wrong := func(name string, count int) {
		if count > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", count, name))
		}
	}
	wrong("lost", account.lost())
	wrong("foreign", foreign)
	wrong("left", int(left))
	wrong("completed_again", account.completedAgain)
	if detectsDuplicates {
		wrong("stored_twice", storedTwice)
	}
	for text := range account.errors {
		if strings.HasPrefix(text, "final") {
			reasons = append(reasons, text)
		}
	}
	if len(account.acknowledged) == 0 {
		reasons = append(reasons, "nothing was sent")
	}
	summary := map[string]any{
		"acknowledged":    len(account.acknowledged),
		"unanswered":      len(account.unanswered),
		"received":        len(account.numbers),
		"lost":            account.lost(),
		"foreign":         foreign,
		"left":            left,
		"completed_again": account.completedAgain,
		"unconfirmed":     len(account.unconfirmed),
		"given_back":      account.givenBack,
		"delivered_again": account.deliveredAgain,
		"stored_twice":    storedTwice,
		"longest_send":    fmt.Sprintf("%.1f s", account.longestSend.Seconds()),
		"errors":          account.errors,
		"failure":         nil,
	}
	if len(reasons) > 0 {
		summary["failure"] = strings.Join(reasons, "; ")
	}
	return summary
}

func (account *Account) send(sender *sb.Sender, stopping <-chan struct{}) {
	run := make([]byte, 4)
	_, _ = rand.Read(run)
	for n := 0; ; n++ {
		select {
		case <-stopping:
			return
		case <-time.After(pause):
		}
		name, began := fmt.Sprintf("%s-%d", hex.EncodeToString(run), n), time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), sendMax)
		err := sender.SendMessage(ctx, &sb.Message{Body: []byte(name), MessageID: &name}, nil)
		cancel()
		account.Lock()
		if err == nil {
			account.acknowledged[name] = true
		} else {
			account.unanswered[name] = true
			account.failed("send", err)
		}
		account.longestSend = max(account.longestSend, time.Since(began))
		account.Unlock()
	}
}

func (account *Account) receive(receiver *sb.Receiver, ending <-chan struct{}) {
	for {
		select {
		case <-ending:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), receiveMax)
		messages, err := receiver.ReceiveMessages(ctx, 20, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			account.Lock()
			account.failed("receive", err)
			account.Unlock()
		}
		// All at once: by the time the last is completed its lock may have lapsed, and it may have been
		// completed by the receiver it came to next.
		account.Lock()
		for _, message := range messages {
			account.delivered(message.MessageID, *message.SequenceNumber)
		}
		account.Unlock()
		for _, message := range messages {
			if !account.complete(receiver, message) {
				break // What else came over a connection that is gone comes again.
			}
		}
	}
}

// complete says whether the connection the message came over is there to complete others.
func (account *Account) complete(receiver *sb.Receiver, message *sb.ReceivedMessage) bool {
	ctx, cancel := context.WithTimeout(context.Background(), completeMax)
	defer cancel()
	err := receiver.CompleteMessage(ctx, message, nil)
	account.Lock()
	defer account.Unlock()
	var typed *sb.Error
	switch {
	case err == nil:
		account.completed[*message.SequenceNumber] = true
	case errors.As(err, &typed) && typed.Code == sb.CodeLockLost:
		account.unconfirmed[*message.SequenceNumber] = true
	default:
		account.failed("complete", err)
		return false
	}
	return true
}

// waitDrained waits also for what a receiver held whose connection died: it comes again when its
// lock has lapsed.
func (account *Account) waitDrained(left func() int64) {
	until := time.Now().Add(drainMax)
	for time.Now().Before(until) {
		account.Lock()
		isQuiet := time.Since(account.lastDelivery) > drained && account.lost() == 0
		account.Unlock()
		if isQuiet && left() == 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func failover(args []string) int {
	flags := flag.NewFlagSet("failover", flag.ExitOnError)
	addresses := flags.String("amqp", "", "`HOST:PORT,…`")
	http := flags.String("http", "", "`HOST:PORT`")
	queue := flags.String("queue", "", "its `NAME`; it is made")
	detects := flags.Bool("detect-duplicates", false, "the queue does")
	path := flags.String("json", "", "the `FILE` the account is written to")
	_ = flags.Parse(args)
	var cluster Cluster
	administration := must(admin.NewClientFromConnectionString(cluster.plain(*http), plainHTTP()))
	properties := admin.QueueProperties{
		LockDuration: to.Ptr("PT20S"), MaxDeliveryCount: to.Ptr(int32(100)), RequiresDuplicateDetection: detects,
	}
	ctx := context.Background()
	must(administration.CreateQueue(ctx, *queue, &admin.CreateQueueOptions{Properties: &properties}))
	left := func() int64 {
		return must(administration.GetQueueRuntimeProperties(ctx, *queue, nil)).TotalMessageCount
	}
	account := &Account{
		acknowledged: map[string]bool{}, unanswered: map[string]bool{},
		numbers: map[string]map[int64]bool{}, completed: map[int64]bool{},
		unconfirmed: map[int64]bool{}, errors: map[string]int{},
	}
	stopping, ending := make(chan struct{}), make(chan struct{})
	var senders, receivers sync.WaitGroup
	for _, address := range strings.Split(*addresses, ",") {
		client := must(sb.NewClientFromConnectionString(cluster.plain(address), nil))
		sender := must(client.NewSender(*queue, nil))
		receiver := must(client.NewReceiverForQueue(*queue, nil))
		senders.Go(func() { account.send(sender, stopping) })
		receivers.Go(func() { account.receive(receiver, ending) })
	}
	for isStarted := false; !isStarted; time.Sleep(50 * time.Millisecond) {
		account.Lock()
		isStarted = len(account.numbers) > 0
		account.Unlock()
	}
	must(0, os.WriteFile(strings.TrimSuffix(*path, ".json")+".started", nil, 0o644))
	must(io.Copy(io.Discard, os.Stdin))
	close(stopping)
	senders.Wait()
	account.waitDrained(left)
	close(ending)
	receivers.Wait()
	writeJSON(*path, account.summary(left(), *detects))
	return 0
}

// must ends the program with what it cannot do without.
func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
