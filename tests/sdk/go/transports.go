// The ways to the cluster beside plain AMQP: AMQP over TLS, through WebSockets, HTTPS.

package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// carries says that messages go both ways, and requests through $management.
func carries(s *Space, client *sb.Client) {
	queue := s.name
	sender := got(noted(s, client.NewSender)(queue, nil))
	body := string(make([]byte, 100_000)) // More than a frame.
	sendOne(s, sender, text(body))
	receiver := got(noted(s, client.NewReceiverForQueue)(queue, nil))
	equal(len(got(noted(s, receiver.PeekMessages)(s.ctx, 1, nil))), 1)
	holds(take(s, receiver, 1)[0] == body, "another body")
	holds(empty(s, receiver), "more come")
}

func (s *Space) clientOf(text string, options sb.ClientOptions) *sb.Client {
	options.RetryOptions = once
	return s.closing(got(noted(s, sb.NewClientFromConnectionString)(text, &options)))
}

// signature is a shared access signature for everything.
func signature() string {
	resource, expiry := url.QueryEscape("sb://localhost"), time.Now().Add(time.Hour).Unix()
	signer := hmac.New(sha256.New, []byte("SAS_KEY_VALUE"))
	fmt.Fprintf(signer, "%s\n%d", resource, expiry)
	signed := url.QueryEscape(base64.StdEncoding.EncodeToString(signer.Sum(nil)))
	return fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%d&skn=RootManageSharedAccessKey",
		resource, signed, expiry)
}

// Credential is an identity as those of Microsoft Entra; its tokens are JSON web tokens to the SDK.
type Credential struct{}

func (Credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: signature(), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func init() {
	check("transports.amqps", "Messages over AMQP with TLS, to a connection string like Azure's.",
		proves(sb.NewClientFromConnectionString),
		func(s *Space) {
			s.queue()
			carries(s, s.clientOf(s.cluster.secure("localhost"), s.cluster.amqpsOptions()))
		})

	check("transports.untrusted", "A client that does not trust the cluster's authority does not speak to it.",
		proves((*sb.Sender).SendMessage),
		func(s *Space) {
			s.queue()
			options := s.cluster.amqpsOptions()
			options.TLSConfig = nil // The machine's own authorities.
			client := s.clientOf(s.cluster.secure("localhost"), options)
			sender := got(noted(s, client.NewSender)(s.name, nil))
			refusedSaying("certificate", noted(s, sender.SendMessage)(s.ctx, text("x"), nil))
		})

	check("transports.custom_endpoint", "A client of another host's name goes where it is told.",
		proves(sb.NewClientFromConnectionString),
		func(s *Space) {
			s.queue()
			text := s.cluster.plain("name.servicebus.windows.net")
			options := sb.ClientOptions{CustomEndpoint: s.cluster.amqp, ApplicationID: "checks"}
			carries(s, s.clientOf(text, options))
		})

	check("transports.websocket", "Messages through a WebSocket without TLS.",
		proves(sb.NewClientFromConnectionString),
		func(s *Space) {
			s.queue()
			options := sb.ClientOptions{NewWebSocketConn: webSocket("AMQPWSB10", nil)}
			carries(s, s.clientOf(s.cluster.plain(s.cluster.http), options))
		})

	check("transports.websocket_amqp", "The subprotocol that the SDK's own example asks for.",
		proves(),
		func(s *Space) {
			s.queue()
			options := sb.ClientOptions{NewWebSocketConn: webSocket("amqp", nil)}
			carries(s, s.clientOf(s.cluster.plain(s.cluster.http), options))
		})

	check("transports.websocket_unnamed", "A WebSocket that asks for no subprotocol.",
		proves(),
		func(s *Space) {
			s.queue()
			options := sb.ClientOptions{NewWebSocketConn: webSocket("", nil)}
			carries(s, s.clientOf(s.cluster.plain(s.cluster.http), options))
		})

	check("transports.websocket_tls", "Messages through a WebSocket with TLS.",
		proves(sb.NewClientFromConnectionString),
		func(s *Space) {
			s.queue()
			trusting := http.Client{Transport: &http.Transport{TLSClientConfig: s.cluster.trusting()}}
			options := sb.ClientOptions{NewWebSocketConn: webSocket("AMQPWSB10", &trusting)}
			carries(s, s.clientOf(s.cluster.secure(s.cluster.http), options))
		})

	check("transports.https", "Administration over HTTPS, with nothing changed but what is trusted.",
		proves(admin.NewClientFromConnectionString, (*admin.Client).CreateQueue, (*admin.Client).GetQueue),
		func(s *Space) {
			text := s.cluster.secure(s.cluster.http)
			client := got(noted(s, admin.NewClientFromConnectionString)(text, s.cluster.https()))
			got(noted(s, client.CreateQueue)(s.ctx, s.name, nil))
			equal(got(noted(s, client.GetQueue)(s.ctx, s.name, nil)).QueueName, s.name)
		})

	check("transports.signature", "A connection string with a shared access signature.",
		proves(sb.NewClientFromConnectionString, admin.NewClientFromConnectionString),
		func(s *Space) {
			s.queue()
			endpoint := "Endpoint=sb://%s;SharedAccessSignature=%s;UseDevelopmentEmulator=true"
			carries(s, s.clientOf(fmt.Sprintf(endpoint, s.cluster.amqp, signature()), sb.ClientOptions{}))
			text := fmt.Sprintf(endpoint, s.cluster.http, signature())
			client := got(noted(s, admin.NewClientFromConnectionString)(text, plainHTTP()))
			equal(got(noted(s, client.GetQueue)(s.ctx, s.name, nil)).QueueName, s.name)
		})

	check("transports.credential", "Clients of an identity, with its tokens, where the cluster has no secret.",
		proves(sb.NewClient, admin.NewClient),
		func(s *Space) {
			s.queue()
			options := s.cluster.amqpsOptions()
			options.RetryOptions = once
			carries(s, s.closing(got(noted(s, sb.NewClient)("localhost", Credential{}, &options))))
			client := got(noted(s, admin.NewClient)(s.cluster.http, Credential{}, s.cluster.https()))
			equal(got(noted(s, client.GetQueue)(s.ctx, s.name, nil)).QueueName, s.name)
		})
}
