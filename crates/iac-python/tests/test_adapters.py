"""Packs of each payload type."""

import json
import os
import pickle

import numpy
import pytest

import iatrocache
from iatrocache import features, manifests, text, text_pair, tiles, validate, wsi

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def pictures(tmp_path):
    """Six pictures, a manifest, and their pixels."""
    generator = numpy.random.default_rng(3)
    pixels, rows = [], []
    for number in range(6):
        image = generator.integers(0, 256, (16, 16, 3), "uint8")
        Image.fromarray(image).save(tmp_path / f"{number}.png")
        pixels.append(image)
        rows.append(
            {
                "tile_id": f"t{number}",
                "patient_id": "p",
                "slide_id": f"s{number % 2}",
                "tile_path": f"{number}.png",
                "x": 16 * number,
                "y": 32,
                "split": "train",
            }
        )
    manifests.write_tile_manifest(tmp_path / "m.csv", rows)
    return tmp_path, pixels


@pytest.fixture
def tile_pack(pictures):
    folder, pixels = pictures
    path = folder / "a.tiles.iac"
    tiles.build_tile_package(folder / "m.csv", path, tile_root=folder, lossless=True, effort=3)
    return path


def test_tiles_come_back_by_row_and_by_id(tile_pack, pictures):
    _, pixels = pictures
    with iatrocache.open(tile_pack) as pack:
        assert type(pack) is tiles.TilePackageReader
        assert (pack.record_count, len(pack), pack.tile_size) == (6, 6, (16, 16))
        assert numpy.array_equal(pack.read_array_at(2), pixels[2])
        assert numpy.array_equal(pack.read_array("t4"), pixels[4])
        assert numpy.array_equal(numpy.asarray(pack.read_image("t1")), pixels[1])
        assert numpy.array_equal(numpy.asarray(pack.read_image_at(5)), pixels[5])
        rows = [3, 0, 3]
        for workers in (None, 1, 2):
            found = pack.read_arrays_at(rows, workers=workers)
            assert all(numpy.array_equal(a, pixels[row]) for a, row in zip(found, rows))
            assert numpy.array_equal(
                pack.read_batch_at(rows, workers=workers), numpy.stack([pixels[row] for row in rows])
            )
        out = numpy.empty((3, 16, 16, 3), "uint8")
        assert pack.read_batch_at(rows, out=out) is out and numpy.array_equal(out[1], pixels[0])
        assert pack.read_batch_at(rows, scale=2).shape == (3, 8, 8, 3)
        assert pack.read_arrays_at([]) == []
        assert pack.tile_id_at(5) == "t5"
        assert pickle.loads(pickle.dumps(pack)).tile_id_at(0) == "t0"
        record = pack.record_at(1)
        assert (record.tile_id, record.slide_id, record.x, record.y) == ("t1", "s1", 16, 32)
    assert tiles.read_package_manifest(tile_pack)[1] == record
    assert tiles.read_package_metadata(tile_pack)["payload_type"] == "image_tiles"
    pairs = list(tiles.iter_package_tiles(tile_pack))
    assert pairs[4][0].tile_id == "t4" and numpy.array_equal(numpy.asarray(pairs[4][1]), pixels[4])


def test_tiles_that_do_not_exist_have_the_exception_of_the_specification(tile_pack):
    pack = tiles.TilePackageReader(tile_pack)
    for row in (6, -1):
        for call in (pack.read_array_at, pack.read_image_at, pack.tile_id_at):
            with pytest.raises(IndexError):
                call(row)
        with pytest.raises(IndexError):
            pack.read_arrays_at([0, row])
    with pytest.raises(FileNotFoundError):
        pack.read_image("nothing")
    with pytest.raises(TypeError):
        pack.read_arrays_at([0.5])
    for workers, kind in [(0, ValueError), (True, TypeError), (1.5, TypeError)]:
        with pytest.raises(kind):
            pack.read_arrays_at([0], workers=workers)
    pack.close()
    with pytest.raises(RuntimeError):
        pack.read_array_at(0)


