"""Packs of paired clinical text."""

from iatrocache import text_pair as _pair
from iatrocache.text_pair import ClinicalTextPairDoc, PatientTextPairs

from ._lazy import forward, lazy


@forward("record_count", "patient_ids", "header", "index_table")
@lazy(_pair.ClinicalTextPairReader, "payload row out of range")
class ClinicalTextPairReader:
    """Reads patients."""

    def read_patient(self, patient_id):
        """Read a patient by id."""
        return self._open().read_patient(patient_id)

    def read_patient_at(self, row):
        """Read the patient of a row."""
        return self._open().read_patient_at(row)


def build_clinical_text_pair_pack(
    output_path, patients, *, quality=11, overwrite=False, extra_header=None
):
    """Write a pack of patients."""
    _pair.build_clinical_text_pair_pack(
        output_path,
        patients,
        quality=quality,
        overwrite=overwrite,
        extra_header=extra_header,
        duplicates=True,
        sync=False,
    )


__all__ = [
    "ClinicalTextPairDoc",
    "ClinicalTextPairReader",
    "PatientTextPairs",
    "build_clinical_text_pair_pack",
]
