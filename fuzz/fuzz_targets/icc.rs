//! Colour profiles of slides: any is refused, or converts every pixel the same wherever it stands.
//!
//! An input is a profile.
#![no_main]

use iac_adapters::AdapterError;
use iac_adapters::wsi::SrgbTransform;
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let transform = match SrgbTransform::new(input) {
            Ok(transform) => transform,
            Err(error) => {
                assert!(matches!(error, AdapterError::Unsupported { .. }), "{error:?}");
                return;
            }
        };
        let mut noise = seeds::Noise::new(7);
        let pixels: Vec<u8> = (0..3 * 37).map(|_| noise.next()).collect();
        let mut whole = pixels.clone();
        transform.apply(&mut whole);
        for (pixel, expected) in pixels.as_chunks::<3>().0.iter().zip(whole.as_chunks::<3>().0) {
            let mut alone = *pixel;
            transform.apply(&mut alone);
            // Several pixels at once are converted with other instructions, which may round otherwise.
            assert!(alone.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 1), "{pixel:?}");
        }
    }
);

fn tag(signature: &[u8; 4], body: Vec<u8>) -> ([u8; 4], Vec<u8>) {
    (*signature, body)
}

fn number(value: f64) -> [u8; 4] {
    ((value * 65536.0).round() as i32).to_be_bytes()
}

fn xyz([x, y, z]: [f64; 3]) -> Vec<u8> {
    [b"XYZ \0\0\0\0", &number(x)[..], &number(y), &number(z)].concat()
}

fn curve(points: &[u16]) -> Vec<u8> {
    let count = u32::try_from(points.len()).unwrap().to_be_bytes();
    let mut body = [b"curv\0\0\0\0", &count[..]].concat();
    body.extend(points.iter().flat_map(|point| point.to_be_bytes()));
    body
}

fn parametric(kind: u16, values: &[f64]) -> Vec<u8> {
    let mut body = [b"para\0\0\0\0", &kind.to_be_bytes()[..], &[0, 0]].concat();
    body.extend(values.iter().flat_map(|value| number(*value)));
    body
}

/// A table of 16 bits with a grid of two points along each axis.
fn table(entries: u16) -> Vec<u8> {
    let mut body = b"mft2\0\0\0\0\x03\x03\x02\x00".to_vec();
    for at in 0..9 {
        body.extend(number(if at % 4 == 0 { 1.0 } else { 0.0 }));
    }
    body.extend(entries.to_be_bytes());
    body.extend(entries.to_be_bytes());
    let ramp = (0..entries).map(|at| at.saturating_mul(65_535 / (entries - 1)));
    for _ in 0..3 {
        body.extend(ramp.clone().flat_map(u16::to_be_bytes));
    }
    for corner in 0..8_u16 {
        body.extend(
            [corner & 4, corner & 2, corner & 1]
                .map(|bit| if bit == 0 { 0 } else { 40_000_u16 })
                .into_iter()
                .flat_map(u16::to_be_bytes),
        );
    }
    for _ in 0..3 {
        body.extend(ramp.clone().flat_map(u16::to_be_bytes));
    }
    body
}

fn profile(space: &[u8; 4], tags: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut head = vec![0_u8; 128];
    head[8] = 2;
    head[12..16].copy_from_slice(b"mntr");
    head[16..20].copy_from_slice(b"RGB ");
    head[20..24].copy_from_slice(space);
    head[36..40].copy_from_slice(b"acsp");
    let mut directory = u32::try_from(tags.len()).unwrap().to_be_bytes().to_vec();
    let mut data = Vec::new();
    for (signature, body) in tags {
        let offset = 128 + 4 + 12 * tags.len() + data.len();
        directory.extend(signature);
        directory.extend(u32::try_from(offset).unwrap().to_be_bytes());
        directory.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        data.extend(body);
        data.resize(data.len().next_multiple_of(4), 0);
    }
    let mut file = [head, directory, data].concat();
    let length = u32::try_from(file.len()).unwrap().to_be_bytes();
    file[..4].copy_from_slice(&length);
    file
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let matrix = |curve: Vec<u8>| {
        [
            tag(b"wtpt", xyz([0.9642, 1.0, 0.8249])),
            tag(b"rXYZ", xyz([0.4361, 0.2225, 0.0139])),
            tag(b"gXYZ", xyz([0.3851, 0.7169, 0.0971])),
            tag(b"bXYZ", xyz([0.1431, 0.0606, 0.7141])),
            tag(b"rTRC", curve.clone()),
            tag(b"gTRC", curve.clone()),
            tag(b"bTRC", curve),
        ]
    };
    let adapted = [
        &matrix(parametric(3, &[2.4, 0.948, 0.052, 0.077, 0.040]))[..],
        &[tag(b"chad", [&b"sf32\0\0\0\0"[..], &[0; 36]].concat())],
    ]
    .concat();
    vec![
        ("gamma".to_owned(), profile(b"XYZ ", &matrix(curve(&[563])))),
        ("linear".to_owned(), profile(b"XYZ ", &matrix(curve(&[])))),
        ("points".to_owned(), profile(b"XYZ ", &matrix(curve(&[0, 9000, 30_000, 65_535])))),
        ("parametric".to_owned(), profile(b"XYZ ", &matrix(parametric(0, &[2.2])))),
        ("adapted".to_owned(), profile(b"XYZ ", &adapted)),
        ("table".to_owned(), profile(b"Lab ", &[tag(b"A2B0", table(2))])),
        ("table-xyz".to_owned(), profile(b"XYZ ", &[tag(b"A2B0", table(5))])),
    ]
}
