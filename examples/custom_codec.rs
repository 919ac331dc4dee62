//! A codec of one's own: signals of 16-bit samples as differences, compressed with Zstandard.
//!
//! ```console
//! cargo run -p iac-examples --bin custom_codec -- PACK.iac
//! ```

use std::error::Error;
use std::sync::Arc;

use iatrocache::arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use iatrocache::codec::Parameters;
use iatrocache::prelude::*;
use iatrocache::{ByteCodec, Codec, CodecError, CodecSpec, Limits, Registry};

/// The name that packs store. A dot keeps it apart from names that the format may get.
const NAME: &str = "example.delta16";

struct Delta16 {
    inner: Codec,
}

impl Delta16 {
    fn codec(_: &Parameters) -> Result<Codec, CodecError> {
        let spec = CodecSpec::new("zstd", Parameters::new());
        Ok(Codec::from_byte_codec(Self { inner: Registry::global().create(&spec)? }))
    }
}

impl ByteCodec for Delta16 {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> {
        let (samples, rest) = record.as_chunks::<2>();
        let mut last = 0_u16;
        let mut changed = Vec::with_capacity(record.len());
        for sample in samples {
            let value = u16::from_le_bytes(*sample);
            changed.extend(value.wrapping_sub(last).to_le_bytes());
            last = value;
        }
        changed.extend(rest);
        self.inner.encode_bytes(&changed)
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>, CodecError> {
        // The inner codec keeps the limits: nothing is made that is larger than they allow.
        let mut record = self.inner.decode_bytes(payload, limits)?;
        let mut last = 0_u16;
        for sample in record.as_chunks_mut::<2>().0 {
            last = last.wrapping_add(u16::from_le_bytes(*sample));
            *sample = last.to_le_bytes();
        }
        Ok(record)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err("usage: custom_codec PACK.iac".into());
    };
    // Known from now on to every reader and writer of this process.
    Registry::global().register(NAME, Delta16::codec)?;

    let signals: Vec<Vec<u8>> = (0..50_u16)
        .map(|lead| (0..1000_u16).flat_map(|at| (at / 3 + lead * 7).to_le_bytes()).collect())
        .collect();
    let leads: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..50));
    let index = Table::from(RecordBatch::try_from_iter([("lead", leads)])?);
    let made = VariablePackBuilder::new("signals", index)
        .codec_spec(CodecSpec::new(NAME, Parameters::new()))
        .build(&path, &signals)?;
    let raw: usize = signals.iter().map(Vec::len).sum();
    println!("{raw} bytes of signals in a pack of {}", made.file_bytes);

    let pack = VariableRecordPack::open(&path)?;
    let batch = pack.read_many(&[49, 0])?;
    println!("codec {}, equal: {}", pack.codec_spec()?.name(), batch[0] == signals[49]);
    Ok(())
}
