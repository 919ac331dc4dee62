"""IatroCache: a binary cache for multimodal medical data.

A pack (``.iac``) is one file with many small, model-ready records and two tables that describe
them. Write once::

    import iatrocache, pyarrow

    index = pyarrow.table({"note": ["a", "b"]})
    iatrocache.build_pack(
        "notes.iac", {"payload_type": "notes"}, pyarrow.table({}), index, [b"first", b"second"]
    )

and read at random, from any number of threads and processes::

    with iatrocache.VariableRecordPack("notes.iac") as pack:
        pack.read_many([1, 0, 1])

Modules: ``tiles``, ``features``, ``manifests``, ``text``, ``text_pair``, ``dicom``, ``wsi``,
``validate`` and ``arrays``; they are imported when they are first used.
"""

from ._errors import IacError
from ._native import ArrowTable, __version__, compiled_codecs, install_guard
from .codecs import Codec
from .core import (
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

_MODULES = (
    "arrays",
    "dicom",
    "features",
    "manifests",
    "text",
    "text_pair",
    "tiles",
    "validate",
    "wsi",
)

__all__ = [
    "ArrowTable",
    "Codec",
    "ContiguousRecordBatch",
    "FixedRecordPack",
    "IacError",
    "PackReader",
    "VariableRecordPack",
    "__version__",
    "build_pack",
    "build_pack_data_segment",
    "build_pack_data_segment_from_file",
    "build_pack_streaming",
    "clear_caches",
    "compiled_codecs",
    "configure_cache",
    "install_guard",
    "iter_payloads",
    "read_header",
    "read_tables",
    *_MODULES,
]


def __getattr__(name):
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, "open"])


#: The reader of each payload type: module and class.
_READERS = {
    "image_tiles": ("tiles", "TilePackageReader"),
    "image_tiles_v2": ("tiles", "TilePackageReader"),
    "teacher_features": ("features", "FeatureCacheReader"),
    "teacher_features_v2": ("features", "FeatureCacheReader"),
    "clinical_text": ("text", "ClinicalTextReader"),
    "clinical_text_pair": ("text_pair", "ClinicalTextPairReader"),
    "dicom_patient": ("dicom", "DicomPatientReader"),
    "wsi_image": ("wsi", "WsiImageReader"),
}


def open(path, **options):
    """Open a pack by path or URL with the reader that its payload type has.

    Packs of other types open as :class:`VariableRecordPack`, :class:`FixedRecordPack` or
    :class:`PackReader`, as their tables say. Keyword arguments are those of :class:`PackReader`.
    """
    pack = PackReader(path, **options)
    found = _READERS.get(pack.header.get("payload_type"))
    if found is not None:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{found[0]}"), found[1])(pack)
    kind = pack.kind
    if kind == "variable":
        return VariableRecordPack(pack)
    return FixedRecordPack(pack) if kind == "fixed" else pack
