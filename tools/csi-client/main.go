// csi-client calls csi-proxy the way a CSI driver's node plugin does: through the named pipe, with csi-proxy's own
// client. It is built for Windows and shows in tests that csi-proxy does not only run, but answers.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "path-exists" {
		fmt.Fprintln(os.Stderr, "usage: csi-client path-exists PATH")
		os.Exit(2)
	}
	exists, err := pathExists(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "csi-client:", err)
		os.Exit(1)
	}
	fmt.Println(exists)
}

func pathExists(path string) (bool, error) {
	client, err := filesystem.NewClient()
	if err != nil {
		return false, fmt.Errorf("opening the pipe of filesystem/v1: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := client.PathExists(ctx, &v1.PathExistsRequest{Path: path})
	if err != nil {
		return false, fmt.Errorf("PathExists: %w", err)
	}
	return response.GetExists(), nil
}
