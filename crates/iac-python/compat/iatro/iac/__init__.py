"""The reference's surface over ``iatrocache``."""

from .codecs import Codec
from ._core import (
    FORMAT_VERSION,
    HEADER_BYTES,
    MAGIC,
    PackReader,
    build_pack,
    build_pack_data_segment,
    build_pack_data_segment_from_file,
    build_pack_streaming,
    clear_caches,
    configure_cache,
    iter_payloads,
    read_header,
    read_tables,
)
from .packs import ContiguousRecordBatch, FixedRecordPack, VariableRecordPack

#: The version whose surface this is.
__version__ = "0.1.4"

__all__ = [
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "MAGIC",
    "PackReader",
    "build_pack",
    "build_pack_data_segment",
    "build_pack_data_segment_from_file",
    "build_pack_streaming",
    "clear_caches",
    "configure_cache",
    "iter_payloads",
    "read_header",
    "read_tables",
    "VariableRecordPack",
    "ContiguousRecordBatch",
    "FixedRecordPack",
    "Codec",
    "__version__",
]
