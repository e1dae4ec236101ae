// Copies a file to a host over SFTP with the client library that the Windows Machine Config Operator uses, in its way and
// with the default options: the benchmark's peer.
//
//	sftp-put ADDRESS USER KEY FILE REMOTE
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: sftp-put ADDRESS USER KEY FILE REMOTE")
		os.Exit(2)
	}
	if err := put(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, "sftp-put:", err)
		os.Exit(1)
	}
}

func put(address, user, keyFile, file, remote string) error {
	pem, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return err
	}
	// The hosts of the benchmark are new at each run.
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := sftp.NewClient(client)
	if err != nil {
		return err
	}
	defer session.Close()
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := session.Create(remote)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.Close()
}
