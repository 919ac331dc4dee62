//! Metadata of instances: templates, deltas, and what lies behind the payloads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_schema::DataType;
use bytes::Bytes;
use iac_codec::DecodeOptions;
use serde_json::Value;

use super::{DicomPackReader, Series, codec_error};
use crate::dicom::attributes::Attributes;
use crate::dicom::document::Document;
use crate::dicom::object::DataSet;
use crate::dicom::prepare::BITS_MEMBER;
use crate::dicom::schema2::Rest;
use crate::error::{AdapterError, Result};

impl DicomPackReader {
    fn template(&self, row: u64) -> Result<Arc<Document>> {
        let position = self.series_position(row)?;
        let (Some(series), Some(cell)) =
            (self.shared.series.get(position), self.shared.templates.get(position))
        else {
            return Err(self.schema_row(row, "series_idx", "unknown series"));
        };
        if let Some(template) = cell.get() {
            return Ok(Arc::clone(template));
        }
        let document = self.read_template(series).map_err(|error| match error {
            AdapterError::Source { kind, reason, path, .. } => {
                AdapterError::Source { kind, path, row: Some(row), reason }
            }
            other => other,
        })?;
        // Series may be many, and each may be large: those beyond the bound are read each time.
        let bytes = document.bytes;
        let kept = self.shared.kept_templates.fetch_add(bytes, Ordering::Relaxed);
        if kept.saturating_add(bytes) > self.max_document_bytes {
            self.shared.kept_templates.fetch_sub(bytes, Ordering::Relaxed);
            return Ok(Arc::new(document));
        }
        Ok(Arc::clone(cell.get_or_init(|| Arc::new(document))))
    }

    pub(crate) fn template_bytes(&self, series: &Series) -> Result<Bytes> {
        let (offset, length, crc32) = series.template;
        let stored = self.reader().read_data_span(offset, length)?;
        if let Some(expected) = crc32.filter(|_| self.check_crc) {
            let found = crc32fast::hash(&stored);
            if found != expected {
                return Err(AdapterError::schema(
                    self.reader().path(),
                    "template_crc32",
                    format!(
                        "checksum mismatch in the template of series {} (stored {expected:#010x}, computed {found:#010x})",
                        series.series_idx
                    ),
                ));
            }
        }
        Ok(stored)
    }

    pub(crate) fn read_template(&self, series: &Series) -> Result<Document> {
        let stored = self.template_bytes(series)?;
        Document::read(&stored, &self.shared.codec, self.max_document_bytes).map_err(|fault| {
            AdapterError::Source {
                path: self.reader().path().into(),
                row: None,
                kind: fault.kind,
                reason: format!("template of series {}: {fault}", series.series_idx),
            }
        })
    }

    pub(crate) fn delta_bytes(&self, row: u64) -> Result<Vec<u8>> {
        self.check_row(row)?;
        if self.is_second() {
            return self.second_delta_bytes(row);
        }
        let batches = match self.shared.deltas.get() {
            Some(batches) => batches,
            None => {
                let columns =
                    self.reader().index_table()?.columns(&["dicom_delta", "dicom_delta_crc32"])?;
                self.shared.deltas.get_or_init(|| columns)
            }
        };
        let mut place = usize::try_from(row).unwrap_or(usize::MAX);
        for batch in batches {
            if place >= batch.num_rows() {
                place = place.saturating_sub(batch.num_rows());
                continue;
            }
            let [delta, sums] = batch.columns() else {
                break;
            };
            let stored = binary_cell(delta.as_ref(), place)
                .ok_or_else(|| self.schema_row(row, "dicom_delta", "no bytes"))?;
            let expected = sums
                .as_primitive_opt::<UInt32Type>()
                .filter(|sums| sums.is_valid(place))
                .map(|sums| sums.value(place));
            if let Some(expected) = expected.filter(|_| self.check_crc) {
                let found = crc32fast::hash(stored);
                if found != expected {
                    return Err(self.schema_row(
                        row,
                        "dicom_delta_crc32",
                        format!(
                            "checksum mismatch (stored {expected:#010x}, computed {found:#010x})"
                        ),
                    ));
                }
            }
            return Ok(stored.to_vec());
        }
        Err(self.schema_row(row, "dicom_delta", "no bytes"))
    }

    pub(crate) fn delta(&self, row: u64) -> Result<Arc<Document>> {
        self.check_row(row)?;
        if self.is_second() { self.second_delta(row) } else { self.parse_delta(row).map(Arc::new) }
    }

    pub(crate) fn parse_delta(&self, row: u64) -> Result<Document> {
        let stored = self.delta_bytes(row)?;
        Document::read(&stored, &self.shared.codec, self.max_document_bytes)
            .map_err(|fault| self.fault(row, fault))
    }

    /// The template of a series as JSON: what all its instances share.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn template_json(&self, series: &Series) -> Result<Value> {
        Ok(self.read_template(series)?.to_json(true))
    }

    /// The delta of one instance as JSON: what it has for itself.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn delta_json(&self, row: u64) -> Result<Value> {
        Ok(self.delta(row)?.to_json(false))
    }

    /// The metadata of one instance, without an object being built from it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when a sum differs;
    /// [`AdapterError::Source`] when a document is damaged.
    pub fn attributes(&self, row: u64) -> Result<Attributes> {
        let delta = self.delta(row)?;
        let rest = self.is_second().then(|| Rest { reader: self.clone() });
        Ok(Attributes { template: self.template(row)?, delta, rest })
    }

    /// The data set of one instance, restored from its metadata; without pixel data.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes), and when a document does not describe a data set.
    pub fn data_set(&self, row: u64) -> Result<DataSet> {
        self.attributes(row)?
            .restore()
            .map(|(data, _)| data)
            .map_err(|fault| self.fault(row, fault))
    }

    /// What the pack keeps of an instance behind its payloads, under a member of `iac`.
    pub(crate) fn aside(
        &self,
        row: u64,
        attributes: &Attributes,
        member: &str,
    ) -> Result<Option<Vec<u8>>> {
        let (offset, length, crc32) = if self.is_second() && member == BITS_MEMBER {
            match self.extra_span(row)? {
                None => return Ok(None),
                Some((offset, length, crc32)) => (offset, length, Some(u64::from(crc32))),
            }
        } else {
            let Some(kept) = attributes.delta.iac.get(member) else {
                return Ok(None);
            };
            let number = |name: &str| kept.get(name).and_then(Value::as_u64);
            let (Some(offset), Some(length)) = (number("offset"), number("length")) else {
                return Err(self.schema_row(
                    row,
                    "dicom_delta",
                    format!("its {member} have no span in the data segment"),
                ));
            };
            (offset, length, number("crc32"))
        };
        let stored = self.reader().read_data_span(offset, length)?;
        if let Some(expected) = crc32
            && u64::from(crc32fast::hash(&stored)) != expected
        {
            return Err(self.schema_row(
                row,
                "dicom_delta",
                format!("checksum mismatch in the {member} beside its payload"),
            ));
        }
        let limits = DecodeOptions::default().limits;
        let bytes = self.shared.codec.decode_bytes(&stored, &limits);
        bytes.map(Some).map_err(|source| codec_error(self.reader(), Some(row), source))
    }
}

fn binary_cell(array: &dyn Array, place: usize) -> Option<&[u8]> {
    if place >= array.len() || array.is_null(place) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(place),
        DataType::LargeBinary => array.as_binary::<i64>().value(place),
        DataType::BinaryView => array.as_binary_view().value(place),
        _ => return None,
    })
}
