package ddl

import (
	"strings"
	"testing"
)

func TestFind_AsSelect(t *testing.T) {
	for query, want := range map[string]string{
		`SELECT 1 AS id, INTERVAL '1-2' YEAR TO MONTH AS ym, -INTERVAL '3 04:05:06.789' DAY TO SECOND(3) AS ds, INTERVAL '100' DAY(3) AS d`: "id INT NOT NULL, ym INTERVAL MONTH NOT NULL, ds INTERVAL SECOND(3) NOT NULL, d INTERVAL SECOND(3) NOT NULL",
		`SELECT 3000000000, -1.50 AS a, .5 AS b, 1e0 AS c, 1.5E-3 AS d, TRUE AS e, 'it''s' AS f, x'0102' AS g;`:                             "EXPR$0 BIGINT NOT NULL, a DECIMAL(3, 2) NOT NULL, b DECIMAL(1, 1) NOT NULL, c DOUBLE NOT NULL, d DOUBLE NOT NULL, e BOOLEAN NOT NULL, f CHAR(4) NOT NULL, g BINARY(2) NOT NULL",
		`SELECT CAST(f(x, (y)) AS DECIMAL(5, 1)) AS a, CAST(NULL AS ROW<x INT>) AS b, CAST(-1 AS BIGINT) AS c FROM src WHERE a > 1`:         "a DECIMAL(5, 1), b ROW<x INT>, c BIGINT NOT NULL",
		`SELECT DATE '2024-01-01' AS a, TIME '01:02:03' AS b, TIMESTAMP '2024-01-01 00:00:00.123' AS c`:                                     "a DATE NOT NULL, b TIME(0) NOT NULL, c TIMESTAMP(3) NOT NULL",
		`SELECT ARRAY[1, 2] AS a, MAP['k', 1] AS m, ROW(1, 'x') AS r`:                                                                       "a ARRAY<INT NOT NULL> NOT NULL, m MAP<CHAR(1) NOT NULL, INT NOT NULL> NOT NULL, r ROW<EXPR$0 INT NOT NULL, EXPR$1 CHAR(1) NOT NULL> NOT NULL",
		`SELECT id FROM src`:                            "",
		`SELECT 1 AS id, name FROM src`:                 "",
		`SELECT 1 + 2 AS id`:                            "",
		`SELECT *`:                                      "",
		`SELECT CAST(1 AS`:                              "",
		`SELECT -'a' AS s`:                              "",
		`SELECT ARRAY[] AS a`:                           "",
		`SELECT ARRAY[1, 'x'] AS a`:                     "",
		`SELECT INTERVAL 'x' FORTNIGHT AS a`:            "",
		`WITH x AS (SELECT 1) SELECT 1 AS a`:            "",
		`SELECT 99999999999999999999 AS a`:              "",
		`SELECT 1 AS id UNION ALL SELECT 2 AS id`:       "",
		`SELECT ` + strings.Repeat("+", 1000) + `1`:     "",
		`SELECT ` + strings.Repeat("CAST(", 1000) + `1`: "",
	} {
		tab, err := Find("CREATE TABLE t WITH ('connector' = 'kafka', 'format' = 'json') AS "+query+"\n", "t")
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "run SHOW CREATE TABLE") {
				t.Errorf("%s: %v", query, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var got []string
		for _, c := range tab.Columns {
			got = append(got, c.Name+" "+c.Type.String())
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", query, s, want)
		}
	}
}