def test_tiles_that_are_encoded_already_are_stored(pictures, tmp_path):
    folder, pixels = pictures
    records = manifests.read_tile_manifest(folder / "m.csv")
    payloads = [tiles.encode_jxl_array(image, True, None, 3) for image in pixels]
    path = tmp_path / "b.tiles.iac"
    build = tiles.build_tile_package_from_records
    build(records, payloads, path, tile_width=16, tile_height=16, lossless=True, extra_header={"mine": 1})
    with tiles.TilePackageReader(path) as pack:
        assert pack.header["mine"] == 1
        assert numpy.array_equal(pack.read_array_at(3), pixels[3])
    assert numpy.array_equal(tiles.decode_jxl_array(payloads[0]), pixels[0])
    assert numpy.array_equal(numpy.asarray(tiles.decode_jxl(payloads[0])), pixels[0])
    for arguments, kind in [
        ((records, payloads[:2]), ValueError),
        (([], []), ValueError),
        ((records, payloads), FileExistsError),
    ]:
        with pytest.raises(kind):
            build(*arguments, path, tile_width=16, tile_height=16)


def test_tile_builds_that_fail_leave_nothing(pictures):
    folder, _ = pictures
    before = sorted(os.listdir(folder))
    with pytest.raises(ValueError):
        tiles.build_tile_package(folder / "m.csv", folder / "x.iac", tile_root=folder, distance=0)
    with pytest.raises(FileNotFoundError):
        tiles.build_tile_package(folder / "m.csv", folder / "x.iac", tile_root=folder / "none")
    with pytest.raises(FileNotFoundError):
        tiles.build_tile_package(folder / "none.csv", folder / "x.iac")
    assert sorted(os.listdir(folder)) == before


def test_manifest_is_written_as_the_specification_says(tmp_path):
    path = tmp_path / "new" / "m.csv"
    manifests.write_tile_manifest(path, [{"tile_id": 'a"b', "x": 1, "y": 2}])
    assert path.read_bytes() == b'tile_id,patient_id,slide_id,tile_path,x,y,split\r\n"a""b",,,,1,2,\r\n'
    with pytest.raises(ValueError):
        manifests.write_tile_manifest(path, [{"other": 1}])
    assert b'a""b' in path.read_bytes()
    assert os.listdir(path.parent) == ["m.csv"]


def test_features_come_back(pictures, tmp_path):
    folder, _ = pictures
    records = manifests.read_tile_manifest(folder / "m.csv")
    vectors = numpy.random.default_rng(0).standard_normal((6, 10))
    path = tmp_path / "a.features.iac"
    features.build_teacher_feature_package(records, iter(vectors), path, "uni", "float16")
    with iatrocache.open(path) as pack:
        assert type(pack) is features.FeatureCacheReader
        assert (pack.record_count, pack.dim, pack.teacher) == (6, 10, "uni")
        expected = vectors.astype("float32").astype("float16").astype("float32")
        assert numpy.array_equal(pack.read_feature_at(3), expected[3])
        assert pack.read_feature("t2").dtype == "float32"
        found = pack.read_features_at([5, 0, 5])
        assert numpy.array_equal(found, expected[[5, 0, 5]])
        out = numpy.empty((2, 10), "float32")
        pack.read_features_at([1, 2], out=out)
        assert numpy.array_equal(out, expected[1:3])
        assert pack.read_features_at([]).shape == (0, 10)
        for row in (6, -1):
            with pytest.raises(IndexError):
                pack.read_feature_at(row)
            with pytest.raises(IndexError):
                pack.read_features_at([row])
        with pytest.raises(FileNotFoundError):
            pack.read_feature("nothing")
    found = features.read_feature_package_records(path)
    assert [record.tile_id for record in found] == [f"t{number}" for number in range(6)]


