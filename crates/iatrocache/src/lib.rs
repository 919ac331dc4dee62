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
//! <!-- features of iatrocache -->
//!
//! | feature | what it adds | `default` | `full` |
//! |---|---|---|---|
//! | `zstd` | The codec `zstd` (C library, built from source) | yes | yes |
//! | `brotli` | The codec `brotli` in pure Rust | yes | yes |
//! | `brotli-c` | Encoding of the codec `brotli` through the C library: faster, and smaller records | | yes |
//! | `lz4` | The codec `lz4` in pure Rust | yes | yes |
//! | `jpeg-decoder` | The codec `jpeg` for decoding only, in pure Rust | yes | |
//! | `jpeg` | The codec `jpeg` through libjpeg-turbo (built from source; needs cmake and nasm) | | yes |
//! | `jxl-decoder` | The codec `jxl` for decoding only, in pure Rust | | |
//! | `jxl` | The codec `jxl` through libjxl (built from source; needs cmake and a C++ compiler) | | yes |
//! | `jpeg2000` | The codec `jpeg2000` through OpenJPEG (built from source); HTJ2K streams are decoded only | | yes |
//! | `htj2k` | Encoding of HTJ2K streams for the codec `jpeg2000`, which is our own code | | yes |
//! | `jpegls` | The codec `jpegls` through CharLS (built from source; needs cmake and a C++ compiler) | | yes |
//! | `text` | Packs of clinical text and paired text (`adapters::text`, `adapters::text_pair`) | yes | |
//! | `parquet` | Importing text from Parquet files | | |
//! | `text-search` | Full-text search over packs of text | | |
//! | `tiles` | Packs of image tiles (`adapters::tiles`). Tiles that the reference packages read are written with `jxl` | yes | |
//! | `features` | Packs of teacher features (`adapters::features`) | yes | |
//! | `dicom` | Packs of the DICOM objects of a patient (`adapters::dicom`). Images become JPEG XL with `jxl` | yes | |
//! | `volumes` | Series of DICOM images as volumes, labels on them, and their export to NIfTI (`adapters::dicom::volume`) | | |
//! | `wsi` | Packs of one whole slide (`adapters::wsi`) | yes | |
//! | `wsi-import` | Importing whole slides from TIFF files and plain images; with `dicom`, from DICOM files too | yes | |
//! | `wsi-icc` | Colours of slides by their own profiles | | |
//! | `wsi-openslide` | Importing whole slides through libopenslide, which is looked for when it is needed | | |
//! | `arrays` | Stores of n-dimensional arrays with versions, and their exchange with NumPy and NIfTI (module `arrays`) | | |
//! | `zarr` | Exchange of such arrays with Zarr | | |
//! | `volume-arrays` | Series of DICOM images as such arrays | | |
//! | `ndarray` | Rows of fixed packs as arrays of the crate `ndarray` | | |
//! | `object-store` | Packs in object stores and on web servers: S3, Google Cloud Storage, Azure, HTTP (`reader::object`, `ops::object`) | | |
//!
//! <!-- end -->
//!
//! `full` has no adapter; what is wanted beside codecs is named beside it.
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
