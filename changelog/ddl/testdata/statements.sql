CREATE TABLE clicks (
  id BIGINT,
  usr STRING,
  url STRING,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'
);
CREATE TABLE out_json (
  id BIGINT,
  usr STRING,
  url STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'out',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);
EXPLAIN CHANGELOG_MODE INSERT INTO out_json SELECT id, usr, url FROM clicks WHERE id > 3;

USE CATALOG default_catalog;
SET 'execution.runtime-mode' = 'streaming'; -- it's a job
CREATE TABLE per_cust (
  cust STRING,
  n BIGINT,
  total DECIMAL(38,2),
  PRIMARY KEY (cust) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'per_cust',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);
CREATE TEMPORARY VIEW v AS SELECT id, 'a;b' AS `c;d` FROM clicks;
CREATE TABLE orders (
  id BIGINT,
  cust STRING,
  item STRING,
  price DECIMAL(10,2),
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'debezium-json'
);
SHOW CREATE TABLE orders;
CREATE TABLE last_click (
  usr STRING,
  url STRING,
  ts TIMESTAMP(3),
  PRIMARY KEY (usr) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'last_click',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

EXPLAIN CHANGELOG_MODE STATEMENT SET BEGIN
INSERT INTO per_cust SELECT usr, COUNT(*), CAST(SUM(id) AS DECIMAL(38,2)) FROM clicks GROUP BY usr;
INSERT INTO last_click SELECT usr, url, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY ts DESC) AS rk FROM clicks) WHERE rk = 1;
INSERT INTO out_json SELECT id, usr, url FROM clicks;
END;

