// The thinnest programs of the SDK: a connection string, and nothing else that names a broker.
//
//	mayfly-sdk-go by_string QUEUE PART…    the string is MAYFLY_STRING; a line of JSON for each part

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// What one part may take.
const partMax = 30 * time.Second

func thereAndBack(ctx context.Context, text, queue string, options sb.ClientOptions) error {
	options.RetryOptions = once
	client, err := sb.NewClientFromConnectionString(text, &options)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(ctx) }()
	sender, err := client.NewSender(queue, nil)
	if err != nil {
		return err
	}
	body := fmt.Sprint("there at ", time.Now())
	if err := sender.SendMessage(ctx, &sb.Message{Body: []byte(body)}, nil); err != nil {
		return err
	}
	receiver, err := client.NewReceiverForQueue(queue, nil)
	if err != nil {
		return err
	}
	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil {
		return err
	}
	if len(messages) != 1 || string(messages[0].Body) != body {
		return fmt.Errorf("sent %q, received %q", body, bodies(messages))
	}
	return receiver.CompleteMessage(ctx, messages[0], nil)
}

func administrate(ctx context.Context, text, queue string) error {
	client, err := admin.NewClientFromConnectionString(text, nil)
	if err != nil {
		return err
	}
	if _, err := client.GetNamespaceProperties(ctx, nil); err != nil {
		return err
	}
	made, err := client.CreateQueue(ctx, queue+"-made", nil)
	if err != nil {
		return err
	}
	var names []string
	for pager := client.NewListQueuesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, item := range page.Queues {
			names = append(names, item.QueueName)
		}
	}
	if !slices.Contains(names, made.QueueName) {
		return fmt.Errorf("%s was made, and %q are listed", made.QueueName, names)
	}
	_, err = client.DeleteQueue(ctx, made.QueueName, nil)
	return err
}

func byString(args []string) int {
	text, queue := os.Getenv("MAYFLY_STRING"), args[0]
	for _, part := range args[1:] {
		ctx, cancel := context.WithTimeout(context.Background(), partMax)
		err := fmt.Errorf("there is no part %s", part)
		switch part {
		case "client":
			err = thereAndBack(ctx, text, queue, sb.ClientOptions{})
		case "websocket":
			dial := webSocket("AMQPWSB10", http.DefaultClient)
			err = thereAndBack(ctx, text, queue, sb.ClientOptions{NewWebSocketConn: dial})
		case "administration":
			err = administrate(ctx, text, queue)
		}
		cancel()
		told := map[string]any{"part": part, "failure": nil}
		if err != nil {
			told["failure"] = err.Error()
		}
		_ = json.NewEncoder(os.Stdout).Encode(told)
	}
	return 0
}
