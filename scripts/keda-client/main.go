// Asks an external scaler with KEDA's own client. Arguments: the address, the method, the namespace, and the trigger's metadata
// as key=value. It prints each answer as a line of JSON.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	client := externalscaler.NewExternalScalerClient(connection)
	trigger := &externalscaler.ScaledObjectRef{Name: "scaled", Namespace: os.Args[3], ScalerMetadata: map[string]string{}}
	for _, each := range os.Args[4:] {
		key, value, _ := strings.Cut(each, "=")
		trigger.ScalerMetadata[key] = value
	}
	ctx := context.Background()
	switch os.Args[2] {
	case "IsActive":
		answer, err := client.IsActive(ctx, trigger)
		show(answer, err)
	case "GetMetricSpec":
		answer, err := client.GetMetricSpec(ctx, trigger)
		show(answer, err)
	case "GetMetrics":
		specs, err := client.GetMetricSpec(ctx, trigger)
		check(err)
		metric := specs.MetricSpecs[0].MetricName
		answer, err := client.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: trigger, MetricName: metric})
		show(answer, err)
	case "StreamIsActive":
		stream, err := client.StreamIsActive(ctx, trigger)
		check(err)
		for {
			answer, err := stream.Recv()
			if err == io.EOF {
				return
			}
			show(answer, err)
		}
	}
}

func show(answer proto.Message, err error) {
	check(err)
	text, err := protojson.Marshal(answer)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
