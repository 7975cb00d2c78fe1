// Command elastic measures Kafka to Elasticsearch: a bridge with package sink/elastic, beside esutil.BulkIndexer of go-elasticsearch, which is fed
// with ready-made bytes and knows neither order nor versions nor positions.
//
//	FLINKSINK_ELASTIC=http://127.0.0.1:9200 go run . [-rows 200000] [-rounds 5]
//
// It is a module of its own: esutil imports the typed API, which takes minutes to compile.
//
// Contenders take turns, each once in each round, into a new index with the same mapping; ratios are taken within a round. Before a time counts, the index
// is asked how many documents it has. The clock of the bridge begins with its first record, that of the indexer with its first Add. Against the stub, a
// transport that answers every bulk with success and costs next to nothing, the bridge's time is that of fetching, decoding and encoding. Without a
// server only that part runs.
package main
