// Runs the checks of `azservicebus`, unmodified, against a cluster, or another program that
// tests/sdk has for each SDK.
//
//	mayfly-sdk-go suite --amqp localhost:5700 --http localhost:5300
//	mayfly-sdk-go failover --amqp localhost:5672 --http localhost:5300 --queue q --json FILE
//	mayfly-sdk-go ends --amqp localhost:5672 --elsewhere localhost:6672 --http localhost:6300 --queues q --json FILE
//	mayfly-sdk-go by_string QUEUE PART…

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	programs := map[string]func([]string) int{
		"suite": suite, "failover": failover, "ends": ends, "by_string": byString,
	}
	if len(os.Args) > 1 {
		if program := programs[os.Args[1]]; program != nil {
			os.Exit(program(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: mayfly-sdk-go suite|failover|ends FLAGS (--help tells them), or by_string QUEUE PART…")
	os.Exit(2)
}

func suite(args []string) int {
	// With what TLS is checked: HOST:PORT of AMQP over it, and the PEM file to be trusted.
	cluster := Cluster{amqps: os.Getenv("MAYFLY_AMQPS"), authority: os.Getenv("MAYFLY_AUTHORITY")}
	flags := flag.NewFlagSet("suite", flag.ExitOnError)
	flags.StringVar(&cluster.amqp, "amqp", "localhost:5700", "`HOST:PORT`")
	flags.StringVar(&cluster.http, "http", "localhost:5300", "`HOST:PORT`, with and without TLS")
	jobs := flags.Int("jobs", 12, "checks beside each other")
	only := flags.String("only", "", "checks whose name contains this, told at length")
	path := flags.String("json", "", "the `FILE` the results are written to")
	_ = flags.Parse(args)
	results := runChecks(cluster, *jobs, *only)
	passed := 0
	for _, result := range results {
		if result.Failure == nil {
			passed++
		} else if *only != "" {
			fmt.Printf("%s\ngo %s: %s\n\n", result.Trace, result.Name, *result.Failure)
		}
	}
	fmt.Printf("Go: %d of %d checks passed\n", passed, len(results))
	if *path != "" {
		writeJSON(*path, map[string]any{"inventory": inventory(), "checks": results})
	}
	if passed < len(results) || passed == 0 {
		return 1
	}
	return 0
}

func writeJSON(path string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
