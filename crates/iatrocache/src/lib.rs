//! IatroCache: a binary cache for multimodal medical data.
//!
//! A pack (`.iac`) is one file that holds many small, model-ready records, such as tiles of a
//! slide, slices of a CT series, embeddings or notes, together with two tables that describe them.
//! Source data is turned into records once; after that they are read millions of times, at random,
//! from many threads and processes, without a server and without unpacking anything.
//!
//! Use it when
//!
//! - training or inference reads single records in random order, and opening a source file for
//!   each of them costs more than the record;
//! - a data set is a million small files, and should be one file (or a few) with metadata that
//!   can be searched;
//! - a wrong byte must be noticed: header, tables and records carry checksums.
//!
//! It is no archive of the sources and no database: a pack is written once and then only read.
//!
//! # Quick start
//!
//! Write two records, then read one, a batch, and a view:
//!
//! ```
//! use std::sync::Arc;
//!
//! use iatrocache::arrow_array::{ArrayRef, RecordBatch, StringArray};
//! use iatrocache::prelude::*;
//! use iatrocache::serde_json::Map;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.iac");
//! // One row of the index table for each record, with any columns of your own.
//! let patients: ArrayRef = Arc::new(StringArray::from(vec!["P001", "P002"]));
//! let index = Table::from(RecordBatch::try_from_iter([("patient_id", patients)])?);
//! let mut header = Map::new();
//! header.insert("payload_type".into(), "notes".into());
//! let records = ["no acute findings", "follow-up in six months"];
//! build_pack(&path, &header, &Table::empty(), &index, &records, &WriteOptions::new())?;
//!
//! let pack = PackReader::open(&path)?;
//! // One record: bytes of your own, compared with their checksum.
//! assert_eq!(pack.read(1)?, "follow-up in six months");
//! // A batch: order and repetitions are kept.
//! let batch = pack.read_rows(&[1, 0, 1])?;
//! assert_eq!(batch.len(), 3);
//! // A view: a slice of the mapped file; nothing is copied, nothing compared.
//! assert_eq!(pack.view(0)?, "no acute findings");
//! # Ok(())
//! # }
//! ```
//!
//! # What a pack looks like
//!
//! ```text
//! 0                65,536                                                          end
//! +----------------+-------------------+---------------------+-----------------------+
//! | header         | slide table       | index table         | data segment          |
//! | magic, version | Arrow IPC stream  | Arrow IPC stream    | the records' bytes,   |
//! | JSON text      | one row per slide | one row per record  | one after the other   |
//! +----------------+-------------------+---------------------+-----------------------+
//!                                        offset, length, crc32 -> the record
//! ```
//!
//! In a *variable* pack, each index row addresses one record by offset and length. In a *fixed*
//! pack, row *n* is the n-th stretch of equal length of one dense matrix. A *segment* pack has a
//! data segment with a structure of its own. The header is a JSON object: where the segments lie,
//! and whatever members the writer adds, such as `payload_type` (what the records are) and `codec`
//! (how they are encoded).
//!
//! # Layers
//!
//! Each layer is a crate of its own and a module here, and uses only those above it in the table:
//!
//! | module | it owns |
//! |---|---|
//! | [`mod@format`] | header, layout, Arrow tables, record index; parses bytes, touches no file |
//! | [`codec`] | what turns a record into stored bytes and back; names, parameters, limits |
//! | [`reader`] | byte sources, [`PackReader`], [`VariableRecordPack`], [`FixedRecordPack`], verification, the header cache, the guard |
//! | [`writer`] | [`PackWriter`], [`VariablePackBuilder`], [`FixedPackBuilder`] and the plain builders; atomic publication |
//! | [`ops`] | whole-pack operations: pack files, extract, salvage, digest, list, select rows |
//! | [`adapters`] | schemas: image tiles, features, clinical text, DICOM, volumes, whole slides |
//!
//! The types that most programs need are at the root of this crate, those of nearly every program
//! in the [`prelude`]. The crates whose types stand in the interface are re-exported, so that
//! their versions fit: [`arrow_array`], [`arrow_schema`], [`bytes`], [`serde_json`].
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `default` | `zstd`, `brotli`, `lz4`, `jpeg-decoder`, `text`, `tiles`, `features`, `dicom`, `wsi`, `wsi-import`: what builds with cargo and a C compiler alone |
//! | `zstd`, `brotli`, `lz4` | the codec of that name |
//! | `brotli-c` | encoding `brotli` through the C library, which is faster |
//! | `jpeg`, `jpeg-decoder` | the codec `jpeg` (libjpeg-turbo; needs cmake and nasm), or its decoding alone, in pure Rust |
//! | `jxl`, `jxl-decoder` | the codec `jxl` (libjxl; needs cmake and a C++ compiler), or its decoding alone, in pure Rust |
//! | `jpeg2000`, `htj2k` | the codec `jpeg2000` (OpenJPEG), and its encoding of HTJ2K |
//! | `jpegls` | the codec `jpegls` (CharLS; needs cmake and a C++ compiler) |
//! | `text` | packs of clinical text and paired text (the module `adapters`); on by default |
//! | `text-search`, `parquet` | full-text search over packs of text; importing text from Parquet files |
//! | `tiles`, `features` | packs of image tiles and of teacher features (the module `adapters`); on by default, writing tiles needs `jxl` |
//! | `dicom` | packs of one patient's DICOM objects (the module `adapters`); on by default, images in JPEG XL need `jxl` |
//! | `volumes` | series of DICOM images as volumes, labels on them, export to NIfTI |
//! | `object-store` | packs in S3, Google Cloud Storage, Azure and on web servers (`reader::object`, `ops::object`) |
//! | `wsi`, `wsi-import` | packs of one whole slide (the module `adapters`), importing slides; on by default |
//! | `wsi-icc`, `wsi-openslide` | colours of slides by their own profiles; importing through libopenslide |
//! | `arrays` | stores of n-dimensional arrays with versions (the module `arrays`) |
//! | `ndarray` | rows of fixed packs as arrays of the crate `ndarray` |
//! | `full` | every codec with its best backend; what is not a codec is named beside it |
//!
//! The codec `none` is always there.

