from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .codecs import Codec
from .core import _Path
from .text import TextReader

@dataclass(frozen=True)
class ClinicalTextPairDoc:
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
    patient_id: str
    institution: str = ""
    docs: list[ClinicalTextPairDoc] = field(default_factory=list)

class ClinicalTextPairReader(TextReader[PatientTextPairs]): ...

def build_clinical_text_pair_pack(
    output_path: _Path,
    patients: Iterable[PatientTextPairs],
    *,
    quality: int = 11,
    overwrite: bool = False,
    extra_header: dict[str, Any] | None = None,
    codec: Codec | None = None,
    duplicates: bool = False,
    workers: int | None = None,
    sync: bool = True,
) -> None: ...
