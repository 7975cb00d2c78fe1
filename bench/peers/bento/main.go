// Command bento is Bento with the components that the configurations beside it name, and no others. It is a module of its own, so that Bento runs with
// the libraries that it was released with.
package main

import (
	"context"

	_ "github.com/lib/pq"
	"github.com/warpstreamlabs/bento/public/service"

	_ "github.com/warpstreamlabs/bento/public/components/io"
	_ "github.com/warpstreamlabs/bento/public/components/kafka"
	_ "github.com/warpstreamlabs/bento/public/components/pure"
	_ "github.com/warpstreamlabs/bento/public/components/sql/base"
)

func main() { service.RunCLI(context.Background()) }
