"""Packs of clinical text (``clinical_text``): the notes of one patient in each record."""

from dataclasses import dataclass, field

from . import _native
from ._adapter import AdapterReader
from ._support import check_workers, header_text, writing

__all__ = ["ClinicalDoc", "ClinicalTextReader", "PatientText", "build_clinical_text_pack"]


@dataclass(frozen=True)
class ClinicalDoc:
    """A document and its labels; ``episode_index`` -1 means that none was assigned."""

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
    """A patient's documents, in the order of the caller."""

    patient_id: str
    institution: str = ""
    docs: list = field(default_factory=list)


class TextReader(AdapterReader):
    """What the readers of both kinds of text have in common."""

    __slots__ = ("_native",)

    _pairs = False
    _patient = None
    _document = None

    def _begin(self):
        self._native = _native.Texts(self._pack, self._pairs)

    def _texts(self):
        self._open()
        return self._native

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._native = None
        super().close()

    @property
    def index_table(self):
        """The index table as ``pyarrow.Table``."""
        return self._pack.index_table

    @property
    def record_count(self):
        """Number of patients."""
        return self._texts().record_count

    @property
    def patient_ids(self):
        """Distinct ids in order of first appearance."""
        return self._texts().patient_ids()

    def rows_of(self, patient_id):
        """The rows of an id."""
        return self._texts().rows_of(patient_id)

    def read_patient(self, patient_id):
        """Read a patient by id; of rows with the same id, the last."""
        return self._made(self._texts().read(patient_id))

    def read_patient_at(self, row):
        """Read the patient of a row, which may count from the end."""
        return self._made(self._texts().read_at(row))

    def read_patients_at(self, rows):
        """Read the patients of many rows, on several threads."""
        return [self._made(parts) for parts in self._texts().read_many(rows)]

    def _made(self, parts):
        patient_id, institution, documents = parts
        document = self._document
        return self._patient(patient_id, institution, [document(*fields) for fields in documents])


class ClinicalTextReader(TextReader):
    """Reads patients by id or by row."""

    __slots__ = ()

    _patient = PatientText
    _document = ClinicalDoc


def _build(output_path, patients, pairs, quality, codec, extra_header, duplicates, workers, options):
    if codec is None:
        if isinstance(quality, bool) or not isinstance(quality, int):
            raise TypeError(f"quality must be an integer, not {type(quality).__name__}")
        name, parameters = "brotli", {"quality": quality, "lgwin": 24}
    else:
        name, parameters = codec.name, codec.parameters()
    patients = list(patients) if not hasattr(patients, "__next__") else patients
    if not hasattr(patients, "__next__") and not patients:
        raise ValueError("no patients to pack")
    _native.build_texts(
        output_path,
        patients,
        pairs,
        name,
        header_text(parameters, "parameters"),
        header_text({} if extra_header is None else extra_header, "extra_header"),
        duplicates,
        check_workers(workers),
        writing(*options),
    )


def build_clinical_text_pack(
    output_path,
    patients,
    *,
    quality=11,
    overwrite=False,
    streaming=True,
    codec=None,
    extra_header=None,
    duplicates=False,
    workers=None,
    sync=True,
):
    """Write a pack of patients, compressed on several threads; an iterator is used patient by patient.

    ``codec`` replaces Brotli. Repeated patient ids are refused unless ``duplicates`` allows them.
    """
    options = (overwrite, sync, 64, True)
    _build(output_path, patients, False, quality, codec, extra_header, duplicates, workers, options)
