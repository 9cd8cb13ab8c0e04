// Compiles alpha * x + y on an XLA service and runs it. In this directory, with the plugins
// protoc-gen-go and protoc-gen-go-grpc on the path:
//
//	protoc -I ../../../protos --go_out=. --go_opt=module=xla-service \
//	    --go-grpc_out=. --go-grpc_opt=module=xla-service ../../../protos/xla/*.proto
//	go mod tidy
//	go run . 127.0.0.1:1685 [token]
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"xla-service/xlapb"
)

const axpy = `HloModule axpy

ENTRY axpy {
  alpha = f32[] parameter(0)
  x = f32[3] parameter(1)
  y = f32[3] parameter(2)
  alphas = f32[3] broadcast(alpha), dimensions={}
  product = f32[3] multiply(alphas, x)
  ROOT sum = f32[3] add(product, y)
}
`

// literal returns an array of f32 in row-major layout; without dimensions it is a scalar.
func literal(dimensions []int64, elements ...float32) *xlapb.LiteralProto {
	layout := &xlapb.LayoutProto{}
	for number := len(dimensions) - 1; number >= 0; number-- {
		layout.MinorToMajor = append(layout.MinorToMajor, int64(number))
	}
	shape := &xlapb.ShapeProto{
		ElementType: xlapb.PrimitiveType_F32,
		Dimensions:  dimensions,
		Layout:      layout,
	}
	return &xlapb.LiteralProto{Shape: shape, F32S: elements}
}

func run(target, token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	// Over TLS: credentials.NewTLS(...) in place of insecure.NewCredentials().
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	service := xlapb.NewXlaServiceClient(connection)
	extension := xlapb.NewXlaExtensionServiceClient(connection)

	// What the calls below keep on the server belongs to this session.
	session, err := extension.OpenSession(ctx, &xlapb.OpenSessionRequest{Client: "go example"})
	if err != nil {
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "xla-session", session.Token)
	defer extension.CloseSession(ctx, &xlapb.CloseSessionRequest{})

	compiled, err := extension.CompileModule(ctx, &xlapb.CompileModuleRequest{
		Module: &xlapb.ModuleSource{Form: &xlapb.ModuleSource_HloText{HloText: axpy}},
	})
	if err != nil {
		return err
	}
	execute := &xlapb.ExecuteRequest{Handle: compiled.Handle}
	for _, value := range []*xlapb.LiteralProto{
		literal(nil, 2),
		literal([]int64{3}, 1, 2, 3),
		literal([]int64{3}, 10, 20, 30),
	} {
		kept, err := service.TransferToServer(ctx, &xlapb.TransferToServerRequest{Literal: value})
		if err != nil {
			return err
		}
		execute.Arguments = append(execute.Arguments, kept.Data)
	}
	executed, err := service.Execute(ctx, execute)
	if err != nil {
		return err
	}
	result, err := service.TransferToClient(ctx, &xlapb.TransferToClientRequest{Data: executed.Output})
	if err != nil {
		return err
	}
	fmt.Println(compiled.Name, result.Literal.F32S)
	return nil
}

func main() {
	target, token := "127.0.0.1:1685", ""
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	if len(os.Args) > 2 {
		token = os.Args[2]
	}
	if err := run(target, token); err != nil {
		fmt.Fprintln(os.Stderr, status.Convert(err).Message())
		os.Exit(1)
	}
}