def test_feature_builds_refuse_what_is_no_vector(pictures, tile_pack, tmp_path):
    folder, _ = pictures
    records = manifests.read_tile_manifest(folder / "m.csv")
    build = features.build_teacher_feature_package
    path = tmp_path / "x.features.iac"

    def broken():
        yield numpy.zeros(3)
        raise LookupError("no more")

    for kind, arguments in [
        (ValueError, (records, [numpy.zeros((2, 2))], path, "uni")),
        (ValueError, (records, [numpy.zeros(3)] * 5, path, "uni")),
        (ValueError, (records, [numpy.zeros(3)] * 7, path, "uni")),
        (ValueError, (records, [], path, "uni")),
        (ValueError, ([], [], path, "uni")),
        (ValueError, (records, [numpy.zeros(3)] * 6, path, "")),
        (TypeError, (records, [numpy.zeros(3)] * 6, path, "uni", "nope")),
        (LookupError, (records, broken(), path, "uni")),
    ]:
        with pytest.raises(kind):
            build(*arguments)
        assert not path.exists()
    by_id = {f"t{number}": numpy.full(4, number) for number in range(6)}
    features.build_teacher_feature_package_from_feature_map(records, by_id, path, "uni")
    assert features.FeatureCacheReader(path).read_feature("t5").tolist() == [5] * 4
    with pytest.raises(FileNotFoundError):
        features.build_teacher_feature_package_from_feature_map(records, {}, tmp_path / "y.iac", "uni")
    other = tmp_path / "z.features.iac"
    features.build_teacher_feature_package_from_tile_package(tile_pack, numpy.ones((6, 2)), other, "uni")
    assert features.FeatureCacheReader(other).header["stride_x"] == 16


def test_texts_come_back(tmp_path):
    patients = [
        text.PatientText("b", "i", [text.ClinicalDoc("1", "é\0\n", episode_index=2**40)]),
        text.PatientText("a"),
    ]
    path = tmp_path / "t.iac"
    text.build_clinical_text_pack(path, patients, quality=3)
    with iatrocache.open(path) as pack:
        assert pack.patient_ids == ["b", "a"] and pack.record_count == 2
        assert pack.read_patient("b") == patients[0]
        assert pack.read_patient_at(-1) == patients[1]
        assert pack.read_patients_at([1, 0]) == patients[::-1]
        with pytest.raises(KeyError):
            pack.read_patient("c")
        with pytest.raises(IndexError):
            pack.read_patient_at(2)
    for kind, call in [
        (ValueError, lambda: text.build_clinical_text_pack(tmp_path / "x.iac", [])),
        (ValueError, lambda: text.build_clinical_text_pack(tmp_path / "x.iac", patients, quality=12)),
        (TypeError, lambda: text.build_clinical_text_pack(tmp_path / "x.iac", patients, quality=5.5)),
        (ValueError, lambda: text.build_clinical_text_pack(tmp_path / "x.iac", patients * 2)),
        (FileExistsError, lambda: text.build_clinical_text_pack(path, patients)),
        (TypeError, lambda: text.build_clinical_text_pack(tmp_path / "x.iac", [text.PatientText(5)])),
    ]:
        with pytest.raises(kind):
            call()
    assert os.listdir(tmp_path) == ["t.iac"]


def test_pairs_of_texts_come_back(tmp_path):
    patients = [
        text_pair.PatientTextPairs("a", "i", [text_pair.ClinicalTextPairDoc("1", "long", "short", "note")])
    ]
    path = tmp_path / "t.iac"
    text_pair.build_clinical_text_pair_pack(path, patients, quality=3, extra_header={"mine": 1})
    with iatrocache.open(path) as pack:
        assert pack.header["mine"] == 1
        assert pack.read_patient("a") == patients[0]
    with pytest.raises(ValueError):
        text.ClinicalTextReader(path)


