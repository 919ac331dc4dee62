//! What tells one content of a pack from another.

use iac_reader::PackReader;
use sha2::{Digest, Sha256};

use crate::error::Result;

/// SHA-256 over the header's members and the bytes of the index, which has the checksum of every
/// record: so it says all of a pack without its records being read.
pub(super) fn digest(pack: &PackReader) -> Result<String> {
    let mut sum = Sha256::new();
    let header = serde_json::Value::Object(pack.header().members().clone()).to_string();
    sum.update(u64::try_from(header.len()).unwrap_or(u64::MAX).to_le_bytes());
    sum.update(header.as_bytes());
    sum.update(pack.file_bytes().to_le_bytes());
    let batches = pack.index_table()?.batches()?;
    for batch in batches {
        for column in batch.columns() {
            let data = column.to_data();
            add(&data, &mut sum);
        }
    }
    pack.check_intact()?;
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add(data: &arrow_data::ArrayData, sum: &mut Sha256) {
    for number in [data.len(), data.offset()] {
        sum.update(u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes());
    }
    for buffer in data.buffers() {
        sum.update(buffer.as_slice());
    }
    for child in data.child_data() {
        add(child, sum);
    }
}
