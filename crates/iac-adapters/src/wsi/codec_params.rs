//! How tiles are encoded, as the header states it: `raster_codec`, its parameters, how the profile
//! was chosen, and the map of codec ids.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Bytes that shared JPEG tables may have.
const MAX_TABLES: usize = 16_384;

/// What the components of JPEG tiles are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TileColors {
    /// Red, green and blue.
    Rgb,
    /// Brightness and two colour differences.
    YCbCr,
}

impl TileColors {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rgb => "RGB",
            Self::YCbCr => "YCbCr",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Rgb, Self::YCbCr].into_iter().find(|one| one.name() == name)
    }
}

/// How the tiles of a pack are encoded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RasterCodec {
    /// JPEG XL.
    Jxl {
        /// Whether every pixel is as it was in the source.
        lossless: bool,
        /// The distance; 0 without loss.
        distance: f64,
        /// The effort, 1 to 10.
        effort: u8,
    },
    /// JPEG 2000 tiles of a TIFF file, as they were.
    Jpeg2000 {
        /// The TIFF compression's name.
        source_compression: String,
        /// The effort of associated images, 1 to 10.
        associated_effort: u8,
    },
    /// JPEG tiles of a TIFF file, as they were.
    Jpeg {
        /// What the components are.
        colors: TileColors,
        /// Tables that all tiles share.
        tables: Option<Vec<u8>>,
        /// The effort of associated images, 1 to 10.
        associated_effort: u8,
    },
}

/// A member that is wrong, and why.
pub(crate) struct Problem {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl Problem {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

/// A JSON integer; `1.0` and `true` are none.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => {
            number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
        }
        _ => None,
    }
}

/// Whether a JSON number has that value, however it is written.
pub(crate) fn is_number(value: Option<&Value>, wanted: f64) -> bool {
    value.and_then(Value::as_f64) == Some(wanted)
}

/// Equality of JSON values with 3 and 3.0 alike.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

