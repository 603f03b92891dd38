// Reads what deploy/ describes with the types of those who act on it, and refuses what these do not know: a field
// with a slip in its name is passed over by Kubernetes and by Compose alike, and nobody learns of it.
//
//	manifests kubernetes < rendered.yaml    each object as one line of JSON
//	manifests compose FILE                  the project, names and variables filled in, as JSON
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/compose-spec/compose-go/v2/cli"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "kubernetes":
		return kubernetes(os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "compose":
		return compose(args[1], os.Stdout)
	default:
		return errors.New("usage: manifests kubernetes | manifests compose FILE")
	}
}

// Kinds that nobody here knows are refused: what is not checked is not shown.
func kubernetes(from io.Reader, to io.Writer) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, batch.AddToScheme, policy.AddToScheme, networking.AddToScheme,
		rbac.AddToScheme, monitoring.AddToScheme, certmanager.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(from))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(withoutComments(document))) == 0 {
			continue
		}
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("%w, in:\n%s", err, document)
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		line, err := json.Marshal(object)
		if err != nil {
			return err
		}
		fmt.Fprintln(to, string(line))
	}
}

func withoutComments(document []byte) []byte {
	var kept [][]byte
	for _, line := range bytes.Split(document, []byte("\n")) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) && !bytes.Equal(bytes.TrimSpace(line), []byte("---")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, []byte("\n"))
}

func compose(path string, to io.Writer) error {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithOsEnv, cli.WithDotEnv, cli.WithName("mayfly"))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	text, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}
