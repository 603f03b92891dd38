// What the checks share: entities of a check's own, notes of which methods it called, the runner.

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

const (
	// In which a message that is there arrives, on a busy machine.
	wait = 10 * time.Second
	// Without a message after which there is none.
	quiet = 2 * time.Second
	// What a check may take.
	checkMax = 120 * time.Second
	// What closing a check's clients may take; a connection in trouble may not close.
	closeMax = 5 * time.Second
)

// Check proves some methods, each of which it has to call.
type Check struct {
	name, says string
	methods    []string
	run        func(*Space)
}

var checks []Check

// check registers one. `methods` are method expressions such as (*sb.Sender).SendMessage.
func check(name, says string, methods []any, run func(*Space)) {
	names := make([]string, len(methods))
	for i, method := range methods {
		names[i] = nameOf(method)
	}
	checks = append(checks, Check{name, says, names, run})
}

// proves lists the methods a check proves; none, where it is about something else.
func proves(methods ...any) []any { return methods }

// Failure is what a check panics with; the runner makes a line of the table of it.
type Failure struct{ text string }

func fail(format string, values ...any) {
	panic(Failure{fmt.Sprintf(format, values...)})
}

// Space is what one check works with: clients that are closed after it, entities nobody else uses.
type Space struct {
	ctx     context.Context
	cluster Cluster
	// Of entities: unlike any other check's, of this run or another.
	name string

	// Checks may call from several goroutines.
	usedMutex sync.Mutex
	used      map[string]bool

	clients      []*sb.Client
	sharedClient *sb.Client
	sharedAdmin  *admin.Client
}

// noted gives the method back and notes its name as called:
//
//	noted(s, sender.SendMessage)(s.ctx, message, nil)
//
// The name is the compiler's own, so that a note cannot be of another method.
func noted[F any](s *Space, method F) F {
	s.usedMutex.Lock()
	defer s.usedMutex.Unlock()
	s.used[nameOf(method)] = true
	return method
}

// nameOf is `Type.Method` of a method of the SDK and `package.Function` of a function; types of the
// package `admin` are called by it, such as AdminClient.
func nameOf(method any) string {
	full := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	full = strings.TrimSuffix(full[strings.LastIndex(full, "/")+1:], "-fm")
	home, name, _ := strings.Cut(full, ".")
	if kind, ofType, isMethod := strings.Cut(name, ")."); isMethod {
		return methodName(home, strings.TrimPrefix(kind, "(*"), ofType)
	}
	return home + "." + name
}

func methodName(home, kind, name string) string {
	if home == "admin" {
		kind = "Admin" + kind
	}
	return kind + "." + name
}

// unhurried are the SDK's retries at a pace that lets a check with an error end in time.
var unhurried = sb.RetryOptions{RetryDelay: 500 * time.Millisecond}

// once is for errors which the SDK takes for passing ones.
var once = sb.RetryOptions{MaxRetries: -1}

func (s *Space) newClient(retry sb.RetryOptions) *sb.Client {
	text, options := s.cluster.usual()
	options.RetryOptions = retry
	client := got(noted(s, sb.NewClientFromConnectionString)(text, &options))
	return s.closing(client)
}

// closing makes the client one that is closed at the end of the check.
func (s *Space) closing(client *sb.Client) *sb.Client {
	s.clients = append(s.clients, client)
	return client
}

func (s *Space) client() *sb.Client {
	if s.sharedClient == nil {
		s.sharedClient = s.newClient(unhurried)
	}
	return s.sharedClient
}

// impatient is a client that does not try again.
func (s *Space) impatient() *sb.Client { return s.newClient(once) }

func (s *Space) admin() *admin.Client {
	if s.sharedAdmin == nil {
		text, options := s.cluster.usualAdmin()
		s.sharedAdmin = got(noted(s, admin.NewClientFromConnectionString)(text, options))
	}
	return s.sharedAdmin
}

// queue makes one with these properties, or defaults.
func (s *Space) queue(properties ...admin.QueueProperties) string {
	var options admin.CreateQueueOptions
	if len(properties) > 0 {
		options.Properties = &properties[0]
	}
	got(noted(s, s.admin().CreateQueue)(s.ctx, s.name, &options))
	return s.name
}