impl RasterCodec {
    /// The name under `raster_codec`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Jxl { .. } => "jxl",
            Self::Jpeg2000 { .. } => "jpeg2000",
            Self::Jpeg { .. } => "jpeg",
        }
    }

    /// The codec id of tiles.
    pub(crate) const fn id(&self) -> u8 {
        match self {
            Self::Jxl { .. } => 0,
            Self::Jpeg2000 { .. } => 4,
            Self::Jpeg { .. } => 5,
        }
    }

    /// The effort of associated images.
    pub(crate) const fn associated_effort(&self) -> u8 {
        match self {
            Self::Jxl { effort, .. } => *effort,
            Self::Jpeg2000 { associated_effort, .. } | Self::Jpeg { associated_effort, .. } => {
                *associated_effort
            }
        }
    }

    /// The object under `raster_codec_params`.
    #[must_use]
    pub fn params(&self) -> Map<String, Value> {
        let value = match self {
            Self::Jxl { lossless, distance, effort } => json!({
                "mode": if *lossless { "lossless" } else { "lossy" },
                "lossless": lossless,
                "distance": distance,
                "effort": effort,
            }),
            Self::Jpeg2000 { source_compression, associated_effort } => json!({
                "codestream": "j2k",
                "source_compression": source_compression,
                "associated_image_jxl_effort": associated_effort,
            }),
            Self::Jpeg { colors, tables, associated_effort } => json!({
                "codestream": "tiff_jpeg",
                "source_compression": "JPEG",
                "encoded_color_space": colors.name(),
                "tables_base64": tables.as_ref().map(|tables| STANDARD.encode(tables)),
                "associated_image_jxl_effort": associated_effort,
            }),
        };
        match value {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    /// The array under `record_codecs`: the only one that is allowed.
    #[must_use]
    pub fn record_codecs(&self) -> Value {
        json!([
            { "id": self.id(), "name": self.name(), "params": self.params() },
            { "id": 1, "name": "zstd", "params": { "level": 3 } },
            { "id": 2, "name": "none", "params": {} },
            { "id": 3, "name": "jxl", "params": {
                "mode": "lossless",
                "lossless": true,
                "distance": 0.0,
                "effort": self.associated_effort(),
            }},
        ])
    }

    /// Reads `raster_codec` and `raster_codec_params`.
    pub(crate) fn from_header(header: &Map<String, Value>) -> Result<Self, Problem> {
        const PARAMS: &str = "raster_codec_params";
        let name = header.get("raster_codec").and_then(Value::as_str);
        let keys: &[&str] = match name {
            Some("jxl") => &["mode", "lossless", "distance", "effort"],
            Some("jpeg2000") => {
                &["codestream", "source_compression", "associated_image_jxl_effort"]
            }
            Some("jpeg") => &[
                "codestream",
                "source_compression",
                "encoded_color_space",
                "tables_base64",
                "associated_image_jxl_effort",
            ],
            _ => {
                return Err(Problem::new(
                    "raster_codec",
                    format!(
                        "the raster's codec is {}, but jxl, jpeg2000 and jpeg are allowed",
                        shown(header.get("raster_codec"))
                    ),
                ));
            }
        };
        let Some(Value::Object(params)) = header.get(PARAMS) else {
            return Err(Problem::new(
                PARAMS,
                format!("an object is expected, found {}", shown(header.get(PARAMS))),
            ));
        };
        let wrong = |key: &str, wanted: &str| {
            Problem::new(
                PARAMS,
                format!("`{key}` is {} instead of {wanted}", shown(params.get(key))),
            )
        };
        for key in keys {
            if !params.contains_key(*key) {
                return Err(wrong(key, "a value"));
            }
        }
        if let Some(extra) = params.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(wrong(extra, "being absent"));
        }
        let effort = |key: &str| {
            let effort = params.get(key).and_then(integer).filter(|it| (1..=10).contains(it));
            effort
                .and_then(|it| u8::try_from(it).ok())
                .ok_or_else(|| wrong(key, "an integer from 1 to 10"))
        };
        let text = |key: &str| params.get(key).and_then(Value::as_str);
        match name {
            Some("jxl") => {
                let Some(Value::Bool(lossless)) = params.get("lossless") else {
                    return Err(wrong("lossless", "true or false"));
                };
                let (lossless, mode) = (*lossless, if *lossless { "lossless" } else { "lossy" });
                if text("mode") != Some(mode) {
                    return Err(wrong("mode", mode));
                }
                let distance = params.get("distance").and_then(Value::as_f64);
                let fits = |distance: &f64| {
                    if lossless {
                        *distance == 0.0
                    } else {
                        distance.is_finite() && *distance > 0.0
                    }
                };
                let wanted = if lossless { "0.0 without loss" } else { "a number above 0" };
                let distance = distance.filter(fits).ok_or_else(|| wrong("distance", wanted))?;
                Ok(Self::Jxl { lossless, distance, effort: effort("effort")? })
            }
            Some("jpeg2000") => {
                if text("codestream") != Some("j2k") {
                    return Err(wrong("codestream", "j2k"));
                }
                let source = text("source_compression").filter(|text| !text.is_empty());
                let source = source.ok_or_else(|| wrong("source_compression", "a name"))?;
                Ok(Self::Jpeg2000 {
                    source_compression: source.to_owned(),
                    associated_effort: effort("associated_image_jxl_effort")?,
                })
            }
            _ => {
                if text("codestream") != Some("tiff_jpeg") {
                    return Err(wrong("codestream", "tiff_jpeg"));
                }
                if text("source_compression") != Some("JPEG") {
                    return Err(wrong("source_compression", "JPEG"));
                }
                let colors = text("encoded_color_space").and_then(TileColors::from_name);
                let colors = colors.ok_or_else(|| wrong("encoded_color_space", "RGB or YCbCr"))?;
                let tables = tables(params.get("tables_base64"))
                    .map_err(|reason| Problem::new(PARAMS, format!("`tables_base64` {reason}")))?;
                Ok(Self::Jpeg {
                    colors,
                    tables,
                    associated_effort: effort("associated_image_jxl_effort")?,
                })
            }
        }
    }
}

/// Shared JPEG tables: null, or base64.
pub(crate) fn tables(value: Option<&Value>) -> Result<Option<Vec<u8>>, String> {
    match value {
        Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            // Four characters stand for three bytes.
            if text.len() / 4 > MAX_TABLES / 3 + 1 {
                return Err(format!("has {} characters, more than tables can have", text.len()));
            }
            let bytes = STANDARD
                .decode(text)
                .map_err(|error| format!("is no base64 with padding: {error}"))?;
            if bytes.len() > MAX_TABLES {
                return Err(format!("has {} bytes, but the limit is {MAX_TABLES}", bytes.len()));
            }
            Ok(Some(bytes))
        }
        other => Err(format!("is {} instead of null or a text", shown(other))),
    }
}

