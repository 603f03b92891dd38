// Where the cluster under test is, and the ways to it.

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/coder/websocket"
)

// Cluster has addresses, HOST:PORT each; `authority` is the file of its certificate authority.
type Cluster struct{ amqp, http, amqps, authority string }

const keyed = ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"

// plain is the connection string of an emulator, which the SDK speaks to without TLS.
func (cluster Cluster) plain(address string) string {
	return fmt.Sprintf("Endpoint=sb://%s%s;UseDevelopmentEmulator=true", address, keyed)
}

// secure is a connection string as Azure hands them out, with a port.
func (cluster Cluster) secure(address string) string {
	return fmt.Sprintf("Endpoint=sb://%s%s", address, keyed)
}

// trusting is a configuration of TLS that trusts the cluster's authority and no other.
func (cluster Cluster) trusting() *tls.Config {
	if cluster.amqps == "" || cluster.authority == "" {
		fail("no cluster with TLS: `mayfly up --tls`, MAYFLY_AMQPS=HOST:PORT, MAYFLY_AUTHORITY=FILE")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(got(os.ReadFile(cluster.authority))) {
		fail("%s has no certificate", cluster.authority)
	}
	return &tls.Config{RootCAs: pool}
}

// amqpsOptions are for AMQP over TLS at a port that is not 5671. The SDK would send a port in the
// endpoint along as the server's name, which TLS refuses; as a custom endpoint it may have one.
func (cluster Cluster) amqpsOptions() sb.ClientOptions {
	return sb.ClientOptions{TLSConfig: cluster.trusting(), CustomEndpoint: cluster.amqps}
}

// chosen is how the driver has all go: "plain", or with TLS, "amqps" or "wss".
func chosen() string {
	if way := os.Getenv("MAYFLY_TRANSPORT"); way != "" {
		return way
	}
	return "plain"
}

// usual is a connection string and options for AMQP as the driver has chosen.
func (cluster Cluster) usual() (string, sb.ClientOptions) {
	switch chosen() {
	case "amqps":
		return cluster.secure("localhost"), cluster.amqpsOptions()
	case "wss":
		trusting := http.Client{Transport: &http.Transport{TLSClientConfig: cluster.trusting()}}
		options := sb.ClientOptions{NewWebSocketConn: webSocket("AMQPWSB10", &trusting)}
		return cluster.secure(cluster.http), options
	default:
		return cluster.plain(cluster.amqp), sb.ClientOptions{}
	}
}

// usualAdmin is a connection string and options for administration as the driver has chosen.
func (cluster Cluster) usualAdmin() (string, *admin.ClientOptions) {
	if chosen() == "plain" {
		return cluster.plain(cluster.http), plainHTTP()
	}
	return cluster.secure(cluster.http), cluster.https()
}

// PlainHTTP turns the scheme of each request, which the administration client has no option for.
type PlainHTTP struct{}

func (PlainHTTP) Do(request *policy.Request) (*http.Response, error) {
	request.Raw().URL.Scheme = "http"
	return request.Next()
}

func plainHTTP() *admin.ClientOptions {
	return &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{PerCallPolicies: []policy.Policy{PlainHTTP{}}},
	}
}

func (cluster Cluster) https() *admin.ClientOptions {
	transport := http.Client{Transport: &http.Transport{TLSClientConfig: cluster.trusting()}}
	return &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &transport}}
}

type dialWebSocket func(context.Context, sb.NewWebSocketConnArgs) (net.Conn, error)

// webSocket is what the SDK's example does; without a client of HTTP that trusts the authority it
// goes without TLS.
func webSocket(subprotocol string, secure *http.Client) dialWebSocket {
	return func(ctx context.Context, args sb.NewWebSocketConnArgs) (net.Conn, error) {
		where := args.Host
		if secure == nil {
			where = strings.Replace(where, "wss://", "ws://", 1)
		}
		options := websocket.DialOptions{HTTPClient: secure}
		if subprotocol != "" {
			options.Subprotocols = []string{subprotocol}
		}
		conn, _, err := websocket.Dial(ctx, where, &options)
		if err != nil {
			return nil, err
		}
		// The connection outlives the call that opened it.
		return websocket.NetConn(context.Background(), conn, websocket.MessageBinary), nil
	}
}
