package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// check asks brokers that do not answer once, whoever names them, and each line says which flag the address came from.
func TestCheck_AsksOnce(t *testing.T) {
	for _, c := range []struct{ name, address string }{{"refused", closedAddress(t)}, {"silent", silentAddress(t)}} {
		t.Run(c.name, func(t *testing.T) {
			ddl := write(t, "ddl.sql", strings.Replace(keyedDDL, "'x'", "'"+c.address+"'", 1))
			for _, source := range [][]string{{"--brokers", c.address}, nil} {
				var out, errs strings.Builder
				k := &call{patience: 200 * time.Millisecond}
				status := k.execute(t.Context(), append([]string{"check", "--bridge", "b", "--ddl", ddl, "--to", "kafka://" + c.address + "/t"}, source...), strings.NewReader(""), &out, &errs)
				first, flag := "check --brokers, TLS", "--brokers"
				if source == nil {
					first, flag = "check 'properties.bootstrap.servers' in --ddl "+ddl+" (or name others by --brokers), TLS", "--ddl"
				}
				if status != exitFailed || strings.Count(out.String(), " within 200ms") != 1 || len(k.silent) != 1 || !strings.Contains(out.String(), first) ||
					!strings.Contains(out.String(), "wrong  target     --to: no answer from the brokers at "+c.address+", which were asked for "+flag+" already; check host and port in --to") {
					t.Errorf("status %d, %d waits: %s%s", status, len(k.silent), out.String(), errs.String())
				}
			}
		})
	}
	// Another cluster is asked for itself.
	k := &call{patience: 200 * time.Millisecond}
	var out, errs strings.Builder
	k.execute(t.Context(), []string{"check", "--bridge", "b", "--ddl", write(t, "ddl.sql", keyedDDL), "--brokers", closedAddress(t), "--to", "kafka://" + silentAddress(t) + "/t"}, strings.NewReader(""), &out, &errs)
	if len(k.silent) != 2 || strings.Count(out.String(), " within 200ms") != 2 {
		t.Errorf("%d waits: %s", len(k.silent), out.String())
	}
}

// A bucket whose server is away is told by every command that needs it, with the flag or the variable that named the server and the address.
func TestBucketAway(t *testing.T) {
	const secret = "geheim-of-the-bucket"
	ddl, closed := write(t, "ddl.sql", keyedDDL), closedAddress(t)
	broker := newBroker(t)
	keyed(t, broker, 1)
	store := "file:" + filepath.Join(t.TempDir(), "s")
	for _, c := range []struct {
		variable, flag, want string
	}{
		{"", "http://" + closed, "check the address (--s3-endpoint), and that the server runs"},
		{"AWS_ENDPOINT_URL", "", "check the address (AWS_ENDPOINT_URL, or give --s3-endpoint)"},
		{"AWS_ENDPOINT_URL_S3", "", "check the address (AWS_ENDPOINT_URL_S3, or give --s3-endpoint)"},
	} {
		ofAWS(t, "", "")
		t.Setenv("AWS_ACCESS_KEY_ID", "a key of tests")
		t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
		if c.variable != "" {
			t.Setenv(c.variable, "http://"+closed)
		}
		for _, args := range [][]string{
			{"run", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/x", "--s3-kind", "upsert", "--until-end"},
			{"run", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "kafka://" + broker + "/copy", "--store", "s3://lake/x", "--until-end"},
			{"check", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/x", "--s3-kind", "upsert"},
			{"verify", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/x", "--s3-kind", "upsert", "--store", store},
			{"compact", "--to", "s3://lake/x", "--bridge", "b"},
			{"success", "--to", "s3://lake/x", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--s3-partition-by", "day=ts|yyyy-MM-dd", "--every", "24h"},
			{"positions", "show", "--store", "s3://lake/x", "--bridge", "b"},
			{"letters", "--store", "s3://lake/x"},
			{"pending", "--store", "s3://lake/x", "--bridge", "b"},
		} {
			if c.variable != "" && args[0] != "compact" && args[0] != "check" { // one by --to is enough of these
				continue
			}
			if c.flag != "" {
				args = append(args, "--s3-endpoint", c.flag)
			}
			var out, errs strings.Builder
			status := (&call{patience: 100 * time.Millisecond}).execute(t.Context(), args, strings.NewReader(""), &out, &errs)
			text := out.String() + errs.String()
			if args[0] == "check" && strings.Contains(text, "brokers at") { // so short a patience may be too short for those that are there
				continue
			}
			if status == exitDone || !strings.Contains(text, `: no answer for bucket "lake" from http://`+closed) || !strings.Contains(text, c.want) || strings.Contains(text, "transient") || strings.Contains(text, secret) {
				t.Errorf("%v: status %d, %s", args, status, text)
			}
		}
	}
	// Of AWS itself it is the region.
	client, err := (&call{}).newBucketClient("--to", &s3Flags{region: "xx-nowhere-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	client, err = (&call{}).newBucketClient("--to", &s3Flags{region: "xx-nowhere-1"})
	if err != nil {
		t.Fatal(err)
	}
	err = (&call{}).awayBucket("--to", &s3Flags{region: "xx-nowhere-1"}, client, folder{"lake", ""}, &net.OpError{Op: "dial", Net: "tcp", Err: net.UnknownNetworkError("x")})
	if !strings.Contains(err.Error(), `no answer for bucket "lake" from AWS in region xx-nowhere-1`) || !strings.Contains(err.Error(), "check the region (--s3-region), the bucket's name in --to") {
		t.Error(err)
	}
}

// A bucket that does not exist is told with the flag that named it.
func TestBucketMissing(t *testing.T) {
	lake := newBucket(t)
	for _, args := range []string{"positions show --bridge b --store", "letters --store", "pending --bridge b --store", "compact --bridge b --to"} {
		words := append(strings.Fields(args), "s3://nowhere/x", "--s3-endpoint", lake.URL)
		if got := command(t, words...); got.status != exitConfig || !strings.Contains(got.errs, `there is no bucket "nowhere": make it, or name another`) || !strings.HasPrefix(got.errs, "flinksink: --") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// A server that is there a moment later is waited for, as brokers are.
func TestBucketAway_ComesBack(t *testing.T) {
	lake := newBucket(t)
	var asked atomic.Int32
	address := strings.TrimPrefix(lake.URL, "http://")
	front := proxy(t, address, func() bool { return asked.Add(1) > 2 })
	got := command(t, "positions", "show", "--store", "s3://lake/x", "--bridge", "b", "--s3-endpoint", "http://"+front)
	if got.status != exitConfig || !strings.Contains(got.errs, `knows no bridge "b"`) || asked.Load() < 3 {
		t.Errorf("%d connections: %+v", asked.Load(), got)
	}
}

// proxy carries connections to address once open allows one, and closes them before.
func proxy(t *testing.T, address string, open func() bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if !open() {
				in.Close()
				continue
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			go carry(in, out)
			go carry(out, in)
		}
	}()
	return l.Addr().String()
}

func carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
