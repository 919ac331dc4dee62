from os import PathLike
from typing import Any

from . import arrays as arrays
from . import dicom as dicom
from . import features as features
from . import manifests as manifests
from . import text as text
from . import text_pair as text_pair
from . import tiles as tiles
from . import validate as validate
from . import wsi as wsi
from ._errors import IacError as IacError
from ._native import ArrowTable as ArrowTable
from ._native import compiled_codecs as compiled_codecs
from ._native import install_guard as install_guard
from .codecs import Codec as Codec
from .core import PackReader as PackReader
from .core import build_pack as build_pack
from .core import build_pack_data_segment as build_pack_data_segment
from .core import build_pack_data_segment_from_file as build_pack_data_segment_from_file
from .core import build_pack_streaming as build_pack_streaming
from .core import clear_caches as clear_caches
from .core import configure_cache as configure_cache
from .core import iter_payloads as iter_payloads
from .core import read_header as read_header
from .core import read_tables as read_tables
from .packs import ContiguousRecordBatch as ContiguousRecordBatch
from .packs import FixedRecordPack as FixedRecordPack
from .packs import VariableRecordPack as VariableRecordPack

__version__: str

def open(path: str | PathLike[str], **options: Any) -> Any: ...
