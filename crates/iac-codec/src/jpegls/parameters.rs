//! From options to the members of a header and back.

use serde_json::{Value, json};

use super::{Interleave, JpeglsOptions, NAME, Preset};
use crate::strict_params::StrictParameters;
use crate::{Codec, Parameters, Result};

const INTERLEAVES: [(&str, Interleave); 3] =
    [("none", Interleave::None), ("line", Interleave::Line), ("sample", Interleave::Sample)];

const KNOWN: [&str; 5] = ["near_lossless", "bits_per_sample", "interleave", "preset", "extended"];

/// Makes the codec that a header or a command line describes.
pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    options(parameters)?.codec()
}

fn options(parameters: &Parameters) -> Result<JpeglsOptions> {
    let strict = StrictParameters::new(NAME, parameters, &KNOWN)?;
    let mut options = JpeglsOptions::lossless();
    if let Some(bound) = strict.integer("near_lossless", 0..=255)? {
        options.near_lossless = u8::try_from(bound).unwrap_or(u8::MAX);
    }
    if strict.value("bits_per_sample").is_some_and(|value| !value.is_null()) {
        let bits = strict.integer("bits_per_sample", 2..=16)?;
        options.bits_per_sample = bits.and_then(|bits| u8::try_from(bits).ok());
    }
    options.interleave = strict.choice("interleave", &INTERLEAVES)?;
    if let Some(value) = strict.value("preset") {
        let preset = preset(value)
            .ok_or_else(|| strict.wrong("preset", "a list of four integers from 0 to 65535"))?;
        options.preset = Some(preset);
    }
    options.extended = strict.boolean("extended")?.unwrap_or(false);
    Ok(options)
}

fn preset(value: &Value) -> Option<Preset> {
    let numbers: Option<Vec<u16>> = value
        .as_array()?
        .iter()
        .map(|number| number.as_u64().and_then(|number| u16::try_from(number).ok()))
        .collect();
    let &[threshold1, threshold2, threshold3, reset_value] = numbers?.as_slice() else {
        return None;
    };
    Some(Preset { threshold1, threshold2, threshold3, reset_value })
}

/// What a header stores under `codec_params`: exactly the names that all implementations know.
pub(super) fn persisted(options: &JpeglsOptions) -> Parameters {
    let mut parameters = Parameters::new();
    parameters.insert("near_lossless".to_owned(), options.near_lossless.into());
    parameters.insert("bits_per_sample".to_owned(), options.bits_per_sample.into());
    parameters
}

/// What a header stores under `iac_encode`.
pub(super) fn encode_members(options: &JpeglsOptions) -> Parameters {
    let mut members = Parameters::new();
    if let Some(chosen) = options.interleave {
        let word = INTERLEAVES.iter().find(|(_, mode)| *mode == chosen).map(|(word, _)| *word);
        members.insert("interleave".to_owned(), word.into());
    }
    if let Some(preset) = options.preset {
        let numbers = [preset.threshold1, preset.threshold2, preset.threshold3, preset.reset_value];
        members.insert("preset".to_owned(), json!(numbers));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecError;

    fn parse(value: &Value) -> Result<JpeglsOptions, CodecError> {
        options(value.as_object().unwrap())
    }

    #[test]
    fn every_option_comes_back_from_the_members_that_hold_it() {
        let preset = Preset { threshold1: 18, threshold2: 67, threshold3: 276, reset_value: 64 };
        for options in [
            JpeglsOptions::lossless(),
            JpeglsOptions::lossless().with_near_lossless(3).with_bits_per_sample(12),
            JpeglsOptions::lossless().with_interleave(Interleave::Line).with_preset(preset),
        ] {
            let mut all = persisted(&options);
            assert_eq!(all.len(), 2);
            all.append(&mut encode_members(&options));
            assert_eq!(super::options(&all).unwrap(), options);
        }
        assert!(parse(&json!({"extended": true})).unwrap().extended);
    }

    #[test]
    fn values_that_the_table_excludes_are_refused() {
        for value in [
            json!({"near_lossless": null}),
            json!({"near_lossless": 256}),
            json!({"near_lossless": -1}),
            json!({"near_lossless": 1.0}),
            json!({"near_lossless": true}),
            json!({"bits_per_sample": 1}),
            json!({"bits_per_sample": 17}),
            json!({"bits_per_sample": "8"}),
            json!({"lossless": true}),
            json!({"interleave": "plane"}),
            json!({"preset": [1, 2, 3, 4, 5]}),
        ] {
            assert!(matches!(parse(&value), Err(CodecError::Parameter { .. })), "{value}");
        }
        assert_eq!(parse(&json!({"bits_per_sample": null})).unwrap(), JpeglsOptions::lossless());
    }
}
