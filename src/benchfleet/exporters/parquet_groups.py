"""Parquet files larger than memory, which are read and written by row groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from benchfleet.errors import ExportError

ColumnType = Literal["string", "double", "int64"]
ROW_GROUP_BYTES = 16_000_000  # of a row group in memory; one that is written is larger than this
_ROWS_PER_TABLE = 64


def schema_of(columns: Mapping[str, ColumnType]) -> Any:
    """The Arrow schema with these columns."""
    import pyarrow

    return pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()])


def new_rows(rows: Iterable[Mapping[str, Any]], schema: Any) -> Iterator[Any]:
    """Arrow tables of a few rows each."""
    import pyarrow

    source = iter(rows)
    while some := list(islice(source, _ROWS_PER_TABLE)):
        yield pyarrow.Table.from_pylist(some, schema=schema)


@contextmanager
def opened(file: Path, schema: Any) -> Iterator[Any]:
    """A file with this schema. Raises `ExportError` where it is anything else."""
    from pyarrow import ArrowException, parquet

    try:
        source = parquet.ParquetFile(file)
    except (ArrowException, OSError) as error:
        raise ExportError(f"{file.name} cannot be read: {error}") from error
    with source:
        if not source.schema_arrow.equals(schema):
            raise ExportError(
                f"{file.name} there has other columns than this exporter's; use another repository"
            )
        yield source


def retained_rows(file: Path, schema: Any, column: str, without: Collection[str]) -> Iterator[Any]:
    """Each row group of a file as an Arrow table, less the rows with these values."""
    import pyarrow
    from pyarrow import compute

    values = pyarrow.array(without, pyarrow.string())
    with opened(file, schema) as source:
        for number in range(source.num_row_groups):
            table = source.read_row_group(number)
            yield table.filter(compute.invert(compute.is_in(table[column], value_set=values)))


def write_groups(file: Path, tables: Iterable[Any], schema: Any) -> None:
    """Write tables into one file; small ones share a row group."""
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetWriter(file, schema) as writer:
        pending: list[Any] = []
        for table in tables:
            pending.append(table)
            if sum(one.nbytes for one in pending) >= ROW_GROUP_BYTES:
                writer.write_table(pyarrow.concat_tables(pending))
                pending.clear()
        if pending:
            writer.write_table(pyarrow.concat_tables(pending))
