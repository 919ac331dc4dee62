//! Every command that makes files of what a pack holds, on packs with hostile names: nothing appears
//! outside of the folder or the file that the user named, no link is followed, nothing is lost.
#![cfg(all(
    unix,
    feature = "tiles",
    feature = "text",
    feature = "dicom",
    feature = "wsi-import",
    feature = "arrays",
    feature = "jxl"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iatrocache::arrays::blocking::ArrayStore;
use iatrocache::arrays::{ArraySpec, DType, Location, StoreOptions};
use iatrocache::arrow_array::{ArrayRef, RecordBatch, StringArray};
use iatrocache::serde_json::{Map, Value, json};
use iatrocache::{Table, WriteOptions, build_pack};

/// Names that mean another place, a device, nothing, or the same as another one.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "../x",
        "../../../x",
        "/tmp/iac-absolute-name",
        "..\\x",
        "C:\\x",
        "C:x",
        "a\0b",
        "con",
        "NUL.txt",
        "aux.",
        "LPT1",
        "com¹.dcm",
        "same",
        "same",
        "Same",
        "SAME",
        "same_2",
        "same~2",
        "same/below",
        ".",
        "..",
        "...",
        "",
        "/",
        "~",
        "-rf",
        ".hidden",
        "a/../../b",
        "a/./b",
        "tail.",
        "tail ",
        "a\nb\u{1b}[2J",
        "\u{202e}gpj.exe",
        "größe/日本",
        "patient",
        "patient.json",
        "*?<>|\"",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("n".repeat(5000) + "1.txt");
    names.push("n".repeat(5000) + "2.txt");
    names.push("é".repeat(300));
    names
}

/// Files, folders and links below a folder, and what is in them.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            let inner = path.strip_prefix(folder).unwrap().to_owned();
            if kind.is_dir() {
                folders.push(path);
                found.insert(inner, None);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(inner, Some(target.into_os_string().into_encoded_bytes()));
            } else {
                found.insert(inner, Some(fs::read(&path).unwrap()));
            }
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let all = tree(folder);
    all.into_iter().filter_map(|(path, content)| content.map(|_| path)).collect()
}

/// A folder in a folder, so that names have where to climb to.
struct Place {
    all: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir_all(all.path().join("a/b/in")).unwrap();
        fs::create_dir_all(all.path().join("outside/folder")).unwrap();
        fs::write(all.path().join("outside/victim"), "precious").unwrap();
        Self { all }
    }

    /// Where packs are.
    fn inside(&self, name: &str) -> PathBuf {
        self.all.path().join("a/b/in").join(name)
    }

    /// The folder that the user names.
    fn out(&self) -> PathBuf {
        self.all.path().join("a/b/out")
    }

    /// Everything that is not below the folder that the user names.
    fn rest(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut all = tree(self.all.path());
        all.retain(|path, _| !path.starts_with("a/b/out"));
        all
    }
}

/// A command that writes many files into a folder.
struct Folder<'a> {
    name: &'a str,
    arguments: Vec<OsString>,
    /// Files that it must make; none where it is left open.
    files: Option<usize>,
    /// Whether names are those of files of this system, and may be odd elsewhere.
    host: bool,
}