def test_slides_are_read_by_place(tmp_path):
    generator = numpy.random.default_rng(2)
    pixels = generator.integers(0, 256, (100, 140, 3), "uint8")
    Image.fromarray(pixels).save(tmp_path / "slide.png")
    path = tmp_path / "slide.pat.iac"
    summary = wsi.build_wsi_image_package(
        tmp_path / "slide.png", path, slide_id="s", native_mpp=0.5, lossless=True, effort=3, tile_size=64
    )
    assert (summary["width"], summary["height"]) == (140, 100)
    with iatrocache.open(path) as slide:
        assert type(slide) is wsi.WsiImageReader
        assert slide.dimensions == (140, 100) and slide.native_mpp == (0.5, 0.5)
        assert slide.physical_dimensions == (70.0, 50.0)
        assert (slide.slide_id, slide.patient_id, slide.specimen_id) == ("s", "", "")
        assert slide.icc_profile is None and slide.associated_image_names == ()
        assert isinstance(slide.scanner_metadata, dict)
        assert numpy.array_equal(slide.read_native_region(10, 20, 30, 40), pixels[20:60, 10:40])
        assert numpy.array_equal(slide.read_region(5.0, 10.0, 30, 40, mpp=0.5, workers=2), pixels[20:60, 10:40])
        far = slide.read_native_region(-(10**30), 10**40, 2, 2)
        assert (far == numpy.array(slide.background, "uint8")).all()
        half = slide.read_region(0, 0, 70, 50, mpp=(1.0, 1.0))
        assert half.shape == (50, 70, 3)
        batch = slide.read_regions([(0, 0), (5, 10)], 8, 6, mpp=0.5)
        assert batch.shape == (2, 6, 8, 3) and numpy.array_equal(batch[1], pixels[20:26, 10:18])
        assert max(slide.read_thumbnail(32).shape[:2]) <= 32
        for kind, call in [
            (ValueError, lambda: slide.read_native_region(0, 0, 0, 1)),
            (TypeError, lambda: slide.read_native_region(0.5, 0, 1, 1)),
            (TypeError, lambda: slide.read_native_region(0, 0, True, 1)),
            (ValueError, lambda: slide.read_region(0, 0, 1, 1, mpp=0.1)),
            (ValueError, lambda: slide.read_region(0, float("nan"), 1, 1, mpp=1)),
            (TypeError, lambda: slide.read_region(0, "0", 1, 1, mpp=1)),
            (ValueError, lambda: slide.read_region(0, 0, 1, 1, mpp=1, workers=0)),
            (FileNotFoundError, lambda: slide.read_associated_image("label")),
        ]:
            with pytest.raises(kind):
                call()
        slide.close()
        with pytest.raises(RuntimeError):
            slide.dimensions
    for kind, arguments in [
        (ValueError, {"slide_id": ""}),
        (ValueError, {"slide_id": 5}),
        (FileExistsError, {"slide_id": "s"}),
        (ValueError, {"slide_id": "s", "tile_size": 0}),
        (TypeError, {"slide_id": "s", "lossless": 1}),
    ]:
        with pytest.raises(kind):
            wsi.build_wsi_image_package(tmp_path / "slide.png", path, **arguments)


def test_validator_tells_what_it_checked(tile_pack, tmp_path):
    found = validate.validate_package(tile_pack)
    assert found == {"type": "image_tiles", "records": 6, "codec": "jxl", "decoded": 6, "crc_checked": 6}
    assert validate.find_packages(tmp_path) == [tile_pack]
    with pytest.raises(FileNotFoundError):
        validate.validate_package(tmp_path / "none.iac")
    with open(tile_pack, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")
    with pytest.raises(ValueError):
        validate.validate_package(tile_pack)


def test_golden_packs_of_tiles_read_as_expected(fixtures):
    found = 0
    for case in sorted((fixtures / "adapters" / "tiles").iterdir()):
        packs = list(case.glob("*.iac")) if case.is_dir() else []
        expected = case / "expected.json"
        if not packs or not expected.exists():
            continue
        expected = json.loads(expected.read_text())
        if not isinstance(expected, dict) or "header" not in expected:
            continue
        for pack in packs:
            with tiles.TilePackageReader(pack) as reader:
                assert reader.header["payload_type"].startswith("image_tiles")
                reader.read_arrays_at(range(min(4, reader.record_count)))
            found += 1
    if not found:
        pytest.skip("no golden packs of tiles of this layout")
