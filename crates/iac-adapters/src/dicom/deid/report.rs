//! What was done, in numbers.

use std::collections::BTreeMap;

use dicom_core::Tag;
use serde_json::{Value, json};

use super::burned::BurnedIn;
use crate::dicom::object::tag_text;

/// What was done with an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeidAction {
    /// It was taken out.
    Removed,
    /// It lost its value.
    Emptied,
    /// It got a value that says nothing, or one of the profile.
    Replaced,
    /// It got the patient's pseudonym.
    Pseudonymised,
    /// Its UIDs were exchanged.
    Remapped,
    /// Its dates were moved.
    Shifted,
    /// It got a keyed hash of its value.
    Hashed,
    /// It stayed by an option or a rule of the profile, though the basic profile has it go.
    Retained,
    /// It was taken out, since its value was not what its representation says.
    Unsound,
}

impl DeidAction {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Emptied => "emptied",
            Self::Replaced => "replaced",
            Self::Pseudonymised => "pseudonymised",
            Self::Remapped => "remapped",
            Self::Shifted => "shifted",
            Self::Hashed => "hashed",
            Self::Retained => "retained",
            Self::Unsound => "unsound",
        }
    }
}

/// What was done with the objects of one pack. Tags and counts, never values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeidReport {
    /// Objects that were changed.
    pub objects: u64,
    /// Objects without a patient id: their dates are moved by their study's days.
    pub without_patient_id: u64,
    /// Elements by tag and action. Private elements are counted together for each group, as
    /// `0029xxxx`, and elements that no dictionary knows as `unknown`.
    pub elements: BTreeMap<(String, DeidAction), u64>,
    /// Objects that may have text burned into their pixels, by name of the input, and why.
    pub burned_in: Vec<(String, Vec<BurnedIn>)>,
}

impl DeidReport {
    pub(crate) fn count(&mut self, tag: Tag, action: DeidAction) {
        let name = if tag.0 % 2 == 1 {
            format!("{:04X}xxxx", tag.0)
        } else if super::table::row(tag).is_none()
            && tag.1 != 0
            && !super::rules::is_known(tag)
            && !super::rules::is_plane(tag)
        {
            "unknown".to_owned()
        } else {
            tag_text(tag)
        };
        self.add(name, action, 1);
    }

    fn add(&mut self, name: String, action: DeidAction, number: u64) {
        let count = self.elements.entry((name, action)).or_default();
        *count = count.saturating_add(number);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.without_patient_id = self.without_patient_id.saturating_add(other.without_patient_id);
        for ((name, action), number) in other.elements {
            self.add(name, action, number);
        }
        self.burned_in.extend(other.burned_in);
    }

    /// Elements for each action.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<DeidAction, u64> {
        let mut totals = BTreeMap::new();
        for ((_, action), number) in &self.elements {
            let total: &mut u64 = totals.entry(*action).or_default();
            *total = total.saturating_add(*number);
        }
        totals
    }

    /// The report as JSON: `objects`, `without_patient_id`, `totals`, `elements`, `burned_in`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let elements: Vec<Value> = self
            .elements
            .iter()
            .map(|((name, action), count)| json!({"tag": name, "action": action.name(), "count": count}))
            .collect();
        let burned_in: Vec<Value> = self
            .burned_in
            .iter()
            .map(|(input, reasons)| {
                let reasons: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
                json!({"input": input, "reasons": reasons})
            })
            .collect();
        json!({
            "objects": self.objects,
            "without_patient_id": self.without_patient_id,
            "totals": self.totals_json(),
            "elements": elements,
            "burned_in": burned_in,
        })
    }

    pub(crate) fn totals_json(&self) -> Value {
        let totals = self.totals().into_iter();
        Value::Object(
            totals.map(|(action, count)| (action.name().to_owned(), count.into())).collect(),
        )
    }
}
