//! What objects and packs say of how they were de-identified: rules, never values or keys.

use std::collections::{BTreeMap, BTreeSet};

use dicom_core::{Tag, VR};
use serde_json::{Value, json};

use super::profile::{DeidOption, DeidProfile, ElementRule, PrivateTag};
use super::report::DeidReport;
use super::{table, values};
use crate::dicom::object::{DataSet, Element, ElementValue, parse_tag, tag_text};

/// The member of the header.
pub(crate) const HEADER_MEMBER: &str = "iac_deid";

/// What (0012,0063) says.
pub(super) fn method(profile: &DeidProfile) -> String {
    let exceptions = if profile.exceptions().next().is_some() { ", exceptions" } else { "" };
    format!("{} (PS3.15 {}{exceptions})", profile.name, table::EDITION)
}

/// (0012,0064): the profile and its options. A profile that keeps what the standard has go does not
/// claim the basic profile.
pub(super) fn method_codes(profile: &DeidProfile) -> Element {
    let basic = ("113100", "Basic Application Confidentiality Profile");
    let basic = profile.exceptions().next().is_none().then_some(basic);
    let options = profile.options().map(DeidOption::code);
    let items = basic.into_iter().chain(options).map(|(code, meaning)| {
        let text = |element, vr, text: &str| {
            Element::new(Tag(0x0008, element), vr, values::padded(vr, text))
        };
        DataSet::from_elements(vec![
            text(0x0100, VR::SH, code),
            text(0x0102, VR::SH, "DCM"),
            text(0x0104, VR::LO, meaning),
        ])
    });
    let value = ElementValue::Items(items.collect());
    Element { tag: Tag(0x0012, 0x0064), vr: VR::SQ, value }
}

/// The header member of a pack.
pub(super) fn header(profile: &DeidProfile, report: &DeidReport) -> Value {
    let elements: BTreeMap<String, &str> =
        profile.elements.iter().map(|(tag, rule)| (tag_text(*tag), rule.name())).collect();
    let private: Vec<Value> = profile
        .private
        .iter()
        .map(|it| {
            json!({
                "creator": it.creator,
                "group": format!("{:04X}", it.group),
                "element": format!("{:02X}", it.element),
            })
        })
        .collect();
    let options: Vec<&str> = profile.options().map(DeidOption::name).collect();
    json!({
        "profile": profile.name,
        "edition": table::EDITION,
        "options": options,
        "prefix": profile.prefix,
        "elements": elements,
        "private": private,
        "objects": report.objects,
        "actions": report.totals_json(),
        "burned_in": report.burned_in.len(),
    })
}

/// The profile that a header states; nothing when it states none that can be understood.
pub(super) fn profile_of(header: &Value) -> Option<DeidProfile> {
    let text = |member: &str| header.get(member).and_then(Value::as_str);
    let mut profile = DeidProfile {
        name: text("profile")?.to_owned(),
        prefix: text("prefix")?.to_owned(),
        // Which words were known is not in the pack.
        vocabulary: None,
        ..DeidProfile::default()
    };
    let options: Option<BTreeSet<DeidOption>> = header
        .get("options")?
        .as_array()?
        .iter()
        .map(|name| DeidOption::from_name(name.as_str()?))
        .collect();
    profile.options = options?;
    for (tag, rule) in header.get("elements")?.as_object()? {
        let rule = match rule.as_str()? {
            "keep" => ElementRule::Keep,
            "remove" => ElementRule::Remove,
            "empty" => ElementRule::Empty,
            "replace" => ElementRule::Replace(String::new()),
            "hash" => ElementRule::Hash,
            "shift" => ElementRule::Shift,
            _ => return None,
        };
        profile.elements.insert(parse_tag(tag)?, rule);
    }
    for private in header.get("private")?.as_array()? {
        let text = |member: &str| private.get(member).and_then(Value::as_str);
        let number = |member: &str| u16::from_str_radix(text(member)?, 16).ok();
        profile.private.insert(PrivateTag {
            creator: text("creator")?.to_owned(),
            group: number("group")?,
            element: u8::try_from(number("element")?).ok()?,
        });
    }
    Some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_gives_back_the_rules_it_was_made_of() {
        let text = r#"
            name = "t"
            options = ["retain-safe-private", "retain-uids"]
            [elements]
            AccessionNumber = "hash"
            StudyDescription = { replace = "secret of the profile" }
        "#;
        let profile = DeidProfile::parse(text, "t").unwrap();
        let header = header(&profile, &DeidReport::default());
        assert!(!header.to_string().contains("secret"));
        let back = profile_of(&header).unwrap();
        assert_eq!(back.options, profile.options);
        assert_eq!(back.private, profile.private);
        assert_eq!(back.elements.len(), 2);
        assert!(profile_of(&json!({})).is_none());
        assert!(profile_of(&json!({"profile": "a", "prefix": "", "options": ["x"], "elements": {}, "private": []})).is_none());
    }

    #[test]
    fn a_profile_with_exceptions_does_not_claim_the_basic_profile() {
        let codes = |text: &str| {
            let profile = DeidProfile::parse(text, "t").unwrap();
            let items = method_codes(&profile);
            let items = items.items().unwrap().to_vec();
            items.iter().map(|item| item.ascii(Tag(0x0008, 0x0100)).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(codes("name = \"t\"\noptions = [\"retain-uids\"]"), ["113100", "113110"]);
        assert!(codes("name = \"t\"\n[elements]\nStudyDescription = \"keep\"").is_empty());
    }
}
