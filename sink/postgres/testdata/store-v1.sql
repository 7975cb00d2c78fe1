-- What the first release made, with two bridges in it: "orders", and "waiting", which decided a checkpoint that nobody has committed.
-- SCHEMA stands for the schema. This file is not rewritten when the tables change: it is what users have.
CREATE SCHEMA "SCHEMA";
CREATE TABLE "SCHEMA"."format" (
  single  boolean     PRIMARY KEY DEFAULT true CHECK (single),
  version integer     NOT NULL,
  made    timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE "SCHEMA"."bridge" (
  name            text        PRIMARY KEY,
  fingerprint     text        NOT NULL,
  last_generation bigint      NOT NULL DEFAULT 0,
  incarnation     integer     NOT NULL DEFAULT 0,
  made            timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE "SCHEMA"."generation" (
  bridge           text        NOT NULL,
  id               bigint      NOT NULL,
  owner            text        NOT NULL,
  topics           text[]      NOT NULL,
  partitions       integer[]   NOT NULL,
  group_generation integer     NOT NULL,
  last_checkpoint  bigint      NOT NULL DEFAULT 0,
  ended            boolean     NOT NULL DEFAULT false,
  settled          boolean     NOT NULL DEFAULT false,
  acquired         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (bridge, id)
);
CREATE TABLE "SCHEMA"."position" (
  bridge           text        NOT NULL,
  topic            text        NOT NULL,
  partition        integer     NOT NULL,
  owner            bigint      NOT NULL,
  group_generation integer     NOT NULL DEFAULT -1,
  next_offset      bigint,
  leader_epoch     integer     NOT NULL DEFAULT -1,
  topic_id         text        NOT NULL DEFAULT '',
  generation       bigint      NOT NULL DEFAULT 0,
  checkpoint       bigint      NOT NULL DEFAULT 0,
  records          bigint      NOT NULL DEFAULT 0,
  read             bigint      NOT NULL DEFAULT 0,
  applied          bigint      NOT NULL DEFAULT 0,
  superseded       bigint      NOT NULL DEFAULT 0,
  dead_lettered    bigint      NOT NULL DEFAULT 0,
  skipped          bigint      NOT NULL DEFAULT 0,
  saved            timestamptz,
  PRIMARY KEY (bridge, topic, partition)
);
CREATE TABLE "SCHEMA"."committable" (
  bridge         text    NOT NULL,
  generation     bigint  NOT NULL,
  checkpoint     bigint  NOT NULL,
  sink           text    NOT NULL,
  version        integer NOT NULL,
  data           bytea   NOT NULL,
  from_positions jsonb   NOT NULL,
  to_positions   jsonb   NOT NULL,
  PRIMARY KEY (bridge, generation, checkpoint, sink)
);
INSERT INTO "SCHEMA".format (made, single, version) VALUES ('2026-11-29T23:43:43.270936+00:00', 'true', '1');
INSERT INTO "SCHEMA".bridge (made, name, fingerprint, incarnation, last_generation) VALUES ('2026-11-29T23:43:43.281819+00:00', 'orders', 'group=orders topics=orders target=postgres "orders"', '0', '2');
INSERT INTO "SCHEMA".bridge (made, name, fingerprint, incarnation, last_generation) VALUES ('2026-11-29T23:43:43.291827+00:00', 'waiting', 'group=waiting topics=orders target=postgres "orders"', '0', '2');
INSERT INTO "SCHEMA".generation (id, ended, owner, bridge, topics, settled, acquired, partitions, last_checkpoint, group_generation) VALUES ('2', 'false', 'host/1', 'orders', '{orders,orders}', 'false', '2026-11-29T23:43:43.285852+00:00', '{0,1}', '1', '3');
INSERT INTO "SCHEMA".generation (id, ended, owner, bridge, topics, settled, acquired, partitions, last_checkpoint, group_generation) VALUES ('1', 'true', 'host/1', 'orders', '{orders,orders}', 'true', '2026-11-29T23:43:43.281819+00:00', '{0,1}', '1', '3');
INSERT INTO "SCHEMA".generation (id, ended, owner, bridge, topics, settled, acquired, partitions, last_checkpoint, group_generation) VALUES ('2', 'false', 'host/1', 'waiting', '{orders,orders}', 'false', '2026-11-29T23:43:43.29388+00:00', '{0,1}', '1', '3');
INSERT INTO "SCHEMA".generation (id, ended, owner, bridge, topics, settled, acquired, partitions, last_checkpoint, group_generation) VALUES ('1', 'true', 'host/1', 'waiting', '{orders,orders}', 'true', '2026-11-29T23:43:43.291827+00:00', '{0,1}', '1', '3');
INSERT INTO "SCHEMA".position (read, owner, saved, topic, bridge, applied, records, skipped, topic_id, partition, checkpoint, generation, superseded, next_offset, leader_epoch, dead_lettered, group_generation) VALUES ('17', '2', '2026-11-29T23:43:43.288465+00:00', 'orders', 'orders', '16', '17', '0', 'AQIDBAUGBwgJCgsMDQ4PEA', '0', '1', '2', '1', '20', '2', '0', '3');
INSERT INTO "SCHEMA".position (read, owner, saved, topic, bridge, applied, records, skipped, topic_id, partition, checkpoint, generation, superseded, next_offset, leader_epoch, dead_lettered, group_generation) VALUES ('17', '2', '2026-11-29T23:43:43.288478+00:00', 'orders', 'orders', '16', '17', '0', 'AQIDBAUGBwgJCgsMDQ4PEA', '1', '1', '2', '1', '14', '2', '0', '3');
INSERT INTO "SCHEMA".position (read, owner, saved, topic, bridge, applied, records, skipped, topic_id, partition, checkpoint, generation, superseded, next_offset, leader_epoch, dead_lettered, group_generation) VALUES ('17', '2', '2026-11-29T23:43:43.295946+00:00', 'orders', 'waiting', '16', '17', '0', 'AQIDBAUGBwgJCgsMDQ4PEA', '0', '1', '2', '1', '20', '2', '0', '3');
INSERT INTO "SCHEMA".position (read, owner, saved, topic, bridge, applied, records, skipped, topic_id, partition, checkpoint, generation, superseded, next_offset, leader_epoch, dead_lettered, group_generation) VALUES ('17', '2', '2026-11-29T23:43:43.295958+00:00', 'orders', 'waiting', '16', '17', '0', 'AQIDBAUGBwgJCgsMDQ4PEA', '1', '1', '2', '1', '14', '2', '0', '3');
INSERT INTO "SCHEMA".committable (data, sink, bridge, version, checkpoint, generation, to_positions, from_positions) VALUES (E'\\x72656365697074', 'files', 'waiting', '1', '1', '2', '[{"topic": "orders", "offset": 20, "topicId": "AQIDBAUGBwgJCgsMDQ4PEA", "partition": 0, "leaderEpoch": 2}, {"topic": "orders", "offset": 14, "topicId": "AQIDBAUGBwgJCgsMDQ4PEA", "partition": 1, "leaderEpoch": 2}]', '[{"topic": "orders", "offset": 10, "topicId": "AQIDBAUGBwgJCgsMDQ4PEA", "partition": 0, "leaderEpoch": 2}, {"topic": "orders", "offset": 7, "topicId": "AQIDBAUGBwgJCgsMDQ4PEA", "partition": 1, "leaderEpoch": 2}]');