// topic makes one, with subscriptions that take everything.
func (s *Space) topic(subscriptions ...string) string {
	got(noted(s, s.admin().CreateTopic)(s.ctx, s.name, nil))
	for _, name := range subscriptions {
		got(noted(s, s.admin().CreateSubscription)(s.ctx, s.name, name, nil))
	}
	return s.name
}

func (s *Space) sender(entity string) *sb.Sender {
	return got(noted(s, s.client().NewSender)(entity, nil))
}

func (s *Space) receiver(queue string) *sb.Receiver {
	return got(noted(s, s.client().NewReceiverForQueue)(queue, nil))
}

func (s *Space) deadLetters(queue string) *sb.Receiver {
	options := sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}
	return got(noted(s, s.client().NewReceiverForQueue)(queue, &options))
}

func (s *Space) subscriber(topic, subscription string) *sb.Receiver {
	return got(noted(s, s.client().NewReceiverForSubscription)(topic, subscription, nil))
}

func (s *Space) session(queue, id string) *sb.SessionReceiver {
	return got(noted(s, s.client().AcceptSessionForQueue)(s.ctx, queue, id, nil))
}

// send sends messages of these texts, one batch.
func (s *Space) send(entity string, texts ...string) {
	messages := make([]*sb.Message, len(texts))
	for i, text := range texts {
		messages[i] = &sb.Message{Body: []byte(text)}
	}
	s.sendMessages(entity, messages...)
}

// sendMessages sends them in one batch.
func (s *Space) sendMessages(entity string, messages ...*sb.Message) {
	sender := s.sender(entity)
	batch := got(noted(s, sender.NewMessageBatch)(s.ctx, nil))
	for _, message := range messages {
		ok(noted(s, batch.AddMessage)(message, nil))
	}
	ok(noted(s, sender.SendMessageBatch)(s.ctx, batch, nil))
	ok(noted(s, sender.Close)(s.ctx))
}

func (s *Space) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	for _, client := range s.clients {
		_ = client.Close(ctx)
	}
}

func (s *Space) sleep(span time.Duration) {
	select {
	case <-time.After(span):
	case <-s.ctx.Done():
		fail("the check does not end within %v", checkMax)
	}
}

// Receiving is what receivers with and without a session have in common.
type Receiving struct {
	receive func(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
	settle  func(context.Context, *sb.ReceivedMessage, *sb.CompleteMessageOptions) error
}

// receiving is of a *sb.Receiver or a *sb.SessionReceiver. Methods are named by their type, so they
// are taken from it and not from an interface.
func receiving(receiver any) Receiving {
	switch receiver := receiver.(type) {
	case *sb.Receiver:
		return Receiving{receiver.ReceiveMessages, receiver.CompleteMessage}
	case *sb.SessionReceiver:
		return Receiving{receiver.ReceiveMessages, receiver.CompleteMessage}
	}
	panic(fmt.Sprintf("%T receives nothing", receiver))
}

// receive returns exactly so many messages, however many calls it takes.
func receive(s *Space, receiver any, count int) []*sb.ReceivedMessage {
	ctx, cancel := context.WithTimeout(s.ctx, 2*wait)
	defer cancel()
	var messages []*sb.ReceivedMessage
	for len(messages) < count {
		more, err := noted(s, receiving(receiver).receive)(ctx, count-len(messages), nil)
		if errors.Is(err, context.DeadlineExceeded) {
			fail("%d messages arrived, not %d", len(messages), count)
		}
		ok(err)
		messages = append(messages, more...)
	}
	return messages
}

func receiveOne(s *Space, receiver any) *sb.ReceivedMessage { return receive(s, receiver, 1)[0] }

// take returns the bodies of so many messages, completed.
func take(s *Space, receiver any, count int) []string {
	messages := receive(s, receiver, count)
	for _, message := range messages {
		complete(s, receiver, message)
	}
	return bodies(messages)
}

func complete(s *Space, receiver any, message *sb.ReceivedMessage) {
	ok(noted(s, receiving(receiver).settle)(s.ctx, message, nil))
}

// empty says that nothing comes.
func empty(s *Space, receiver any) bool {
	ctx, cancel := context.WithTimeout(s.ctx, quiet)
	defer cancel()
	messages, err := noted(s, receiving(receiver).receive)(ctx, 1, nil)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		ok(err)
	}
	return len(messages) == 0
}

