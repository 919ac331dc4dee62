//! Whether a pack keeps the rules of its schema.
//!
//! Two ways lead here. [`validate_pack`] makes the checks of the reference's validator, in its
//! order, and ends with the first fault; its result prints as the line that scripts know.
//! [`Schemas`] gives the same rules and more to `iac_ops::check`, which lists every fault of a pack
//! and looks at layout, checksums and records itself.

#[cfg(feature = "features")]
mod features;
mod first;
mod rules;
#[cfg(feature = "tiles")]
mod tiles;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iac_ops::decode::Decoded;
use iac_ops::schema::{SchemaCheck, SchemaFault, SchemaReport};
use iac_reader::{PackReader, ReadOptions};

use crate::error::{AdapterError, Result};

/// How much of a pack is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidateOptions {
    /// Records that are decoded; 0: all. Default 8. Tiles and features are spread evenly over the
    /// pack, the first and the last included; of other packs the first ones are taken.
    pub max_decode: u64,
    /// Records that are compared with their checksums, from the first one; 0: all, as by default.
    pub max_crc: u64,
}

impl Default for ValidateOptions {
    fn default() -> Self {
        Self { max_decode: 8, max_crc: 0 }
    }
}

impl ValidateOptions {
    /// Sets how many records are decoded.
    #[must_use]
    pub const fn max_decode(mut self, records: u64) -> Self {
        self.max_decode = records;
        self
    }

    /// Sets how many records are compared with their checksums.
    #[must_use]
    pub const fn max_crc(mut self, records: u64) -> Self {
        self.max_crc = records;
        self
    }
}

/// A number of records, of which 0 stands for all.
const fn of_rows(most: u64, rows: u64) -> u64 {
    if most == 0 || most > rows { rows } else { most }
}

/// So many of all rows, spread evenly, in groups.
#[cfg(any(feature = "tiles", feature = "features"))]
fn chosen(count: u64, rows: u64, group: u64) -> impl Iterator<Item = Vec<u64>> {
    let starts = (0..count.div_ceil(group.max(1))).map(move |number| number.saturating_mul(group));
    starts.map(move |start| {
        let places = start..start.saturating_add(group).min(count);
        places.map(|position| iac_ops::check::spread(position, count, rows)).collect()
    })
}

/// What a sound pack is. Prints as the reference's result line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validated {
    /// Image tiles.
    Tiles {
        /// The payload type.
        payload_type: String,
        /// Tiles.
        records: u64,
        /// Their codec.
        codec: String,
        /// Tiles that were decoded.
        decoded: u64,
        /// Tiles that were compared with their checksums.
        crc_checked: u64,
    },
    /// Clinical text, paired or not.
    Text {
        /// The payload type.
        payload_type: String,
        /// Patients.
        records: u64,
        /// Their codec.
        codec: String,
        /// Patients that were decoded.
        decoded: u64,
        /// Patients that were compared with their checksums.
        crc_checked: u64,
    },
    /// DICOM objects of one patient.
    Dicom {
        /// The payload type.
        payload_type: String,
        /// Instances.
        records: u64,
        /// Series.
        series: u64,
        /// The codec of images.
        codec: String,
        /// Images that were decoded.
        decoded: u64,
        /// Instances that were compared with their checksums.
        crc_checked: u64,
    },
    /// A whole slide.
    Wsi {
        /// The payload type.
        payload_type: String,
        /// Records, tiles and others.
        records: u64,
        /// Pixels of a row of the raster.
        width: u64,
        /// Rows of the raster.
        height: u64,
        /// Tiles that were decoded.
        decoded: u64,
        /// Records that were compared with their checksums.
        crc_checked: u64,
    },
    /// An overview of a slide, which lies beside its pack.
    WsiOverview {
        /// The payload type.
        payload_type: String,
        /// Tiles.
        records: u64,
        /// Tiles that were compared with their checksums.
        crc_checked: u64,
    },
    /// Teacher features.
    Features {
        /// The payload type.
        payload_type: String,
        /// Vectors.
        records: u64,
        /// The teacher.
        teacher: String,
        /// Elements of each vector.
        dim: u64,
        /// The type of the elements, as the header names it.
        dtype: String,
        /// Vectors that were looked at.
        rows_checked: u64,
    },
}

impl fmt::Display for Validated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tiles { payload_type, records, codec, decoded, crc_checked }
            | Self::Text { payload_type, records, codec, decoded, crc_checked } => write!(
                f,
                "package_valid type={payload_type} records={records} codec={codec} \
                 decoded={decoded} crc_checked={crc_checked}"
            ),
            Self::Dicom { payload_type, records, series, codec, decoded, crc_checked } => write!(
                f,
                "package_valid type={payload_type} records={records} series={series} \
                 codec={codec} decoded={decoded} crc_checked={crc_checked}"
            ),
            Self::Wsi { payload_type, records, width, height, decoded, crc_checked } => write!(
                f,
                "package_valid type={payload_type} records={records} \
                 dimensions={width}x{height} decoded={decoded} crc_checked={crc_checked}"
            ),
            Self::WsiOverview { payload_type, records, crc_checked } => write!(
                f,
                "package_valid type={payload_type} records={records} crc_checked={crc_checked}"
            ),
            Self::Features { payload_type, records, teacher, dim, dtype, rows_checked } => write!(
                f,
                "package_valid type={payload_type} records={records} teacher={teacher} \
                 dim={dim} dtype={dtype} rows_checked={rows_checked}"
            ),
        }
    }
}

