from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow

from ._adapter import AdapterReader
from .codecs import Codec
from .core import _Path

@dataclass(frozen=True)
class ClinicalDoc:
    doc_id: str
    text: str
    doc_type: str = ""
    encounter: str = ""
    doc_category: str = ""
    source: str = ""
    doc_timestamp: str = ""
    episode_index: int = -1

@dataclass
class PatientText:
    patient_id: str
    institution: str = ""
    docs: list[ClinicalDoc] = field(default_factory=list)

_Patient = TypeVar("_Patient")

class TextReader(AdapterReader, Generic[_Patient]):
    @property
    def index_table(self) -> pyarrow.Table: ...
    @property
    def patient_ids(self) -> list[str]: ...
    def rows_of(self, patient_id: str) -> list[int]: ...
    def read_patient(self, patient_id: str) -> _Patient: ...
    def read_patient_at(self, row: int) -> _Patient: ...
    def read_patients_at(self, rows: Iterable[int]) -> list[_Patient]: ...

class ClinicalTextReader(TextReader[PatientText]): ...

def build_clinical_text_pack(
    output_path: _Path,
    patients: Iterable[PatientText],
    *,
    quality: int = 11,
    overwrite: bool = False,
    streaming: bool = True,
    codec: Codec | None = None,
    extra_header: dict[str, Any] | None = None,
    duplicates: bool = False,
    workers: int | None = None,
    sync: bool = True,
) -> None: ...
