//! Small codecs, each with one property that readers must deal with.

use iac_codec::{ByteCodec, Codec, CodecError, Limits, Parameters, Registry, Result};

/// Bytes in reverse order: the size of a record is known from its payload.
pub(crate) struct Reversed;

impl ByteCodec for Reversed {
    fn name(&self) -> &str {
        "test.reversed"
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        Ok(record.iter().rev().copied().collect())
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        limits.check_decoded_bytes(payload.len() as u64)?;
        self.encode(payload)
    }

    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        Ok(Some(payload.len() as u64))
    }

    fn decode_into(&self, payload: &[u8], out: &mut [u8], _: &Limits) -> Result<()> {
        for (to, from) in out.iter_mut().zip(payload.iter().rev()) {
            *to = *from;
        }
        Ok(())
    }
}

/// Pairs of count and byte: nobody knows the size of a record before it is decoded.
pub(crate) struct Runs;

impl ByteCodec for Runs {
    fn name(&self) -> &str {
        "test.runs"
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        for run in record.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(255)) {
            payload.push(run.len() as u8);
            payload.push(run[0]);
        }
        Ok(payload)
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        for run in payload.chunks(2) {
            let &[count, byte] = run else {
                return Err(CodecError::decode(self.name(), "half a run"));
            };
            record.resize(record.len() + usize::from(count), byte);
            limits.check_decoded_bytes(record.len() as u64)?;
        }
        Ok(record)
    }
}

/// Runs behind a size of eight bytes that may lie.
pub(crate) struct SizedRuns {
    parameters: Parameters,
}

impl SizedRuns {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self { parameters: parameters.clone() }
    }
}

impl ByteCodec for SizedRuns {
    fn name(&self) -> &str {
        "test.sized_runs"
    }

    fn parameters(&self) -> Parameters {
        self.parameters.clone()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        if record.starts_with(b"refuse") {
            return Err(CodecError::encode(self.name(), "told to refuse"));
        }
        let mut payload = (record.len() as u64).to_le_bytes().to_vec();
        payload.extend(Runs.encode(record)?);
        Ok(payload)
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let claimed = self.decoded_len(payload)?;
        let record = Runs.decode(&payload[8..], limits)?;
        if claimed != Some(record.len() as u64) {
            return Err(CodecError::decode(self.name(), "another size than it says"));
        }
        Ok(record)
    }

    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        let size = payload.first_chunk::<8>();
        let size = size.ok_or_else(|| CodecError::decode(self.name(), "no size"))?;
        Ok(Some(u64::from_le_bytes(*size)))
    }

    fn required_extensions(&self) -> &[&str] {
        if self.parameters.contains_key("extended") { &["test.extended"] } else { &[] }
    }
}

pub(crate) fn registry() -> Registry {
    let registry = Registry::builtin();
    registry.register("test.reversed", |_| Ok(Codec::from_byte_codec(Reversed))).unwrap();
    registry.register("test.runs", |_| Ok(Codec::from_byte_codec(Runs))).unwrap();
    registry
        .register("test.sized_runs", |p| Ok(Codec::from_byte_codec(SizedRuns::new(p))))
        .unwrap();
    registry
}
