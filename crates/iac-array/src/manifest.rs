//! Manifests: which layers make up a version of a store.

use serde::{Deserialize, Serialize};

use crate::catalogue::CatalogueRow;
use crate::error::{ArrayError, Result, u64_len};
use crate::layer::{LAYOUT_VERSION, LayerId};

/// Bytes that a manifest may have.
pub(crate) const MAX_BYTES: u64 = 1 << 20;
const FORMAT: &str = "iac-array-store";
/// Every manifest begins so; eight hexadecimal digits and `",` follow.
const PREFIX: &str = "{\"crc32\":\"";
const ZEROS: &str = "00000000";

/// A layer as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerEntry {
    #[serde(with = "layer_id")]
    pub(crate) layer_id: LayerId,
    /// Relative to the store.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Bytes of header and slide table.
    pub(crate) head_bytes: u64,
    /// CRC-32 of the layer's first 65,536 bytes.
    pub(crate) header_crc32: u32,
    /// Rows of the index.
    pub(crate) rows: u64,
    /// The newest version whose changes are in the layer.
    pub(crate) through: u64,
    /// Whether it was made of several layers of this store: its rows tell when each array changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) joined: bool,
}

impl LayerEntry {
    /// The newest version whose change of an array is in the layer.
    pub(crate) fn changed(&self, row: &CatalogueRow) -> u64 {
        // Rows of a file from elsewhere would tell of versions of another store.
        let noted = row.through.filter(|_| self.joined);
        noted.map_or(self.through, |noted| noted.min(self.through))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A version of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    pub(crate) version: u64,
    /// The version that this one was made from; its own number for the first.
    pub(crate) parent: u64,
    min_reader: u64,
    features: Vec<String>,
    pub(crate) store_id: String,
    /// Oldest first.
    pub(crate) layers: Vec<LayerEntry>,
}

mod layer_id {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::LayerId;

    pub(super) fn serialize<S: Serializer>(id: &LayerId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<LayerId, D::Error> {
        let text = String::deserialize(input)?;
        LayerId::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is no layer id")))
    }
}

/// A JSON object with its checksum, which stands at a fixed place and covers every other byte.
pub(crate) fn seal(object: &str) -> Vec<u8> {
    let rest = object.strip_prefix('{').unwrap_or_default();
    let sum = crc32fast::hash(format!("{PREFIX}{ZEROS}\",{rest}").as_bytes());
    format!("{PREFIX}{sum:08x}\",{rest}").into_bytes()
}

/// The text of a sealed object, or what is wrong with it.
pub(crate) fn unseal(bytes: &[u8], allowed: u64) -> std::result::Result<&str, String> {
    if u64_len(bytes.len()) > allowed {
        return Err(format!("{} bytes, above the {allowed} allowed", bytes.len()));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 behind byte {}", error.valid_up_to()))?;
    let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_at_checked(8));
    let (digits, rest) = parts.ok_or("the text does not begin with its checksum")?;
    let computed = crc32fast::hash(format!("{PREFIX}{ZEROS}{rest}").as_bytes());
    if digits != format!("{computed:08x}") {
        return Err(format!("checksum {digits} stored, {computed:08x} computed"));
    }
    Ok(text)
}

impl Manifest {
    pub(crate) fn new(
        version: u64,
        parent: u64,
        store_id: String,
        layers: Vec<LayerEntry>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version,
            parent,
            min_reader: LAYOUT_VERSION,
            features: Vec::new(),
            store_id,
            layers,
        }
    }

    /// The sealed text.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_string(self)
            .map_err(|error| ArrayError::argument(format!("the manifest has no text: {error}")))?;
        let sealed = seal(&body);
        let length = u64_len(sealed.len());
        if length > MAX_BYTES {
            return Err(ArrayError::TooLarge {
                what: "manifest (bytes; compact the store)",
                found: length,
                allowed: MAX_BYTES,
            });
        }
        Ok(sealed)
    }

    /// Reads a manifest of the version that its name says.
    pub(crate) fn decode(object: &str, bytes: &[u8], version: u64) -> Result<Self> {
        let corrupt = |reason: String| ArrayError::corrupt(object, reason);
        let text = unseal(bytes, MAX_BYTES).map_err(corrupt)?;
        // The needs of a newer format are looked at before anything else of it.
        #[derive(Deserialize)]
        struct Needs {
            format: String,
            min_reader: u64,
            features: Vec<String>,
        }
        let needs: Needs =
            serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
        if needs.format != FORMAT {
            return Err(corrupt(format!("`format` is `{}`", needs.format)));
        }
        let unknown = match needs.features.first() {
            Some(feature) => Some(format!("feature `{feature}`")),
            None => (needs.min_reader > LAYOUT_VERSION)
                .then(|| format!("layout version {}", needs.min_reader)),
        };
        if let Some(reason) = unknown {
            return Err(ArrayError::Unsupported { object: object.to_owned(), reason });
        }
        let manifest: Self =
            serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
        if manifest.version != version {
            return Err(corrupt(format!("it is of version {}", manifest.version)));
        }
        for (number, layer) in manifest.layers.iter().enumerate() {
            let sound = layer.head_bytes >= iac_format::HEADER_BYTES
                && layer.head_bytes <= layer.bytes
                && layer.through <= version
                && !layer.path.split('/').any(|part| part.is_empty() || part == "..");
            if !sound {
                return Err(corrupt(format!("layer {number} (`{}`) cannot be", layer.path)));
            }
        }
        Ok(manifest)
    }

    /// The name of a version's manifest within the store: the newest sorts first.
    pub(crate) fn name(version: u64) -> String {
        format!("{:020}.json", u64::MAX.saturating_sub(version))
    }

    /// The version that such a name stands for.
    pub(crate) fn version_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".json").filter(|digits| digits.len() == 20)?;
        // A sign would be parsed too, and no manifest is named so.
        let digits = Some(digits).filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()))?;
        let number: u64 = digits.parse().ok()?;
        Some(u64::MAX.saturating_sub(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let layer = LayerEntry {
            layer_id: LayerId([3; 16]),
            path: "layers/x.iac".to_owned(),
            bytes: 70_000,
            head_bytes: 66_000,
            header_crc32: 5,
            rows: 9,
            through: 4,
            joined: false,
        };
        Manifest::new(4, 3, "00".to_owned(), vec![layer])
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let sound = manifest().encode().unwrap();
        assert_eq!(Manifest::decode("m", &sound, 4).unwrap(), manifest());
        assert!(Manifest::decode("m", &sound, 5).is_err());
        for at in 0..sound.len() {
            assert!(Manifest::decode("m", &sound[..at], 4).is_err());
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                assert!(Manifest::decode("m", &bytes, 4).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn names_sort_the_newest_first() {
        assert!(Manifest::name(10) < Manifest::name(9));
        assert_eq!(Manifest::version_of(&Manifest::name(7)), Some(7));
        assert_eq!(Manifest::version_of("7.json"), None);
        assert_eq!(Manifest::version_of("+1844674407370955160.json"), None);
    }
}
