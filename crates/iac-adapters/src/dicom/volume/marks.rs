//! What tells the images of one series apart that lie at the same place.

use std::cmp::Ordering;
use std::fmt;

use dicom_core::Tag;

use super::groups::{Groups, first, numbers, text};
use crate::dicom::object::DataSet;

const FRAME_CONTENT: Tag = Tag(0x0020, 0x9111);
const DIFFUSION: Tag = Tag(0x0018, 0x9117);

/// An attribute by which stacks of one series are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attribute {
    /// Segment of a segmentation.
    Segment,
    /// Image Type, or Frame Type and the complex component.
    ImageType,
    /// Echo Time in milliseconds.
    EchoTime,
    /// Echo Number.
    EchoNumber,
    /// Diffusion b-value.
    BValue,
    /// Direction of the diffusion gradient.
    GradientDirection,
    /// Temporal Position.
    TemporalPosition,
    /// Trigger Time in milliseconds.
    TriggerTime,
    /// Frame Reference Time of PET, in milliseconds.
    FrameTime,
    /// Acquisition Number.
    Acquisition,
    /// Acquisition Time.
    AcquisitionTime,
}

impl Attribute {
    /// Every attribute, in the order in which they are tried.
    pub const ALL: [Self; 11] = [
        Self::Segment,
        Self::ImageType,
        Self::EchoTime,
        Self::EchoNumber,
        Self::BValue,
        Self::GradientDirection,
        Self::TemporalPosition,
        Self::TriggerTime,
        Self::FrameTime,
        Self::Acquisition,
        Self::AcquisitionTime,
    ];

    /// The name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::ImageType => "image_type",
            Self::EchoTime => "echo_time",
            Self::EchoNumber => "echo_number",
            Self::BValue => "b_value",
            Self::GradientDirection => "gradient_direction",
            Self::TemporalPosition => "temporal_position",
            Self::TriggerTime => "trigger_time",
            Self::FrameTime => "frame_time",
            Self::Acquisition => "acquisition",
            Self::AcquisitionTime => "acquisition_time",
        }
    }

    /// Whether images of one place can be put in order by it, though its values differ from place
    /// to place.
    pub(super) const fn is_time(self) -> bool {
        matches!(
            self,
            Self::TemporalPosition | Self::TriggerTime | Self::FrameTime | Self::AcquisitionTime
        )
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of an attribute, as it is shown and put in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) text: String,
    number: Option<f64>,
}

impl Mark {
    fn of_text(text: String) -> Option<Self> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        (!text.is_empty()).then_some(Self { text, number })
    }

    fn of_number(number: f64) -> Self {
        Self { text: number.to_string(), number: Some(number) }
    }

    /// By number where both are numbers, which come first, then by text.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(one), Some(another)) => one.total_cmp(&another),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
        .then_with(|| self.text.cmp(&other.text))
    }
}

/// The attributes of one image.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Marks(Vec<(Attribute, Mark)>);

impl Marks {
    pub(super) fn get(&self, attribute: Attribute) -> Option<&Mark> {
        self.0.iter().find(|(one, _)| *one == attribute).map(|(_, mark)| mark)
    }

