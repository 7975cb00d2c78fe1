// Command elastic measures Kafka to Elasticsearch: a bridge with package sink/elastic, beside esutil.BulkIndexer of go-elasticsearch, which is fed
// with ready-made bytes and knows neither order nor versions nor positions; and a bridge into Postgres, S3 and Elasticsearch at once, beside one into each.
//
//	FLINKSINK_ELASTIC=http://127.0.0.1:9200 FLINKSINK_S3=... FLINKSINK_POSTGRES=... go run . [-rows 200000] [-rounds 5] [-only indexer|three]
//
// It is a module of its own: esutil imports the typed API, which takes minutes to compile.
//
// Contenders take turns, each once in each round, into a new index with the same mapping; ratios are taken within a round. Both have two requests of up to 4 MiB
// under way. Before a time counts, the index is asked how many documents it has. The clock of the bridge begins with its first record, that of the indexer
// with its first Add. Against the stub, a transport that answers every bulk with success and costs next to nothing, the bridge's time is that of
// fetching, decoding and encoding. Without a server only that part runs. CPU is that of this process, without the broker, and of the server as it says itself
// (_nodes/stats): on a machine that others use it says more than the time.
//
// Three at once: Postgres decides, the files become visible after it, and the index is given each checkpoint last. Each place is counted afterwards.
package main
