"""Prints a Parquet file as JSON: numbers as text, so that none is rounded; bytes as hex."""
import datetime, decimal, json, sys
import pyarrow.parquet as pq


def plain(v):
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, bytes):
        return "hex:" + v.hex()
    if isinstance(v, (int, float)):
        return repr(v)
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    if isinstance(v, (datetime.datetime, datetime.date, datetime.time)):
        return v.isoformat()
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    raise TypeError(type(v))


f = pq.ParquetFile(sys.argv[1])
json.dump({"Columns": f.schema_arrow.names, "RowGroups": f.num_row_groups, "Rows": [plain(r) for r in f.read().to_pylist()]}, sys.stdout)
