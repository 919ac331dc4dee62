//! Profiles from their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dicom_core::dictionary::{DataDictionary as _, DataDictionaryEntry as _};
use dicom_core::{Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;
use iac_format::ErrorKind;
use serde::Deserialize;

use super::profile::{
    BurnedInPolicy, DEFAULT_DAYS, DeidOption, DeidProfile, ElementRule, KeySource, PrivateTag,
    SAFE_PRIVATE, normalised,
};
use crate::dicom::object::{parse_tag, tag_text};
use crate::error::{AdapterError, Result};

/// Bytes that a profile may have.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    #[serde(default)]
    options: Vec<String>,
    key: Option<RawKey>,
    dates: Option<RawDates>,
    patient: Option<RawPatient>,
    descriptors: Option<RawDescriptors>,
    private: Option<RawPrivate>,
    #[serde(default)]
    elements: BTreeMap<String, toml::Value>,
    pixels: Option<RawPixels>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    env: Option<String>,
    file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawDates {
    max_days: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPatient {
    prefix: Option<String>,
    issuer: Option<String>,
    age_cap: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDescriptors {
    vocabulary: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrivate {
    safe: Option<bool>,
    #[serde(default)]
    allow: Vec<RawAllowed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAllowed {
    creator: String,
    group: String,
    elements: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPixels {
    burned_in: Option<String>,
}

impl DeidProfile {
    /// Reads a profile file. A key file that it names is looked for beside it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be read; as [`parse`](Self::parse).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        use std::io::Read as _;
        let path = path.as_ref();
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES.saturating_add(1)).read_to_string(&mut text))
            .map_err(AdapterError::io(path, "cannot be read"))?;
        let mut profile = Self::parse(&text, &path.display().to_string())?;
        if let KeySource::File(file) = &mut profile.key
            && let Some(folder) = path.parent()
        {
            *file = folder.join(&*file);
        }
        Ok(profile)
    }

    /// Reads the text of a profile; `name` stands in messages.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] of kind `usage` which names the key that is unknown or wrong.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let wrong = |reason: String| AdapterError::Source {
            path: PathBuf::from(name),
            row: None,
            kind: ErrorKind::Usage,
            reason,
        };
        if u64::try_from(text.len()).is_ok_and(|length| length > MOST_BYTES) {
            return Err(wrong(format!("a profile has at most {MOST_BYTES} bytes")));
        }
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.get(..span.start)
                    .map_or(1, |before| before.matches('\n').count().saturating_add(1))
            });
            wrong(format!("line {line}: {}", error.message().replace('\n', ", ")))
        })?;
        Self::build(raw).map_err(wrong)
    }

    fn build(raw: Raw) -> std::result::Result<Self, String> {
        let mut profile = Self { name: printable("name", &raw.name, 32)?, ..Self::default() };
        for name in &raw.options {
            let option = DeidOption::from_name(name).ok_or_else(|| {
                let names: Vec<&str> = DeidOption::ALL.iter().map(|one| one.name()).collect();
                format!("options: \"{}\" is none of {}", shown(name), names.join(", "))
            })?;
            profile.options.insert(option);
        }
        if profile.has(DeidOption::RetainFullDates) && profile.has(DeidOption::RetainModifiedDates)
        {
            return Err("options: retain-full-dates and retain-modified-dates exclude each other"
                .to_owned());
        }
        match raw.key {
            None => {}
            Some(RawKey { env: Some(name), file: None })
                if !name.is_empty() && !name.contains(['=', '\0']) =>
            {
                profile.key = KeySource::Variable(name);
            }
            Some(RawKey { env: None, file: Some(file) }) => profile.key = KeySource::File(file),
            Some(_) => return Err("key: either env or file is needed".to_owned()),
        }
        if let Some(dates) = raw.dates {
            profile.needs(DeidOption::RetainModifiedDates, "dates")?;
            let most = dates.max_days.unwrap_or(DEFAULT_DAYS);
            if !(1..=36_500).contains(&most) {
                return Err(format!("dates.max-days is {most}, but 1 to 36500 are possible"));
            }
            profile.max_days = most;
        }
        if let Some(patient) = raw.patient {
            profile.patient(patient)?;
        }
        if let Some(descriptors) = raw.descriptors {
            profile.needs(DeidOption::CleanDescriptors, "descriptors")?;
            let terms = descriptors.vocabulary.iter().map(|term| normalised(term));
            profile.vocabulary = Some(terms.filter(|term| !term.is_empty()).collect());
        }
        if let Some(private) = raw.private {
            profile.needs(DeidOption::RetainSafePrivate, "private")?;
            profile.private(private)?;
        } else if profile.has(DeidOption::RetainSafePrivate) {
            profile.safe_private();
        }
        for (name, rule) in &raw.elements {
            let (tag, rule) = element_rule(name, rule)?;
            if profile.elements.insert(tag, rule).is_some() {
                return Err(format!("elements: {} stands there twice", tag_text(tag)));
            }
        }
        profile.burned_in = match raw.pixels.and_then(|pixels| pixels.burned_in).as_deref() {
            None | Some("warn") => BurnedInPolicy::Warn,
            Some("refuse") => BurnedInPolicy::Refuse,
            Some(other) => {
                return Err(format!(
                    "pixels.burned-in: \"{}\" is none of warn, refuse",
                    shown(other)
                ));
            }
        };
        Ok(profile)
    }

    fn patient(&mut self, raw: RawPatient) -> std::result::Result<(), String> {
        if let Some(prefix) = raw.prefix {
            self.prefix = printable("patient.prefix", &prefix, 16)?;
            if self.prefix.contains(['\\', '^', '=', ' ']) {
                return Err("patient.prefix: \\, ^, = and spaces cannot stand in it".to_owned());
            }
        }
        self.use_issuer = match raw.issuer.as_deref() {
            None | Some("use") => true,
            Some("ignore") => false,
            Some(other) => {
                return Err(format!("patient.issuer: \"{}\" is none of use, ignore", shown(other)));
            }
        };
        if let Some(cap) = raw.age_cap {
            self.needs(DeidOption::RetainPatientCharacteristics, "patient.age-cap")?;
            if !(1..=998).contains(&cap) {
                return Err(format!("patient.age-cap is {cap}, but 1 to 998 are possible"));
            }
            self.age_cap = Some(cap);
        }
        Ok(())
    }

    fn safe_private(&mut self) {
        let safe = SAFE_PRIVATE.iter().map(|(creator, group, element)| PrivateTag {
            creator: (*creator).to_owned(),
            group: *group,
            element: *element,
        });
        self.private.extend(safe);
    }

    fn private(&mut self, raw: RawPrivate) -> std::result::Result<(), String> {
        if raw.safe.unwrap_or(true) {
            self.safe_private();
        }
        for allowed in raw.allow {
            let creator = printable("private.allow.creator", &allowed.creator, 64)?;
            let group = hex(&allowed.group, 4)
                .filter(|group| group % 2 == 1 && *group > 8)
                .ok_or_else(|| {
                    format!(
                        "private.allow.group: \"{}\" is no odd group of four hexadecimal digits",
                        shown(&allowed.group)
                    )
                })?;
            for element in &allowed.elements {
                // The block's own number may be written as xx, as the standard does.
                let low = element.strip_prefix("xx").unwrap_or(element);
                let low = hex(low, 2).and_then(|low| u8::try_from(low).ok()).ok_or_else(|| {
                    format!(
                        "private.allow.elements: \"{}\" is no number of two hexadecimal digits",
                        shown(element)
                    )
                })?;
                self.private.insert(PrivateTag { creator: creator.clone(), group, element: low });
            }
        }
        Ok(())
    }

    fn needs(&self, option: DeidOption, key: &str) -> std::result::Result<(), String> {
        if self.has(option) {
            return Ok(());
        }
        Err(format!("{key} means something only with the option {}", option.name()))
    }
}