/// Checks `raster_profile_selection`, which says how the codec's parameters were chosen.
pub(crate) fn check_selection(
    header: &Map<String, Value>,
    codec: &RasterCodec,
) -> Result<(), Problem> {
    const FIELD: &str = "raster_profile_selection";
    let selection = match header.get(FIELD) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(selection)) => selection,
        Some(other) => {
            return Err(Problem::new(
                FIELD,
                format!("an object is expected, found {}", shown(Some(other))),
            ));
        }
    };
    let strategy = selection.get("strategy").and_then(Value::as_str);
    if strategy == Some("native_passthrough_v1") {
        let is_native = !matches!(codec, RasterCodec::Jxl { .. });
        if is_native && selection.get("pixel_transcode") == Some(&Value::Bool(false)) {
            return Ok(());
        }
        return Err(Problem::new(
            FIELD,
            format!(
                "tiles were passed through, so that the codec must be jpeg or jpeg2000 and \
                 `pixel_transcode` false, found {} and {}",
                codec.name(),
                shown(selection.get("pixel_transcode"))
            ),
        ));
    }
    if !matches!(strategy, Some("explicit" | "source_matched_v1")) {
        return Err(Problem::new(
            FIELD,
            format!("the strategy {} is not known", shown(selection.get("strategy"))),
        ));
    }
    let null = Value::Null;
    let params = codec.params();
    let is_jxl = matches!(codec, RasterCodec::Jxl { .. });
    // The other codecs have neither parameter, which counts as false and null.
    let lossless = params.get("lossless").cloned().unwrap_or(Value::Bool(false));
    let distance = params.get("distance").unwrap_or(&null);
    let selected = |name: &str| selection.get(name);
    let distance_agrees = match selected("selected_distance") {
        Some(found) => same(found, distance),
        None => !is_jxl,
    };
    if selected("selected_lossless") != Some(&lossless) || !distance_agrees {
        return Err(Problem::new(
            FIELD,
            format!(
                "selected were lossless {} and distance {}, but the codec's parameters say {} and {}",
                shown(selected("selected_lossless")),
                shown(selected("selected_distance")),
                lossless,
                distance
            ),
        ));
    }
    if strategy == Some("source_matched_v1")
        && !selection.get("candidate_metrics").is_some_and(Value::is_array)
    {
        return Err(Problem::new(FIELD, "a profile matched to its source lacks candidate_metrics"));
    }
    Ok(())
}

/// Checks `record_codecs`: the four standard entries, in any order.
pub(crate) fn check_record_codecs(
    header: &Map<String, Value>,
    codec: &RasterCodec,
) -> Result<(), Problem> {
    const FIELD: &str = "record_codecs";
    let Some(Value::Array(entries)) = header.get(FIELD) else {
        return Err(Problem::new(
            FIELD,
            format!("an array is expected, found {}", shown(header.get(FIELD))),
        ));
    };
    let standard = codec.record_codecs();
    let standard = standard.as_array().map(Vec::as_slice).unwrap_or_default();
    let id_of = |entry: &Value| entry.get("id").and_then(integer);
    let mut seen = Vec::new();
    for entry in entries {
        let well_formed = entry.get("name").is_some_and(Value::is_string)
            && entry.get("params").is_some_and(Value::is_object);
        let Some(id) = id_of(entry).filter(|_| well_formed) else {
            return Err(Problem::new(
                FIELD,
                format!("an entry is no codec with id, name and params: {}", shown(Some(entry))),
            ));
        };
        if seen.contains(&id) {
            return Err(Problem::new(FIELD, format!("the id {id} stands twice")));
        }
        seen.push(id);
        let agrees = standard.iter().find(|one| id_of(one) == Some(id)).is_some_and(|one| {
            ["name", "params"].iter().all(|key| match (one.get(key), entry.get(key)) {
                (Some(one), Some(entry)) => same(one, entry),
                _ => false,
            })
        });
        if !agrees {
            return Err(Problem::new(
                FIELD,
                format!(
                    "the entry of id {id} is not the one of the schema: {}",
                    shown(Some(entry))
                ),
            ));
        }
    }
    if seen.len() != standard.len() {
        return Err(Problem::new(
            FIELD,
            format!("it has {} entries instead of {}", seen.len(), standard.len()),
        ));
    }
    Ok(())
}

/// A JSON value for messages, cut.
pub(crate) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| crate::error::short(&value.to_string()))
}