impl Folder<'_> {
    fn run(&self, out: &Path, overwrite: bool) -> common::Run {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--dir".into(), out.into(), "--quiet".into()]);
        if overwrite {
            arguments.push("--overwrite".into());
        }
        common::iac(arguments)
    }

    fn check(&self, place: &Place) {
        let out = place.out();
        let before = place.rest();
        self.run(&out, false).succeeded();
        assert!(place.rest() == before, "{}: files outside of the folder", self.name);
        let made = files(&out);
        if let Some(wanted) = self.files {
            assert_eq!(made.len(), wanted, "{}: {made:?}", self.name);
        }
        let mut seen = HashSet::new();
        for file in &made {
            for part in file.iter() {
                let part = part.to_str().unwrap();
                assert!(part.len() <= 255 && part != ".." && !part.is_empty(), "{part:?}");
                let odd =
                    |it: char| it.is_control() || it == '\u{202e}' || "<>:\"\\|?*".contains(it);
                assert!(self.host || !part.contains(odd), "{}: {part:?}", self.name);
                let stem = part.split('.').next().unwrap_or_default().to_lowercase();
                let device = ["con", "nul", "aux", "prn", "lpt1", "com1", "com¹"];
                assert!(self.host || !device.contains(&stem.as_str()), "{}: {part:?}", self.name);
            }
            let folded = file.to_str().unwrap().to_lowercase();
            assert!(self.host || seen.insert(folded), "{}: {file:?} twice", self.name);
        }
        // A second time: nothing is replaced unasked, everything is asked.
        let first = tree(&out);
        self.run(&out, false).ended_with(2);
        assert!(tree(&out) == first, "{}", self.name);
        self.run(&out, true).succeeded();
        assert!(tree(&out) == first, "{}", self.name);
        self.with_links(place, &made, &first);
        fs::remove_dir_all(&out).unwrap();
    }

    /// Links in the places of files, then of folders.
    fn with_links(
        &self,
        place: &Place,
        made: &[PathBuf],
        first: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    ) {
        let (out, before) = (place.out(), place.rest());
        fs::remove_dir_all(&out).unwrap();
        for file in made {
            let link = out.join(file);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(place.all.path().join("outside/victim"), link).unwrap();
        }
        let planted = tree(&out);
        self.run(&out, false).ended_with(2);
        assert!(tree(&out) == planted && place.rest() == before, "{}", self.name);
        self.run(&out, true).succeeded();
        assert!(place.rest() == before, "{}: written through a link", self.name);
        assert!(tree(&out) == *first, "{}", self.name);
        let folders: BTreeSet<&Path> = made
            .iter()
            .filter(|file| file.components().count() > 1)
            .map(|file| Path::new(file.iter().next().unwrap()))
            .collect();
        for folder in folders.iter().take(4) {
            fs::remove_dir_all(&out).unwrap();
            fs::create_dir(&out).unwrap();
            symlink(place.all.path().join("outside/folder"), out.join(folder)).unwrap();
            for overwrite in [false, true] {
                self.run(&out, overwrite).ended_with(2);
                assert!(place.rest() == before, "{}: {folder:?} was followed", self.name);
            }
        }
    }
}

