// The public implementation of the relay's protocol (BSD-3-Clause), which judges this project's. Arguments: `clients URL`,
// which connects two clients through the relay at URL and prints a line of JSON with what they saw, or `relay`, which prints
// the address of a relay and serves it until its input ends.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"tailscale.com/derp"
	"tailscale.com/derp/derphttp"
	"tailscale.com/derp/derpserver"
	"tailscale.com/disco"
	"tailscale.com/net/netmon"
	"tailscale.com/types/key"
)

func main() {
	switch os.Args[1] {
	case "clients":
		clients(os.Args[2])
	case "relay":
		relay()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func connect(url string) (*derphttp.Client, key.NodePrivate) {
	private := key.NewNode()
	client, err := derphttp.NewClient(private, url, log.Printf, netmon.NewStatic())
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	check(client.Connect(ctx))
	return client, private
}

// next returns the next message that is neither about the relay nor a sign of life.
func next(client *derphttp.Client) derp.ReceivedMessage {
	for {
		message, err := client.Recv()
		check(err)
		switch message := message.(type) {
		case derp.ServerInfoMessage, derp.KeepAliveMessage, derp.HealthMessage:
			continue
		case derp.ReceivedPacket:
			message.Data = bytes.Clone(message.Data)
			return message
		default:
			return message
		}
	}
}

func clients(url string) {
	time.AfterFunc(60*time.Second, func() { log.Fatal("no result after a minute") })
	a, keyOfA := connect(url)
	b, keyOfB := connect(url)
	result := map[string]any{}

	equal := 0
	sizes := []int{1, 32, 1_280, 1_500, 65_535, derp.MaxPacketSize}
	for _, size := range sizes {
		for _, way := range []struct {
			from, to    *derphttp.Client
			source, dst key.NodePublic
		}{{a, b, keyOfA.Public(), keyOfB.Public()}, {b, a, keyOfB.Public(), keyOfA.Public()}} {
			packet := make([]byte, size)
			rand.Read(packet)
			check(way.from.Send(way.dst, packet))
			if got, ok := next(way.to).(derp.ReceivedPacket); ok && got.Source == way.source && bytes.Equal(got.Data, packet) {
				equal++
			}
		}
	}
	result["equal"] = equal

	inOrder := 0
	go func() {
		for n := 0; n < 30; n++ {
			check(a.Send(keyOfB.Public(), []byte{byte(n)}))
		}
	}()
	for n := 0; n < 30; n++ {
		if got, ok := next(b).(derp.ReceivedPacket); ok && len(got.Data) == 1 && got.Data[0] == byte(n) {
			inOrder++
		}
	}
	result["inOrder"] = inOrder

	payload := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	check(a.SendPing(payload))
	pong, ok := next(a).(derp.PongMessage)
	result["pong"] = ok && pong == derp.PongMessage(payload)

	stranger := key.NewNode().Public()
	// a relay reports the absence of a peer only to those who look for a path to it
	check(a.Send(stranger, append([]byte(disco.Magic), make([]byte, 64)...)))
	gone, ok := next(a).(derp.PeerGoneMessage)
	result["stranger"] = ok && gone.Peer == stranger && gone.Reason == derp.PeerGoneReasonNotHere

	b.Close()
	gone, ok = next(a).(derp.PeerGoneMessage)
	result["gone"] = ok && gone.Peer == keyOfB.Public() && gone.Reason == derp.PeerGoneReasonDisconnected
	a.Close()
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func relay() {
	server := derpserver.New(key.NewNode(), func(string, ...any) {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("http://%s\n", listener.Addr())
	go func() {
		io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		os.Exit(0)
	}()
	check(http.Serve(listener, derpserver.Handler(server)))
}
