// Command apiserver is Kubernetes' own kube-apiserver, unchanged: the tests of jupyter_users ask the real thing.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Its metrics of the client, as the original has them.
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
