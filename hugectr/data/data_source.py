# SPDX-License-Identifier: Apache-2.0
"""Where the files of a data set are: on this machine, or in a store that Parquet is read from."""

from __future__ import annotations

from dataclasses import dataclass

from hugectr.base.arguments import check_enum, check_int, check_str
from hugectr.base.named_enum import NamedEnum


class FileSystemType_t(NamedEnum):
    """Where the files of a data set are."""

    Local = 0
    HDFS = 1
    S3 = 2
    GCS = 3


#: What 4.0 calls it.
DataSourceType_t = FileSystemType_t

_SCHEMES = {FileSystemType_t.S3: "s3", FileSystemType_t.GCS: "gs"}


@dataclass(frozen=True)
class DataSourceParams:
    """Where the files of a data set are.

    Parameters
    ----------
    source : FileSystemType_t
        Other than ``Local``: the paths of a reader are paths in that store, and its format is
        Parquet. A path that is a URL already (``s3://bucket/folder``) stays as it is, and needs no
        DataSourceParams. pyarrow opens them, with the credentials that it finds; HDFS takes
        Hadoop's ``libhdfs``.
    server : str
        Name node of HDFS; of no meaning elsewhere.
    port : int
        Its port.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    source: FileSystemType_t = FileSystemType_t.Local
    server: str = "localhost"
    port: int = 9000

    def __post_init__(self) -> None:
        where = "DataSourceParams: "
        check_enum(where + "source", self.source, FileSystemType_t)
        check_str(where + "server", self.server)
        check_int(where + "port", self.port, 0)

    @property
    def is_local(self) -> bool:
        """Whether files are on this machine."""
        return self.source is FileSystemType_t.Local

    def located(self, path: str) -> str:
        """What a path of a reader is called by who opens it: the path, or a URL.

        Examples
        --------
        >>> DataSourceParams(FileSystemType_t.HDFS, "node", 9000).located("/data/train")
        'hdfs://node:9000/data/train'
        """
        if self.is_local or not path or "://" in path:
            return path
        inside = path.lstrip("/")
        if self.source is FileSystemType_t.HDFS:
            return f"hdfs://{self.server}:{self.port}/{inside}"
        return f"{_SCHEMES[self.source]}://{inside}"
