"""Packs of clinical text."""

from iatrocache import text as _text
from iatrocache.text import ClinicalDoc, PatientText

from ._lazy import forward, lazy


@forward("record_count", "patient_ids")
@lazy(_text.ClinicalTextReader, "payload row out of range")
class ClinicalTextReader:
    """Reads patients."""

    def read_patient(self, patient_id):
        """Read a patient by id."""
        return self._open().read_patient(patient_id)

    def read_patient_at(self, row):
        """Read the patient of a row."""
        return self._open().read_patient_at(row)


def build_clinical_text_pack(output_path, patients, *, quality=11, overwrite=False, streaming=True):
    """Write a pack of patients."""
    _text.build_clinical_text_pack(
        output_path, patients, quality=quality, overwrite=overwrite, duplicates=True, sync=False
    )


__all__ = ["ClinicalDoc", "ClinicalTextReader", "PatientText", "build_clinical_text_pack"]