func bodies(messages []*sb.ReceivedMessage) []string {
	texts := make([]string, len(messages))
	for i, message := range messages {
		texts[i] = string(message.Body)
	}
	return texts
}

// ok fails the check with an error that is none of those it looks for.
func ok(err error) {
	if err != nil {
		fail("%T: %v", err, err)
	}
}

// got is what a call returns that has to succeed.
func got[T any](value T, err error) T {
	ok(err)
	return value
}

func equal[T any](seen, expected T, what ...any) {
	if !reflect.DeepEqual(seen, expected) {
		fail("%s, not %s %s", shown(seen), shown(expected), fmt.Sprint(what...))
	}
}

// shown follows pointers, which the properties of entities and messages are full of.
func shown(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return string(text)
}

func holds(is bool, format string, values ...any) {
	if !is {
		fail(format, values...)
	}
}

// refused is for calls that have to fail with the SDK's error of that code.
func refused(code sb.Code, err error) {
	var typed *sb.Error
	if !errors.As(err, &typed) || typed.Code != code {
		fail("%s was expected, not %T: %v", code, err, err)
	}
}

// refusedSaying is for errors the SDK has no code for: one whose text has this in it, as programs
// look for it.
func refusedSaying(text string, err error) {
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(text)) {
		fail("an error with %q was expected, not %v", text, err)
	}
}

// status is for requests of the administration client that have to be answered with it.
func status(code int, err error) {
	var typed *azcore.ResponseError
	if !errors.As(err, &typed) || typed.StatusCode != code {
		fail("HTTP status %d was expected, not %v", code, err)
	}
}

// errorOf drops the value of a call that has to fail.
func errorOf[T any](_ T, err error) error { return err }

// start makes a call that goes on while the check does; the function it returns waits for it.
func start[T any](call func() (T, error)) (isDone func() bool, result func() (T, error)) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = call()
	}()
	isDone = func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	return isDone, func() (T, error) { <-done; return value, err }
}

// Result is a check's line in the table.
type Result struct {
	Name    string   `json:"name"`
	Says    string   `json:"says"`
	Methods []string `json:"methods"`
	Failure *string  `json:"failure"`
	Trace   string   `json:"trace"`
	Seconds float64  `json:"seconds"`
}

func runCheck(cluster Cluster, check Check) (result Result) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), checkMax)
	defer cancel()
	unique := make([]byte, 3)
	_, _ = rand.Read(unique)
	name := fmt.Sprintf("%s-go-%s", strings.ReplaceAll(check.name, ".", "-"), hex.EncodeToString(unique))
	space := &Space{ctx: ctx, cluster: cluster, name: name, used: map[string]bool{}}
	result = Result{Name: check.name, Says: check.says, Methods: check.methods}
	defer func() {
		space.close()
		result.Seconds = time.Since(started).Round(100 * time.Millisecond).Seconds()
	}()
	defer func() {
		if thrown := recover(); thrown != nil {
			failure, isFailure := thrown.(Failure)
			if !isFailure { // Whatever it is, it is a line of the table.
				failure.text = fmt.Sprintf("panic: %v", thrown)
			}
			line := strings.SplitN(strings.TrimSpace(failure.text), "\n", 2)[0]
			line = line[:min(len(line), 240)]
			result.Failure, result.Trace = &line, failure.text+"\n"+string(debug.Stack())
		}
	}()
	check.run(space)
	var skipped []string
	for _, method := range check.methods {
		if !space.used[method] {
			skipped = append(skipped, method)
		}
	}
	holds(len(skipped) == 0, "the check does not call %s", strings.Join(skipped, ", "))
	return result
}

// runChecks runs those whose name contains `only`, so many beside each other.
func runChecks(cluster Cluster, jobs int, only string) []Result {
	waiting := make(chan Check)
	results := make(chan Result)
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(func() {
			for check := range waiting {
				results <- runCheck(cluster, check)
			}
		})
	}
	go func() {
		for _, check := range checks {
			if strings.Contains(check.name, only) {
				waiting <- check
			}
		}
		close(waiting)
		workers.Wait()
		close(results)
	}()
	all := []Result{} // None is a list too, in JSON.
	for result := range results {
		all = append(all, result)
	}
	slices.SortFunc(all, func(one, other Result) int { return strings.Compare(one.Name, other.Name) })
	return all
}

func sorted(texts []string) []string {
	sort.Strings(texts)
	return texts
}