    pub(super) fn of(groups: &Groups<'_>) -> Self {
        let number = |sequence, tag| groups.number(sequence, tag).map(Mark::of_number);
        let plain = |tag| groups.object.get(tag).and_then(first).map(Mark::of_number);
        let of_text = |sequence, tag| groups.text(sequence, tag).and_then(Mark::of_text);
        let b_value = number(DIFFUSION, Tag(0x0018, 0x9087))
            .or_else(|| private_b_value(groups.object).map(Mark::of_number));
        let found = [
            (Attribute::Segment, number(Tag(0x0062, 0x000A), Tag(0x0062, 0x000B))),
            (Attribute::ImageType, image_type(groups).and_then(Mark::of_text)),
            (
                Attribute::EchoTime,
                number(Tag(0x0018, 0x9114), Tag(0x0018, 0x9082))
                    .or_else(|| plain(Tag(0x0018, 0x0081))),
            ),
            (Attribute::EchoNumber, plain(Tag(0x0018, 0x0086))),
            (Attribute::BValue, b_value),
            (Attribute::GradientDirection, direction(groups).and_then(Mark::of_text)),
            (
                Attribute::TemporalPosition,
                number(FRAME_CONTENT, Tag(0x0020, 0x9128)).or_else(|| plain(Tag(0x0020, 0x0100))),
            ),
            (
                Attribute::TriggerTime,
                number(Tag(0x0018, 0x9118), Tag(0x0020, 0x9153))
                    .or_else(|| plain(Tag(0x0018, 0x1060))),
            ),
            (Attribute::FrameTime, plain(Tag(0x0054, 0x1300))),
            (
                Attribute::Acquisition,
                number(FRAME_CONTENT, Tag(0x0020, 0x9156)).or_else(|| plain(Tag(0x0020, 0x0012))),
            ),
            (
                Attribute::AcquisitionTime,
                of_text(FRAME_CONTENT, Tag(0x0018, 0x9074)).or_else(|| {
                    groups.object.get(Tag(0x0008, 0x0032)).and_then(text).and_then(Mark::of_text)
                }),
            ),
        ];
        Self(found.into_iter().filter_map(|(one, mark)| Some((one, mark?))).collect())
    }
}

/// The type of an image or a frame, with what a complex image shows.
fn image_type(groups: &Groups<'_>) -> Option<String> {
    let of_frame = [Tag(0x0018, 0x9226), Tag(0x0018, 0x9329), Tag(0x0018, 0x9751)]
        .into_iter()
        .find_map(|sequence| groups.group(sequence).first());
    let own = |tag: Tag| {
        of_frame.and_then(|item| item.get(tag)).or_else(|| groups.object.get(tag)).and_then(text)
    };
    let kind = of_frame
        .and_then(|item| item.get(Tag(0x0008, 0x9007)))
        .or_else(|| groups.object.get(Tag(0x0008, 0x0008)))
        .and_then(text);
    match (kind, own(Tag(0x0008, 0x9208))) {
        (Some(kind), Some(component)) => Some(format!("{kind}, {component}")),
        (kind, component) => kind.or(component),
    }
}

fn direction(groups: &Groups<'_>) -> Option<String> {
    let nested = groups
        .group(DIFFUSION)
        .first()
        .and_then(|item| item.get(Tag(0x0018, 0x9076))?.items()?.first()?.get(Tag(0x0018, 0x9089)));
    let element = nested.or_else(|| groups.object.get(Tag(0x0018, 0x9089))).or_else(|| {
        is_of(groups.object, 0x0019, "SIEMENS MR HEADER")
            .then(|| groups.object.get(Tag(0x0019, 0x100E)))
            .flatten()
    })?;
    let numbers = numbers(element)?;
    let shown: Vec<String> = numbers.iter().map(f64::to_string).collect();
    Some(shown.join("\\"))
}

/// B-values that scanners wrote before there was an attribute for them.
fn private_b_value(object: &DataSet) -> Option<f64> {
    if is_of(object, 0x0019, "SIEMENS MR HEADER") {
        return object.get(Tag(0x0019, 0x100C)).and_then(first);
    }
    if is_of(object, 0x0043, "GEMS_PARM_01") {
        // Some versions add a multiple of 10^9 as a flag.
        return object.get(Tag(0x0043, 0x1039)).and_then(first).map(|value| value % 1e9);
    }
    if is_of(object, 0x2001, "Philips Imaging DD 001") {
        return object.get(Tag(0x2001, 0x1003)).and_then(first);
    }
    None
}

/// Whether the first private block of a group belongs to somebody.
fn is_of(object: &DataSet, group: u16, creator: &str) -> bool {
    object.get(Tag(group, 0x0010)).and_then(text).is_some_and(|found| found == creator)
}
