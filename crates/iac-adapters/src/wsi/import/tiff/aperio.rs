//! What Aperio's scanners write into image descriptions.

use serde_json::{Map, Number, Value};

/// A description in Aperio's form: a header, then items `KEY = VALUE` between bars.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aperio {
    pub(crate) header: String,
    /// In the order of the text.
    pub(crate) items: Vec<(String, String)>,
}

impl Aperio {
    /// Parses a description; nothing where it is not Aperio's.
    pub(crate) fn parse(description: &str) -> Option<Self> {
        if !description.starts_with("Aperio") {
            return None;
        }
        let mut parts = description.split('|');
        let header = parts.next().unwrap_or_default().trim().to_owned();
        let items = parts
            .filter_map(|item| item.split_once('='))
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect();
        Some(Self { header, items })
    }

    fn item(&self, key: &str) -> Option<&str> {
        self.items.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Micrometres per pixel.
    pub(crate) fn mpp(&self) -> Option<f64> {
        self.item("MPP")?.parse().ok().filter(|mpp: &f64| mpp.is_finite() && *mpp > 0.0)
    }

    /// The objective's magnification, as a number in the form in which it is written.
    pub(crate) fn power(&self) -> Value {
        self.item("AppMag").map_or(Value::Null, number)
    }

    /// The codec and the quality that the header names: `) JPEG/RGB Q=70`.
    pub(crate) fn codec(&self) -> Option<(&'static str, Option<i64>)> {
        for codec in ["JPEG/RGB", "J2K/YUV16", "J2K/KDU"] {
            let marked = format!(") {codec}");
            let Some(at) = self.header.find(&marked) else { continue };
            let rest = self.header.get(at.saturating_add(marked.len())..).unwrap_or_default();
            let quality = rest.strip_prefix(" Q=").and_then(|rest| {
                let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
                digits.parse().ok()
            });
            return Some((codec, quality));
        }
        None
    }

    /// The header and all items. A value that looks like a number becomes one, as the reference has
    /// it; where that is not the text again, the text is there too.
    pub(crate) fn members(&self, into: &mut Map<String, Value>) {
        into.insert("aperio.Header".to_owned(), self.header.clone().into());
        for (key, text) in &self.items {
            let value = number(text);
            let as_text = value.to_string();
            if value.is_number() && as_text != *text {
                into.insert(format!("iac.text.aperio.{key}"), text.clone().into());
            }
            into.insert(format!("aperio.{key}"), value);
        }
    }

    /// The kind of associated image that the second line of the header names.
    pub(crate) fn associated(description: &str) -> Option<&'static str> {
        let line = description.lines().nth(1)?.trim_start().to_ascii_lowercase();
        ["label", "macro"].into_iter().find(|name| line.starts_with(name))
    }
}

/// A text as a number where it is one.
fn number(text: &str) -> Value {
    if let Ok(integer) = text.parse::<i64>() {
        return integer.into();
    }
    let looks = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let float = text.parse::<f64>().ok().filter(|_| looks).and_then(Number::from_f64);
    float.map_or_else(|| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Aperio Image Library v12.0.16\r\n700x500 (240x240) JPEG/RGB Q=70|AppMag = \
                        20|Filename = 00700|MPP = 0.4990|Date = 09/11/21|Big = 1e999";

    #[test]
    fn items_become_numbers_and_keep_their_text() {
        let aperio = Aperio::parse(TEXT).unwrap();
        assert_eq!(aperio.mpp(), Some(0.499));
        assert_eq!(aperio.power(), 20);
        assert_eq!(aperio.codec(), Some(("JPEG/RGB", Some(70))));
        let mut members = Map::new();
        aperio.members(&mut members);
        assert_eq!(members["aperio.Filename"], 700);
        assert_eq!(members["iac.text.aperio.Filename"], "00700");
        assert_eq!(members["aperio.MPP"], 0.499);
        assert_eq!(members["iac.text.aperio.MPP"], "0.4990");
        assert_eq!(members["aperio.AppMag"], 20);
        assert!(!members.contains_key("iac.text.aperio.AppMag"));
        assert_eq!(members["aperio.Date"], "09/11/21");
        assert_eq!(members["aperio.Big"], "1e999");
        assert!(Aperio::parse("other").is_none());
    }

    #[test]
    fn numbers_behind_letters_beyond_ascii_are_found() {
        let aperio =
            Aperio::parse("Aperio Image Library\r\n700x500|User = Zoë µ \u{FFFD}|MPP = 0.25");
        assert_eq!(aperio.unwrap().mpp(), Some(0.25));
    }

    #[test]
    fn associated_images_are_named_by_the_second_line() {
        assert_eq!(Aperio::associated("Aperio Image\r\nlabel 387x463"), Some("label"));
        assert_eq!(Aperio::associated("Aperio Image\r\nmacro 1280x431"), Some("macro"));
        assert_eq!(Aperio::associated("Aperio Image\r\n46000x32914"), None);
    }
}
