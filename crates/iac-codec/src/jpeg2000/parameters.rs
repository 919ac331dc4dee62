//! From options to the members of a header and back.

use super::{Container, Jpeg2000Options, Loss, NAME, Profile};
use crate::strict_params::StrictParameters;
use crate::{Codec, CodecError, Parameters, Result};

const PROFILES: [(&str, Profile); 2] = [("classic", Profile::Classic), ("ht", Profile::Ht)];
const CONTAINERS: [(&str, Container); 2] = [("j2k", Container::J2k), ("jp2", Container::Jp2)];

const KNOWN: [&str; 11] = [
    "profile",
    "container",
    "codestream",
    "lossless",
    "quality",
    "rate",
    "levels",
    "bits_per_sample",
    "color_transform",
    "extended",
    "trust_transform_flag",
];

/// Makes the codec that a header or a command line describes.
pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    options(parameters)?.codec()
}

fn options(parameters: &Parameters) -> Result<Jpeg2000Options> {
    let strict = StrictParameters::new(NAME, parameters, &KNOWN)?;
    let mut options = Jpeg2000Options::lossless();
    if let Some(profile) = strict.choice("profile", &PROFILES)? {
        options.profile = profile;
    }
    let container = strict.choice("container", &CONTAINERS)?;
    let synonym = strict.choice("codestream", &CONTAINERS)?;
    match (container, synonym) {
        (Some(one), Some(other)) if one != other => {
            return Err(strict.wrong("codestream", "the same as `container`"));
        }
        (one, other) => options.container = one.or(other).unwrap_or(Container::J2k),
    }
    let quality = strict.number("quality", 1.0..=200.0)?;
    let rate = strict.number("rate", 1.0..=10_000.0)?;
    // Asking for a quality is asking for a lossy stream.
    let unsaid = quality.is_none() && rate.is_none();
    let lossless = strict.boolean("lossless")?.unwrap_or(unsaid);
    options.loss = match (quality, rate) {
        (None, None) => (!lossless).then_some(Loss::Default),
        (Some(_), Some(_)) => {
            return Err(CodecError::parameter(NAME, "rate", "does not go together with `quality`"));
        }
        (Some(psnr), None) => Some(Loss::Quality(narrow(psnr))),
        (None, Some(ratio)) => Some(Loss::Rate(narrow(ratio))),
    };
    if lossless && options.loss.is_some() {
        let name = if quality.is_some() { "quality" } else { "rate" };
        return Err(CodecError::parameter(NAME, name, "goes together with `lossless` false only"));
    }
    let narrow = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    options.levels = strict.integer("levels", 0..=32)?.map(narrow);
    options.bits_per_sample = strict.integer("bits_per_sample", 1..=16)?.map(narrow);
    options.color_transform = strict.boolean("color_transform")?;
    options.extended = strict.boolean("extended")?.unwrap_or(false);
    options.trust_transform_flag = strict.boolean("trust_transform_flag")?.unwrap_or(false);
    Ok(options)
}

#[allow(clippy::cast_possible_truncation, reason = "rounding a number of a checked range")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// What a header stores under `codec_params`: exactly the names that all implementations know.
pub(super) fn persisted(options: &Jpeg2000Options) -> Parameters {
    let mut parameters = Parameters::new();
    let word = PROFILES.iter().find(|(_, profile)| *profile == options.profile);
    parameters.insert("profile".to_owned(), word.map(|(word, _)| *word).into());
    let word = CONTAINERS.iter().find(|(_, container)| *container == options.container);
    parameters.insert("container".to_owned(), word.map(|(word, _)| *word).into());
    parameters.insert("lossless".to_owned(), options.loss.is_none().into());
    parameters
}

/// What a header stores under `iac_encode`.
pub(super) fn encode_members(options: &Jpeg2000Options) -> Parameters {
    let mut members = Parameters::new();
    match options.loss {
        Some(Loss::Quality(psnr)) => members.insert("quality".to_owned(), psnr.into()),
        Some(Loss::Rate(ratio)) => members.insert("rate".to_owned(), ratio.into()),
        Some(Loss::Default) | None => None,
    };
    if let Some(levels) = options.levels {
        members.insert("levels".to_owned(), levels.into());
    }
    if let Some(bits) = options.bits_per_sample {
        members.insert("bits_per_sample".to_owned(), bits.into());
    }
    if let Some(transform) = options.color_transform {
        members.insert("color_transform".to_owned(), transform.into());
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(value: &Value) -> Result<Jpeg2000Options> {
        options(value.as_object().unwrap())
    }

    #[test]
    fn every_option_comes_back_from_the_members_that_hold_it() {
        for options in [
            Jpeg2000Options::lossless(),
            Jpeg2000Options::lossless().with_profile(Profile::Ht).with_color_transform(true),
            Jpeg2000Options::lossless().with_container(Container::Jp2).with_levels(3),
            Jpeg2000Options::lossy().with_bits_per_sample(12),
            Jpeg2000Options::with_quality(38.5),
            Jpeg2000Options::with_rate(12.0),
        ] {
            let mut all = persisted(&options);
            assert_eq!(all.len(), 3);
            all.append(&mut encode_members(&options));
            assert_eq!(super::options(&all).unwrap(), options);
        }
        assert_eq!(parse(&json!({"quality": 40})).unwrap(), Jpeg2000Options::with_quality(40.0));
        assert!(parse(&json!({"trust_transform_flag": true})).unwrap().trust_transform_flag);
    }

    #[test]
    fn synonym_of_the_container_has_to_agree_with_it() {
        let jp2 = Jpeg2000Options::lossless().with_container(Container::Jp2);
        assert_eq!(parse(&json!({"codestream": "jp2"})).unwrap(), jp2);
        assert_eq!(parse(&json!({"codestream": "jp2", "container": "jp2"})).unwrap(), jp2);
        assert!(parse(&json!({"codestream": "jp2", "container": "j2k"})).is_err());
    }

    #[test]
    fn values_that_the_table_excludes_are_refused() {
        for value in [
            json!({"profile": "part15"}),
            json!({"profile": null}),
            json!({"container": "jp2", "profile": "ht"}),
            json!({"container": null}),
            json!({"codestream": null}),
            json!({"lossless": null}),
            json!({"lossless": 1}),
            json!({"quality": 40, "lossless": true}),
            json!({"quality": 0.5}),
            json!({"rate": 20, "profile": "ht"}),
            json!({"quality": 40, "rate": 2, "lossless": false}),
            json!({"levels": 33}),
            json!({"bits_per_sample": 17}),
            json!({"effort": 1}),
        ] {
            let made = from_parameters(value.as_object().unwrap());
            assert!(matches!(made, Err(CodecError::Parameter { .. })), "{value}");
        }
    }
}
