// Package explain reads what Flink's EXPLAIN CHANGELOG_MODE prints, and says before anything runs what a job will write to a table's topic, whether the
// topic can carry it, and whether the sink behind it can take it.
//
// # Overview
//
//	report, err := explain.Check(text, table, formats, explain.Settings{Sink: explain.Postgres})
//	for _, f := range report.Findings {
//		fmt.Println(f)
//	}
//
// The text is what EXPLAIN CHANGELOG_MODE [, PLAN_ADVICE] INSERT INTO ... printed, of one INSERT or of a statement set, with or without the statements themselves
// before it, or the planner's error. [Parse] reads it by itself.
//
// A plan says which kinds of change reach the sink ([Plan.Input]), which node is the first that makes updates and deletes, and whether a
// SinkUpsertMaterializer stands before the sink, so that [Plan.Mode] is what is written. bridge.Options.Promise takes that mode, and the bridge then reports the first record that
// breaks it: another job writes to the topic, or the job was changed.
//
// The rules are those of FlinkChangelogModeInferenceProgram and StreamPhysicalSink up to Flink 2.3; the texts in testdata are Flink 2.2's own.
//
// # Not covered
//
// EXPLAIN without CHANGELOG_MODE has no modes: the report says so. JSON plans (EXPLAIN PLAN FOR ... as JSON, compiled plans) are not read. What a
// plan cannot say is not known here either: whether two inserts have one key, and what state TTL makes of a row.
package explain
