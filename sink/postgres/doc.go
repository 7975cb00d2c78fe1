// Package postgres writes a changelog into Postgres tables, exactly once, and keeps the positions beside the rows.
//
// # Overview
//
// [New] makes a [Sink] of a pgx pool and a table. Its mode is InTransaction by default: the rows of a checkpoint and the positions up to which
// they were read are one transaction, which Save commits. So the sink is the store of its lane as well (leave sink.Options.Store
// empty), and no second system and no prepared transaction is needed. Other sinks beside it have their decision in the same
// transaction.
//
// Where somebody else decides (a store in another system, an outer engine, a second sink that is its own store), [Options].Mode is Prepared
// or Staged. Both leave receipts, which any process can commit or abort. Without a store of the user's they offer one in the tables beside
// the rows; [NewStore] makes the same for other sinks. A bridge may change its mode with a restart. Mode Auto is the one of the three that the server and the
// bridge allow, looked at by each start.
//
//	mode           waits for the decision as      needs                                     costs
//	InTransaction  an open transaction            to be the store of its lane               nothing
//	Prepared       a prepared transaction         max_prepared_transactions, one role       a flush to disk more, locks until Commit
//	Staged         rows in a table of the sink's  nothing, any pooler will do               the rows twice over the wire and in the log
//
// A batch is reduced to its net effect, sorted by key, and sent as soon as it comes, into the checkpoint's open transaction: DELETE,
// then INSERT ... ON CONFLICT DO UPDATE, each of one array for every column, whatever the number of rows. As long as the keys are new, as
// in a backfill, COPY writes them within a savepoint, at about twice the rate. A table without a key gets COPY and plain INSERTs, and where its stream tells the old row of every change (mode [I,UB,UA,D]), each delete takes away one equal row, for which
// every statement that deletes reads the table once, unless an index over a NOT NULL column helps. A column that the source did not send (Unchanged) keeps what the row holds.
//
// [Sink.SQL] prints the CREATE TABLE that fits. Other column types are fine as long as they hold every value of the source's type exactly;
// anything else is found before the first row. text columns hold every type. Nested types go into jsonb: a ROW is an object, a
// MAP an object with its keys as text, bytes are base64, NaN and the infinities are texts. An INTERVAL of days and seconds stays a number of
// seconds, since a day in Postgres need not have 24 hours.
//
// # Write shapes
//
// Options.AppendOnce, SoftDelete, IgnoreDeletes, SkipUnchanged, Version and Swap write otherwise, and Audit adds columns; see there. They hold for every
// statement that rows can go by, and none of them makes the table depend on where a batch or a checkpoint was cut: the net effect of a batch is that of its
// changes told one by one. What a guarded statement leaves as it is counts as superseded, which the server's count of rows tells; a BEFORE ROW trigger that
// returns NULL is counted among them. In mode Staged that is known where the rows are rehearsed, and elsewhere such changes count as applied.
//
// # Guarantees
//
// Every change takes effect exactly once, and no reader sees a part of a checkpoint. The argument stands at Save. A process that comes
// back from the dead is fenced: Acquire, before it returns, ends the server process of every transaction that an older generation still
// has open, and none of theirs can begin afterwards. The argument stands at Acquire. Those transactions are found by an advisory
// lock that each holds from its first statement to its end, not by process numbers: nobody else's session can be hit.
//
// In the modes Prepared and Staged the fence is a row for each generation in the target's database, which Open ends: the argument stands in the
// file fence.go. Commit and Abort are of exactly one name, made of bridge, sink, generation and checkpoint, and that a commit was done is
// proven by a mark that is visible if and only if its rows are. Work that is decided, gone and not marked is ErrLost, which names what is
// missing; a transaction that an administrator committed or rolled back by hand is told apart by it. These rows, some hundred bytes for each start
// and each rebalance, stay in the table fence for good: a process that comes back late is refused by its row. One of an ended generation
// may be deleted by hand once none of its processes can be running any more.
//
// A staged checkpoint is decided before it is merged. Everything that the target could refuse by then is tried out in Prepare, with the
// statements themselves, under a savepoint that is rolled back; tables that can refuse nothing are spared that (no constraint but the key, no
// trigger, columns of exact types, indexes of fixed width). What remains is what others do to the target in between: a row of theirs that takes a
// unique value, a constraint added, a column dropped. Then Commit says so, is tried again with an alarm, and goes through once that is undone;
// [Store.Settle] can let the checkpoint go. Whoever staged a checkpoint of up to 16 MiB keeps it in memory until it is merged, so that it is not read back.
//
// A crash of the server, or a failover that loses transactions, takes rows and positions back together. Lanes set synchronous_commit = on
// where it is off, and refuse UNLOGGED tables.
//
// # Required settings
//
// Postgres 13 or newer; from 17 on, a process that was stopped in the middle of a message is bounded too (Options.TransactionTimeout).
// A unique index or primary key over exactly the key columns, not partial, not deferrable, not over expressions. SELECT, INSERT, UPDATE and DELETE on the table. The right to create the schema of the sink's own tables (Options.Schema), or an
// administrator who runs what the error prints. Where the role may make temporary tables (TEMPORARY on the database), wide rows go faster. One free connection of the pool for each lane. All processes of a bridge under one role,
// or pg_signal_backend for it, so that a successor may end its predecessor's transaction at once; else it waits until that has idled for
// Options.IdleTimeout. That timeout has to be longer than the source is ever silent within a checkpoint that holds rows.
//
// Nothing is set on a connection beyond a transaction, so poolers that share connections by transaction will do (PgBouncer's
// pool_mode=transaction), with the pool's usual care: default_query_exec_mode=exec. Statements of rows are unnamed statements of the extended
// protocol in every mode.
//
// # Failure
//
// Errors are [sink.Error]s. Before COMMIT is sent, nothing can be durable: a lost connection, a deadlock, a timeout, a server that became
// read-only are ErrTransient, and the checkpoint is done again from its saved positions. A lost answer to COMMIT is ErrUncertain,
// which End settles. A table that was altered meanwhile is looked at again. The native
// *pgconn.PgError is in reach of errors.As; error texts hold its SQLSTATE and names, and never its details, which quote rows.
//
// A change that can never be written is ErrRejected, and sink.Error.Rejected names all of them that one batch holds, up to a thousand messages:
// values that do not fit their columns, constraints, foreign keys, what a trigger raises. Those that only the server can tell are looked for in a
// transaction of their own, which does the checkpoint again up to there, takes the batch apart and is rolled back; for this the batches of a
// checkpoint are kept in memory until Prepare, or until the lane needs the memory ([sink.Spiller]): then none is named, and smaller checkpoints tell. Only what is refused by itself, beside all that is accepted, is named. What is then left out
// leaves the change of the same key before it as the one that counts.
//
// Before a change is called rejected for a constraint over several rows, or by a trigger, the checkpoint is done again within the sink in the topic's
// order, then with the rows taken out first, or where they have to stay, with their unique values given up first (rows that swap a unique value). A batch that is refused even then, and that later changes may help (a row that it refers to, of
// its own table or another of the lane; a unique value that another row has still), waits for the end of the
// checkpoint, and so does what follows it; there all of it is written as one run. Deadlocks and serialization failures are done again three times. A row that refers to nothing
// at the end of the checkpoint has it done again five times, since the other may come, one whose unique value is taken twice, and is named then. All of this as long as the sink holds the whole
// checkpoint. docs/postgres.md tells more.
//
// None is named where changes still refuse one another, and where a deferred constraint other than a foreign key fails at the end of the
// checkpoint: smaller checkpoints tell. A smaller one may end between a row and the row that it refers to, or that gives up its value, and blame the first: where
// a table has foreign keys or unique values that pass from row to row, and checkpoints larger than the lane's memory, halt, rather than set aside.
//
// The committer keeps dead letters, in the table dead_letter beside the positions, in the same transaction. [Store.DeadLetters] reads them, and
// says how to in SQL.
//
// # Operators
//
// [NewStore] is the door to the positions without a sink: it reads them, and moves them by hand ([Store.SetPositions], [Store.Reset],
// [Store.Skip]), fenced against a bridge that runs, with a row for each in the table audit, in the same transaction. [Sink.Check] looks at
// what a start would look at, and changes nothing. [Store.Pending] lists what the modes Prepared and Staged left in doubt, with a plan for each, and
// [Store.Settle] carries the plans out.
//
// # Not covered
//
// Deletes from a table without a key whose stream does not tell the old row. Swapping the values of another unique column between rows, where the rows have
// to stay, the column is NOT NULL and of a type without a value to spare (a boolean, a float, an enum), or others refer to it with an ON UPDATE action, and the constraint cannot be deferred. Views, foreign tables and temporary tables. Two keys that only the key column's
// type takes for one (two spellings of a uuid): refused when both come in one batch, one row otherwise. A BEFORE ROW trigger that returns
// NULL: it suppresses the row without an error, and nobody notices, since row counts prove nothing. (Row level security, which would do
// the same to updates and deletes, is refused.) How many standbys have a commit when it is answered: that is what synchronous_commit and
// synchronous_standby_names say.
package postgres
