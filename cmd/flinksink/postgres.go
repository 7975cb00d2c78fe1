package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// openPool connects to the database that flag names, whose URL placeOf has read, or says within c.patience why it cannot. lanes is how many connections write at once.
func (c *call) openPool(ctx context.Context, flag, to string, lanes int) (*pgxpool.Pool, error) {
	pool, err := c.newPool(flag, to, lanes)
	if err != nil {
		return nil, err
	}
	if err := c.ping(ctx, flag, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// newPool makes the pool, or says what is wrong with the URL. It waits for no server.
func (c *call) newPool(flag, to string, lanes int) (*pgxpool.Pool, error) {
	if err := checkURL(flag, to); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(to)
	if err != nil {
		return nil, config("%s: %s", flag, parseReason(err))
	}
	c.secret(cfg.ConnConfig.Password)
	if !given(to, "connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		cfg.ConnConfig.ConnectTimeout = c.patience
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "flinksink"
	}
	if given(to, "pool_max_conns") {
		if int(cfg.MaxConns) < lanes+1 {
			return nil, config("%s: pool_max_conns=%d is too small for --lanes %d: each lane needs a connection, and their store one more", flag, cfg.MaxConns, lanes)
		}
	} else {
		cfg.MaxConns = max(cfg.MaxConns, int32(2*lanes+2))
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // its end is Close
	if err != nil {
		return nil, config("%s: %w", flag, err)
	}
	return pool, nil
}

// ping connects to the database of a pool, or says within c.patience why it cannot.
func (c *call) ping(ctx context.Context, flag string, pool *pgxpool.Pool) error {
	ping, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if err := pool.Ping(ping); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		within := ""
		if ping.Err() != nil || pgconn.Timeout(err) {
			within = " within " + c.patience.String()
		}
		return connectError(flag, pool.Config().ConnConfig, within, err)
	}
	return nil
}

// authority returns the part of a URL between :// and the first of / ? #, and what follows it.
func authority(to string) (auth, rest string) {
	_, auth, _ = strings.Cut(to, "://")
	if i := strings.IndexAny(auth, "/?#"); i >= 0 {
		return auth[:i], auth[i:]
	}
	return auth, ""
}

// checkURL refuses a URL that could be read in two ways. A password with an unescaped / ? or # ends the
// host part too early: the rest of it would be taken for a database name, and shown as one.
func checkURL(flag, to string) error {
	auth, rest := authority(to)
	if strings.Contains(rest, "@") || strings.Contains(rest, "#") || strings.Contains(auth, " ") || strings.Count(auth, "@") > 1 {
		return config("%s: the signs / ? # %% @ and spaces in user or password (and @ # further on) have to be percent-encoded (%%2F %%3F %%23 %%25 %%40 %%20), or keep the password in PGPASSWORD or ~/.pgpass", flag)
	}
	if _, err := url.PathUnescape(auth); err != nil {
		return config("%s: a %% in user, password or host is not followed by two hex digits: write %%25 for the sign itself", flag)
	}
	return nil
}

// passwords returns every form in which the URL's password could turn up in a text.
func passwords(to string) []string {
	auth, rest := authority(to)
	var out []string
	add := func(p string) {
		out = append(out, p)
		if u, err := url.PathUnescape(p); err == nil && u != p {
			out = append(out, u)
		}
	}
	if i := strings.LastIndexByte(auth, '@'); i >= 0 {
		if _, p, ok := strings.Cut(auth[:i], ":"); ok {
			add(p)
		}
	}
	_, query, _ := strings.Cut(rest, "?")
	for _, kv := range strings.Split(query, "&") {
		if k, v, _ := strings.Cut(kv, "="); k == "password" || k == "sslpassword" {
			add(v)
		}
	}
	return out
}

// given reports whether the URL sets a parameter.
func given(to, name string) bool {
	_, query, _ := strings.Cut(to, "?")
	for _, kv := range strings.Split(query, "&") {
		if k, _, _ := strings.Cut(kv, "="); k == name {
			return true
		}
	}
	return false
}

// parseReason is what pgx says without the connection string, of which it masks only what it takes for the password, and without the
// details in parentheses, which quote the rest.
func parseReason(err error) string {
	const readAs = "cannot be read as a Postgres URL"
	_, reason, ok := strings.Cut(err.Error(), "`: ")
	if i := strings.LastIndex(reason, "`: "); i >= 0 {
		reason = reason[i+len("`: "):] // a backquote in the string itself
	}
	if reason, _, _ = strings.Cut(reason, " ("); !ok || reason == "" {
		return readAs
	}
	if strings.Contains(reason, "TLS") {
		reason += ": check sslmode and the other parameters that begin with ssl"
	}
	return readAs + ": " + reason
}

// connectError says why a database cannot be used, and the cure. It names where the connection went, and as whom.
func connectError(flag string, cfg *pgx.ConnConfig, within string, err error) error {
	where := fmt.Sprintf("database %q at %s as user %q", cfg.Database, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), cfg.User)
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return &configError{err: &worded{fmt.Sprintf("%s: %s: %s (SQLSTATE %s): %s", flag, where, pe.Message, pe.Code, hint(flag, pe)), err}}
	}
	reason := err.Error()
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) && ce.Unwrap() != nil {
		reason, _, _ = strings.Cut(ce.Unwrap().Error(), "\n") // one line an address that was tried, all with the same fate as a rule
	}
	return &configError{err: &worded{fmt.Sprintf("%s: %s: no connection%s: %s: check host, port and sslmode in %[1]s, and that the server runs",
		flag, where, within, reason), err}}
}

// hint returns the cure for what a server answered.
func hint(flag string, pe *pgconn.PgError) string {
	switch {
	case pe.Code == "3D000":
		return "create the database, or correct its name in " + flag
	case strings.HasPrefix(pe.Code, "28"):
		return "correct user or password in " + flag + ", PGPASSWORD or ~/.pgpass, or the server's pg_hba.conf"
	case pe.Code == "53300":
		return "raise max_connections, or end other sessions"
	case pe.Code == "57P03":
		return "wait until the server is up"
	}
	return "see the server's log"
}
