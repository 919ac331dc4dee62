"""Packs of paired clinical text (``clinical_text_pair``): source and compressed text together."""

from dataclasses import dataclass, field

from .text import TextReader, _build

__all__ = [
    "ClinicalTextPairDoc",
    "ClinicalTextPairReader",
    "PatientTextPairs",
    "build_clinical_text_pair_pack",
]


@dataclass(frozen=True)
class ClinicalTextPairDoc:
    """A document in two forms, and its labels (``source`` is where it comes from)."""

    doc_id: str
    source_text: str
    compressed_text: str
    doc_type: str = ""
    encounter: str = ""
    doc_category: str = ""
    source: str = ""
    doc_timestamp: str = ""
    episode_index: int = -1


@dataclass
class PatientTextPairs:
    """A patient's documents, in the order of the caller."""

    patient_id: str
    institution: str = ""
    docs: list = field(default_factory=list)


class ClinicalTextPairReader(TextReader):
    """Reads patients by id or by row."""

    __slots__ = ()

    _pairs = True
    _patient = PatientTextPairs
    _document = ClinicalTextPairDoc


def build_clinical_text_pair_pack(
    output_path,
    patients,
    *,
    quality=11,
    overwrite=False,
    extra_header=None,
    codec=None,
    duplicates=False,
    workers=None,
    sync=True,
):
    """Write a pack of patients, compressed on several threads."""
    options = (overwrite, sync, 64, True)
    _build(output_path, patients, True, quality, codec, extra_header, duplicates, workers, options)
