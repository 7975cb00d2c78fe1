CREATE TABLE `t` (
  `id` BIGINT COMMENT 'key', name STRING NOT NULL, 数量 INT, `select` STRING, twice AS id * 2,
  ts TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp', headers MAP<STRING, BYTES> METADATA, part INT METADATA FROM 'partition' VIRTUAL, `offset` BIGINT METADATA VIRTUAL, tp STRING METADATA FROM 'topic' VIRTUAL, tt VARCHAR METADATA FROM 'timestamp-type' VIRTUAL, le INT METADATA FROM 'leader-epoch' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'json_meta', 'properties.bootstrap.servers' = 'localhost:9092', 'key.format' = 'json', 'key.fields' = 'select;id', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', 'scan.startup.mode' = 'earliest-offset', 'sink.partitioner' = 'default');