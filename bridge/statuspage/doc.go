// Package statuspage shows bridges to the person on call: a page, the same as JSON, and a health endpoint.
//
// # Overview
//
//	mux.Handle("/flinksink/", http.StripPrefix("/flinksink", statuspage.Handler(b)))
//
//	/              the page; JSON when the request's Accept header asks for application/json and not for text/html
//	/status.json   a [Report]
//	/healthz       200 "ok", or 503 and one sentence for each bridge that is not healthy
//
// The page works without JavaScript and loads itself again every five seconds; ?refresh=off stops that. Each answer is made from
// [bridge.Bridge.Status] when it is asked for and reaches neither broker nor sink, so it costs little and works during an outage.
//
// # Health
//
// A bridge is healthy while it runs and moves. It is not
//
//   - before Run and after it returned, with or without an error;
//   - while a decided checkpoint cannot be committed (sink.Hooks.Alarm);
//   - when a partition has more to read and nothing of it was saved for [Stall], or the brokers have been silent for as long.
//
// So a server that is away for a minute, with its retries, is no alarm. Do not let a supervisor kill the process because of /healthz: a
// bridge that is not healthy either tries again by itself or has already ended. It is for alerts, and for a rollout that should stop.
//
// # Safety
//
// Nothing can be changed through the handler: it answers GET and HEAD only. It shows no row values and no settings. Errors appear with
// their texts, which by the contracts of packages sink and changelog hold neither secrets nor row values; a sink of your own has to keep
// that. Names of topics, groups, hosts and transactional ids do appear: put the handler on an internal port or behind your own
// authentication.
//
// # Not covered
//
// A report tells of this process. Partitions that other members of the consumer group hold are in theirs. Positions are moved with the
// flinksink command, never from here.
package statuspage
