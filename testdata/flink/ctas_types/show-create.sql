CREATE TABLE `default_catalog`.`default_database`.`t` (
  `id` INT NOT NULL,
  `s` CHAR(3) NOT NULL,
  `b` BOOLEAN NOT NULL,
  `d` DECIMAL(3, 2) NOT NULL,
  `l` BIGINT NOT NULL,
  `dt` DATE NOT NULL,
  `ts` TIMESTAMP(3) NOT NULL,
  `tm` TIME(0) NOT NULL,
  `iv` INTERVAL SECOND(3) NOT NULL,
  `f` DOUBLE NOT NULL,
  `n` VARCHAR(2147483647),
  `a` ARRAY<INT NOT NULL> NOT NULL,
  `m` MAP<CHAR(1) NOT NULL, INT NOT NULL> NOT NULL,
  `r` ROW<`EXPR$0` INT NOT NULL, `EXPR$1` CHAR(1) NOT NULL> NOT NULL
)
WITH (
  'connector' = 'kafka',
  'format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092',
  'topic' = 'ctas_types'
)