pub use {arrow_array, arrow_schema, bytes, serde_json};

#[doc(inline)]
pub use iac_adapters as adapters;
#[cfg(feature = "arrays")]
#[doc(inline)]
pub use iac_array as arrays;
#[doc(inline)]
pub use iac_codec as codec;
#[doc(inline)]
pub use iac_format as format;
#[doc(inline)]
pub use iac_ops as ops;
#[doc(inline)]
pub use iac_reader as reader;
#[doc(inline)]
pub use iac_writer as writer;

pub use iac_codec::{
    ByteCodec, Codec, CodecError, CodecSpec, DecodeOptions, Image, ImageCodec, ImageInfo,
    ImageShape, ImageView, ImageViewMut, Limits, Registry, SampleType, Samples, SamplesMut,
    SamplesRef, Scale, compiled_codecs,
};
pub use iac_format::{Element, ElementType, ErrorKind, FormatError, Header, Layout, TableKind};
pub use iac_ops::predicate::{Predicate, PredicateError};
pub use iac_ops::rows::RowSelection;
pub use iac_ops::{Cancel, NoProgress, OpsError, Progress};
pub use iac_reader::{
    ContiguousRecordBatch, Fault, FixedRecordPack, ImageBatch, Matrix, PackKind, PackReader,
    ReadError, ReadOptions, RecordOptions, RecordSpan, SkippedRow, SkippedRows, SourceKind,
    VariableRecordPack, VerifyOptions, VerifyReport, read_header,
};
pub use iac_writer::{
    FixedPackBuilder, ImagePackWriter, PackWriter, Table, VariablePackBuilder, WriteError,
    WriteOptions, WriteSummary, build_pack, build_pack_data_segment,
    build_pack_data_segment_from_file, build_pack_streaming,
};

/// What nearly every program needs: `use iatrocache::prelude::*;`.
pub mod prelude {
    pub use crate::{
        ContiguousRecordBatch, DecodeOptions, ErrorKind, FixedPackBuilder, FixedRecordPack, Image,
        ImageBatch, ImageShape, ImageView, OpsError, PackReader, PackWriter, Predicate, ReadError,
        ReadOptions, RowSelection, Scale, Table, VariablePackBuilder, VariableRecordPack,
        VerifyOptions, WriteError, WriteOptions, build_pack, build_pack_data_segment,
        build_pack_streaming,
    };
}

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
