package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"

	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// seen is what readers of the three places see at one moment, by id.
type seen struct {
	postgres, lake, search map[int64]string
	saved, files           int64 // offsets of all partitions together: that Postgres has decided, and that files in the lake reach
}

func (w *world) see(ctx context.Context) (s seen, err error) {
	var errs []error
	s.postgres, s.saved, err = w.seePostgres(ctx)
	errs = append(errs, err)
	s.lake, s.files, err = w.seeLake(ctx)
	errs = append(errs, err)
	s.search, err = w.seeSearch(ctx)
	return s, errors.Join(append(errs, err)...)
}

// seePostgres reads the table and the stored positions, which one transaction writes.
func (w *world) seePostgres(ctx context.Context) (rows map[int64]string, saved int64, err error) {
	rows = map[int64]string{}
	var there bool
	if err := w.pool.QueryRow(ctx, `SELECT to_regclass('public.orders') IS NOT NULL AND to_regclass('flinksink.position') IS NOT NULL`).Scan(&there); err != nil || !there {
		return rows, 0, err
	}
	if err := w.pool.QueryRow(ctx, `SELECT coalesce(sum(next_offset), 0)::bigint FROM flinksink.position`).Scan(&saved); err != nil {
		return nil, 0, err
	}
	found, err := w.pool.Query(ctx, `SELECT id, customer, total::text FROM public.orders`)
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var customer, total string
		if err := found.Scan(&id, &customer, &total); err != nil {
			return nil, 0, err
		}
		rows[id] = row(customer, total)
	}
	return rows, saved, found.Err()
}

// seeLake reads the files of committed checkpoints and applies their changes in order, as a reader of a changelog does.
func (w *world) seeLake(ctx context.Context) (rows map[int64]string, reach int64, err error) {
	r, err := s3sink.NewReader(w.files, w.names.bucket, "raw", nil)
	if err != nil {
		return nil, 0, err
	}
	type change struct {
		Op        string          `json:"_op"`
		Partition int32           `json:"_partition"`
		Offset    int64           `json:"_offset"`
		ID        int64           `json:"id"`
		Customer  string          `json:"customer"`
		Total     json.RawMessage `json:"total"`
	}
	var changes []change
	for m, err := range r.Manifests(ctx) {
		if err != nil {
			return nil, 0, err
		}
		for _, f := range m.Files {
			body, err := r.Open(ctx, f)
			if err != nil {
				return nil, 0, err
			}
			lines := bufio.NewScanner(body)
			for lines.Scan() {
				var c change
				if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
					body.Close()
					return nil, 0, err
				}
				changes = append(changes, c)
			}
			if err := errors.Join(lines.Err(), body.Close()); err != nil {
				return nil, 0, err
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return int(a.Offset - b.Offset) }) // a row is in one partition
	rows = map[int64]string{}
	ends, offsets := map[int32]int64{}, map[[2]int64]bool{}
	for _, c := range changes {
		if at := [2]int64{int64(c.Partition), c.Offset}; offsets[at] {
			return nil, 0, fmt.Errorf("the lake holds the change at offset %d of partition %d twice", c.Offset, c.Partition)
		} else {
			offsets[at] = true
		}
		ends[c.Partition] = c.Offset + 1
		if c.Op == "-D" {
			delete(rows, c.ID)
		} else {
			rows[c.ID] = row(c.Customer, money(c.Total))
		}
	}
	for _, end := range ends {
		reach += end
	}
	return rows, reach, nil
}

// seeSearch searches the alias, which leaves out what stands for deleted rows.
func (w *world) seeSearch(ctx context.Context) (map[int64]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.search+"/"+w.names.alias+"/_search", strings.NewReader(`{"size":10000}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	rows := map[int64]string{}
	if res.StatusCode == http.StatusNotFound { // nothing was written yet
		return rows, nil
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		return nil, err
	}
	var found struct {
		Hits struct {
			Hits []struct {
				Source struct {
					ID       int64           `json:"id"`
					Customer string          `json:"customer"`
					Total    json.RawMessage `json:"total"`
				} `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	if err := json.Unmarshal(body.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("the search answered %d: %w", res.StatusCode, err)
	}
	for _, h := range found.Hits.Hits {
		rows[h.Source.ID] = row(h.Source.Customer, money(h.Source.Total))
	}
	return rows, nil
}

// money is an amount with its two decimals, of a number or a text: 918.2 and "918.20" are one amount.
func money(v json.RawMessage) string {
	amount, ok := new(big.Rat).SetString(strings.Trim(string(v), `"`))
	if !ok {
		return string(v)
	}
	return amount.FloatString(2)
}

// compare reports where the three places differ from what the topic says.
func (w *world) compare(s seen) error {
	var errs []error
	for _, place := range []struct {
		name string
		rows map[int64]string
	}{{"postgres", s.postgres}, {"the lake", s.lake}, {"the search index", s.search}} {
		if maps.Equal(place.rows, w.rows) {
			continue
		}
		n, example := 0, ""
		for id := range int64(200) {
			if place.rows[id] != w.rows[id] {
				n++
				example = fmt.Sprintf("row %d is %q and should be %q", id, place.rows[id], w.rows[id])
			}
		}
		errs = append(errs, fmt.Errorf("%s differs in %d rows: %s", place.name, n, example))
	}
	return errors.Join(errs...)
}