/// A pack with one text column in its index.
fn pack_of(path: &Path, payload_type: &str, column: &str, names: &[String]) {
    let names_column: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let index = Table::from(RecordBatch::try_from_iter([(column, names_column)]).unwrap());
    let mut header = Map::new();
    header.insert("payload_type".to_owned(), Value::from(payload_type));
    let records: Vec<String> = (0..names.len()).map(|row| format!("record {row}")).collect();
    build_pack(path, &header, &Table::empty(), &index, &records, &WriteOptions::new()).unwrap();
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn with(first: &[&str], pack: &Path, more: &[&str]) -> Vec<OsString> {
    let mut all = words(first);
    all.push(pack.into());
    all.extend(words(more));
    all
}

#[test]
fn records_of_every_kind_are_extracted_and_decoded_into_their_folder_alone() {
    let place = Place::new();
    let names = hostile();
    let count = Some(names.len());
    for (file, payload_type, column, host) in [
        ("raw.iac", "raw_files", "path", true),
        ("path.iac", "x", "path", false),
        ("id.iac", "x", "item_id", false),
        ("uid.iac", "x", "sop_instance_uid", false),
        ("free.iac", "x", "of the user", false),
    ] {
        let pack = place.inside(file);
        pack_of(&pack, payload_type, column, &names);
        let arguments = with(&["extract"], &pack, &["--name-column", column]);
        Folder { name: file, arguments, files: count, host }.check(&place);
    }
    let pack = place.inside("raw.iac");
    let rows = format!("0..{}", names.len());
    for command in ["cat", "decode"] {
        let arguments = with(&[command], &pack, &["--rows", &rows]);
        Folder { name: command, arguments, files: count, host: false }.check(&place);
    }
}

#[test]
fn tiles_are_extracted_into_their_folder_alone() {
    let place = Place::new();
    let mut manifest = "tile_id,patient_id,slide_id,tile_path,x,y,split\n".to_owned();
    let mut ids = HashSet::new();
    fs::copy(data().join("wsi/inputs/image_rgba.png"), place.inside("t.png")).unwrap();
    for (row, name) in hostile().into_iter().enumerate() {
        // What a manifest can say.
        if name.is_empty() || name.len() > 4000 || name.contains(['\0', '\n']) {
            continue;
        }
        if !ids.insert(name.clone()) {
            continue;
        }
        let quoted = name.replace('"', "\"\"");
        manifest += &format!("\"{quoted}\",p,\"{quoted}\",t.png,{row},0,train\n");
    }
    fs::write(place.inside("tiles.csv"), manifest).unwrap();
    let pack = place.inside("tiles.iac");
    let made = with(&["pack", "tiles"], &place.inside("tiles.csv"), &["--beside-manifest", "-o"]);
    let made: Vec<OsString> = made.into_iter().chain([pack.clone().into()]).collect();
    common::iac(made).succeeded();
    for format in ["native", "png", "npy"] {
        let arguments = with(&["extract"], &pack, &["--format", format]);
        Folder { name: format, arguments, files: Some(ids.len()), host: false }.check(&place);
    }
}

#[test]
fn texts_are_extracted_and_exported_into_their_folder_alone() {
    let place = Place::new();
    for (kind, fields, per) in
        [("text", &["text"][..], 1), ("text-pair", &["source_text", "compressed_text"][..], 2)]
    {
        let mut lines = String::new();
        let names = hostile();
        let mut docs_in_all = 0;
        for (number, patient) in names.iter().enumerate() {
            // One patient has documents of all names, the others of their own and of the next one.
            let next = &names[(number + 1) % names.len()];
            let ids = if number == 0 { names.iter().collect() } else { vec![patient, next] };
            docs_in_all += ids.len();
            let docs: Vec<Value> = ids
                .into_iter()
                .map(|id| {
                    let mut doc = json!({
                        "doc_id": id, "doc_type": "", "encounter": "", "doc_category": "",
                        "source": "", "doc_timestamp": "", "episode_index": 0,
                    });
                    for field in fields {
                        doc[*field] = json!(format!("{patient} {id}"));
                    }
                    doc
                })
                .collect();
            lines +=
                &json!({"patient_id": patient, "institution": "../i", "docs": docs}).to_string();
            lines.push('\n');
        }
        let (list, pack) =
            (place.inside(&format!("{kind}.jsonl")), place.inside(&format!("{kind}.iac")));
        fs::write(&list, lines).unwrap();
        iac!("pack", kind, list, "-o", pack, "--duplicates").succeeded();
        // The files of each patient and a list of them.
        let files = Some(docs_in_all * per + names.len());
        let arguments = with(&["text", "export"], &pack, &[]);
        Folder { name: kind, arguments, files, host: false }.check(&place);
        let arguments = with(&["extract"], &pack, &[]);
        Folder { name: kind, arguments, files, host: false }.check(&place);
    }
}

/// A DICOM file without an image: explicit, little-endian.
fn object(number: usize, uid: &str) -> Vec<u8> {
    let element = |group: u16, element: u16, vr: &str, value: &str| {
        let mut value = value.as_bytes().to_vec();
        if value.len() % 2 == 1 {
            value.push(if vr == "UI" { 0 } else { b' ' });
        }
        let mut bytes = [group.to_le_bytes(), element.to_le_bytes()].concat();
        bytes.extend(vr.as_bytes());
        bytes.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        bytes.extend(value);
        bytes
    };
    [
        vec![0; 128],
        b"DICM".to_vec(),
        element(2, 0x10, "UI", "1.2.840.10008.1.2.1"),
        element(8, 0x16, "UI", "1.2.840.10008.5.1.4.1.1.88.11"),
        element(8, 0x18, "UI", uid),
        element(8, 0x60, "CS", "SR"),
        element(0x10, 0x10, "PN", "../patient"),
        element(0x10, 0x20, "LO", "../id"),
        element(0x20, 0x0D, "UI", "../study"),
        element(0x20, 0x0E, "UI", "../series"),
        element(0x20, 0x13, "IS", &number.to_string()),
    ]
    .concat()
}

#[test]
fn dicom_objects_are_exported_into_their_folder_alone() {
    let place = Place::new();
    let mut uids: Vec<String> = hostile();
    // Zeros and spaces at the end are padding of a UID.
    uids.retain(|uid| {
        !uid.is_empty() && uid.len() < 1000 && !uid.contains('\0') && !uid.ends_with(' ')
    });
    let mut seen = HashSet::new();
    uids.retain(|uid| seen.insert(uid.clone()));
    fs::create_dir(place.inside("objects")).unwrap();
    for (number, uid) in uids.iter().enumerate() {
        let path = place.inside("objects").join(format!("{number}.dcm"));
        fs::write(path, object(number, uid)).unwrap();
    }
    for schema in ["1", "2"] {
        let pack = place.inside(&format!("{schema}.rad.iac"));
        iac!("pack", "dicom", place.inside("objects"), "-o", pack, "--schema", schema).succeeded();
        let arguments = with(&["dicom", "export"], &pack, &["--transfer-syntax", "explicit"]);
        Folder { name: schema, arguments, files: Some(uids.len()), host: false }.check(&place);
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data")
}

#[test]
fn slides_are_exported_under_the_names_of_the_user_alone() {
    let place = Place::new();
    let source = data().join("wsi/inputs/tiff_pyramid.tif");
    let mut linked = false;
    for (number, name) in
        ["../x", "/tmp/iac-absolute-name", "..\\x", "con", "", "a\nb"].iter().enumerate()
    {
        let pack = place.inside(&format!("{number}.pat.iac"));
        let made = common::iac(with(
            &["pack", "wsi", "--effort", "1", "--slide-id", name, "--patient-id", name],
            &source,
            &["-o", pack.to_str().unwrap()],
        ));
        if made.code != 0 {
            assert_eq!(made.code, 2, "{name:?}: {}", made.err);
            continue;
        }
        let before = place.rest();
        let out = place.out();
        fs::create_dir(&out).unwrap();
        iac!("wsi", "deepzoom", pack, "-o", out.join("a.dzi")).succeeded();
        iac!("wsi", "tiles", pack, "--size", "100", "-d", out.join("grid")).succeeded();
        iac!("wsi", "tiff", pack, "--tiles", "deflate", "-o", out.join("a.tif")).succeeded();
        iac!("wsi", "tiff", pack, "--tiles", "jpeg", "-o", out.join("a.ome.tif")).succeeded();
        iac!("wsi", "thumbnail", pack, "-o", out.join("a.png")).succeeded();
        let names: BTreeSet<String> = common::names_in(&out).into_iter().collect();
        let wanted = ["a.dzi", "a_files", "grid", "a.tif", "a.ome.tif", "a.png"];
        assert!(names.iter().eq(BTreeSet::from(wanted.map(str::to_owned)).iter()), "{names:?}");
        assert!(place.rest() == before, "{name:?}");
        if std::mem::replace(&mut linked, true) {
            fs::remove_dir_all(&out).unwrap();
            continue;
        }
        // What is there, a link too, is neither replaced nor followed, whatever the slide's name.
        let victim = place.all.path().join("outside/victim");
        let folder = place.all.path().join("outside/folder");
        for file in wanted {
            let link = out.join(file);
            if link.is_dir() {
                fs::remove_dir_all(&link).unwrap()
            } else {
                fs::remove_file(&link).unwrap()
            }
            symlink(if file.contains('.') { &victim } else { &folder }, &link).unwrap();
        }
        iac!("wsi", "deepzoom", pack, "-o", out.join("a.dzi")).ended_with(2);
        iac!("wsi", "tiles", pack, "--size", "100", "-d", out.join("grid")).ended_with(2);
        for overwrite in [false, true] {
            for (command, file) in
                [("tiff", "a.tif"), ("tiff", "a.ome.tif"), ("thumbnail", "a.png")]
            {
                let mut run = with(&["wsi", command], &pack, &["-o"]);
                run.push(out.join(file).into());
                run.extend(overwrite.then(|| "--overwrite".into()));
                common::iac(run).ended_with(if overwrite { 0 } else { 2 });
            }
        }
        assert!(place.rest() == before, "{name:?}: written through a link");
        fs::remove_dir_all(&out).unwrap();
    }
    assert!(linked);
}

#[test]
fn associated_images_are_written_under_the_name_of_the_user() {
    let place = Place::new();
    let source = data().join("wsi/inputs/svs_jpeg_ycbcr_tables.svs");
    let pack = place.inside("a.pat.iac");
    iac!("pack", "wsi", source, "-o", pack).succeeded();
    let images = iac!("wsi", "associated", pack, "--json").succeeded().json_lines();
    let before = place.rest();
    fs::create_dir(place.out()).unwrap();
    for (number, image) in images.iter().enumerate() {
        let name = image["name"].as_str().unwrap();
        let out = place.out().join(format!("{number}.png"));
        iac!("wsi", "associated", pack, name, "-o", out).succeeded();
        iac!("wsi", "associated", pack, name, "-o", out).ended_with(2);
    }
    // A name that is in no pack is no path either.
    let out = place.out().join("x.png");
    iac!("wsi", "associated", pack, "../../in/a", "-o", out).ended_with(2);
    assert_eq!(files(&place.out()).len(), images.len());
    assert!(place.rest() == before);
}

/// A store of arrays with hostile names, and those that it took.
fn arrays(place: &Place) -> (PathBuf, Vec<String>) {
    let path = place.inside("s.arrays");
    let mut store =
        ArrayStore::create(Location::folder(&path).unwrap(), StoreOptions::default()).unwrap();
    let mut taken = Vec::new();
    for name in hostile() {
        if store.define(&name, ArraySpec::new(DType::UInt8, &[2])).is_ok() {
            taken.push(name);
        }
    }
    assert!(taken.len() > 20, "{taken:?}");
    store.flush().unwrap();
    (path, taken)
}

#[test]
fn arrays_are_exported_under_the_name_of_the_user_and_archives_lead_nowhere() {
    let place = Place::new();
    let (store, names) = arrays(&place);
    let before = place.rest();
    fs::create_dir(place.out()).unwrap();
    let mut exported = 0;
    for (number, name) in names.iter().enumerate() {
        if name.contains('\0') || name.starts_with('-') {
            continue;
        }
        // A pack has all arrays, and other files than NPY differ in what is in them alone.
        let ends: &[&str] = match number {
            0 => &["npy", "nii.gz", "iac"],
            _ if number % 4 == 0 => &["npy", "nii.gz"],
            _ => &["npy"],
        };
        for end in ends {
            let out = place.out().join(format!("{number}.{end}"));
            if *end == "iac" {
                iac!("arrays", "export", store, "-o", out).succeeded();
            } else {
                iac!("arrays", "export", store, name, "-o", out).succeeded();
            }
            exported += 1;
        }
        // Members of an archive are paths for whoever unpacks it.
        let out = place.out().join(format!("{number}.npz"));
        let leads_out =
            name.contains('\\') || name.split('/').any(|part| part == "." || part == "..");
        let run = iac!("arrays", "export", store, name, "-o", out);
        if leads_out {
            assert!(run.ended_with(4).err.contains("another place"), "{name:?}");
        } else {
            run.succeeded();
            exported += 1;
        }
    }
    let all = iac!("arrays", "export", store, "-o", place.out().join("all.npz")).ended_with(4);
    assert!(all.err.contains("another place"), "{}", all.err);
    assert_eq!(files(&place.out()).len(), exported);
    assert!(place.rest() == before);
    // Links are replaced, and not followed.
    for file in files(&place.out()) {
        let link = place.out().join(file);
        fs::remove_file(&link).unwrap();
        symlink(place.all.path().join("outside/victim"), &link).unwrap();
    }
    let single = place.out().join("0.iac");
    iac!("arrays", "export", store, "-o", single).ended_with(2);
    iac!("arrays", "export", store, "-o", single, "--overwrite").succeeded();
    let npy = place.out().join("0.npy");
    iac!("arrays", "export", store, names[0], "-o", npy).ended_with(2);
    iac!("arrays", "export", store, names[0], "-o", npy, "--overwrite").succeeded();
    assert!(place.rest() == before, "written through a link");
}