/// Makes the checks of the reference's validator.
///
/// ```no_run
/// use iac_adapters::validate::{ValidateOptions, validate_pack};
///
/// println!("{}", validate_pack("cohort.tiles.iac", &ValidateOptions::default())?);
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
///
/// # Errors
///
/// The first fault: [`AdapterError::Read`] for the container, [`AdapterError::Schema`] for a broken
/// rule, [`AdapterError::Unsupported`] for a payload type whose rules are not known.
pub fn validate_pack(path: impl AsRef<Path>, options: &ValidateOptions) -> Result<Validated> {
    let read =
        ReadOptions::default().use_header_cache(false).object_cache(iac_ops::check::OBJECT_CACHE);
    validate_reader(&PackReader::open_with(path, &read)?, options)
}

/// The same for a pack that is open already.
///
/// # Errors
///
/// As [`validate_pack`].
pub fn validate_reader(pack: &PackReader, options: &ValidateOptions) -> Result<Validated> {
    first::open_tables(pack)?;
    let payload_type = pack.header().payload_type();
    match payload_type {
        #[cfg(feature = "tiles")]
        Some(name) if tiles::handles(name) => tiles::validate(pack, options),
        #[cfg(feature = "features")]
        Some(name) if features::handles(name) => features::validate(pack, options),
        #[cfg(feature = "dicom")]
        Some(name) if crate::dicom::schema::handles(name) => {
            crate::dicom::schema::validate(pack, options)
        }
        #[cfg(feature = "wsi")]
        Some(name) if crate::wsi::validate::handles(name) => {
            let checked = of_rows(options.max_crc, pack.num_records()?);
            first::check_sums(pack, checked)?;
            crate::wsi::validate::validate(pack, options, checked)
        }
        #[cfg(feature = "wsi")]
        Some(name @ crate::wsi::WSI_OVERVIEW) => {
            let records = pack.num_records()?;
            let crc_checked = of_rows(options.max_crc, records);
            first::check_sums(pack, crc_checked)?;
            let payload_type = name.to_owned();
            Ok(Validated::WsiOverview { payload_type, records, crc_checked })
        }
        #[cfg(feature = "text")]
        Some(name) if crate::text::schema::handles(name) => {
            crate::text::schema::validate(pack, options)
        }
        other => {
            let _ = options;
            Err(AdapterError::Unsupported {
                path: pack.path().to_owned(),
                reason: format!("unsupported payload_type: {}", other.unwrap_or("None")),
            })
        }
    }
}

/// The packs that a path stands for: a file for itself, whatever its name, a folder for every file
/// below it whose name ends in `.iac`, sorted component by component.
///
/// # Errors
///
/// [`AdapterError::Ops`] when the path does not exist, a folder cannot be read, or holds no pack.
pub fn find_packs(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(iac_ops::check::find_packs(&[path.to_owned()])?)
}

/// The rules of all payload types that this build knows, for
/// [`CheckOptions::schemas`](iac_ops::check::CheckOptions::schemas).
///
/// ```
/// use iac_adapters::validate::Schemas;
/// use iac_ops::check::CheckOptions;
///
/// let mut options = CheckOptions::default();
/// options.schemas = Schemas::all();
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Schemas;

impl Schemas {
    /// Every set of rules.
    #[must_use]
    pub fn all() -> Vec<Arc<dyn SchemaCheck>> {
        vec![
            Arc::new(Self),
            #[cfg(feature = "dicom")]
            Arc::new(crate::dicom::schema::DicomSchema::default()),
            #[cfg(feature = "wsi")]
            Arc::new(crate::wsi::validate::WsiSchema::default()),
            #[cfg(feature = "text")]
            Arc::new(crate::text::schema::TextSchema::default()),
        ]
    }
}

impl SchemaCheck for Schemas {
    fn handles(&self, payload_type: &str) -> bool {
        #[cfg(feature = "tiles")]
        if tiles::handles(payload_type) {
            return true;
        }
        #[cfg(feature = "features")]
        if features::handles(payload_type) {
            return true;
        }
        let _ = payload_type;
        false
    }

    fn check(&self, pack: &PackReader, most: usize) -> iac_ops::Result<SchemaReport> {
        let payload_type = pack.header().payload_type().unwrap_or_default();
        #[cfg(feature = "tiles")]
        if tiles::handles(payload_type) {
            return Ok(tiles::check(pack, most)?);
        }
        #[cfg(feature = "features")]
        if features::handles(payload_type) {
            return Ok(features::check(pack, most)?);
        }
        let _ = (payload_type, most);
        Ok(SchemaReport::default())
    }

    fn check_record(&self, pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
        #[cfg(feature = "tiles")]
        if tiles::handles(pack.header().payload_type().unwrap_or_default()) {
            return tiles::check_record(pack, record);
        }
        let _ = (pack, record);
        None
    }
}
