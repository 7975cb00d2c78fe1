package main

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/flinksink/flinksink/testbed/kafka"
	"github.com/flinksink/flinksink/testbed/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The program runs itself in these roles.
const (
	roleEnv    = "FLINKSINK_BENCH_ROLE"
	roleBroker = "broker"
	roleMemory = "memory"
)

func self(role string, env ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// inProcess runs the program in a role that does one task, which it finds as JSON in an environment variable, and reads what it tells of it.
func inProcess(ctx context.Context, role, env string, task, told any) error {
	text, err := stdjson.Marshal(task)
	if err != nil {
		return err
	}
	cmd, err := self(role, env+"="+string(text))
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe() // the child ends when this does
	if err != nil {
		return err
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the bridge's process: %w", err)
	}
	return stdjson.Unmarshal(out, told)
}

func serveBroker(ctx context.Context) error {
	return kafka.Serve(ctx, kafka.Options{}, os.Stdin, os.Stdout)
}

// servers are a broker and a database of our own in a Postgres server.
type servers struct {
	broker string
	about  []string // what they are, for people
	prefix string   // of topics, groups and the database
	dsn    string
	pool   *pgxpool.Pool
	adm    *kadm.Client

	topics []string
	undo   []func()
}

func startServers(ctx context.Context) (_ *servers, err error) {
	s := &servers{prefix: fmt.Sprintf("flinksink_bench_%d_%d", os.Getpid(), time.Now().Unix())}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.broker = os.Getenv(kafka.Env); s.broker == "" {
		cmd, err := self(roleBroker)
		if err != nil {
			return nil, err
		}
		b, err := kafka.Start(ctx, cmd)
		if err != nil {
			return nil, err
		}
		s.undo = append(s.undo, b.Stop)
		s.broker = b.Addr()
		s.about = append(s.about, "broker: kfake in a process of its own ("+kafka.Env+" names a real one)")
	} else {
		s.about = append(s.about, "broker: that of "+kafka.Env)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.broker, ",")...))
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, cl.Close)
	s.adm = kadm.NewClient(cl)
	s.undo = append(s.undo, s.deleteTopics)

	pg, err := postgres.Start(ctx, postgres.Options{
		// Prepared transactions are off by default; a checkpoint of the server within a round would be one contender's bad luck.
		Settings: map[string]string{"max_prepared_transactions": "16", "max_wal_size": "4GB", "checkpoint_timeout": "30min"},
		Log:      func(format string, args ...any) { fmt.Fprintf(os.Stderr, "postgres: "+format+"\n", args...) },
	})
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() { _ = pg.Stop() })
	if err := s.makeDatabase(ctx, pg.DSN()); err != nil {
		return nil, err
	}
	var version, settings string
	err = s.pool.QueryRow(ctx, "SELECT current_setting('server_version'), "+
		"format('fsync %s, shared_buffers %s, max_wal_size %s', current_setting('fsync'), current_setting('shared_buffers'), current_setting('max_wal_size'))").Scan(&version, &settings)
	if err != nil {
		return nil, err
	}
	s.about = append(s.about, fmt.Sprintf("Postgres %s: %s; %s", version, pg.Origin(), settings))
	return s, nil
}

// makeDatabase makes a database that stop drops again.
func (s *servers) makeDatabase(ctx context.Context, dsn string) error {
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	name := pgx.Identifier{s.prefix}.Sanitize()
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		_ = admin.Close(ctx)
		return err
	}
	s.undo = append(s.undo, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			fmt.Fprintf(os.Stderr, "bench: database %s is left behind: %v\n", s.prefix, err)
		}
		_ = admin.Close(ctx)
	})
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	config.ConnConfig.Database = s.prefix
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	s.undo = append(s.undo, s.pool.Close)
	s.dsn = dsn
	return nil
}

// stop undoes everything, the last thing first.
func (s *servers) stop() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	s.undo = nil
}

func (s *servers) deleteTopics() {
	if len(s.topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := s.adm.DeleteTopics(ctx, s.topics...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: topics %v are left behind: %v\n", s.topics, err)
	}
}

// partitions of each topic: as many for each of two lanes.
const partitions = 4

// fill makes a topic of n records and returns its name.
func (s *servers) fill(ctx context.Context, name string, n int, at func(i int) (key, value []byte), more ...kgo.Opt) (string, error) {
	topic := s.prefix + "_" + strings.ReplaceAll(name, " ", "_")
	if _, err := s.adm.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return "", err
	}
	s.topics = append(s.topics, topic)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(s.broker, ",")...), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))}, more...)...)
	if err != nil {
		return "", err
	}
	defer cl.Close()
	failed := make(chan error, 1)
	for i := range n {
		key, value := at(i)
		cl.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return "", err
	}
	select {
	case err := <-failed:
		return "", err
	default:
		return topic, nil
	}
}
