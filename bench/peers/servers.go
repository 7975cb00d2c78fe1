package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/flinksink/flinksink/testbed/kafka"
	"github.com/flinksink/flinksink/testbed/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// application is what our own sessions with Postgres are called, so that those of a contender can be told from them.
const application = "flinksink peers"

// servers are a broker, and a database of our own in a Postgres server.
type servers struct {
	broker string
	about  string
	prefix string // of topics and groups, and the name of the database
	dsn    string
	conn   *pgx.ConnConfig
	pool   *pgxpool.Pool
	cl     *kgo.Client
	adm    *kadm.Client
	topics []string
	flink  *cluster // nil: not started
	runs   int

	fillfactor int // of each table
	undo       []func()
}

func startServers(ctx context.Context) (_ *servers, err error) {
	s := &servers{prefix: fmt.Sprintf("flinksink_peers_%d_%d", os.Getpid(), time.Now().Unix())}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.broker = os.Getenv(kafka.Env); s.broker == "" {
		if err := s.startBroker(ctx); err != nil {
			return nil, err
		}
	}
	if s.cl, err = kgo.NewClient(kgo.SeedBrokers(strings.Split(s.broker, ",")...), kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))); err != nil {
		return nil, err
	}
	s.undo = append(s.undo, s.cl.Close)
	if err := s.cl.Ping(ctx); err != nil {
		return nil, fmt.Errorf("the broker at %s does not answer: %w", s.broker, err)
	}
	s.adm = kadm.NewClient(s.cl)
	s.undo = append(s.undo, s.deleteTopics)

	pg, err := postgres.Start(ctx, postgres.Options{
		Settings: map[string]string{"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "autovacuum": "off"},
		Log:      func(format string, args ...any) { fmt.Fprintf(os.Stderr, "postgres: "+format+"\n", args...) },
	})
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() { _ = pg.Stop() })
	if err := s.makeDatabase(ctx, pg.DSN()); err != nil {
		return nil, err
	}
	err = s.pool.QueryRow(ctx, "SELECT format('Postgres %s: fsync %s, shared_buffers %s, max_wal_size %s', current_setting('server_version'), current_setting('fsync'), "+
		"current_setting('shared_buffers'), current_setting('max_wal_size'))").Scan(&s.about)
	s.about += "; " + pg.Origin()
	return s, err
}

// startBroker starts a real one, and stops it in the end unless it ran before.
func (s *servers) startBroker(ctx context.Context) error {
	port := os.Getenv("FLINKSINK_KAFKA_PORT")
	if port == "" {
		port = "19092" // of testbed/kafka-up
	}
	c, err := net.DialTimeout("tcp", "localhost:"+port, time.Second)
	ran := err == nil
	if ran {
		_ = c.Close()
	}
	out, err := script(ctx, filepath.Join("..", "..", "testbed", "kafka-up"))
	if err != nil {
		return fmt.Errorf("a real broker is needed (Java and Maven, or %s): %w", kafka.Env, err)
	}
	s.broker = lastLine(out)
	if !ran {
		s.undo = append(s.undo, func() {
			if _, err := script(context.Background(), filepath.Join("..", "..", "testbed", "kafka-down"), "--wipe"); err != nil {
				fmt.Fprintln(os.Stderr, "peers: the broker is left running:", err)
			}
		})
	}
	return nil
}

// makeDatabase makes a database that stop drops again.
func (s *servers) makeDatabase(ctx context.Context, dsn string) error {
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+s.prefix); err != nil {
		_ = admin.Close(ctx)
		return err
	}
	s.undo = append(s.undo, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := admin.Exec(ctx, "DROP DATABASE "+s.prefix+" WITH (FORCE)"); err != nil {
			fmt.Fprintf(os.Stderr, "peers: database %s is left behind: %v\n", s.prefix, err)
		}
		_ = admin.Close(ctx)
	})
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	config.ConnConfig.Database = s.prefix
	config.ConnConfig.RuntimeParams["application_name"] = application
	s.conn, s.dsn = config.ConnConfig, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", userinfo(config.ConnConfig), hostOf(config.ConnConfig), s.prefix)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	s.undo = append(s.undo, s.pool.Close)
	return nil
}

func hostOf(c *pgx.ConnConfig) string { return net.JoinHostPort(c.Host, fmt.Sprint(c.Port)) }

func (s *servers) deleteTopics() {
	if len(s.topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.adm.DeleteTopics(ctx, s.topics...); err != nil {
		fmt.Fprintf(os.Stderr, "peers: topics %v are left behind: %v\n", s.topics, err)
	}
}

// stop undoes everything, the last thing first.
func (s *servers) stop() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	s.undo = nil
}

// script runs one of the project's scripts and returns what it printed; what it says meanwhile is for people.
func script(ctx context.Context, path string, args ...string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", errors.New(path + " is not here: run bench/peers/run")
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{path}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 10 * time.Second // what a script started may outlive it, and holds its output
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, tail(string(out), 5))
	}
	return string(out), nil
}

func lastLine(text string) string { return tail(text, 1) }

// tail is the last lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