/// A piece of what a user wrote, for messages.
fn shown(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(64).collect()
}

fn printable(key: &str, text: &str, most: usize) -> std::result::Result<String, String> {
    if text.is_empty()
        || text.len() > most
        || !text.bytes().all(|byte| (0x20..0x7F).contains(&byte))
    {
        return Err(format!("{key}: 1 to {most} printable ASCII characters are needed"));
    }
    Ok(text.to_owned())
}

fn hex(text: &str, length: usize) -> Option<u16> {
    (text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| u16::from_str_radix(text, 16).ok())
        .flatten()
}

/// Elements on which the whole pack rests.
const FIXED: &[Tag] = &[
    Tag(0x0008, 0x0005),
    Tag(0x0008, 0x0016),
    Tag(0x0008, 0x0018),
    Tag(0x0020, 0x000D),
    Tag(0x0020, 0x000E),
    Tag(0x0012, 0x0062),
    Tag(0x0012, 0x0063),
    Tag(0x0012, 0x0064),
    Tag(0x0028, 0x0303),
];

fn element_rule(name: &str, rule: &toml::Value) -> std::result::Result<(Tag, ElementRule), String> {
    let key = || format!("elements.{}", shown(name));
    let plain: String = name.chars().filter(|one| !matches!(one, '(' | ')' | ',')).collect();
    let tag = parse_tag(&plain)
        .or_else(|| StandardDataDictionary.by_name(name).map(|entry| entry.tag()))
        .ok_or_else(|| {
            format!("{}: is no keyword and no tag of eight hexadecimal digits", key())
        })?;
    if tag.0 % 2 == 1 {
        return Err(format!("{}: private elements are listed under private.allow", key()));
    }
    if tag.0 <= 6 || tag.0 >= 0x7FE0 || tag.0 == 0x0028 || FIXED.contains(&tag) {
        return Err(format!("{}: there can be no rule for it", key()));
    }
    let vr = StandardDataDictionary.by_tag(tag).map(|entry| entry.vr().relaxed());
    let rule = match rule {
        toml::Value::String(word) => match word.as_str() {
            "keep" => ElementRule::Keep,
            "remove" => ElementRule::Remove,
            "empty" => ElementRule::Empty,
            "hash" => ElementRule::Hash,
            "shift" => ElementRule::Shift,
            other => {
                return Err(format!(
                    "{}: \"{}\" is none of keep, remove, empty, hash, shift, {{ replace = \"...\" }}",
                    key(),
                    shown(other)
                ));
            }
        },
        toml::Value::Table(table) => match (table.len(), table.get("replace")) {
            (1, Some(toml::Value::String(text))) => {
                if text.len() > 64 || !text.bytes().all(|byte| (0x20..0x7F).contains(&byte)) {
                    return Err(format!(
                        "{}.replace: at most 64 printable ASCII characters are possible",
                        key()
                    ));
                }
                ElementRule::Replace(text.clone())
            }
            _ => {
                let unknown = table.keys().find(|name| *name != "replace");
                return Err(match unknown {
                    Some(unknown) => format!("{}: unknown key {}", key(), shown(unknown)),
                    None => format!("{}.replace: a text is needed", key()),
                });
            }
        },
        _ => return Err(format!("{}: a word or {{ replace = \"...\" }} is needed", key())),
    };
    let fits = match (&rule, vr) {
        (ElementRule::Hash, Some(vr)) => matches!(
            vr,
            VR::LO | VR::SH | VR::PN | VR::ST | VR::LT | VR::UT | VR::UC | VR::UI | VR::CS | VR::AE
        ),
        (ElementRule::Shift, Some(vr)) => matches!(vr, VR::DA | VR::DT),
        (ElementRule::Replace(_), Some(vr)) => super::values::is_writable(vr),
        (ElementRule::Hash | ElementRule::Shift | ElementRule::Replace(_), None) => false,
        _ => true,
    };
    if !fits {
        return Err(format!("{}: {} does not fit elements of its sort", key(), rule.name()));
    }
    if let (ElementRule::Replace(text), Some(vr)) = (&rule, vr)
        && !text.is_empty()
        && super::values::sound(vr, text.as_bytes()).is_none()
    {
        return Err(format!("{}.replace: is no value of the representation {vr}", key()));
    }
    Ok((tag, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        match DeidProfile::parse(text, "p.toml") {
            Err(AdapterError::Source { kind: ErrorKind::Usage, reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_profile_is_understood() {
        let text = r#"
            name = "trial 7"
            options = ["retain-modified-dates", "retain-safe-private", "clean-descriptors",
                       "retain-patient-characteristics"]
            [key]
            env = "MY_KEY"
            [dates]
            max-days = 100
            [patient]
            prefix = "T7-"
            issuer = "ignore"
            age-cap = 89
            [descriptors]
            vocabulary = ["CT Chest", " Lung "]
            [private]
            safe = false
            allow = [{ creator = "ACME 1.0", group = "0029", elements = ["10", "xxFF"] }]
            [elements]
            AccessionNumber = "hash"
            "(0008,103E)" = "keep"
            00081030 = { replace = "STUDY" }
            [pixels]
            burned-in = "refuse"
        "#;
        let profile = DeidProfile::parse(text, "p.toml").unwrap();
        assert_eq!(profile.options.len(), 4);
        assert_eq!(profile.key_source(), &KeySource::Variable("MY_KEY".to_owned()));
        assert_eq!((profile.max_days, profile.age_cap), (100, Some(89)));
        assert!(profile.knows(&["LUNG".to_owned(), "ct chest ".to_owned()]));
        assert!(!profile.knows(&["Smith".to_owned()]));
        assert_eq!(profile.private.len(), 2);
        assert_eq!(profile.elements[&Tag(0x0008, 0x0050)], ElementRule::Hash);
        assert_eq!(
            profile.elements[&Tag(0x0008, 0x1030)],
            ElementRule::Replace("STUDY".to_owned())
        );
        assert_eq!(profile.exceptions().collect::<Vec<_>>(), [Tag(0x0008, 0x103E)]);
        assert_eq!(profile.burned_in, BurnedInPolicy::Refuse);
    }

    #[test]
    fn what_a_profile_cannot_say_is_named() {
        for (text, wanted) in [
            ("", "name"),
            ("name = 1", "line 1"),
            ("name = \"a\"\nfoo = 1", "foo"),
            ("name = \"a\"\n[patient]\nsurname = \"x\"", "surname"),
            ("name = \"a\"\noptions = [\"retain-everything\"]", "retain-everything"),
            (
                "name = \"a\"\noptions = [\"retain-full-dates\", \"retain-modified-dates\"]",
                "exclude",
            ),
            ("name = \"a\"\n[key]", "key: either"),
            ("name = \"a\"\n[key]\nvalue = \"secret\"", "value"),
            ("name = \"a\"\n[dates]\nmax-days = 3", "retain-modified-dates"),
            (
                "name = \"a\"\noptions = [\"retain-modified-dates\"]\n[dates]\nmax-days = 0",
                "max-days",
            ),
            ("name = \"a\"\n[descriptors]\nvocabulary = []", "clean-descriptors"),
            ("name = \"a\"\n[private]\nsafe = true", "retain-safe-private"),
            (
                "name = \"a\"\noptions = [\"retain-safe-private\"]\n[[private.allow]]\ncreator = \"x\"\ngroup = \"0010\"\nelements = []",
                "0010",
            ),
            ("name = \"a\"\n[elements]\nNoSuchThing = \"keep\"", "NoSuchThing"),
            ("name = \"a\"\n[elements]\nPatientName = \"publish\"", "elements.PatientName"),
            ("name = \"a\"\n[elements]\nPatientName = { replace = \"a\", x = 1 }", "unknown key x"),
            ("name = \"a\"\n[elements]\nPatientName = \"shift\"", "does not fit"),
            (
                "name = \"a\"\n[elements]\nPatientWeight = { replace = \"heavy\" }",
                "representation DS",
            ),
            ("name = \"a\"\n[elements]\nSOPInstanceUID = \"keep\"", "no rule"),
            ("name = \"a\"\n[elements]\nPixelData = \"remove\"", "no rule"),
            ("name = \"a\"\n[elements]\n\"00091010\" = \"keep\"", "private.allow"),
            ("name = \"a\"\n[elements]\nPatientName = \"empty\"\n\"00100010\" = \"keep\"", "twice"),
            ("name = \"a\"\n[pixels]\nburned-in = \"blur\"", "blur"),
            ("name = \"\\u0000\"", "name"),
        ] {
            let found = reason(text);
            assert!(found.contains(wanted), "{text}: {found}");
            assert!(!found.contains('\n'), "{found}");
        }
        let large = format!("name = \"a\" # {}", "x".repeat(2 << 20));
        assert!(reason(&large).contains("at most"));
        let deep = format!("name = {}", "[".repeat(100_000));
        assert!(!reason(&deep).is_empty());
    }
}
