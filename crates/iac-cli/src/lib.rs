//! The `iac` command as a library, for programs that offer it under another name.
//!
//! It parses arguments, calls the crates below and prints; what it does is in those.
//!
//! # Features
//!
//! <!-- features of iac-cli -->
//!
//! | feature | what it adds | `default` | `full` |
//! |---|---|---|---|
//! | `zstd` | The codec `zstd` (C library, built from source) | yes | yes |
//! | `brotli` | The codec `brotli` in pure Rust | yes | yes |
//! | `brotli-c` | Encoding of the codec `brotli` through the C library: faster, and smaller records | | yes |
//! | `lz4` | The codec `lz4` in pure Rust | yes | yes |
//! | `jpeg-decoder` | The codec `jpeg` for decoding only, in pure Rust | yes | |
//! | `jpeg` | The codec `jpeg` through libjpeg-turbo (built from source; needs cmake and nasm) | | yes |
//! | `jxl-decoder` | The codec `jxl` for decoding only, in pure Rust | yes | |
//! | `jxl` | The codec `jxl` through libjxl (built from source; needs cmake and a C++ compiler) | | yes |
//! | `jpeg2000` | The codec `jpeg2000` through OpenJPEG (built from source); HTJ2K streams are decoded only | | yes |
//! | `htj2k` | Encoding of HTJ2K streams for the codec `jpeg2000`, which is our own code | | yes |
//! | `jpegls` | The codec `jpegls` through CharLS (built from source; needs cmake and a C++ compiler) | | yes |
//! | `text` | Packs of clinical text and paired text: `iac pack text`, `iac text` | yes | |
//! | `parquet` | `iac pack text` from Parquet files | | |
//! | `text-search` | Full-text search over packs of text: `iac text index`, `iac text search` | | |
//! | `tiles` | Packs of image tiles: `iac pack tiles` | yes | |
//! | `features` | Packs of teacher features: `iac pack features` | yes | |
//! | `dicom` | Packs of the DICOM objects of a patient: `iac pack dicom`, `iac dicom` | yes | |
//! | `object-store` | Packs in object stores and on web servers, and `iac cp` | | yes |
//! | `wsi` | Packs of one whole slide: `iac wsi` | yes | |
//! | `wsi-import` | Importing whole slides: `iac pack wsi` | yes | |
//! | `wsi-icc` | Colours of slides by their own profiles: `--srgb` of `iac wsi` | | |
//! | `wsi-openslide` | Importing whole slides through libopenslide, which is looked for when it is needed | | |
//! | `arrays` | Stores of n-dimensional arrays: `iac arrays` | yes | |
//! | `zarr` | Exchange of such arrays with Zarr | | |
//! | `volume-arrays` | Series of DICOM images as such arrays: `iac dicom volume` with a store (`.arrays`) as its output | yes | |
//!
//! <!-- end -->

mod cli;
mod commands;
#[cfg(all(
    test,
    feature = "jxl",
    feature = "object-store",
    feature = "text-search",
    feature = "wsi-icc"
))]
mod documented;
mod failure;
mod human;
mod interrupt;
mod output;
mod place;
mod progress;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command as if the process had been started with these arguments, the program's name
/// first.
///
/// It is made for processes that end with it: Ctrl-C ends the process from now on, files that grow
/// too large give an error in place of a signal, and the guard of mapped files is installed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    signals::ignore_file_size_limit();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match cli::parse(&arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // Packs are mapped; without the guard, one that another process cuts would end this one. Where
    // it cannot be installed, reading works all the same.
    drop(iatrocache::reader::guard::install());
    interrupt::install();
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => failure.report(cli.common.json),
    }
}
