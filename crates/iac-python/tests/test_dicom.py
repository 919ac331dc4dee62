"""Packs of DICOM objects; the files are made here, byte by byte."""

import io
import os
import struct

import numpy
import pytest

import iatrocache
from iatrocache import dicom


def element(group, number, vr, value):
    if isinstance(value, str):
        value = value.encode()
    if len(value) % 2:
        value += b"\0" if vr in ("UI", "OB") else b" "
    head = struct.pack("<HH", group, number) + vr.encode()
    if vr in ("OB", "OW", "SQ", "UN"):
        return head + struct.pack("<HI", 0, len(value)) + value
    return head + struct.pack("<H", len(value)) + value


def instance(number, pixels):
    """A CT slice as a DICOM file."""
    uid = f"1.2.3.{number}"
    meta = element(2, 2, "UI", "1.2.840.10008.5.1.4.1.1.2") + element(2, 3, "UI", uid)
    meta += element(2, 0x10, "UI", "1.2.840.10008.1.2.1")
    meta = element(2, 0, "UL", struct.pack("<I", len(meta))) + meta
    us = lambda value: struct.pack("<H", value)  # noqa: E731
    data = b"".join(
        [
            element(8, 0x16, "UI", "1.2.840.10008.5.1.4.1.1.2"),
            element(8, 0x18, "UI", uid),
            element(8, 0x60, "CS", "CT"),
            element(0x10, 0x20, "LO", "P1"),
            element(0x18, 0x50, "DS", "2"),
            element(0x20, 0xD, "UI", "1.2.9"),
            element(0x20, 0xE, "UI", "1.2.9.1"),
            element(0x20, 0x13, "IS", str(number)),
            element(0x20, 0x32, "DS", f"0\\0\\{2 * number}"),
            element(0x20, 0x37, "DS", "1\\0\\0\\0\\1\\0"),
            element(0x28, 2, "US", us(1)),
            element(0x28, 4, "CS", "MONOCHROME2"),
            element(0x28, 0x10, "US", us(pixels.shape[0])),
            element(0x28, 0x11, "US", us(pixels.shape[1])),
            element(0x28, 0x30, "DS", "0.5\\0.5"),
            element(0x28, 0x100, "US", us(16)),
            element(0x28, 0x101, "US", us(16)),
            element(0x28, 0x102, "US", us(15)),
            element(0x28, 0x103, "US", us(1)),
            element(0x28, 0x1052, "DS", "-1024"),
            element(0x28, 0x1053, "DS", "2"),
            element(0x7FE0, 0x10, "OW", pixels.astype("<i2").tobytes()),
        ]
    )
    return b"\0" * 128 + b"DICM" + meta + data


@pytest.fixture
def slices():
    return numpy.random.default_rng(0).integers(-1000, 1000, (4, 6, 8)).astype("int16")


@pytest.fixture
def folder(tmp_path, slices):
    folder = tmp_path / "files"
    folder.mkdir()
    for number, pixels in enumerate(slices):
        (folder / f"{number}.dcm").write_bytes(instance(number, pixels))
    return folder


@pytest.fixture
def patient(tmp_path, folder):
    path = tmp_path / "p.rad.iac"
    report = dicom.build_dicom_patient_package(folder, path, effort=2, verify=True)
    assert (report["instances"], report["series"]) == (4, 1)
    return path


def test_pixels_come_back(patient, slices):
    with iatrocache.open(patient) as pack:
        assert type(pack) is dicom.DicomPatientReader
        assert pack.record_count == 4
        for row in range(4):
            found = pack.read_pixel_array(row)
            assert found.dtype == "int16" and numpy.array_equal(found, slices[row])
        assert numpy.array_equal(pack.read_pixel_batch([2, 0]), slices[[2, 0]])
        assert pack.series[0]["modality"] == "CT" and pack.rows_of(0) == [0, 1, 2, 3]
        assert pack.series_table.num_rows == 1 and pack.instance_table.num_rows == 4
        assert pack.read_metadata(1)["00200013"]["Value"] == [1]
        for row in (4, -1):
            with pytest.raises(IndexError):
                pack.read_pixel_array(row)
        pack.close()
        with pytest.raises(RuntimeError):
            pack.read_pixel_array(0)


def test_series_is_a_volume(patient, slices):
    with dicom.DicomPatientReader(patient) as pack:
        volume = pack.read_volume(0)
        assert volume.voxels.shape == (4, 6, 8)
        assert numpy.allclose(volume.voxels, slices * 2.0 - 1024)
        assert volume.affine.shape == (4, 4) and volume.affine[2, 2] == 2
        assert volume.rows == [0, 1, 2, 3] and volume.placed
        assert numpy.array_equal(pack.read_volume(0, stored=True).voxels, slices)
        assert numpy.asarray(volume).shape == (4, 6, 8)
        with pytest.raises(IndexError):
            pack.read_volume(5)
        with pytest.raises(ValueError):
            pack.read_volume(0, stack=3)


def test_objects_are_exported_and_packed_again(patient, tmp_path, slices):
    with dicom.DicomPatientReader(patient) as pack:
        files = [pack.read_dicom(row) for row in range(4)]
        pack.write_dicom(2, tmp_path / "out" / "2.dcm")
        with pytest.raises(FileExistsError):
            pack.write_dicom(2, tmp_path / "out" / "2.dcm")
    assert (tmp_path / "out" / "2.dcm").read_bytes() == files[2]
    inputs = [files[0], bytearray(files[1]), tmp_path / "out" / "2.dcm", io.BytesIO(files[3])]
    again = tmp_path / "again.rad.iac"
    dicom.build_dicom_patient_package_from_files(iter(inputs), again, effort=2)
    with dicom.DicomPatientReader(again) as pack:
        assert numpy.array_equal(pack.read_pixel_batch(range(4)), slices)


def test_builds_that_fail_leave_nothing(folder, tmp_path, patient):
    before = sorted(os.listdir(tmp_path))
    build, from_files = dicom.build_dicom_patient_package, dicom.build_dicom_patient_package_from_files
    out = tmp_path / "x.rad.iac"
    for kind, call in [
        (NotADirectoryError, lambda: build(tmp_path / "none", out)),
        (FileExistsError, lambda: build(folder, patient)),
        (ValueError, lambda: build(folder, out, effort=11)),
        (ValueError, lambda: from_files([], out)),
        (TypeError, lambda: from_files([5], out)),
        (FileNotFoundError, lambda: from_files([tmp_path / "none.dcm"], out)),
        (ValueError, lambda: from_files([b"no DICOM"], out)),
    ]:
        with pytest.raises(kind):
            call()
    assert sorted(os.listdir(tmp_path)) == before
